"""Compiled programs over a journal: taken up again, edited, and named by place."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from tests.journal.test_resume import CutOffError, echo
from tests.patience import turns
from vegakit.control import Question
from vegakit.conversation import ModelReply, ModelRequest
from vegakit.errors import ProgramChanged
from vegakit.lang import check_program, compile_program
from vegakit.program import Printed
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.store import list_runs, recorded_calls

ROUNDS = """
agent A { model fast }
fn ask(text: str) -> str {
    try { return A <- text; } catch AgentFailed { return A <- text; }
}
fn twice(text: str) -> str { return ask("{text} one") + ask("{text} two"); }
fn main() -> int {
    for i in range(3) {
        let a = "";
        let b = "";
        parallel {
            a = twice("left {i}");
            b = ask("right {i}");
        }
        print("{a}, {b}");
    }
    return 3;
}
"""


class Moody(ScriptedModel):
    """Takes longer or shorter, as chance says, and cuts the run off after so many calls."""

    def __init__(self, seed: int, most: int = 100) -> None:
        super().__init__(echo)
        self._chance, self._most = Random(seed), most
        self.enough = asyncio.Event()

    async def ask(self, request: ModelRequest) -> ModelReply:
        self._most -= 1
        if self._most < 0:
            self.enough.set()
            await asyncio.Event().wait()
        await turns(self._chance.randrange(200))
        return await super().ask(request)


async def ran(
    path: str | Path,
    model: ScriptedModel,
    text: str = ROUNDS,
    printed: list[str] | None = None,
) -> list[str]:
    checked, found = check_program(text, "main.vega", lambda _path: None)
    assert checked is not None, found
    printed = [] if printed is None else printed
    async with Runtime("$10", journal=path, models=lambda _: model) as rt:
        rt.on(Printed, lambda news: printed.append(news.text))
        running = asyncio.ensure_future(rt.run(VegaProgram(compile_program(checked), Path())))
        enough = getattr(model, "enough", asyncio.Event())
        cut_off = asyncio.ensure_future(enough.wait())
        await asyncio.wait([running, cut_off], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            raise CutOffError
        cut_off.cancel()
        await running
    return printed


def places(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as file:
        return set(file.execute("SELECT path, digest FROM effects WHERE kind = 'CallModel'"))


def recorded(path: str) -> int:
    """Answers of models; one that came when the run was cut off may not be among them."""
    return sum(call.output_tokens is not None for call in recorded_calls(path))


async def test_calls_are_named_by_place_not_by_arrival(tmp_path: Path) -> None:
    """Whoever answers first, the same calls have the same names."""
    found = list[set[tuple[str, str]]]()
    for seed in range(3):
        path = tmp_path / f"{seed}.db"
        await ran(path, Moody(seed))
        found.append(places(path))
    assert len(found[0]) == 9
    assert found[0] == found[1] == found[2]


async def test_a_program_that_was_cut_off_prints_the_same(place: str, tmp_path: Path) -> None:
    """Nothing that was recorded is asked again, nor what had come and was not recorded yet."""
    whole = await ran(tmp_path / "whole.db", Moody(0))
    path, first, second = place, Moody(1, most=4), Moody(2)
    with pytest.raises(CutOffError):
        await ran(path, first)
    known = recorded(path)
    assert 0 < known <= len(first.requests)
    assert await ran(path, second) == whole
    assert known + len(second.requests) <= 9
    assert recorded(path) == 9


STEPS = """
agent A { model fast }
fn main() {
    let said = "";
    for i in range(10) { said = A <- "Step {i} after {said}"; }
    print(said);
    for i in range(8) { print(A <- "Other {i}."); }
}
"""
EDITED = STEPS.replace("Step {i}", "Step {i + i / 9}")


class Steps(Moody):
    """Answers the first ten calls that follow one another, and no other."""

    def __init__(self) -> None:
        super().__init__(0)

    async def ask(self, request: ModelRequest) -> ModelReply:
        if "Other" in str(request.messages):
            await asyncio.Event().wait()
        return await super().ask(request)


class Lines(list[str]):
    """Cuts a run off at its first line."""

    def __init__(self, model: Moody) -> None:
        super().__init__()
        self._model = model

    def append(self, line: str) -> None:
        super().append(line)
        self._model.enough.set()


class Together(Moody):
    """Answers when so many calls are in flight."""

    def __init__(self, count: int) -> None:
        super().__init__(0)
        self._missing, self._all = count, asyncio.Event()

    async def ask(self, request: ModelRequest) -> ModelReply:
        self._missing -= 1
        if self._missing == 0:
            self._all.set()
        await self._all.wait()
        return await super().ask(request)


async def begun(place: str) -> None:
    first = Steps()
    with pytest.raises(CutOffError):
        await ran(place, first, STEPS, Lines(first))


async def test_an_edited_program_sends_nothing_before_it_is_told_so(place: str) -> None:
    """Calls that it begins early wait until each recorded answer is asked for again."""
    await begun(place)
    again = ScriptedModel(echo)
    with pytest.raises(ProgramChanged):
        await ran(place, again, EDITED)
    assert again.requests == []


async def test_the_calls_of_an_unchanged_program_go_on_side_by_side(place: str) -> None:
    await begun(place)
    assert len(await ran(place, Together(8), STEPS)) == 9


async def test_an_edited_program_is_told_so(place: str) -> None:
    """An answer to another message is no answer."""
    path = place
    with pytest.raises(CutOffError):
        await ran(path, Moody(1, most=4))
    with pytest.raises(ProgramChanged):
        await ran(path, Moody(2), ROUNDS.replace("left", "west"))


RACES = """
agent A { model fast }
fn twice(text: str) -> str { let a = A <- "{text} once"; return A <- "{a} twice"; }
fn main() -> int {
    for i in range(4) {
        print(race [A <- "left {i}", A <- "right {i}", A <- "middle {i}"]);
        print(race said in [twice("long {i}"), A <- "short {i}"] if len(said) > 0);
    }
    return 4;
}
"""


async def test_a_race_has_the_same_winner_in_every_life(place: str) -> None:
    """The second life has other latencies, and finds what was answered in the first all at once.
    What lost is not asked again."""
    before, is_over = list[str](), False
    for seed in range(20):
        model, printed = Moody(seed, most=6), list[str]()
        with suppress(CutOffError):
            await ran(place, model, RACES, printed)
            is_over = True
        assert printed[: len(before)] == before
        assert len(model.requests) <= 24 - 2 * len(before)
        before = printed
        if is_over:
            break
    assert is_over
    assert len(before) == 8


async def test_a_question_to_a_person_is_no_call_that_was_cut_off(tmp_path: Path) -> None:
    """It is asked again; nothing is lost or billed."""
    path, asked = tmp_path / "run.db", asyncio.Event()
    text = 'fn main() { print(human::ask("which branch?", 1h)); }'
    checked, found = check_program(text, "main.vega", lambda _path: None)
    assert checked is not None, found
    with suppress(CutOffError):
        async with Runtime("$10", journal=path) as rt:
            rt.on(Question, lambda _: asked.set())
            running = asyncio.ensure_future(rt.run(VegaProgram(compile_program(checked), Path())))
            await asked.wait()
            running.cancel()
            raise CutOffError
    [run] = list_runs(path)
    assert (run.ended_ms, run.cut_off) == (None, 0)
