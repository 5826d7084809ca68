"""Checks of what every ledger does, to be run against an empty one.

    @pytest.mark.parametrize("check", LEDGER_CHECKS)
    def test_my_ledger(check):
        asyncio.run(check(MyLedger()))

Each check opens what it needs and leaves the ledger to its caller to close.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from vegakit.errors import BugError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import (
    LEASE_MS,
    Admission,
    CapOverrun,
    ClaimState,
    InsufficientBudget,
    LeaseWatch,
    OnExceed,
    Reserved,
    ScopeClosed,
    ScopeRule,
    Settlement,
    WindowRule,
)
from vegakit.ports import Ledger

LedgerCheck: TypeAlias = Callable[[Ledger], Awaitable[None]]

_ROOT, _LIMIT, _PART = ScopeId("root"), ScopeId("limit"), ScopeId("part")
_CALL, _OTHER = EffectKey("call"), EffectKey("other")
_ME, _YOU = HolderId("me"), HolderId("you")
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


async def settle_ended(ledger: Ledger, now: int) -> Sequence[tuple[str, Settlement]]:
    """Settle what ended holders left, as a runtime does that has just been opened and knows
    nobody."""
    return await ledger.expire(LeaseWatch().ended(await ledger.leases(), now), now)


async def _opened(ledger: Ledger, cap: int | None = 100) -> None:
    await ledger.open(_ROOT, ScopeRule(None if cap is None else Money(cap)), 0)
    await ledger.renew(_ME, 1000)


async def _reserve(
    ledger: Ledger,
    amount: int,
    effect: EffectKey = _CALL,
    scope: ScopeId = _ROOT,
    now: int = 0,
    *,
    sent: bool = False,
) -> Admission:
    return await ledger.reserve(effect, 1, scope, Money(amount), _ME, now, sent=sent)


async def _figures(ledger: Ledger, scope_id: ScopeId = _ROOT, now: int = 0) -> tuple[int, int]:
    scope = await ledger.scope(scope_id, now)
    assert scope is not None
    return scope.settled, scope.reserved


async def _state(ledger: Ledger, effect: EffectKey = _CALL) -> ClaimState | None:
    claim = await ledger.claim(effect, 1)
    return claim and claim.state


async def _reserves_up_to_the_cap(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    assert await _reserve(ledger, 60) == Reserved()
    refused = await _reserve(ledger, 41, _OTHER)
    assert refused == InsufficientBudget(
        _ROOT, Money(100), Money(0), Money(60), Money(41), hopeless=False
    )
    assert await ledger.claim(_OTHER, 1) is None
    assert await _reserve(ledger, 40, _OTHER) == Reserved()
    assert await _figures(ledger) == (0, 100)


async def _settles_the_truth_and_frees_the_rest(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60)
    assert await ledger.mark_sent(_CALL, 1)
    assert await ledger.answer(_CALL, 1, Money(20), 5) == Settlement(ClaimState.ANSWERED, Money(20))
    assert await _figures(ledger) == (20, 0)
    assert await ledger.room(_ROOT, 5) == 80


async def _settles_once(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60, sent=True)
    await ledger.answer(_CALL, 1, Money(20), 5)
    assert await ledger.answer(_CALL, 1, Money(50), 6) == Settlement(ClaimState.ANSWERED, Money(0))
    assert await _figures(ledger) == (20, 0)


async def _lets_one_caller_send(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60)
    asked = await asyncio.gather(*(ledger.mark_sent(_CALL, 1) for _ in range(10)))
    assert asked.count(True) == 1


async def _marks_as_sent_what_it_reserves_to_be_sent(ledger: Ledger) -> None:
    await _opened(ledger)
    assert await _reserve(ledger, 60, sent=True) == Reserved()
    assert await _state(ledger) is ClaimState.SENT
    assert not await ledger.mark_sent(_CALL, 1)
    assert isinstance(await _reserve(ledger, 60, _OTHER, sent=True), InsufficientBudget)


async def _claims_an_attempt_once(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 10)
    try:
        await _reserve(ledger, 10)
    except BugError:
        assert await _figures(ledger) == (0, 10)
    else:
        raise AssertionError("the same attempt was claimed twice")


async def _releases_what_was_not_sent(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60)
    assert await ledger.release(_CALL, 1, 0) == Settlement(ClaimState.RELEASED, Money(0))
    assert not await ledger.mark_sent(_CALL, 1)
    assert await _figures(ledger) == (0, 0)


async def _charges_what_was_cut_off_until_a_late_answer(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60, sent=True)
    assert await ledger.cut_off(_CALL, 1, 7) == Settlement(ClaimState.UNKNOWN, Money(60))
    assert await ledger.answer(_CALL, 1, Money(10), 9) == Settlement(
        ClaimState.ANSWERED, Money(-50)
    )
    assert await _figures(ledger) == (10, 0)


async def _reports_a_bill_above_its_reservation(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    await _reserve(ledger, 90, sent=True)
    settled = await ledger.answer(_CALL, 1, Money(130), 1)
    assert settled.notices == (CapOverrun(_ROOT, Money(30)),)
    assert isinstance(await _reserve(ledger, 0, _OTHER), InsufficientBudget)


async def _counts_a_call_in_every_scope_around_it(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    await ledger.open(_LIMIT, ScopeRule(Money(40)), 0, parent=_ROOT)
    assert await _reserve(ledger, 30, scope=_LIMIT) == Reserved()
    assert await _figures(ledger, _LIMIT) == await _figures(ledger) == (0, 30)
    assert await ledger.room(_LIMIT, 0) == 10


async def _counts_a_call_in_the_other_root_that_its_scope_names(ledger: Ledger) -> None:
    """In one step: reserved, refused, settled and freed in both, whichever tree it is of."""
    agent, again = ScopeId("agent"), EffectKey("again")
    await ledger.open(agent, ScopeRule(Money(40), window=WindowRule(Period.DAY)), 0)
    for number, run in enumerate(map(ScopeId, ("run 1", "run 2"))):
        inside = ScopeId(f"{run}/agent")
        await ledger.open(run, ScopeRule(Money(30)), 0)
        assert await ledger.open(inside, ScopeRule(None, also=agent), 0, parent=run) == Reserved()
        key = EffectKey(f"call {number}")
        assert await _reserve(ledger, 25, key, scope=inside, sent=True) == (
            Reserved()
            if number == 0
            else InsufficientBudget(
                agent, Money(40), Money(0), Money(25), Money(25), False, _DAY_MS
            )
        )
    assert await _figures(ledger, agent) == await _figures(ledger, ScopeId("run 1")) == (0, 25)
    assert await ledger.room(ScopeId("run 2/agent"), 0) == 15
    await ledger.answer(EffectKey("call 0"), 1, Money(20), 1)
    assert await _figures(ledger, agent) == await _figures(ledger, ScopeId("run 1")) == (20, 0)
    assert await _reserve(ledger, 20, again, scope=ScopeId("run 2/agent")) == Reserved()
    await ledger.close(ScopeId("run 2"), 2)
    await settle_ended(ledger, LEASE_MS)
    assert await _figures(ledger, agent, LEASE_MS) == (20, 0)
    assert await _figures(ledger, agent, _DAY_MS) == (0, 0)


async def _sets_a_part_aside_and_takes_the_rest_back(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    assert await ledger.open(_PART, ScopeRule(Money(70)), 0, parent=_ROOT, part=True) == Reserved()
    assert await _figures(ledger) == (0, 70)
    await _reserve(ledger, 50, scope=_PART, sent=True)
    await ledger.answer(_CALL, 1, Money(20), 1)
    await ledger.close(_PART, 2)
    assert await _figures(ledger) == (20, 0)


async def _refuses_a_part_that_does_not_fit(ledger: Ledger) -> None:
    await _opened(ledger, 50)
    verdict = await ledger.open(_PART, ScopeRule(Money(70)), 0, parent=_ROOT, part=True)
    assert isinstance(verdict, InsufficientBudget)
    assert await ledger.scope(_PART, 0) is None


async def _closes_what_is_inside_too(ledger: Ledger) -> None:
    await _opened(ledger)
    await ledger.open(_LIMIT, ScopeRule(None), 0, parent=_ROOT)
    await ledger.open(_PART, ScopeRule(Money(5)), 0, parent=_LIMIT, part=True)
    await ledger.close(_ROOT, 1)
    assert await _reserve(ledger, 1, scope=_PART) == ScopeClosed(_PART)
    assert await _figures(ledger) == (0, 0)


async def _takes_a_declared_rule_and_keeps_the_figures(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    await _reserve(ledger, 60)
    assert await ledger.open(_ROOT, ScopeRule(Money(50), OnExceed.WARN), 0) == Reserved()
    assert await _figures(ledger) == (0, 60)
    assert isinstance(await _reserve(ledger, 1, _OTHER), Reserved)
    await ledger.close(_ROOT, 1)
    assert await ledger.open(_ROOT, ScopeRule(Money(50)), 2) == ScopeClosed(_ROOT)


async def _raises_a_cap(ledger: Ledger) -> None:
    await _opened(ledger, 10)
    assert await ledger.set_cap(_ROOT, Money(30), 0) == Reserved()
    assert await _reserve(ledger, 30) == Reserved()


async def _empties_a_window_when_its_period_ends(ledger: Ledger) -> None:
    hourly = ScopeRule(Money(10), window=WindowRule(Period.HOUR))
    await ledger.open(_ROOT, hourly, 0)
    await ledger.renew(_ME, 9 * _HOUR_MS)
    await _reserve(ledger, 10, sent=True)
    await ledger.answer(_CALL, 1, Money(10), 5)
    refused = await _reserve(ledger, 1, _OTHER, now=6)
    assert isinstance(refused, InsufficientBudget)
    assert refused.refills_ms == _HOUR_MS
    assert await _reserve(ledger, 10, _OTHER, now=_HOUR_MS) == Reserved()


async def _settles_what_dead_holders_left(ledger: Ledger) -> None:
    await _opened(ledger)
    await ledger.renew(_YOU, 5 * LEASE_MS)
    await _reserve(ledger, 10, EffectKey("sent"), sent=True)
    await _reserve(ledger, 20, EffectKey("reserved"))
    await ledger.reserve(EffectKey("yours"), 1, _ROOT, Money(30), _YOU, 0)
    assert await settle_ended(ledger, LEASE_MS - 1) == []
    assert dict(await settle_ended(ledger, LEASE_MS)) == {
        "sent#1": Settlement(ClaimState.UNKNOWN, Money(10)),
        "reserved#1": Settlement(ClaimState.RELEASED, Money(0)),
    }
    assert await _figures(ledger) == (10, 30)
    assert await ledger.leases() == {_YOU: 5 * LEASE_MS}


async def _renews_the_lease_of_who_reserves(ledger: Ledger) -> None:
    """A reservation renews the lease where that is due; a lease that has ended, or was settled by
    others, is no hindrance."""
    await _opened(ledger)
    await _reserve(ledger, 10, sent=True)
    assert await ledger.leases() == {_ME: LEASE_MS}
    await _reserve(ledger, 10, EffectKey("soon"), now=LEASE_MS // 2)
    assert await ledger.leases() == {_ME: LEASE_MS}
    late = 3 * LEASE_MS
    await settle_ended(ledger, late)
    assert await _reserve(ledger, 10, EffectKey("late"), now=late) == Reserved()
    assert await ledger.leases() == {_ME: late + LEASE_MS}
    assert await ledger.answer(_CALL, 1, Money(4), late) == Settlement(
        ClaimState.ANSWERED, Money(-6)
    )
    assert await _figures(ledger, now=late) == (4, 10)


async def _leaves_alone_who_renewed_meanwhile(ledger: Ledger) -> None:
    """Others may act between the look at the leases and their end."""
    await _opened(ledger)
    await _reserve(ledger, 10, sent=True)
    seen = await ledger.leases()
    await ledger.renew(_ME, LEASE_MS + 1)
    assert await ledger.expire(seen, LEASE_MS) == []
    assert await _figures(ledger) == (0, 10)
    assert await ledger.expire({_YOU: 1}, LEASE_MS) == []


async def _prunes_what_is_settled_and_old(ledger: Ledger) -> None:
    await _opened(ledger)
    await ledger.open(_PART, ScopeRule(Money(50)), 0, parent=_ROOT, part=True)
    await _reserve(ledger, 10, scope=_PART, sent=True)
    await ledger.answer(_CALL, 1, Money(10), 5)
    await _reserve(ledger, 10, _OTHER)
    await ledger.close(_PART, 6)
    assert await ledger.prune(5) == 0
    assert await ledger.prune(6) == 1
    assert await _state(ledger) is None
    assert await _state(ledger, _OTHER) is ClaimState.RESERVED
    assert await ledger.scope(_PART, 7) is None
    assert await _figures(ledger) == (10, 10)


async def _answers_do_not_change_afterwards(ledger: Ledger) -> None:
    await _opened(ledger)
    scope = await ledger.scope(_ROOT, 0)
    await _reserve(ledger, 10)
    claim = await ledger.claim(_CALL, 1)
    await ledger.mark_sent(_CALL, 1)
    assert scope is not None
    assert claim is not None
    assert (scope.reserved, claim.state) == (0, ClaimState.RESERVED)


async def _admits_exactly_what_fits_among_many(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    effects = [EffectKey(f"call {number}") for number in range(50)]
    verdicts = await asyncio.gather(*(_reserve(ledger, 10, effect) for effect in effects))
    assert sum(isinstance(verdict, Reserved) for verdict in verdicts) == 10
    assert await _figures(ledger) == (0, 100)


async def _carries_out_what_a_cancelled_caller_began(ledger: Ledger) -> None:
    """A caller who is cancelled while it reserves looks with `claim` what became of it."""
    await _opened(ledger)
    caller = asyncio.ensure_future(_reserve(ledger, 10))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert await _state(ledger) is ClaimState.RESERVED
    await ledger.release(_CALL, 1, 1)
    assert await _figures(ledger) == (0, 0)


async def _knows_nothing_of_what_was_never_there(ledger: Ledger) -> None:
    assert await ledger.scope(_ROOT, 0) is None
    assert await ledger.claim(_CALL, 1) is None
    assert await ledger.leases() == {}
    assert await settle_ended(ledger, 10**9) == []


LEDGER_CHECKS: tuple[LedgerCheck, ...] = (
    _reserves_up_to_the_cap,
    _settles_the_truth_and_frees_the_rest,
    _settles_once,
    _lets_one_caller_send,
    _marks_as_sent_what_it_reserves_to_be_sent,
    _claims_an_attempt_once,
    _releases_what_was_not_sent,
    _charges_what_was_cut_off_until_a_late_answer,
    _reports_a_bill_above_its_reservation,
    _counts_a_call_in_every_scope_around_it,
    _counts_a_call_in_the_other_root_that_its_scope_names,
    _sets_a_part_aside_and_takes_the_rest_back,
    _refuses_a_part_that_does_not_fit,
    _closes_what_is_inside_too,
    _takes_a_declared_rule_and_keeps_the_figures,
    _raises_a_cap,
    _empties_a_window_when_its_period_ends,
    _settles_what_dead_holders_left,
    _renews_the_lease_of_who_reserves,
    _leaves_alone_who_renewed_meanwhile,
    _prunes_what_is_settled_and_old,
    _answers_do_not_change_afterwards,
    _admits_exactly_what_fits_among_many,
    _carries_out_what_a_cancelled_caller_began,
    _knows_nothing_of_what_was_never_there,
)
