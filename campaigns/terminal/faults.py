"""Faults that are planted into `vega code`, so that each check is seen to fail:
`python -m campaigns.terminal.faults NAME code …` runs it with one of them."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from campaigns.terminal import measures
from campaigns.terminal.measures import Notes, Sizes
from campaigns.terminal.storms import storms

__all__ = ["FAULTS", "Fault", "planted", "seen"]

_HELD: list[bytes] = []


def _keyboard() -> Any:
    from vegakit.cli.terminal import keyboard

    return keyboard


def _each_write(change: Callable[[int, str], str]) -> None:
    """Change what is written to the terminal, by number."""
    driver = _keyboard().keyboard_driver()
    write, number = driver.write, count()

    def changed(self: Any, data: str) -> None:
        write(self, change(next(number), data))

    driver.write = changed


def _clears() -> None:
    # Before what is written, so that the last words stay and the check comes to its end.
    _each_write(lambda n, data: ("\x1b[2J" if n % 10 == 9 else "") + data)


def _talks_much() -> None:
    _each_write(lambda _, data: "\x1b[0m" * 400 + data)


def _tears() -> None:
    _each_write(lambda number, data: "" if number > 60 and number % 3 == 0 else data)


def _is_slow() -> None:
    keys = _keyboard()._Keys  # noqa: SLF001
    take = keys.take

    def slow(self: Any, text: str) -> None:
        ends = time.thread_time() + 0.08
        while time.thread_time() < ends:
            pass
        take(self, text)

    keys.take = slow


def _drops() -> None:
    keys = _keyboard()._Keys  # noqa: SLF001
    take, number = keys.take, count(1)

    def forgetful(self: Any, text: str) -> None:
        if next(number) % 5:
            take(self, text)

    keys.take = forgetful


def _waits_for_esc() -> None:
    _keyboard()._ESC_S = 0.4  # noqa: SLF001


def _leaves_raw() -> None:
    _keyboard().make_usable = lambda: None


def _says_yes_at_once() -> None:
    from vegakit.cli.terminal import reducer

    reducer.ARMED_AFTER_MS = 0

    def armed(state: reducer.ViewState, now: int, *, is_draft_empty: bool) -> bool:
        del now, is_draft_empty
        return state.asked is not None

    reducer.is_armed = armed


def _eats() -> None:
    _HELD.append(os.urandom(1_000_000) * 160)


def _starts_slowly() -> None:
    ends = time.process_time() + 2.5
    while time.process_time() < ends:
        pass


def _crashes() -> None:
    from vegakit.cli.terminal.app import CodeApp

    number = count()

    def broken(self: Any, event: object) -> None:
        del self, event
        if next(number) > 2:
            raise RuntimeError("planted")

    CodeApp.on_resize = broken  # pyright: ignore[reportAttributeAccessIssue]


class Fault(NamedTuple):
    """A fault: what plants it, what looks for it, and the figure that must fall short."""

    plant: Callable[[], None]
    look: Callable[[Notes, Sizes], object]
    figure: str


def _some_keys(notes: Notes, sizes: Sizes) -> None:
    del sizes
    storms(notes, 3, each=3, actions=14, seed=2)


FAULTS: dict[str, Fault] = {
    "clears": Fault(_clears, measures.streaming, "full clears"),
    "talks-much": Fault(_talks_much, measures.streaming, "bytes a streamed"),
    "tears": Fault(_tears, measures.resizing, "screens broken"),
    "crashes": Fault(_crashes, measures.resizing, "screens broken"),
    "is-slow": Fault(_is_slow, measures.typing, "key to echo"),
    "eats": Fault(_eats, measures.typing, "resident"),
    "starts-slowly": Fault(_starts_slowly, measures.starting, "ready for keys"),
    "waits-for-esc": Fault(_waits_for_esc, measures.stopping, "Esc to silence"),
    "leaves-raw": Fault(_leaves_raw, measures.killing, "modes on after `vega code"),
    "drops": Fault(_drops, _some_keys, "inputs lost"),
    "yes-at-once": Fault(_says_yes_at_once, measures.approving, "questions approved"),
}


def planted(name: str) -> Sequence[str]:
    """Return the program with a fault in it."""
    return [sys.executable, "-m", "campaigns.terminal.faults", name, "code"]


def seen(name: str, sizes: Sizes) -> bool:
    """Return whether the check for a fault falls short when it is there."""
    fault, notes = FAULTS[name], Notes(planted(name))
    try:
        fault.look(notes, sizes)
    except AssertionError:
        # A program that drops keys or ends may not come as far as the figure.
        return True
    return any(not one.holds and one.name.startswith(fault.figure) for one in notes.figures)


def main(name: str, *words: str) -> int:
    """Run the command line with a fault."""
    FAULTS[name].plant()
    from vegakit.cli import main as vega

    return vega([*words])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
