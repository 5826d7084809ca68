"""Closing never hangs: who swallows its cancellation is named and left behind, the rest ends."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from tests.patience import pass_virtual_time
from vegakit import Agent, Runtime, tool
from vegakit.errors import AgentFailed
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.testing import VirtualClock, run_virtual


class Stubborn:
    """Code that takes no notice of being cancelled until the test lets it go."""

    def __init__(self) -> None:
        self.let_go = False
        self.runs = asyncio.Event()

    async def live(self) -> None:
        self.runs.set()
        while not self.let_go:
            with suppress(asyncio.CancelledError):
                await pass_virtual_time(1_000)


async def timed(work: Coroutine[Any, Any, Any], at_most_s: float) -> None:
    began = asyncio.get_running_loop().time()
    await work
    took_s = asyncio.get_running_loop().time() - began
    assert took_s <= at_most_s, f"it took {took_s:.1f} s"


def in_time(work: Coroutine[Any, Any, None], *stubborn: Stubborn) -> None:
    """On virtual time; then all are let go, since the loop of the test could not end either."""

    async def then_let_go() -> None:
        try:
            await work
        finally:
            for each in stubborn:
                each.let_go = True

    run_virtual(then_let_go())


@pytest.mark.parametrize("count", [1, 30])
def test_closing_leaves_behind_who_swallows_its_cancellation(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is named; thirty of them take hardly longer than one; what ends properly has ended."""
    stubborn = [Stubborn() for _ in range(count)]
    ended: list[str] = []

    async def gentle() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("gentle")

    async def close() -> None:
        rt = await Runtime("$1", clock=VirtualClock()).__aenter__()
        rt.spawn(gentle, name="gentle")
        for number, each in enumerate(stubborn):
            rt.spawn(each.live, name=f"bad{number}")
        for each in stubborn:
            await each.runs.wait()
        await timed(rt.__aexit__(None, None, None), 12)

    in_time(close(), *stubborn)
    told = [r.message for r in caplog.records if "left behind" in r.message]
    assert len(told) == count
    assert all(any(f"'bad{number}'" in line for line in told) for number in range(count))
    assert ended == ["gentle"]


def test_killing_who_swallows_its_cancellation_returns() -> None:
    """After a few seconds, and the process is gone."""
    stubborn = Stubborn()

    async def kill() -> None:
        async with Runtime("$1", clock=VirtualClock()) as rt:
            process = rt.spawn(stubborn.live, name="bad")
            await stubborn.runs.wait()
            await timed(process.kill(), 6)
            assert not process.alive

    in_time(kill(), stubborn)


def test_a_tool_that_swallows_its_cancellation_does_not_hold_up_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it says in the end is told to nobody."""
    stubborn = Stubborn()
    model = ScriptedModel(ScriptedReply(calls=(ScriptedCall("look", {}),)), "never said")

    @tool()
    async def look() -> str:
        """Look."""
        await stubborn.live()
        return "too late"

    async def close() -> None:
        rt = await Runtime("$1", clock=VirtualClock()).__aenter__()
        process = rt.spawn(Agent("guide", model, tools=[look]), name="guide")
        asking = asyncio.ensure_future(process.ask("hi"))
        await stubborn.runs.wait()
        await timed(rt.__aexit__(None, None, None), 12)
        with pytest.raises(AgentFailed):
            await asking

    in_time(close(), stubborn)
    assert len(model.requests) == 1
    assert "the tool look of process 'guide'" in caplog.text
