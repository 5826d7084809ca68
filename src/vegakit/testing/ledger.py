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
    EVERYBODY,
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
) -> Admission:
    return await ledger.reserve(effect, 1, scope, Money(amount), _ME, now)


async def _figures(
    ledger: Ledger, owner: ScopeId = _ROOT, period: Period | None = None, now: int = 0
) -> tuple[int, int]:
    counter = await ledger.counter(owner, period, now)
    return counter.settled, counter.reserved


async def _state(ledger: Ledger, effect: EffectKey = _CALL) -> ClaimState | None:
    claims = (await ledger.claims([effect])).get(effect, ())
    return claims[0].state if claims else None


async def _reserves_up_to_the_cap(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    assert await _reserve(ledger, 60) == Reserved()
    refused = await _reserve(ledger, 41, _OTHER)
    assert refused == InsufficientBudget(
        _ROOT, Money(100), Money(0), Money(60), Money(41), hopeless=False
    )
    assert await _state(ledger, _OTHER) is None
    assert await _reserve(ledger, 40, _OTHER) == Reserved()
    assert await _figures(ledger) == (0, 100)


async def _settles_the_truth_and_frees_the_rest(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60)
    assert await ledger.answer(_CALL, 1, Money(20), 5) == Settlement(ClaimState.ANSWERED, Money(20))
    assert await _figures(ledger) == (20, 0)
    assert await ledger.room(_ROOT, 5) == 80


async def _settles_once(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60)
    await ledger.answer(_CALL, 1, Money(20), 5)
    assert await ledger.answer(_CALL, 1, Money(50), 6) == Settlement(ClaimState.ANSWERED, Money(0))
    assert await _figures(ledger) == (20, 0)


async def _tells_all_attempts_at_many_calls(ledger: Ledger) -> None:
    """However a name begins: it is no part of another one."""
    await _opened(ledger)
    beside = EffectKey(f"{_CALL}.more")
    assert await ledger.claims([]) == {}
    await _reserve(ledger, 20)
    await ledger.answer(_CALL, 1, Money(5), 1)
    await ledger.reserve(_CALL, 2, _ROOT, Money(30), _ME, 1)
    await _reserve(ledger, 10, _OTHER)
    await _reserve(ledger, 10, beside)
    claims = await ledger.claims([_CALL, _OTHER, EffectKey("unknown")])
    states = {
        key: [(claim.state, claim.charged) for claim in attempts]
        for key, attempts in claims.items()
    }
    assert states == {
        _CALL: [(ClaimState.ANSWERED, 5), (ClaimState.SENT, 0)],
        _OTHER: [(ClaimState.SENT, 0)],
    }


async def _claims_an_attempt_once(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 10)
    try:
        await _reserve(ledger, 10)
    except BugError:
        assert await _figures(ledger) == (0, 10)
    else:
        raise AssertionError("the same attempt was claimed twice")


async def _charges_what_was_cut_off_until_a_late_answer(ledger: Ledger) -> None:
    await _opened(ledger)
    await _reserve(ledger, 60)
    assert await ledger.cut_off(_CALL, 1, 7) == Settlement(ClaimState.UNKNOWN, Money(60))
    assert await ledger.answer(_CALL, 1, Money(10), 9) == Settlement(
        ClaimState.ANSWERED, Money(-50)
    )
    assert await _figures(ledger) == (10, 0)


async def _reports_a_bill_above_its_reservation(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    await _reserve(ledger, 90)
    settled = await ledger.answer(_CALL, 1, Money(130), 1)
    assert settled.notices == (CapOverrun(_ROOT, Money(30)),)
    assert isinstance(await _reserve(ledger, 0, _OTHER), InsufficientBudget)


async def _counts_a_call_in_every_scope_around_it(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    await ledger.open(_LIMIT, ScopeRule(Money(40)), 0, parent=_ROOT)
    assert await _reserve(ledger, 30, scope=_LIMIT) == Reserved()
    assert await _figures(ledger, _LIMIT) == await _figures(ledger) == (0, 30)
    assert await ledger.room(_LIMIT, 0) == 10


async def _counts_a_call_for_the_owners_that_its_client_names(ledger: Ledger) -> None:
    """In one step: reserved, refused, settled and freed for both, whoever makes the call."""
    agent, again = ScopeId("agent"), EffectKey("again")
    rules = {agent: ScopeRule(Money(40), period=Period.DAY)}
    for number, run in enumerate(map(ScopeId, ("run 1", "run 2"))):
        await ledger.open(run, ScopeRule(Money(30)), 0)
        key = EffectKey(f"call {number}")
        verdict = await ledger.reserve(key, 1, run, Money(25), _ME, 0, rules=rules)
        assert verdict == (
            Reserved()
            if number == 0
            else InsufficientBudget(
                agent, Money(40), Money(0), Money(25), Money(25), False, Period.DAY, _DAY_MS
            )
        )
    run = ScopeId("run 2")
    assert await _figures(ledger, agent, Period.DAY) == (0, 25)
    assert await ledger.room(run, 0, rules) == 15
    await ledger.answer(EffectKey("call 0"), 1, Money(20), 1, rules=rules)
    assert (
        await _figures(ledger, agent, Period.DAY) == await _figures(ledger, agent, None) == (20, 0)
    )
    assert await _figures(ledger, ScopeId("run 1")) == (20, 0)
    assert await ledger.reserve(again, 1, run, Money(20), _ME, 2, rules=rules) == Reserved()
    await settle_ended(ledger, LEASE_MS + 2)
    assert await _figures(ledger, agent, Period.DAY) == (40, 0)
    assert await _figures(ledger, agent, Period.DAY, _DAY_MS) == (0, 0)


async def _holds_a_limit_against_every_reservation(ledger: Ledger) -> None:
    """Also for clients that do not name it, from the moment that it is set."""
    await _opened(ledger, 100)
    await ledger.set_limits(EVERYBODY, [ScopeRule(Money(50), period=Period.DAY)])
    assert await _reserve(ledger, 40) == Reserved()
    refused = await _reserve(ledger, 11, _OTHER)
    assert isinstance(refused, InsufficientBudget)
    assert (refused.scope, refused.cap, refused.period) == (EVERYBODY, 50, Period.DAY)
    assert await ledger.room(_ROOT, 0) == 10
    assert await ledger.room(_ROOT, 0, settled=True) == 50
    await ledger.set_limits(EVERYBODY, [ScopeRule(Money(40), period=Period.DAY)])
    assert await ledger.room(_ROOT, 0) == 0
    await ledger.set_limits(EVERYBODY, [])
    assert await ledger.room(_ROOT, 0) == 60
    await ledger.answer(_CALL, 1, Money(0), 0)
    assert await _figures(ledger, EVERYBODY, Period.DAY) == (0, 0)


async def _knows_the_windows_of_a_wrong_clock_apart(ledger: Ledger) -> None:
    """Money spent 400 days ahead neither fills nor empties a window of today."""
    limits = [ScopeRule(Money(50), period=Period.DAY), ScopeRule(Money(60), period=Period.MONTH)]
    await _opened(ledger, None)
    await ledger.set_limits(EVERYBODY, limits)
    assert await _reserve(ledger, 30) == Reserved()
    ahead = 400 * _DAY_MS
    assert await _reserve(ledger, 50, _OTHER, now=ahead) == Reserved()
    await ledger.answer(_CALL, 1, Money(20), ahead)
    await ledger.answer(_OTHER, 1, Money(50), 1)
    assert await ledger.room(_ROOT, 1) == 30
    assert await ledger.room(_ROOT, ahead) == 0
    assert await ledger.room(_ROOT, _DAY_MS) == 40


async def _sets_a_part_aside_and_takes_the_rest_back(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    assert await ledger.open(_PART, ScopeRule(Money(70)), 0, parent=_ROOT, part=True) == Reserved()
    assert await _figures(ledger) == (0, 70)
    await _reserve(ledger, 50, scope=_PART)
    await ledger.answer(_CALL, 1, Money(20), 1)
    await ledger.close(_PART)
    assert await _figures(ledger) == (20, 0)


async def _refuses_a_part_that_does_not_fit(ledger: Ledger) -> None:
    await _opened(ledger, 50)
    verdict = await ledger.open(_PART, ScopeRule(Money(70)), 0, parent=_ROOT, part=True)
    assert isinstance(verdict, InsufficientBudget)
    assert await ledger.scope(_PART) is None


async def _closes_what_is_inside_too(ledger: Ledger) -> None:
    await _opened(ledger)
    await ledger.open(_LIMIT, ScopeRule(None), 0, parent=_ROOT)
    await ledger.open(_PART, ScopeRule(Money(5)), 0, parent=_LIMIT, part=True)
    await ledger.close(_ROOT)
    assert await _reserve(ledger, 1, scope=_PART) == ScopeClosed(_PART)
    assert await _figures(ledger) == (0, 0)


async def _takes_a_declared_rule_and_keeps_the_figures(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    await _reserve(ledger, 60)
    assert await ledger.open(_ROOT, ScopeRule(Money(50), OnExceed.WARN), 0) == Reserved()
    assert await _figures(ledger) == (0, 60)
    assert isinstance(await _reserve(ledger, 1, _OTHER), Reserved)
    await ledger.close(_ROOT)
    assert await ledger.open(_ROOT, ScopeRule(Money(50)), 2) == ScopeClosed(_ROOT)


async def _begins_a_window_with_its_period(ledger: Ledger) -> None:
    await ledger.open(_ROOT, ScopeRule(Money(10), period=Period.HOUR), 0)
    await ledger.renew(_ME, 9 * _HOUR_MS)
    await _reserve(ledger, 10)
    refused = await _reserve(ledger, 1, _OTHER, now=6)
    assert isinstance(refused, InsufficientBudget)
    assert refused.refills_ms == _HOUR_MS
    assert await _reserve(ledger, 10, _OTHER, now=_HOUR_MS) == Reserved()


async def _settles_what_dead_holders_left(ledger: Ledger) -> None:
    await _opened(ledger)
    await ledger.renew(_YOU, 5 * LEASE_MS)
    await _reserve(ledger, 10, EffectKey("sent"))
    await ledger.reserve(EffectKey("yours"), 1, _ROOT, Money(30), _YOU, 0)
    assert await settle_ended(ledger, LEASE_MS - 1) == []
    assert dict(await settle_ended(ledger, LEASE_MS)) == {
        "sent#1": Settlement(ClaimState.UNKNOWN, Money(10)),
    }
    assert await _figures(ledger) == (10, 30)
    assert await ledger.leases() == {_YOU: 5 * LEASE_MS}


async def _renews_the_lease_of_who_reserves(ledger: Ledger) -> None:
    """A reservation renews the lease where that is due; a lease that has ended, or was settled by
    others, is no hindrance."""
    await _opened(ledger)
    await _reserve(ledger, 10)
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
    assert await _figures(ledger) == (14, 10)


async def _leaves_alone_who_renewed_meanwhile(ledger: Ledger) -> None:
    """Others may act between the look at the leases and their end."""
    await _opened(ledger)
    await _reserve(ledger, 10)
    seen = await ledger.leases()
    await ledger.renew(_ME, LEASE_MS + 1)
    assert await ledger.expire(seen, LEASE_MS) == []
    assert await _figures(ledger) == (0, 10)
    assert await ledger.expire({_YOU: 1}, LEASE_MS) == []


async def _prunes_what_is_settled_and_old(ledger: Ledger) -> None:
    await _opened(ledger)
    await ledger.open(_PART, ScopeRule(Money(50)), 0, parent=_ROOT, part=True)
    await _reserve(ledger, 10, scope=_PART)
    await ledger.answer(_CALL, 1, Money(10), 5)
    await _reserve(ledger, 10, _OTHER)
    await ledger.close(_PART)
    assert await ledger.prune(5) == 0
    assert await ledger.prune(6) == 1
    assert await _state(ledger) is None
    assert await _state(ledger, _OTHER) is ClaimState.SENT
    assert await ledger.scope(_PART) is None
    assert await _figures(ledger) == (10, 10)


async def _answers_do_not_change_afterwards(ledger: Ledger) -> None:
    await _opened(ledger)
    scope = await ledger.scope(_ROOT)
    await _reserve(ledger, 10)
    claims = await ledger.claims([_CALL])
    await ledger.cut_off(_CALL, 1, 0)
    assert scope is not None
    assert (scope.reserved, claims[_CALL][0].state) == (0, ClaimState.SENT)


async def _admits_exactly_what_fits_among_many(ledger: Ledger) -> None:
    await _opened(ledger, 100)
    effects = [EffectKey(f"call {number}") for number in range(50)]
    verdicts = await asyncio.gather(*(_reserve(ledger, 10, effect) for effect in effects))
    assert sum(isinstance(verdict, Reserved) for verdict in verdicts) == 10
    assert await _figures(ledger) == (0, 100)


async def _carries_out_what_a_cancelled_caller_began(ledger: Ledger) -> None:
    """A caller who is cancelled while it reserves looks with `claims` what became of it."""
    await _opened(ledger)
    caller = asyncio.ensure_future(_reserve(ledger, 10))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert await _state(ledger) is ClaimState.SENT
    await ledger.answer(_CALL, 1, Money(0), 1)
    assert await _figures(ledger) == (0, 0)


async def _knows_nothing_of_what_was_never_there(ledger: Ledger) -> None:
    assert await ledger.scope(_ROOT) is None
    assert await _state(ledger) is None
    assert await ledger.leases() == {}
    assert await settle_ended(ledger, 10**9) == []


LEDGER_CHECKS: tuple[LedgerCheck, ...] = (
    _reserves_up_to_the_cap,
    _settles_the_truth_and_frees_the_rest,
    _settles_once,
    _tells_all_attempts_at_many_calls,
    _claims_an_attempt_once,
    _charges_what_was_cut_off_until_a_late_answer,
    _reports_a_bill_above_its_reservation,
    _counts_a_call_in_every_scope_around_it,
    _counts_a_call_for_the_owners_that_its_client_names,
    _holds_a_limit_against_every_reservation,
    _knows_the_windows_of_a_wrong_clock_apart,
    _sets_a_part_aside_and_takes_the_rest_back,
    _refuses_a_part_that_does_not_fit,
    _closes_what_is_inside_too,
    _takes_a_declared_rule_and_keeps_the_figures,
    _begins_a_window_with_its_period,
    _settles_what_dead_holders_left,
    _renews_the_lease_of_who_reserves,
    _leaves_alone_who_renewed_meanwhile,
    _prunes_what_is_settled_and_old,
    _answers_do_not_change_afterwards,
    _admits_exactly_what_fits_among_many,
    _carries_out_what_a_cancelled_caller_began,
    _knows_nothing_of_what_was_never_there,
)
