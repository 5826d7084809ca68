"""What ends a program is told to everybody who waits for it."""

import asyncio
import logging

import pytest

from vegakit.effects import Effect
from vegakit.errors import ProgramChanged
from vegakit.host import Agent
from vegakit.ports import ClaimResult
from vegakit.program import Action, Event, Machine
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryJournal
from vegakit.testing import run_virtual


class OfAnotherProgram(MemoryJournal):
    """Wherever something is asked, other code had asked something else."""

    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        return ClaimResult(changed=True)


class BrokenMachine(Machine):
    def step(self, event: Event, now: int) -> list[Action]:
        raise ZeroDivisionError("a bug")


async def asked(journal: MemoryJournal | None, machine: type[Machine] | None = None) -> None:
    async with Runtime(journal=journal) as rt:
        process = rt.spawn(Agent("a", ScriptedModel("hi")))
        gone, answer = process.monitor(), process.send("x")
        if machine is not None:
            rt.program.adopt(machine(rt.program.machine.state, rt.program.registry.code))
        done, _ = await asyncio.wait([gone, answer], timeout=60)
        assert done == {gone, answer}
        with pytest.raises((ProgramChanged, ZeroDivisionError)):
            await process.ask("again")
        assert gone.exception() is answer.exception() is not None
        await answer


def test_an_answer_of_another_program_is_told_to_who_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither the wrong answer nor a new one: the program cannot go on."""
    with caplog.at_level(logging.CRITICAL), pytest.raises(ProgramChanged):
        run_virtual(asked(OfAnotherProgram()))


async def streamed() -> None:
    async with Runtime(journal=OfAnotherProgram()) as rt:
        await asyncio.wait_for(
            rt.ask(Agent("a", ScriptedModel("hi")), "x", on_chunk=lambda _: None), 60
        )


def test_what_ends_a_program_ends_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    """Who reads one does not wait for pieces that nobody will say."""
    with caplog.at_level(logging.CRITICAL), pytest.raises(ProgramChanged):
        run_virtual(streamed())


def test_a_bug_in_the_machine_is_told_to_who_asked(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for ever."""
    with caplog.at_level(logging.CRITICAL), pytest.raises(ZeroDivisionError):
        run_virtual(asked(None, BrokenMachine))
