"""A runtime never fails because it was slow: its lease is renewed before anything is refused."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from tests.patience import until, wait_until
from vegakit import Agent, Runtime
from vegakit.conversation import ModelReply, ModelRequest
from vegakit.errors import StoreError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import LEASE_MS, ScopeRule
from vegakit.providers import ScriptedModel
from vegakit.store import MemoryLedger, SqliteLedger
from vegakit.testing import FakeClock

DAY_MS = 86_400_000
ROOT = ScopeId("runtime:default")


def agent() -> Agent[str]:
    return Agent("guide", ScriptedModel(lambda _: "yes"), max_tokens=10)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def pass_time(clock: FakeClock, ms: int, step_ms: int = 1_000) -> None:
    for _ in range(0, ms, step_ms):
        clock.advance(step_ms)
        await turns()


async def answer_of(rt: Runtime, asked: Agent[str], prompt: str = "hi") -> str:
    return (await rt.ask(asked, prompt)).text


class Waiting(ScriptedModel):
    """Answers when it is told to."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def ask(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await self.go_on.wait()
        return await super().ask(request)


class Stalling(ScriptedModel):
    """Blocks the whole loop when it is asked first, until that is so."""

    def __init__(self, is_enough: Callable[[], bool]) -> None:
        super().__init__(lambda _: "yes")
        self._is_enough = is_enough

    async def ask(self, request: ModelRequest) -> ModelReply:
        if not self.requests:
            wait_until(self._is_enough)
        return await super().ask(request)


class Stuttering(MemoryLedger):
    """Counts renewals, and fails them with what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: BaseException | None = None
        self.renewals = 0

    async def renew(self, holder: HolderId, until_ms: int) -> None:
        self.renewals += 1
        if self.failure is not None:
            raise self.failure
        await super().renew(holder, until_ms)


@pytest.mark.parametrize("failure", [StoreError("the server restarts"), RuntimeError("a bug")])
async def test_renewing_goes_on_after_it_failed(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """With growing pauses, and told; then as before."""
    clock, ledger = FakeClock(), Stuttering()
    async with Runtime("$1", ledger=ledger, clock=clock) as rt:
        await turns()
        ledger.failure, before = failure, ledger.renewals
        await pass_time(clock, 60_000)
        failed = ledger.renewals - before
        assert 12 <= failed <= 20, "soon again at first, then as often as ever"
        told = [r.message for r in caplog.records]
        assert len([line for line in told if "not renewed" in line and str(failure) in line]) == 1
        ledger.failure, before = None, ledger.renewals
        await pass_time(clock, 60_000)
        assert ledger.renewals - before == 12
        assert (await rt.ask(agent(), "after all")).text == "yes"


async def test_renewing_that_was_cancelled_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody who cancels every task of the loop does not end it."""
    caplog.set_level(logging.ERROR)
    clock, ledger = FakeClock(), Stuttering()
    async with Runtime("$1", ledger=ledger, clock=clock):
        await turns()
        for task in asyncio.all_tasks():
            if task.get_name().startswith("vega lease"):
                task.cancel()
        await turns()
        before = ledger.renewals
        await pass_time(clock, 60_000)
        assert ledger.renewals - before == 12
    assert "begins again" in caplog.text
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("vega lease")]


async def test_who_slept_for_an_hour_goes_on() -> None:
    """The ask is queued before the renewal, as after a stalled loop or a closed laptop."""
    clock = FakeClock()
    async with Runtime("$1", clock=clock) as rt:
        clock.advance(3_600_000)
        assert (await rt.ask(agent(), "still there?")).text == "yes"


