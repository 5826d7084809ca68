"""Conformance checks that every host passes, and the simulated host.

@pytest.mark.parametrize("check", HOST_CHECKS)
def test_my_host(check):
    asyncio.run(check(my_host))
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, structs

from vegakit.effects import (
    AskHuman,
    CallTool,
    Effect,
    EffectPath,
    EffectRequest,
    Incarnation,
    SetTimer,
    Site,
    changed,
    effect,
)
from vegakit.errors import BugError, ErrorClass, ProgramChanged
from vegakit.events import (
    Answered,
    Crashed,
    EffectCancelled,
    EffectOutcome,
    Failed,
    HostEvent,
    OutcomeArrived,
    in_program_order,
)
from vegakit.host import EffectRecorder
from vegakit.ids import EffectKey, ProgramId, ScopeId, TenantId
from vegakit.money import Money
from vegakit.ports import Host, Journal
from vegakit.store import MemoryJournal

# Checks of what every host does, run against whatever makes one.
#
# The host that is made carries out each effect as its world says: `ScriptedOutcome(takes_ms,
# outcome)`, where what it comes to is an outcome, or an error that the code which carries it out
# raises. A timer is the host's own affair.


class ScriptedOutcome(NamedTuple):
    """An outcome that comes after a while."""

    takes_ms: int = 0
    outcome: EffectOutcome | Exception = Answered(None)


World: TypeAlias = Callable[[Effect], ScriptedOutcome]


class CheckedHost(Host, Protocol):
    """A host that a check can look into."""

    def aclose(self) -> Awaitable[None]:
        """Nothing that was started goes on."""
        ...


MakeHost: TypeAlias = Callable[[World, Journal | None], CheckedHost]
HostCheck: TypeAlias = Callable[[MakeHost], Coroutine[Any, Any, None]]

_LONG_MS = 3_600_000
_DOWN = Failed(ErrorClass.SERVER, "down", charged=Money(3))


def effect_at(place: int, request: EffectRequest | None = None) -> Effect:
    """Return the effect at a place of a loop."""
    path = EffectPath(
        TenantId("t"), ProgramId("p"), (Incarnation("a", 1),), Site("send", 1), (place,)
    )
    return effect(path, request or CallTool("look", {"at": place}, ScopeId("")))


async def _outcomes(host: CheckedHost, count: int) -> dict[int, EffectOutcome]:
    """The next so many, by place; none twice."""
    came: dict[int, EffectOutcome] = {}
    while len(came) < count:
        for event in await host.next():
            assert isinstance(event, OutcomeArrived)
            place = event.path.loop[0]
            assert place not in came, f"a second outcome of {event.path}"
            came[place] = event.outcome
    return came


async def _says_nothing_more(host: CheckedHost, due_ms: int = 1) -> None:
    """A last effect brings its own outcome and no other."""
    host.start(effect_at(999, SetTimer(host.now + due_ms)))
    assert list(await _outcomes(host, 1)) == [999]


async def _brings_one_outcome_of_each(make: MakeHost) -> None:
    failed = Failed(ErrorClass.SERVER, "down", charged=Money(3))
    fates = [
        ScriptedOutcome(20, Answered("late")),
        ScriptedOutcome(0, failed),
        ScriptedOutcome(10, Answered(None)),
    ]
    host = make(lambda effect: fates[effect.path.loop[0]], None)
    for place in range(3):
        host.start(effect_at(place))
    assert await _outcomes(host, 3) == {n: fate.outcome for n, fate in enumerate(fates)}
    await _says_nothing_more(host)
    await host.aclose()


async def _answers_in_program_order(make: MakeHost) -> None:
    host = make(lambda effect: ScriptedOutcome(5), None)
    for place in (2, 0, 3, 1):
        host.start(effect_at(place))
    came: list[HostEvent] = []
    while len(came) < 4:
        events: Sequence[HostEvent] = await host.next()
        assert list(events) == in_program_order(events)
        assert events, "a wake-up without an event"
        came.extend(events)
    await host.aclose()


async def _cancels_what_is_under_way(make: MakeHost) -> None:
    host = make(lambda effect: ScriptedOutcome(_LONG_MS), None)
    host.start(effect_at(0))
    host.start(effect_at(1, SetTimer(host.now + 5)))
    assert list(await _outcomes(host, 1)) == [1]
    host.cancel(effect_at(0).key)
    assert await _outcomes(host, 1) == {0: EffectCancelled()}
    await _says_nothing_more(host)
    await host.aclose()


async def _cancels_what_has_not_begun(make: MakeHost) -> None:
    host = make(lambda effect: ScriptedOutcome(_LONG_MS), MemoryJournal())
    host.start(effect_at(0))
    host.cancel(effect_at(0).key)
    assert await _outcomes(host, 1) == {0: EffectCancelled()}
    await _says_nothing_more(host)
    await host.aclose()


async def _cancels_once(make: MakeHost) -> None:
    """Cancelled twice, or when it is over, or never started: nothing more is said of it."""
    host = make(lambda effect: ScriptedOutcome(_LONG_MS if effect.path.loop[0] else 0), None)
    host.start(effect_at(0))
    assert await _outcomes(host, 1) == {0: Answered(None)}
    host.start(effect_at(1))
    for place in (0, 1, 1, 2):
        host.cancel(effect_at(place).key)
    assert await _outcomes(host, 1) == {1: EffectCancelled()}
    await _says_nothing_more(host)
    await host.aclose()


async def _rings_no_timer_early(make: MakeHost) -> None:
    host = make(lambda effect: ScriptedOutcome(), None)
    due_ms = {place: host.now + wait for place, wait in enumerate((30, 1, 0, -5))}
    for place, at_ms in due_ms.items():
        host.start(effect_at(place, SetTimer(at_ms)))
    rung = 0
    while rung < len(due_ms):
        for event in await host.next():
            assert isinstance(event, OutcomeArrived)
            assert host.now >= due_ms[event.path.loop[0]]
            rung += 1
    await host.aclose()


async def _cancels_a_timer(make: MakeHost) -> None:
    host = make(lambda effect: ScriptedOutcome(), None)
    timer = effect_at(0, SetTimer(host.now + _LONG_MS))
    host.start(timer)
    host.cancel(timer.key)
    assert await _outcomes(host, 1) == {0: EffectCancelled()}
    await host.aclose()


async def _tells_a_crash_as_an_outcome(make: MakeHost) -> None:
    """And what else is under way goes on."""
    fates = [ScriptedOutcome(1, ZeroDivisionError("by nought")), ScriptedOutcome(10)]
    host = make(lambda effect: fates[effect.path.loop[0]], None)
    host.start(effect_at(0))
    host.start(effect_at(1))
    came = await _outcomes(host, 2)
    assert came == {0: Crashed("ZeroDivisionError: by nought"), 1: Answered(None)}
    await host.aclose()


async def _keeps_before_it_tells(make: MakeHost) -> None:
    pages = MemoryJournal()
    host = make(lambda effect: ScriptedOutcome(1, Answered("seen")), pages)
    host.start(effect_at(0))
    assert await _outcomes(host, 1) == {0: Answered("seen")}
    assert await pages.find(effect_at(0).key) == (effect_at(0).digest, Answered("seen"))
    await host.aclose()


async def _performs_nothing_twice(make: MakeHost) -> None:
    """Nor is a person asked twice, although the question's time ends later on the second run."""
    pages, performed = MemoryJournal(), list[str]()

    def world(asked: Effect) -> ScriptedOutcome:
        performed.append(str(asked.path))
        return ScriptedOutcome(1, Answered("bought"))

    for run in range(2):
        host = make(world, pages)
        host.start(effect_at(0))
        host.start(effect_at(1, AskHuman("clarification", "which?", host.now + _LONG_MS + run)))
        assert await _outcomes(host, 2) == {0: Answered("bought"), 1: Answered("bought")}
        await host.aclose()
    assert len(performed) == 2


