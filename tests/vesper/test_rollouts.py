"""Rollouts of functions and agents on a real runtime, with models whose answers are known."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from vegakit.contracts import Compared, Evidence, PersonDecided, Rollout, StageChange, Tally
from vegakit.conversation import ToolMessage
from vegakit.errors import ErrorClass, StoreError, UserError
from vegakit.host import Agent
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.records import to_json
from vegakit.sdk import Runtime
from vegakit.store import MemoryStore
from vegakit.tools import ToolContext, tool
from vegakit.vesper import PersonAction, RolloutMode, RolloutRecord, RolloutRule, rollout
from vegakit.vesper.evidence import RolloutEvidence

AT_ONCE = RolloutRule(calibration=0)
ORDERS = {
    item: ScriptedReply(calls=(ScriptedCall("order", {"item": item}),)) for item in ("tea", "rum")
}


async def double(number: int) -> int:
    return 2 * number


async def shift(number: int) -> int:
    return number << 1


async def wrong(number: int) -> int:
    return 2 * number + (number == 13)


async def fails(number: int) -> int:
    raise LookupError(number)


def within(work: Callable[[Runtime], Awaitable[Any]], **options: Any) -> Any:
    async def opened() -> Any:
        async with Runtime(observable=False, **options) as rt:
            return await work(rt)

    return asyncio.run(opened())


async def raised_to(rolled: Any, mode: RolloutMode) -> None:
    while rolled.status().mode is not mode:
        await rolled.decide(PersonAction.PROMOTE, "ada")


def test_the_reference_answers_in_the_shadow() -> None:
    """First it is compared with itself, then with the candidate, and nobody waits for that."""

    async def work(rt: Runtime) -> Rollout:
        async with rollout(rt, "double", reference=double, candidate=wrong) as doubled:
            assert [await doubled(n) for n in range(120)] == [2 * n for n in range(120)]
            await doubled.settle()
            assert [await doubled(n) for n in range(50)] == [2 * n for n in range(50)]
            await doubled.settle()
            return doubled.status()

    state = within(work)
    assert state.evidence.noise.runs >= 100
    assert state.evidence.production.runs == 170 - state.evidence.noise.runs
    assert state.evidence.production.failures == 1
    assert state.mode is RolloutMode.SHADOW


def test_a_candidate_is_promoted_by_its_calls() -> None:
    """A thousand of them agree, and the next one may be answered by it."""

    async def work(rt: Runtime) -> tuple[RolloutMode, list[StageChange]]:
        changes = list[StageChange]()
        async with rollout(
            rt, "d", reference=double, candidate=shift, rule=AT_ONCE, on_change=changes.append
        ) as doubled:
            for n in range(1_001):
                await doubled(n)
            await doubled.settle()
            return doubled.status().mode, changes

    mode, changes = within(work)
    assert mode is RolloutMode.CANARY
    assert [(change.before, change.after) for change in changes] == [(1, 2)]


@pytest.mark.parametrize("mode", [RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY])
@pytest.mark.parametrize("candidate", [wrong, fails])
def test_a_wrong_candidate_is_demoted_before_the_next_call(mode: RolloutMode, candidate) -> None:
    """Whoever is asked then answers as before; verified calls are never answered wrongly."""

    async def work(rt: Runtime) -> None:
        rule = RolloutRule(calibration=0, sample=1.0)
        async with rollout(rt, "d", reference=double, candidate=candidate, rule=rule) as doubled:
            await raised_to(doubled, mode)
            answer = await doubled(13)
            assert answer == 26 or (candidate is wrong and mode is RolloutMode.DIRECT_ONLY)
            await doubled.settle()
            assert doubled.status().mode is RolloutMode.SHADOW
            assert await doubled(13) == 26

    within(work)


def test_a_candidate_answers_after_the_last_promotion() -> None:
    """And is compared by the sample."""

    async def work(rt: Runtime) -> tuple[int, int]:
        asked = {"reference": 0}

        async def reference(number: int) -> int:
            asked["reference"] += 1
            return 2 * number

        async with rollout(rt, "d", reference=reference, candidate=shift, rule=AT_ONCE) as doubled:
            await raised_to(doubled, RolloutMode.DIRECT_ONLY)
            assert [await doubled(n) for n in range(1_000)] == [2 * n for n in range(1_000)]
            await doubled.settle()
            return asked["reference"], doubled.status().evidence.production.runs

    asked, compared = within(work)
    assert asked == compared
    assert 0 < compared < 40


def test_two_paths_that_wait_take_as_long_as_one() -> None:
    """Verified calls run both side by side."""

    async def work(rt: Runtime) -> None:
        both = asyncio.Barrier(2)

        async def meet(number: int) -> int:
            await asyncio.wait_for(both.wait(), 30)
            return number

        async def meet_too(number: int) -> int:
            return await meet(number)

        async with rollout(rt, "m", reference=meet, candidate=meet_too, rule=AT_ONCE) as met:
            await raised_to(met, RolloutMode.DUAL_VERIFY)
            assert await met(1) == 1

    within(work)


def test_input_classes_are_decided_about_apart() -> None:
    """A fault on odd numbers says nothing of even ones."""

    async def work(rt: Runtime) -> tuple[Tally, Tally]:
        async with rollout(
            rt,
            "d",
            reference=double,
            candidate=wrong,
            rule=AT_ONCE,
            input_class=lambda number: "odd" if number % 2 else "even",
        ) as doubled:
            for n in range(20):
                await doubled(n)
            await doubled.settle()
            classes = (doubled.status(word).evidence.production for word in ("odd", "even"))
            return next(classes), next(classes)

    assert within(work) == (Tally(10, 1), Tally(10, 0))


# Agents.


class Shop:
    """The far end: what tools do is counted here."""

    def __init__(self) -> None:
        self.orders: list[str] = []

    def order(self, item: str) -> str:
        """Order an item."""
        self.orders.append(item)
        return f"ordered {item}, number {len(self.orders)}"


def buyer(shop: Shop, item: str, says: str = "done", name: str = "buyer") -> Agent[str]:
    """One that orders the item first, and then says so."""
    script = [ORDERS[item], says] * 200
    return Agent(name, model=ScriptedModel(script, name=f"m-{item}-{says}"), tools=[shop.order])


@pytest.mark.parametrize(
    ("candidate", "failures"), [(("tea", "done"), 0), (("rum", "done"), 1), (("tea", "no"), 1)]
)
def test_a_shadow_performs_nothing(candidate: tuple[str, str], failures: int) -> None:
    """It is told what the reference was told; other calls and other answers are differences."""

    async def work(rt: Runtime) -> tuple[str, list[str], Tally]:
        shop = Shop()
        old, new = buyer(shop, "tea"), buyer(shop, *candidate)
        async with rollout(rt, "buy", reference=old, candidate=new, rule=AT_ONCE) as buy:
            answer = await buy("Buy tea.")
            await buy.settle()
            return answer, shop.orders, buy.status().evidence.production

    assert within(work) == ("done", ["tea"], Tally(1, failures))


def test_a_shadow_is_told_what_the_other_was_told(tmp_path: Path) -> None:
    """To the letter, also what others wrote: its answer would differ by the marks around that."""
    (tmp_path / "note.txt").write_text("Ship on Friday.")

    @tool(capabilities=["fs::read"], allowed_paths=["*.txt"], root=tmp_path)
    async def read(ctx: ToolContext, path: str) -> str:
        """Read a file."""
        return (await ctx.files.read(path)).decode()

    def reader(name: str) -> tuple[Agent[str], ScriptedModel]:
        calls = [
            ScriptedReply(calls=(ScriptedCall("read", {"path": path}),))
            for path in ("note.txt", "no.txt")
        ]
        model = ScriptedModel([*calls, "Friday"], name=name)
        return Agent("reader", model=model, tools=[read]), model

    async def work(rt: Runtime) -> tuple[list[ToolMessage], ...]:
        (old, one), (new, two) = reader("old"), reader("new")
        async with rollout(rt, "r", reference=old, candidate=new, rule=AT_ONCE) as asked:
            await asked("When?")
            await asked.settle()
            assert asked.status().evidence.production == Tally(1)
            return tuple(
                [each for each in model.requests[-1].messages if isinstance(each, ToolMessage)]
                for model in (one, two)
            )

    one, two = within(work)
    assert "Ship on Friday" in str(one)
    assert one == two


def test_the_reference_is_the_shadow_where_the_candidate_answers() -> None:
    """One order for each call, whoever makes it."""

    async def work(rt: Runtime) -> list[str]:
        shop = Shop()
        rule = RolloutRule(calibration=0, sample=1.0)
        old, new = buyer(shop, "tea"), buyer(shop, "tea")
        async with rollout(rt, "buy", reference=old, candidate=new, rule=rule) as buy:
            for mode in (RolloutMode.CANARY, RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY):
                await raised_to(buy, mode)
                assert await buy("Buy tea.") == "done"
            await buy.settle()
            assert buy.status().mode is RolloutMode.DIRECT_ONLY
            return shop.orders

    assert within(work) == ["tea"] * 3


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (ErrorClass.SERVER, RolloutMode.DIRECT_ONLY),
        (ErrorClass.CONTENT_FILTER, RolloutMode.SHADOW),
    ],
)
def test_a_fallback_does_not_repeat_what_was_done(error: ErrorClass, after: RolloutMode) -> None:
    """The candidate orders and then fails, by an outage or by itself; the reference finds the order
    made."""

    async def work(rt: Runtime) -> list[str]:
        shop = Shop()
        script = [ORDERS["tea"], ScriptedReply(error=error)]
        failing = Agent("buyer", model=ScriptedModel(script, name="new"), tools=[shop.order])
        async with rollout(
            rt, "buy", reference=buyer(shop, "tea"), candidate=failing, rule=AT_ONCE
        ) as buy:
            await raised_to(buy, RolloutMode.DIRECT_ONLY)
            assert await buy("Buy tea.") == "done"
            assert buy.status().mode is after
            return shop.orders

    assert within(work) == ["tea"]


def test_code_replaces_an_agent() -> None:
    """An agent and a function are compared by what they answer."""

    async def shout(text: str) -> str:
        return text.upper()

    async def work(rt: Runtime) -> Tally:
        agent = Agent("shouter", model=ScriptedModel(["TEA", "RUM", "tea"]))
        async with rollout(rt, "s", reference=agent, candidate=shout, rule=AT_ONCE) as shouted:
            for text in ("tea", "rum", "tea"):
                await shouted(text)
                await shouted.settle()
            return shouted.status().evidence.production

    assert within(work) == Tally(3, 1)


def test_a_noisy_reference_is_found_first() -> None:
    """It is asked twice, and contradicts itself."""

    async def work(rt: Runtime) -> Rollout:
        agent = Agent("coin", model=ScriptedModel(["heads", "tails"] * 10))
        other = Agent("other", model=ScriptedModel(["heads"] * 10))
        rule = RolloutRule(calibration=2)
        async with rollout(rt, "coin", reference=agent, candidate=other, rule=rule) as toss:
            for _ in range(3):
                await toss("Toss.")
                await toss.settle()
            return toss.status()

    state = within(work)
    assert state.is_noisy
    assert (state.evidence.noise, state.evidence.pairs.runs) == (Tally(2, 2), 1)


def test_without_money_nobody_is_blamed() -> None:
    """The candidate could not be asked, which says nothing of it."""

    async def work(rt: Runtime) -> Tally:
        free = Agent("a", model=ScriptedModel("yes", name="free"))
        costly = Agent("b", model=ScriptedModel("yes"), budget="$0.000001")
        async with rollout(rt, "m", reference=free, candidate=costly, rule=AT_ONCE) as asked:
            assert await asked("?") == "yes"
            await asked.settle()
            return asked.status().evidence.production

    assert within(work) == Tally()


# The store.


class Clock:
    now_ms = 0

    def now(self) -> int:
        return self.now_ms

    async def wait_until(self, at_ms: int) -> None:
        raise AssertionError


def evidence(store: Any, clock: Clock | None = None) -> RolloutEvidence:
    initial = Rollout("r", AT_ONCE, Evidence("v1"), stage=5)
    return RolloutEvidence(store, clock or Clock(), initial, lambda _change: None)


async def counted(store: Any) -> Tally:
    """What one who comes later reads there."""
    fresh = evidence(store)
    await fresh.refresh()
    return fresh.machine.evidence.production


class SlowStore(MemoryStore):
    """Others come between any two of its calls."""

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        await asyncio.sleep(0)
        return await super().get(kind, key)

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        await asyncio.sleep(0)
        return await super().put(kind, key, value, expected=expected)


def test_processes_merge_on_one_store() -> None:
    """Each folds its events into what the others did; none is lost or counted twice."""

    async def work() -> tuple[Tally, int]:
        store = SlowStore()
        workers = [evidence(store) for _ in range(4)]
        await asyncio.gather(
            *(worker.record(Compared(agrees=True)) for worker in workers for _ in range(50))
        )
        for worker in workers:
            await worker.aclose()
        found = await store.get("rollouts", workers[0].key)
        assert found is not None
        assert len(found[0]) < 700, "it does not grow with the events, and keeps no ids of theirs"
        return await counted(store), found[1]

    tally, puts = asyncio.run(work())
    assert tally == Tally(200)
    assert puts < 50, "events that wait together are folded together"


def test_an_event_of_a_kept_call_counts_once() -> None:
    """However often a run is resumed, and in whichever process."""

    async def work() -> Tally:
        store = MemoryStore()
        for _ in range(3):
            worker = evidence(store)
            route = await worker.open_call("run.1", "inputs", is_kept=True)
            await worker.record(Compared(agrees=True), "run.1", route)
        return await counted(store)

    assert asyncio.run(work()) == Tally(1)


class DyingStore:
    """Raises at one of its calls, as if the process had been killed there; then it works."""

    def __init__(self, inner: MemoryStore, dies_at: int, *, after: bool) -> None:
        self.inner, self.left, self.after = inner, dies_at, after

    def __getattr__(self, name: str) -> Any:
        async def called(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise KeyboardInterrupt
            result = await getattr(self.inner, name)(*args, **named)
            if self.left == 0:
                raise KeyboardInterrupt
            return result

        return called


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(1, 14))
def test_a_kill_at_any_step_neither_loses_nor_doubles(step: int, after: bool) -> None:
    """The run is resumed, and makes the same call on the same route."""

    async def work() -> Tally:
        store = MemoryStore()
        dying = evidence(DyingStore(store, step, after=after))
        try:
            route = await dying.open_call("run.1", "inputs", is_kept=True)
            await dying.record(Compared(agrees=True), "run.1", route)
        except KeyboardInterrupt:
            pass
        again = evidence(store)
        await again.recover()
        await again.refresh()
        route = await again.open_call("run.1", "inputs", is_kept=True)
        await again.record(Compared(agrees=True), "run.1", route)
        return await counted(store)

    assert asyncio.run(work()) == Tally(1)


def test_a_resumed_call_takes_the_route_that_it_had() -> None:
    """On another one it would perform its effects again; here it was demoted meanwhile."""

    async def work() -> None:
        store = MemoryStore()
        first, second = evidence(store), evidence(store)
        route = await first.open_call("run.1", "inputs", is_kept=True)
        assert route.answers_by_candidate
        await second.record(Compared(agrees=False))
        assert not second.machine.route("inputs", "run.1").answers_by_candidate
        assert await second.open_call("run.1", "inputs", is_kept=True) == route
        await second.close_call("run.1")
        assert await second.open_call("run.1", "inputs", is_kept=True) == route

    asyncio.run(work())


def test_others_hear_of_a_demotion_within_a_second() -> None:
    """They read the state again when what they know is that old."""

    async def work() -> tuple[int, int]:
        store, clock = MemoryStore(), Clock()
        one, two = evidence(store, clock), evidence(store, clock)
        assert await two.refresh()
        await one.record(Compared(agrees=False))
        assert await two.refresh()
        before = two.machine.stage
        clock.now_ms += 1_000
        assert await two.refresh()
        return before, two.machine.stage

    assert asyncio.run(work()) == (5, 1)


def test_a_promotion_by_a_person_is_seen_while_comparisons_are_counted() -> None:
    """Only a demotion that the store does not know yet keeps what is read there out."""

    async def work() -> list[int]:
        one = evidence(SlowStore())
        await one.record(PersonDecided(PersonAction.DEMOTE, "ada"))
        counting = [asyncio.ensure_future(one.record(Compared(agrees=True))) for _ in range(3)]
        await asyncio.sleep(0)
        seen = [one.machine.stage]
        await one.record(PersonDecided(PersonAction.PROMOTE, "ada"))
        seen.append(one.machine.stage)
        await asyncio.gather(*counting)
        return seen

    assert asyncio.run(work()) == [4, 5]


class BrokenStore(MemoryStore):
    is_broken = False

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        if self.is_broken:
            raise StoreError("the disk is full; make room")
        return await super().put(kind, key, value, expected=expected)


def test_without_a_store_a_demotion_holds_and_is_kept_later() -> None:
    """Here at once, elsewhere when the store is back; until then the reference answers."""

    async def work() -> tuple[int, bool, bool, int, Tally]:
        store = BrokenStore()
        one = evidence(store)
        store.is_broken = True
        with pytest.raises(StoreError):
            await one.record(Compared(agrees=False))
        stage, unreachable = one.machine.stage, await one.refresh()
        store.is_broken = False
        reachable = await one.refresh()
        other = evidence(store)
        await other.refresh()
        return stage, unreachable, reachable, other.machine.stage, other.machine.evidence.production

    assert asyncio.run(work()) == (1, False, True, 1, Tally(1, 1))


def test_evidence_outlives_the_process(tmp_path: Path) -> None:
    """It is in the store of the journal."""

    async def work(rt: Runtime) -> int:
        async with rollout(rt, "d", reference=double, candidate=shift, rule=AT_ONCE) as doubled:
            await doubled(1)
            await doubled.settle()
            return doubled.status().evidence.production.runs

    assert [within(work, journal=tmp_path / "run.db") for _ in range(2)] == [1, 2]


# Misuse.


@pytest.mark.parametrize(
    ("name", "candidate", "said"),
    [("a/b", shift, "without /"), ("d", "gpt", "give an Agent"), ("d", len, "async def")],
)
def test_misuse_is_told(name: str, candidate: Any, said: str) -> None:
    """What is wrong, and what to write."""
    with pytest.raises(UserError, match=said):
        rollout(Runtime(), name, reference=double, candidate=candidate)


def test_a_closed_rollout_is_told() -> None:
    """It is opened by its block."""

    async def work(rt: Runtime) -> None:
        with pytest.raises(UserError, match="async with rollout"):
            await rollout(rt, "d", reference=double, candidate=shift)(1)

    within(work)


def test_an_edit_is_another_candidate() -> None:
    """Evidence of the old code says nothing of the new one."""
    rt = Runtime()
    versions = [
        rollout(rt, "d", reference=double, candidate=each).version for each in (shift, wrong, shift)
    ]
    assert versions[0] == versions[2] != versions[1]


def test_a_record_is_small() -> None:
    """After a million events as after the first."""
    state = Evidence("v1", production=Tally(1_000_000, 3))
    assert len(to_json(RolloutRecord(Rollout("r", AT_ONCE, state)))) < 700
