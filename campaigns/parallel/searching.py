"""Many programs compared, on all cores; what differs is cut down and shown."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from campaigns.parallel.comparing import WINDOWS, Compared, compare, smallest
from campaigns.parallel.trees import text_of
from campaigns.parallel.writing import program
from vegakit.vm import strict_lookahead

__all__ = ["Looked", "search", "shown"]

SHOWN = 3

strict_lookahead(on=True)  # a bug there is a difference, though the program would go on


class Looked(NamedTuple):
    seed: int
    windows: Sequence[int]
    compared: Compared


def search(
    seeds: Iterable[int], *, full: bool = False, pool: Executor | None = None
) -> list[Looked]:
    """With `full` each program runs with every window, else with the widest and another in turn."""
    look = _look_at_all if full else _look_at_few
    return list(map(look, seeds) if pool is None else pool.map(look, seeds, chunksize=10))


def _look_at_few(seed: int) -> Looked:
    return _look(seed, [WINDOWS[seed % (len(WINDOWS) - 1)], WINDOWS[-1]])


def _look_at_all(seed: int) -> Looked:
    return _look(seed, WINDOWS)


def _look(seed: int, windows: Sequence[int]) -> Looked:
    return Looked(seed, windows, compare(text_of(program(seed)), seed, windows))


def shown(differing: Sequence[Looked]) -> str:
    """The first few, as small programs."""
    return "\n".join(map(_shown, differing[:SHOWN]))


def _shown(looked: Looked) -> str:
    seed, window = looked.seed, looked.compared.found[0].window
    text = smallest(program(seed), seed, window)
    found = compare(text, seed, [window]).found or looked.compared.found
    told = "\n".join(f"// {one.what}" for one in found)
    return f"// seed {seed}, window {window}\n{told}\n{text}"
