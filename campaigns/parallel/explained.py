"""Random programs, as `vega explain` tells them and as they run: looked at, searched, cut down.

Each runs with a window of 64, with money enough and models that never fail. Then nothing overlaps
that is told to wait, and all begins that is told to. One in four runs besides as it is, with
failures and little money, where only the first must hold.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.parallel.agreement import Agreement, Disagreement, agreement
from campaigns.parallel.flights import flights_noted, sites_of
from campaigns.parallel.running import run
from campaigns.parallel.told import Told, entered_of, sure_of, told_of
from campaigns.parallel.trees import shrunk, text_of
from campaigns.parallel.writing import program
from vegakit.lang import check_program, compile_program
from vegakit.lang.codegen import compiler
from vegakit.value_types import BOOL, INT, STR, ListOf, Type
from vegakit.vm import machine

__all__ = [
    "Explained",
    "explain_and_run",
    "explain_and_run_written",
    "explained",
    "smallest_disagreement",
    "written_programs",
]

WINDOW = 64
AS_THEY_ARE = 4
ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```vega[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MONEY = re.compile(r"\$0\.(\d+)")
_AGENT = re.compile(r"^agent \w+ \{\n(?:.*\n)*?\}$", re.MULTILINE)
_OWN = re.compile(r"\n +budget \$[\d.]+\n")
_OF_SEND = re.compile(r"(<[-~].* budget )\$[\d.]+")


class Explained(NamedTuple):
    seed: int
    found: tuple[Disagreement, ...]
    runs: tuple[Agreement, ...]


def explained(seeds: Iterable[int], pool: Executor | None = None) -> list[Explained]:
    """Look at many programs."""
    return list(map(_look, seeds) if pool is None else pool.map(_look, seeds, chunksize=10))


def _look(seed: int) -> Explained:
    runs = explain_and_run(text_of(program(seed)), seed, as_it_is=seed % AS_THEY_ARE == 0)
    return Explained(seed, tuple(one for each in runs for one in each.found), runs)


def explain_and_run(text: str, seed: int, *, as_it_is: bool = True) -> tuple[Agreement, ...]:
    with _looking_far():
        easy = _compared(rich(text), seed, easy=True)
        return (easy, _compared(text, seed, easy=False)) if as_it_is else (easy,)


def written_programs() -> Iterator[tuple[str, str]]:
    """Yield the programs of tests, examples and documents, with where each stands."""
    for path in sorted([*ROOT.glob("tests/language/**/*.vega"), *ROOT.glob("examples/**/*.vega")]):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]):
        for number, block in enumerate(_BLOCK.findall(path.read_text(encoding="utf-8")), 1):
            yield f"{path.relative_to(ROOT)}, program {number}", block


def explain_and_run_written(text: str) -> Agreement | str:
    """Look at a program that was not made for this, or tell why it does not run here."""
    checked, problems = check_program(text, "main.vega", lambda _: None)
    if checked is None or any(one.severity == "error" for one in problems):
        return "refused by itself: it is to be refused, a part, or needs other files"
    module = compile_program(checked)
    given = [_MADE_UP.get(kind) for kind in module.functions[module.main].params]
    if None in given:
        return "it takes arguments that nobody makes up"
    if {"exec", "process::exec", "test", "exec::run"}.intersection(map(str, module.constants)):
        return "it runs commands, which take no virtual time"
    with _looking_far():
        return _compared(text, 0, easy=True, given=given)


_MADE_UP: dict[Type, Any] = {
    STR: "a/x.txt",
    INT: 2,
    BOOL: True,
    ListOf(STR): ["a/x.txt", "b/x.txt"],
}


def _compared(text: str, seed: int, *, easy: bool, given: Sequence[Any] = ()) -> Agreement:
    checked, problems = check_program(text, "main.vega", lambda _: None)
    assert checked is not None, problems
    with _uncounted() if easy else nullcontext():
        module = compile_program(checked)
    with flights_noted() as flights:
        # What is told is sure to run side by side. What may besides is a matter of money.
        run(module, seed, WINDOW, easy=easy, given=given, guesses=False)

    @cache
    def sure(failed: bool) -> dict[str, Told]:
        return sure_of(checked, failed=failed)

    @cache
    def entered() -> dict[str, Told]:
        return entered_of(checked)

    return agreement(told_of(checked), sure, entered, sites_of(module), flights, prompt=easy)


def rich(text: str) -> str:
    """Return a program with a million times the money, in which every send has a worst case: a
    dollar."""
    text = _AGENT.sub(_with_budget, _OF_SEND.sub(r"\1$1", text))
    return _MONEY.sub(lambda written: f"${int(written[1].ljust(6, '0'))}", text)


def _with_budget(agent: "re.Match[str]") -> str:
    return _OWN.sub("\n", agent[0]).replace("{", "{ budget $1", 1)


@contextmanager
def _uncounted() -> Generator[None]:
    """How many repeats a run may pay for takes long to find out, and counts where models fail."""
    sends = vars(compiler)["_sends"]
    setattr(compiler, "_sends", lambda checked: None)  # noqa: B010  # pyright: ignore[reportUnknownLambdaType]
    try:
        yield
    finally:
        setattr(compiler, "_sends", sends)  # noqa: B010


@contextmanager
def _looking_far() -> Generator[None]:
    """How far a lookahead goes after the program has waited eight times is not told."""
    wide = vars(machine)["_WIDE"]
    setattr(machine, "_WIDE", 1_000_000)  # noqa: B010
    try:
        yield
    finally:
        setattr(machine, "_WIDE", wide)  # noqa: B010


def smallest_disagreement(seed: int, most: int = 400) -> tuple[str, Sequence[Disagreement]]:
    """Cut a program down while it still shows the same kind."""
    kinds = {one.kind for one in _look(seed).found[:1]}

    def found(text: str) -> list[Disagreement]:
        runs = explain_and_run(text, seed, as_it_is=seed % AS_THEY_ARE == 0)
        return [one for each in runs for one in each.found]

    def still(text: str) -> bool:
        checked, problems = check_program(text, "main.vega", lambda _: None)
        if checked is None or any(one.severity == "error" for one in problems):
            return False
        return bool(kinds & {one.kind for one in found(text)})

    text = shrunk(program(seed), still, most)
    return text, found(text)