async def _gives_no_answer_to_another_request(make: MakeHost) -> None:
    """A request of other code at the same place has no recorded answer: the program cannot go on,
    and who waits for the next events is told why."""
    pages, performed = MemoryJournal(), list[str]()
    other = effect(effect_at(0).path, CallTool("pay", {}, ScopeId("")), code="old")
    await pages.claim(other, 0)
    await pages.record(other.key, Answered("wrong"))

    def world(asked: Effect) -> ScriptedOutcome:
        performed.append(str(asked.path))
        return ScriptedOutcome()

    host = make(world, pages)
    host.start(effect_at(0))
    try:
        came = await host.next()
    except ProgramChanged:
        assert performed == []
    else:
        raise AssertionError(f"an answer to another request: {came}")
    await host.aclose()


async def _finds_an_edit_when_it_commits(make: MakeHost) -> None:
    """A speculative effect may differ from what was recorded; one that the program comes to may
    not."""
    pages = MemoryJournal()
    await pages.claim(effect(effect_at(0).path, CallTool("pay", {}, ScopeId("")), code="old"), 0)
    host = make(lambda _: ScriptedOutcome(5), pages)
    host.start(effect_at(0), speculative=True)
    assert await _outcomes(host, 1) == {0: Answered(None)}
    host.commit(effect_at(0).key)
    host.start(effect_at(1))
    try:
        came = await host.next()
    except ProgramChanged:
        pass
    else:
        raise AssertionError(f"the program went on: {came}")
    await host.aclose()


