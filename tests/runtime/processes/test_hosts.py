"""The local host and the simulated one do what every host does."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from tests.hosts.conformance import (
    HOST_CHECKS,
    CheckedHost,
    HostCheck,
    MakeHost,
    ScriptedOutcome,
    SimulatedHost,
    World,
    effect_at,
)
from tests.patience import pass_virtual_time
from vegakit.effects import (
    AskHuman,
    CallModel,
    CallTool,
    Effect,
    EffectRequest,
    RunCoroutine,
    SetTimer,
)
from vegakit.errors import ProgramChanged
from vegakit.events import Answered, EffectCancelled, EffectOutcome, HostEvent, OutcomeArrived
from vegakit.host import Account, EffectHandler, LocalHost
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.ports import ClaimResult, Clock, Journal
from vegakit.store import MemoryJournal
from vegakit.testing import VirtualClock, run_virtual


def local(world: World, journal: Journal | None, kind: type[LocalHost] = LocalHost) -> LocalHost:
    clock = VirtualClock()

    async def perform(effect: Effect, account: Account) -> EffectOutcome:
        fate = world(effect)
        await clock.wait_until(clock.now() + fate.takes_ms)
        if isinstance(fate.outcome, Exception):
            raise fate.outcome
        return fate.outcome

    async def wait(effect: Effect, account: Account) -> EffectOutcome:
        assert isinstance(effect.request, SetTimer)
        await clock.wait_until(effect.request.due_ms)
        return Answered(None)

    handlers: dict[type[EffectRequest], EffectHandler] = {
        AskHuman: perform,
        CallModel: perform,
        CallTool: perform,
        RunCoroutine: perform,
        SetTimer: wait,
    }
    return kind(handlers, clock, journal)


@pytest.mark.parametrize("make", [local, SimulatedHost])
@pytest.mark.parametrize("check", HOST_CHECKS, ids=lambda check: check.__name__)
def test_a_host_does_what_every_host_does(check: HostCheck, make: MakeHost) -> None:
    """On virtual time."""
    run_virtual(check(make))


class SaysTwice(LocalHost):
    def tell(self, event: HostEvent) -> None:
        super().tell(event)
        super().tell(event)


class LosesWhatHasNotBegun(LocalHost):
    def _sweep(self, task: "asyncio.Task[None]") -> None:
        pass


class ForgetsOrder(LocalHost):
    async def next(self) -> Sequence[HostEvent]:
        return list(await super().next())[::-1]


class RingsEarly(LocalHost):
    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        if isinstance(effect.request, SetTimer):
            self.tell(OutcomeArrived(effect.key, effect.path, Answered(None)))
        else:
            super().start(effect, speculative=speculative)


class RemembersNothing(LocalHost):
    async def _run_recorded(self, effect: Effect) -> None:
        await self._run(effect)


class TrustsAnyRecord(LocalHost):
    def __init__(self, handlers: Any, clock: Clock, journal: Journal | None = None) -> None:
        trusting: Any = None if journal is None else Trusting(journal)
        super().__init__(handlers, clock, trusting)


class Trusting:
    """Says of no place that other code asked something else there."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        found = await self._journal.claim(effect, now, speculative=speculative)
        return structs.replace(found, changed=False)


class KeepsWhatWasAhead(LocalHost):
    """Failures of speculative calls are recorded as if the program had come to them."""

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        super().start(effect)


class CommitsNothing(LocalHost):
    def commit(self, key: EffectKey) -> None:
        pass


class LeavesTasks(LocalHost):
    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    "fault",
    [
        SaysTwice,
        LosesWhatHasNotBegun,
        ForgetsOrder,
        RingsEarly,
        RemembersNothing,
        TrustsAnyRecord,
        KeepsWhatWasAhead,
        CommitsNothing,
        LeavesTasks,
    ],
)
def test_a_host_that_does_not_is_found(fault: type[LocalHost]) -> None:
    """At least one check fails or waits for ever."""

    def make(world: World, journal: Journal | None) -> CheckedHost:
        return local(world, journal, fault)

    failed = 0
    for check in HOST_CHECKS:
        try:
            run_virtual(check(make))
        except (AssertionError, ProgramChanged, RuntimeError):
            failed += 1
    assert failed


