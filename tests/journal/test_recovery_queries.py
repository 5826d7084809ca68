"""What a run asks its ledger when it is taken up, and what it takes until it goes on."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from vegakit.errors import AgentFailed, ErrorClass, Phase, WorldError
from vegakit.host import Agent
from vegakit.lang import check_program, compile_program
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.store.ledger import SqlLedger


class StoppedError(Exception):
    """The run ends before it is done."""


async def stopped_after(calls: int, place: str) -> None:
    agent = Agent("a", model=ScriptedModel("yes"), max_tokens=5)
    async with Runtime("$1", journal=place, observable=False) as rt:
        await rt.batch(*(rt.ask(agent, f"q{number}") for number in range(calls)))
        raise StoppedError


@pytest.mark.parametrize("calls", [3, 150])
async def test_recovery_asks_its_ledger_once_for_all_calls(
    calls: int, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few or many: of their claims at most three times."""
    with pytest.raises(StoppedError):
        await stopped_after(calls, place)
    asked: list[str] = []
    do = SqlLedger._do

    def counted(self: SqlLedger, decide: Any, *more: Any) -> Any:
        asked.append(getattr(decide, "__qualname__", ""))
        return do(self, decide, *more)

    monkeypatch.setattr(SqlLedger, "_do", counted)
    async with Runtime("$1", journal=place, observable=False):
        about_claims = [name for name in asked if "claim" in name]
        assert 1 <= len(about_claims) <= 3, asked
        assert len(asked) <= 13, asked


LOOP = """
agent A { model fast  max_tokens 10  retry { max_attempts 1 } }
fn main(calls: int) { for i in range(calls + 1) { A <- "{i}"; } }
"""


class Counter:
    """Counts the calls of Python functions, in all threads."""

    def __init__(self) -> None:
        self.calls = 0

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event == "call"

    def start(self) -> None:
        threading.setprofile(self._count)
        sys.setprofile(self._count)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


async def work_until_it_goes_on(calls: int, place: Path) -> int:
    """Return how much is done between the begin of the second life and its first request."""
    checked, _ = check_program(LOOP, "main.vega", lambda _: None)
    assert checked is not None
    program, counter = VegaProgram(compile_program(checked), place), Counter()

    async def life(answer: Callable[[Any], Any]) -> None:
        model = ScriptedModel(answer)
        parts: Any = {"models": lambda _: model, "journal": str(place / f"{calls}.db")}
        async with Runtime("$1", observable=False, lookahead=8, **parts) as rt:
            await rt.run(program, calls)

    def fail_at_the_last(request: Any) -> str | WorldError:
        is_last = str(calls) in str(request.messages[-1])
        return WorldError("down", ErrorClass.SERVER, phase=Phase.ANSWERED) if is_last else "yes"

    def first(_: object) -> str:
        counter.stop()
        return "yes"

    with pytest.raises(AgentFailed):
        await life(fail_at_the_last)
    counter.start()
    try:
        await life(first)
    finally:
        counter.stop()
    return counter.calls


async def test_the_work_until_a_run_goes_on_grows_with_what_is_recorded(tmp_path: Path) -> None:
    """Ten times as many calls take no more than ten times as much."""
    few, many = [await work_until_it_goes_on(calls, tmp_path) for calls in (100, 1_000)]
    assert many <= 10 * few