async def _keeps_no_failure_before_its_turn(make: MakeHost) -> None:
    """It may not be met then. An answer is kept, whether the program comes to it or not."""
    pages, fates = (
        MemoryJournal(),
        [ScriptedOutcome(1, _DOWN), ScriptedOutcome(1, _DOWN), ScriptedOutcome(1, Answered("yes"))],
    )
    host = make(lambda effect: fates[effect.path.loop[0]], pages)
    for place in range(3):
        host.start(effect_at(place), speculative=True)
    assert await _outcomes(host, 3) == {n: fate.outcome for n, fate in enumerate(fates)}
    assert [(await pages.find(effect_at(place).key) or ("", None))[1] for place in range(3)] == [
        None,
        None,
        Answered("yes"),
    ]
    host.commit(effect_at(0).key)
    host.cancel(effect_at(1).key)
    await _says_nothing_more(host)
    assert await pages.find(effect_at(0).key) == (effect_at(0).digest, _DOWN)
    assert await pages.find(effect_at(1).key) is None
    await host.aclose()


async def _keeps_what_is_committed_meanwhile(make: MakeHost) -> None:
    pages = MemoryJournal()
    host = make(lambda _: ScriptedOutcome(5, _DOWN), pages)
    host.start(effect_at(0), speculative=True)
    host.start(effect_at(1, SetTimer(host.now + 1)))
    assert list(await _outcomes(host, 1)) == [1]
    host.commit(effect_at(0).key)
    assert await _outcomes(host, 1) == {0: _DOWN}
    assert await pages.find(effect_at(0).key) == (effect_at(0).digest, _DOWN)
    assert await pages.cut_off() == []
    await host.aclose()


async def _begins_again_when_it_has_landed(make: MakeHost) -> None:
    """An effect that was given up and is wanted after all has first the one outcome, then the
    other."""
    begun = list[int]()

    def world(asked: Effect) -> ScriptedOutcome:
        begun.append(asked.again)
        return (
            ScriptedOutcome(_LONG_MS) if not asked.again else ScriptedOutcome(1, Answered("second"))
        )

    host = make(world, None)
    host.start(effect_at(0), speculative=True)
    host.start(effect_at(1, SetTimer(host.now + 5)))
    assert list(await _outcomes(host, 1)) == [1]
    host.cancel(effect_at(0).key)
    host.start(structs.replace(effect_at(0), again=1))
    assert await _outcomes(host, 1) == {0: EffectCancelled()}
    assert await _outcomes(host, 1) == {0: Answered("second")}
    assert begun == [0, 1]
    await _says_nothing_more(host)
    await host.aclose()


async def _leaves_nothing_behind(make: MakeHost) -> None:
    before = asyncio.all_tasks()
    host = make(lambda effect: ScriptedOutcome(_LONG_MS), MemoryJournal())
    for place in range(3):
        host.start(effect_at(place))
    host.start(effect_at(3, SetTimer(host.now + _LONG_MS)))
    await asyncio.sleep(0)
    host.start(effect_at(4))
    await host.aclose()
    assert asyncio.all_tasks() == before


