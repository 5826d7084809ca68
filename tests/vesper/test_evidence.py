"""The evidence of a rollout while its store is slow, away or shared with others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S, until
from tests.vesper.test_rollouts import AT_ONCE, BrokenStore, Clock, counted, double, evidence, shift
from vegakit.concurrency import SteadyClock
from vegakit.contracts import Compared, PersonDecided, Tally
from vegakit.errors import StoreError, UserError
from vegakit.ids import new_program_id
from vegakit.ports import RunRecord
from vegakit.sdk import Runtime
from vegakit.store import MemoryStore
from vegakit.vesper import PersonAction, RolloutMode, rollout
from vegakit.vesper.evidence import RolloutEvidence, initial_rollout, tidy_calls


class HeldStore(MemoryStore):
    """Reads are answered when they are let go, with what was there when they were made."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()
        self.reads = 0

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        found = await super().get(kind, key)
        self.reads += 1
        await self.is_open.wait()
        return found


def test_a_store_that_hangs_holds_nobody_up() -> None:
    """The first call waits for a while, the next ones do not; one read is made for all."""

    async def work() -> tuple[list[bool], int]:
        store, clock = HeldStore(), Clock()
        one = evidence(store, clock)
        waiting = asyncio.ensure_future(one.refresh())
        await until(lambda: store.reads)
        clock.now_ms += 1_000
        late = [await one.refresh() for _ in range(3)]
        late.append(await waiting)
        reads = store.reads
        store.is_open.set()
        clock.now_ms += 1_000
        async with asyncio.timeout(PATIENCE_S):
            while not await one.refresh():  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0)
        return late, reads

    assert asyncio.run(work()) == ([False] * 4, 1)


class AbsentStore(MemoryStore):
    is_away = False

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        if self.is_away:
            raise StoreError("the server is away; start it")
        return await super().get(kind, key)


def test_after_two_seconds_without_news_the_reference_answers() -> None:
    """Until then the last ones are relied on, and when the store is back, its own."""

    async def work() -> list[bool]:
        store, clock = AbsentStore(), Clock()
        one = evidence(store, clock)
        relied = [await one.refresh()]
        store.is_away = True
        for _ in range(2):
            clock.now_ms += 1_000
            relied.append(await one.refresh())
        store.is_away = False
        return [*relied, await one.refresh()]

    assert asyncio.run(work()) == [True, True, False, True]


def test_news_are_as_old_as_their_question() -> None:
    """An answer that took two seconds may have missed a demotion, so it is asked for again."""

    async def work() -> tuple[bool, int]:
        store, clock = HeldStore(), Clock()
        one = evidence(store, clock)
        waiting = asyncio.ensure_future(one.refresh())
        await until(lambda: store.reads)
        clock.now_ms += 2_000
        store.is_open.set()
        return await waiting, store.reads

    assert asyncio.run(work()) == (False, 1)


def test_what_was_read_before_a_demotion_does_not_undo_it() -> None:
    """The read began first and ends last."""

    async def work() -> int:
        store, clock = HeldStore(), Clock()
        store.is_open.set()
        one = evidence(store, clock)
        await one.record(Compared(agrees=True))
        store.is_open.clear()
        clock.now_ms += 1_000
        before = store.reads
        reading = asyncio.ensure_future(one.refresh())
        await until(lambda: store.reads > before)
        held, store.is_open = store.is_open, asyncio.Event()
        store.is_open.set()
        await one.record(Compared(agrees=False))
        held.set()
        await reading
        return one.machine.stage

    assert asyncio.run(work()) == 1


def test_a_call_keeps_its_route_also_while_the_rollout_is_stopped() -> None:
    """It is promoted before the run goes on, and the reference has performed its effects."""

    async def work() -> list[RolloutMode]:
        store = MemoryStore()
        one = evidence(store)
        await one.record(PersonDecided(PersonAction.STOP, "ada"))
        before = await one.open_call("run.1", "inputs", is_kept=True, is_new=True)
        for _ in range(5):
            await one.record(PersonDecided(PersonAction.PROMOTE, "ada"))
        after = await one.open_call("run.1", "inputs", is_kept=True)
        return [before.mode, after.mode, one.machine.mode]

    stopped = RolloutMode.REFERENCE_ONLY
    assert asyncio.run(work()) == [stopped, stopped, RolloutMode.DIRECT_ONLY]


def test_a_route_without_news_is_kept_too() -> None:
    """The reference answered, and does so when the call is made again with news."""

    async def work() -> list[bool]:
        one = evidence(MemoryStore())
        routes = [
            await one.open_call("run.1", "inputs", is_kept=True, is_fresh=is_fresh, is_new=is_new)
            for is_fresh, is_new in ((False, True), (True, False))
        ]
        return [route.runs_candidate for route in routes]

    assert asyncio.run(work()) == [False, False]


def test_what_the_store_did_not_take_is_saved_at_the_end() -> None:
    """It is back when the rollout is closed."""

    async def work() -> Tally:
        store = BrokenStore()
        one = evidence(store)
        store.is_broken = True
        for _ in range(3):
            with pytest.raises(StoreError):
                await one.record(Compared(agrees=True))
        store.is_broken = False
        await one.aclose()
        return await counted(store)

    assert asyncio.run(work()) == Tally(3)