async def test_a_lease_that_others_settled_is_taken_anew(tmp_path: Path) -> None:
    """While we slept another runtime charged our call in flight as unknown: its answer corrects
    that, the next call is made, and nothing stays reserved."""
    clock, model = FakeClock(), Waiting(lambda _: "yes")
    slow = Agent("slow", model, max_tokens=10)
    async with Runtime("$1", ledger=SqliteLedger(tmp_path / "l.db"), clock=clock) as rt:
        asking = asyncio.ensure_future(answer_of(rt, slow))
        await model.asked.wait()
        async with aclosing(SqliteLedger(tmp_path / "l.db")) as other:
            leases = await other.leases()
            ((_, settled),) = await other.expire(leases, clock.now() + DAY_MS)
            assert settled.state == "unknown"
            model.go_on.set()
            assert await asking == "yes"
            assert (await rt.ask(agent(), "and this?")).text == "yes"
            scope = await other.scope(ROOT)
            assert scope is not None
            assert (scope.settled, scope.reserved) == (await rt.spent(), 0)


async def test_a_loop_that_stalls_longer_than_its_lease_fails_nobody(tmp_path: Path) -> None:
    """Hundreds of asks are queued behind the stall, and another runtime settles meanwhile what it
    takes for left behind: everybody is answered, and the ledger is right in the end."""
    lease_ms, path = 200, tmp_path / "ledger.db"
    stop = threading.Event()
    neighbour = asyncio.create_task(asyncio.to_thread(live_beside, path, lease_ms, stop))

    def is_settled() -> bool:
        with closing(sqlite3.connect(path)) as file:
            query = "SELECT count(*) FROM claims WHERE state = 'unknown'"
            return file.execute(query).fetchone()[0] > 0

    asked = Agent("guide", Stalling(is_settled), max_tokens=10)
    try:
        async with Runtime("$9", ledger=SqliteLedger(path), lease_ms=lease_ms) as rt:
            many = (answer_of(rt, asked, f"question {number}") for number in range(300))
            assert await asyncio.gather(*many) == ["yes"] * 300
            spent = await rt.spent()
    finally:
        stop.set()
        await neighbour
    async with aclosing(SqliteLedger(path)) as ledger:
        scope = await ledger.scope(ROOT)
        assert scope is not None
        assert (scope.settled, scope.reserved) == (spent, 0)


def live_beside(path: Path, lease_ms: int, stop: threading.Event) -> None:
    async def live() -> None:
        async with Runtime("$9", ledger=SqliteLedger(path), lease_ms=lease_ms):
            await asyncio.to_thread(stop.wait)

    asyncio.run(live())


@pytest.mark.parametrize("skew_ms", [DAY_MS, -DAY_MS, 0])
async def test_a_dead_holder_keeps_nothing_whatever_its_clock(skew_ms: int, tmp_path: Path) -> None:
    """Its clock was a day ahead, a day behind, or right: one lease later its call is charged."""
    clock, path = FakeClock(), tmp_path / "ledger.db"
    async with aclosing(SqliteLedger(path)) as theirs:
        dead, their_now = HolderId("dead"), clock.now() + skew_ms
        await theirs.open(ROOT, ScopeRule(Money(10**9)), their_now)
        await theirs.renew(dead, their_now + LEASE_MS)
        await theirs.reserve(EffectKey("k"), 1, ROOT, Money(10**8), dead, their_now)
    async with Runtime("$1", ledger=SqliteLedger(path), clock=clock) as rt:
        await rt.remaining()
        for _ in range(5):
            clock.advance(5_000)
            # Who was woken sweeps, and waits for a later time then.
            await until(lambda: min([due for due, _ in clock._sleepers], default=0) > clock.now())
            await rt.remaining()
        assert await rt.spent() == 10**8


async def test_an_answer_arrives_although_others_forgot_its_call() -> None:
    """One with a wrong clock settles what it takes for left behind, and another forgets it."""
    clock, ahead, ledger = FakeClock(DAY_MS), FakeClock(400 * DAY_MS), MemoryLedger()
    model = Waiting(lambda _: "late")
    async with Runtime("$1", ledger=ledger, clock=clock) as rt:
        asking = asyncio.ensure_future(answer_of(rt, Agent("slow", model, max_tokens=10)))
        await model.asked.wait()
        await ledger.expire(await ledger.leases(), clock.now())
        async with Runtime("$1", ledger=ledger, clock=ahead):
            await turns()
        model.go_on.set()
        assert await asking == "late"
    counter = await ledger.counter(ROOT, None, 0)
    assert (counter.settled > 0, counter.reserved) == (True, 0)