HOST_CHECKS: tuple[HostCheck, ...] = (
    _brings_one_outcome_of_each,
    _answers_in_program_order,
    _cancels_what_is_under_way,
    _cancels_what_has_not_begun,
    _cancels_once,
    _rings_no_timer_early,
    _cancels_a_timer,
    _tells_a_crash_as_an_outcome,
    _keeps_before_it_tells,
    _performs_nothing_twice,
    _gives_no_answer_to_another_request,
    _finds_an_edit_when_it_commits,
    _keeps_no_failure_before_its_turn,
    _keeps_what_is_committed_meanwhile,
    _begins_again_when_it_has_landed,
    _leaves_nothing_behind,
)


# A host without tasks: what each effect comes to is worked out when it is started.
#
# start ─▶ fate(effect) ─▶ waits until it is due ─ time jumps there ─▶ next()
#
# It drives a program through any history in one plain loop, and a program that a person wrote to
# be resumed over a journal that is held in the hand.


class _InFlight(Struct):
    """`due_ms` None: it has not begun."""

    effect: Effect
    speculative: bool
    due_ms: int | None = None
    outcome: EffectOutcome | None = None
    is_found: bool = False


class SimulatedHost:
    """Implements `ports.Host`."""

    def __init__(self, world: World, journal: Journal | None = None, now_ms: int = 0) -> None:
        self._world = world
        self._recorder = EffectRecorder(journal)
        self._in_flight: list[_InFlight] = []
        self._committed: list[EffectKey] = []
        self.now = now_ms

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        """Start an effect. It is known when it is due once the journal was asked."""
        self._in_flight.append(_InFlight(effect, speculative))

    def commit(self, key: EffectKey) -> None:
        """Commit an effect at the next look at the journal, before anything else is claimed."""
        for one in self._in_flight:
            if one.effect.key == key:
                one.speculative = False
        self._committed.append(key)

    def cancel(self, key: EffectKey, *, late: bool = False) -> None:
        mine = [one for one in self._in_flight if one.effect.key == key]
        if mine:
            mine[-1].due_ms, mine[-1].outcome = self.now, EffectCancelled()
        else:
            self._recorder.forget(key)

    async def next(self) -> Sequence[HostEvent]:
        await self._commit_all()
        in_flight_keys = set[EffectKey]()
        for one in self._in_flight:
            if one.due_ms is None and one.effect.key not in in_flight_keys:
                await self._begin(one)
            in_flight_keys.add(one.effect.key)
        if not self._in_flight:
            raise BugError("nothing was started, so nothing will ever happen")
        self.now = max(
            self.now, min(one.due_ms for one in self._in_flight if one.due_ms is not None)
        )
        landed: dict[EffectKey, _InFlight] = {}
        for one in self._in_flight:
            if one.due_ms is not None and one.due_ms <= self.now:
                landed.setdefault(one.effect.key, one)
        self._in_flight = [one for one in self._in_flight if landed.get(one.effect.key) is not one]
        return in_program_order([await self._land(one) for one in landed.values()])

    async def aclose(self) -> None:
        await self._commit_all()
        self._in_flight.clear()

    async def _commit_all(self) -> None:
        keys, self._committed = self._committed, []
        for key in keys:
            if (effect := self._recorder.is_changed(key)) is not None:
                raise changed(effect)
            await self._recorder.commit(key, self.now)

    async def _begin(self, one: _InFlight) -> None:
        effect = one.effect
        self._recorder.begin(effect, speculative=one.speculative)
        outcome, takes_ms = await self._recorder.claim(effect, self.now), 0
        one.is_found = outcome is not None
        if outcome is None and isinstance(effect.request, SetTimer):
            takes_ms, outcome = max(0, effect.request.due_ms - self.now), Answered(None)
        elif outcome is None:
            takes_ms, outcome = _outcome_after(self._world(effect))
        one.due_ms, one.outcome = self.now + takes_ms, outcome

    async def _land(self, one: _InFlight) -> OutcomeArrived:
        assert one.outcome is not None
        if isinstance(one.outcome, EffectCancelled):
            self._recorder.forget(one.effect.key)
        elif not one.is_found:
            await self._recorder.keep(one.effect, one.outcome)
        return OutcomeArrived(one.effect.key, one.effect.path, one.outcome)


def _outcome_after(fate: ScriptedOutcome) -> tuple[int, EffectOutcome]:
    if isinstance(fate.outcome, Exception):
        error = fate.outcome
        return fate.takes_ms, Crashed(f"{type(error).__name__}: {error}")
    return fate.takes_ms, fate.outcome
