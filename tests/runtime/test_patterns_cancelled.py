"""Patterns cancelled once or twice, at any step: nothing runs on, nothing stays reserved."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from tests.runtime.stage import Stage, agent, settle, within
from vegakit.errors import LimitReached
from vegakit.host import Agent
from vegakit.sdk import Runtime, map_all, race, retry_until


def asks(rt: Runtime, asker: Agent[str]) -> dict[str, Callable[[], Coroutine[Any, Any, Any]]]:
    return {
        "race": lambda: race(*(rt.ask(asker, "?") for _ in range(3))),
        "map_all": lambda: map_all(lambda prompt: rt.ask(asker, prompt), "abcde", 2),
        "retry_until": lambda: retry_until(lambda: rt.ask(asker, "?"), lambda _: False),
        "nested": lambda: map_all(lambda prompt: race(rt.ask(asker, prompt)), "abc", 2),
    }


@pytest.mark.parametrize("name", ["race", "map_all", "retry_until", "nested"])
@pytest.mark.parametrize("again", [None, 0, 1])
def test_a_cancellation_at_any_step_leaves_nothing(name: str, again: int | None) -> None:
    """Nor does a second one, that comes while the first is being carried out."""

    async def work(rt: Runtime) -> None:
        asker, steps, finished = agent(), 0, False
        while not finished:
            running = asyncio.ensure_future(asks(rt, asker)[name]())
            for _ in range(steps):
                await asyncio.sleep(0)
            finished = running.done()
            running.cancel()
            if again is not None:
                for _ in range(again + 1):
                    await asyncio.sleep(0)
                running.cancel()
            with suppress(asyncio.CancelledError, LimitReached):
                await running
                assert finished
            assert len(asyncio.all_tasks()) == 2
            scope = await rt._ledger.scope(rt.budgets.root)
            assert scope is not None
            assert scope.reserved == 0
            steps += 1
        assert steps > 5

    within(work)


def test_losers_that_leave_slowly_are_awaited_through_a_second_cancellation() -> None:
    """And the cancellation is not swallowed."""

    async def use() -> None:
        stage = Stage()
        running = asyncio.ensure_future(race(stage.play("a"), stage.play("b")))
        await settle()
        running.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (sorted(map(str, stage.left)), stage.running) == (["a", "b"], 0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(use())


def test_a_cancellation_after_the_win_is_still_one() -> None:
    """It comes while the loser leaves: the winner's answer does not hide it."""

    async def use() -> None:
        stage = Stage()
        running = asyncio.ensure_future(race(stage.play("loser"), stage.play("winner")))
        await settle()
        stage.cue("winner")
        await stage.leaving.wait()
        assert stage.left == []
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stage.left == ["loser"]

    asyncio.run(use())


def test_a_loser_that_fails_while_it_leaves_is_not_reported_as_lost() -> None:
    """asyncio tells of failures that nobody looked at."""

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("on the way out")

    async def quick() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def use() -> list[Any]:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        await race(stubborn(), quick())
        await settle()
        return told

    assert asyncio.run(use()) == []