def test_who_is_cancelled_takes_nobody_along() -> None:
    """Events that wait together are folded by one of them."""

    async def work() -> Tally:
        store = HeldStore()
        one = evidence(store)
        events = [asyncio.ensure_future(one.record(Compared(agrees=True))) for _ in range(5)]
        await until(lambda: store.reads)
        events[0].cancel()
        await asyncio.sleep(0)
        store.is_open.set()
        await asyncio.wait(events)
        return await counted(store)

    assert asyncio.run(work()) == Tally(4)


def test_a_person_who_asks_for_what_cannot_be_fails_alone() -> None:
    """Comparisons that wait beside are counted."""

    async def work() -> tuple[tuple[Any, ...], Tally]:
        store = HeldStore()
        store.is_open.set()
        one = evidence(store)
        said = await asyncio.gather(
            one.record(Compared(agrees=True)),
            one.record(PersonDecided(PersonAction.PROMOTE, "ada")),
            one.record(Compared(agrees=True)),
            return_exceptions=True,
        )
        return said, await counted(store)

    said, tally = asyncio.run(work())
    assert [type(each) for each in said] == [type(None), UserError, type(None)]
    assert tally == Tally(2)


def test_a_rollout_that_is_opened_again_in_a_run_counts_equal_calls(tmp_path: Path) -> None:
    """They are different calls, although their inputs are the same."""

    async def work() -> int:
        runs = 0
        async with Runtime(journal=tmp_path / "run.db", observable=False) as rt:
            for _ in range(3):
                async with rollout(
                    rt, "d", reference=double, candidate=shift, rule=AT_ONCE
                ) as doubled:
                    await doubled(1)
                    await doubled.settle()
                    runs = doubled.status().evidence.production.runs
        return runs

    assert asyncio.run(work()) == 3


# Calls of runs that are over.


DAY_MS = 86_400_000
NOW_MS = 200 * DAY_MS


def run_of(begun_ms: int, number: int, **facts: Any) -> RunRecord:
    return RunRecord(new_program_id(begun_ms, bytes([number] * 10)), begun_ms, **facts)


def test_calls_of_runs_that_are_over_are_deleted() -> None:
    """A day after the last run of a process ended, or 90 days after one that nobody knows began;
    what is still to be counted stays, and so does what belongs to others."""
    long_ago, lately = NOW_MS - 2 * DAY_MS, NOW_MS - DAY_MS // 2
    over = run_of(long_ago, 1, ended_ms=long_ago)
    ended_lately = run_of(long_ago, 2, ended_ms=lately)
    first = run_of(long_ago, 3, ended_ms=long_ago)
    second = run_of(long_ago, 4, first=first.program)
    unknown, unknown_for_long = run_of(NOW_MS - 89 * DAY_MS, 5), run_of(NOW_MS - 91 * DAY_MS, 6)
    runs = [over, ended_lately, first, second]

    async def work() -> tuple[int, set[str], Tally]:
        store = MemoryStore()
        for name, word in (("r", ""), ("r", "odd/even"), ("other", "")):
            initial = initial_rollout(name, AT_ONCE, "v1", word)
            one = RolloutEvidence(store, Clock(), initial, lambda _change: None)
            for run in (*runs, unknown, unknown_for_long):
                for number in range(70):
                    call = f"{run.program}.0123456789abcdef.{number}"
                    route = await one.open_call(call, "inputs", is_kept=True)
                    if number:
                        await one.record(Compared(agrees=True), call, route)
        deleted = 0
        while more := await tidy_calls(store, "r", runs, NOW_MS, at_most=100):
            deleted += more
        left = {
            str(run.program)
            for kind in ("rollout-pending", "rollout-done")
            for run in (*runs, unknown, unknown_for_long)
            for word in ("", "odd/even")
            for number in range(70)
            if await store.get(kind, f"r/v1/{word}/{run.program}.0123456789abcdef.{number}")
        }
        done = await store.keys("rollout-done", limit=5_000)
        assert len([key for key in done if key.startswith("other/")]) == 6 * 69
        return deleted, left, await counted(store)

    deleted, left, tally = asyncio.run(work())
    assert deleted == 2 * 2 * 70
    assert left == {run.program for run in (ended_lately, first, second, unknown)}
    assert tally == Tally(6 * 69)


class LaterClock(SteadyClock):
    """Tells a time that is so many days ahead."""

    def __init__(self, days: int) -> None:
        super().__init__()
        self._ahead_ms = days * DAY_MS

    def now(self) -> int:
        return super().now() + self._ahead_ms

    async def wait_until(self, at_ms: int) -> None:
        await super().wait_until(at_ms - self._ahead_ms)


def test_a_rollout_that_is_closed_tidies_up(tmp_path: Path) -> None:
    """What is kept does not grow with the runs that were made."""

    async def work(days: int) -> int:
        async with Runtime(
            journal=tmp_path / "run.db", observable=False, clock=LaterClock(days)
        ) as rt:
            async with rollout(rt, "d", reference=double, candidate=shift, rule=AT_ONCE) as doubled:
                for number in range(20):
                    await doubled(number)
            return len(await rt.store.keys("rollout-done", limit=1_000))

    assert [asyncio.run(work(days)) for days in (0, 2, 4, 6)] == [20] * 4