def test_a_call_that_was_given_up_and_is_wanted_begins_when_it_has_landed() -> None:
    """However long that takes: a provider may be asked for one thing once at a time. It waits also
    if it is cancelled in its turn."""
    log: list[str] = []

    async def perform(effect: Effect, account: Account) -> EffectOutcome:
        log.append(f"begun {effect.again}")
        try:
            await pass_virtual_time(10)
        except asyncio.CancelledError:
            await pass_virtual_time(2)
            log.append(f"landed {effect.again}")
            raise
        return Answered(effect.again)

    async def given_up() -> list[EffectOutcome]:
        host = LocalHost({CallTool: perform}, VirtualClock())
        host.start(effect_at(0), speculative=True)
        await pass_virtual_time(1)
        host.cancel(effect_at(0).key)
        host.start(structs.replace(effect_at(0), again=1))
        await pass_virtual_time(1)
        host.cancel(effect_at(0).key)
        host.start(structs.replace(effect_at(0), again=2))
        came: list[EffectOutcome] = []
        while len(came) < 3:
            for event in await host.next():
                assert isinstance(event, OutcomeArrived)
                came.append(event.outcome)
        assert host.busy == 0
        return came

    assert run_virtual(given_up()) == [EffectCancelled(), EffectCancelled(), Answered(2)]
    assert log == ["begun 0", "landed 0", "begun 2"]


def test_of_thousands_of_outcomes_a_turn_puts_only_some_in_order() -> None:
    """All of them in one step would hold the loop for longer than others may wait."""

    async def perform(effect: Effect, account: Account) -> EffectOutcome:
        return Answered(effect.path.loop)

    async def taken() -> list[int]:
        host, sizes, all_came = LocalHost({CallTool: perform}, VirtualClock()), [], asyncio.Event()

        def take() -> None:
            sizes.append(len(host.take()))
            if sum(sizes) == 1_000:
                all_came.set()

        host.listen(take)
        for number in range(1_000):
            host.start(effect_at(number))
        await all_came.wait()
        return sizes

    sizes = run_virtual(taken())
    assert sum(sizes) == 1_000
    assert max(sizes) < 300


class SlowPages(MemoryJournal):
    """A journal that takes a moment to write."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        await pass_virtual_time(1)
        if self.error is not None:
            raise self.error


def test_what_was_charged_is_told_although_it_is_cancelled_while_it_is_kept() -> None:
    """The outcome is known by then; only its record is late."""

    async def cancelled_late() -> EffectOutcome:
        host = local(lambda effect: ScriptedOutcome(0, Answered("bought", Money(7))), SlowPages())
        host.start(effect_at(0))
        await pass_virtual_time(0.5)
        host.cancel(effect_at(0).key)
        [event] = await host.next()
        assert isinstance(event, OutcomeArrived)
        return event.outcome

    assert run_virtual(cancelled_late()) == Answered("bought", Money(7))


def test_a_journal_that_fails_ends_the_program() -> None:
    """Nobody is told an outcome that was not kept."""

    async def full_disk() -> None:
        host = local(lambda effect: ScriptedOutcome(), SlowPages(OSError("disk full")))
        host.start(effect_at(0))
        try:
            await host.next()
        finally:
            await host.aclose()

    with pytest.raises(OSError, match="disk full"):
        run_virtual(full_disk())


def test_a_cancelled_effect_says_what_it_was_charged() -> None:
    """Until then; the account is filled in while it runs."""

    async def perform(effect: Effect, account: Account) -> EffectOutcome:
        account.charged = 5
        await pass_virtual_time(10)
        return Answered(None)

    async def cancelled() -> EffectOutcome:
        host = LocalHost({CallTool: perform}, VirtualClock())
        host.start(effect_at(0))
        await pass_virtual_time(1)
        host.cancel(effect_at(0).key)
        [event] = await host.next()
        assert isinstance(event, OutcomeArrived)
        return event.outcome

    assert run_virtual(cancelled()) == EffectCancelled(Money(5))
