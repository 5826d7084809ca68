"""The budget: reserve the worst case of a call, send it, settle its true bill; and the leases of
those who hold reservations (pure).

Settling twice is settling once. A bill above its reservation is charged truly and reported.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from vegakit.errors import BugError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy.scopes import (
    NO_RULES,
    Notice,
    Reserved,
    ScopeAdmission,
    ScopeRules,
    ScopeTree,
    check_amount,
)
from vegakit.policy.waiting import BlockedCall, Deadlock, Surrounding, find_deadlock

# Leases: how long a holder's reservations stay reserved after its last sign of life.
#
# A holder (a runtime, a worker) writes into the ledger until when it is alive, by its own clock,
# and writes it anew every few seconds and with every reservation. Whoever else uses the ledger
# settles what a holder left behind once its lease has ended. Clocks cannot be trusted for that: a
# machine may be a day ahead, a wall clock is set back while a process keeps counting from the
# time it started with, a laptop sleeps. A dead holder must not keep money because its clock was
# ahead, and a living one must not be settled again and again because its clock is behind. So an
# observer believes the written time only where nothing else is known, and otherwise measures with
# its own clock how long the lease has stood there unchanged:
#
# | what the observer saw                             | the lease ends                             |
# |---------------------------------------------------|--------------------------------------------|
# | it never changed, and its time has come           | now: the usual end, also after a restart   |
# | it never changed, and its time is yet to come     | then, but at most one length after first   |
# |                                                   | seen: a clock that is ahead holds nothing  |
# | it changed: the holder was alive under our eyes   | one length after the change was seen,      |
# |                                                   | whatever time is written there             |
#
# One case is left: an observer that has just started meets a living holder whose clock is behind
# by more than a lease. It settles what that holder has in flight as UNKNOWN, once; the answers
# correct it, and the holder's next reservation writes the lease anew. Waiting one length instead
# would keep the money of every dead holder for that long after each start.


LEASE_MS = 20_000


class _Sighting(Struct):
    until_ms: int
    since_ms: int
    """When it was first seen like this, by the observer's own clock."""
    changed: bool


class LeaseWatch(Struct):
    """A record of what one observer has seen of the leases of others, by its own steady clock."""

    length_ms: int = LEASE_MS
    seen: dict[HolderId, _Sighting] = field(default_factory=dict)

    def ended(self, leases: Mapping[HolderId, int], now: int) -> dict[HolderId, int]:
        """Return those of `leases` that have ended, each with the time that is written there.

        A holder that is not among them any more stays known for a few lengths: one that comes back
        shows that it is alive, and is not a stranger whose written time would be believed.
        """
        ended: dict[HolderId, int] = {}
        for holder, until_ms in leases.items():
            seen = self.seen.get(holder)
            if seen is None or seen.until_ms != until_ms:
                seen = self.seen[holder] = _Sighting(until_ms, now, seen is not None)
            if now - seen.since_ms >= self.length_ms or (not seen.changed and until_ms <= now):
                ended[holder] = until_ms
        self.seen = {
            holder: seen
            for holder, seen in self.seen.items()
            if holder in leases or now - seen.since_ms <= 10 * self.length_ms
        }
        return ended


# Budget: reserve the worst case, send, settle the truth.
#
# A claim is one attempt at one effect, held by a holder (a runtime, a worker) while its lease
# lasts. Nothing is written between the reservation and the request, so after a kill nobody can tell
# whether it went out: a claim counts as sent at once.
#
# | claim    | answer(x)           | cut_off, lease ends |
# |----------|---------------------|---------------------|
# | SENT     | ANSWERED, x charged | UNKNOWN, all of it  |
# | UNKNOWN  | ANSWERED, set to x  | –                   |
# | ANSWERED | –                   | –                   |
#
# A holder that reserves is alive, so reserving renews its lease where that is due. A living
# holder is never refused for its lease: if others settled its calls meanwhile, their answers
# correct that.
#
# "–" changes nothing, so settling twice is settling once. A claim that was pruned is as ANSWERED.
# A bill is a bill: an answer is charged truly even above its reservation; then `CapOverrun` is
# reported and the scope admits nothing until it fits. How money moves through nested scopes stands
# in `policy/scopes.py`.


class ClaimState(StrEnum):
    """The states of a claim: the call may be under way, its bill is known, or its bill may never be
    known."""

    SENT = "sent"
    ANSWERED = "answered"
    UNKNOWN = "unknown"


class Claim(Struct, gc=False):
    """A claim is the money set aside for one attempt of a call, and what it was charged."""

    scope: ScopeId
    holder: HolderId
    amount: int
    counted_in: list[str] = field(default_factory=list[str])
    """The windows that it is reserved and settled in."""
    state: ClaimState = ClaimState.SENT
    charged: int = 0
    charged_at_ms: int = 0


_FORGOTTEN = Claim(ScopeId(""), HolderId(""), 0, state=ClaimState.ANSWERED)
"""Takes the place of a claim that was pruned. Runtimes with wrong clocks can settle and prune a
call in flight: its maximum stays charged, and its answer still reaches the program."""

Admission: TypeAlias = ScopeAdmission
"""What asking for a reservation comes to."""


class Settlement(Struct, frozen=True, tag=True):
    """`state` is where the claim stands now; `changed` by how much the charge moved."""

    state: ClaimState
    changed: Money
    notices: tuple[Notice, ...] = ()


class Budget(Struct):
    """A budget keeps scopes, the claims of calls in them, and the leases of who made these
    claims."""

    scopes: ScopeTree = field(default_factory=ScopeTree)
    claims: dict[str, Claim] = field(default_factory=dict)
    leases: dict[HolderId, int] = field(default_factory=dict)
    waiters: dict[str, BlockedCall] = field(default_factory=dict)

    def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        holder: HolderId,
        now: int,
        lease_ms: int = LEASE_MS,
        rules: ScopeRules = NO_RULES,
    ) -> Admission:
        """Set aside the most that an attempt may cost, in every scope it draws on, if it fits the
        rules that its client brings. An attempt is claimed once: a second claim would let a call
        be sent twice."""
        check_amount(worst_case)
        key = f"{effect}#{attempt}"
        if key in self.claims:
            raise BugError(f"attempt {attempt} of effect {effect} is already claimed")
        # First what may fail: an operation that fails has written nothing.
        counted_in = self.scopes.counted_in(scope_id, now, rules)
        verdict = self.scopes.admit(scope_id, worst_case, now, rules, counted_in=counted_in)
        if self.leases.get(holder, now) - now < lease_ms // 2:  # rarely: it is a row to write
            self.renew(holder, now + lease_ms)
        if isinstance(verdict, Reserved):
            self.claims[key] = Claim(scope_id, holder, worst_case, counted_in)
            self.scopes.by_id[scope_id].claims += 1
        return verdict

    def attempts(self, effect: EffectKey) -> Iterator[tuple[str, Claim]]:
        """Yield the claims of all attempts at a call, in order."""
        number = 1
        while (claim := self.claims.get(f"{effect}#{number}")) is not None:
            yield f"{effect}#{number}", claim
            number += 1

    def wait(
        self,
        effect: EffectKey,
        scope_id: ScopeId,
        wanted: Money,
        inside: Sequence[EffectKey],
        holder: HolderId,
        now: int,
        rules: ScopeRules = NO_RULES,
    ) -> Deadlock | None:
        """Note that a call inside of other calls waits for an amount. Return None while it may
        wait. If a deadlock refuses it, forget it and return who holds the money."""
        around = {
            name: Surrounding(
                claim.holder,
                Money(claim.amount),
                self.scopes.counters_of(claim.scope, claim.counted_in),
            )
            for outer in inside
            for name, claim in self.attempts(outer)
            if claim.state is ClaimState.SENT
        }
        last = max((waiter.number for waiter in self.waiters.values()), default=0)
        before = self.waiters.get(effect)
        self.waiters[effect] = BlockedCall(
            last + 1 if before is None else before.number,
            holder,
            wanted,
            self.scopes.caps_on(scope_id, now, rules),
            around,
        )
        refused, deadlock = find_deadlock(self.waiters, self.scopes.settled_in) or ("", None)
        if refused != effect:
            return None
        self.end_wait(effect)
        return deadlock

    def end_wait(self, effect: EffectKey) -> None:
        """Forget that a call waits."""
        self.waiters.pop(effect, None)

    def answer(
        self,
        effect: EffectKey,
        attempt: int,
        bill: Money,
        now: int,
        rules: ScopeRules = NO_RULES,
    ) -> Settlement:
        """Charge what an attempt was billed and free the rest. A second bill changes nothing."""
        check_amount(bill)
        claim = self.claims.get(f"{effect}#{attempt}") or _FORGOTTEN
        if claim.state is ClaimState.ANSWERED:
            return Settlement(claim.state, Money(0))
        return self._settle(claim, ClaimState.ANSWERED, bill, now, rules)

    def cut_off(
        self, effect: EffectKey, attempt: int, now: int, rules: ScopeRules = NO_RULES
    ) -> Settlement:
        """The call was given up: charged in full, since it may have been billed."""
        claim = self.claims.get(f"{effect}#{attempt}") or _FORGOTTEN
        if claim.state is not ClaimState.SENT:
            return Settlement(claim.state, Money(0))
        return self._settle(claim, ClaimState.UNKNOWN, claim.amount, now, rules)

    def forget(self, effect: EffectKey, attempt: int) -> bool:
        """Drop a claim whose outcome is recorded elsewhere; a late answer then finds nothing."""
        key = f"{effect}#{attempt}"
        claim = self.claims[key]
        if claim.state is ClaimState.SENT:
            return False
        del self.claims[key]
        self.scopes.by_id[claim.scope].claims -= 1
        return True

    def prune(self, before_ms: int, among: Iterable[str] | None = None) -> int:
        """Forget what was settled before then, of all or `among` these, and the closed scopes that
        this leaves empty."""
        old = [
            key
            for key in (self.claims if among is None else among)
            if (claim := self.claims.get(key)) is not None
            and claim.state is not ClaimState.SENT
            and claim.charged_at_ms < before_ms
        ]
        emptied = {self.claims[key].scope for key in old}
        for key in old:
            self.forget(*_parts_of(key))
        for scope_id in emptied:
            self.scopes.drop_outward(scope_id)
        return len(old)

    def renew(self, holder: HolderId, until_ms: int) -> None:
        """Make the lease of a holder last until `until_ms`, never shorter than it does already."""
        self.leases[holder] = max(until_ms, self.leases.get(holder, until_ms))

    def expire(self, ended: Mapping[HolderId, int], now: int) -> list[tuple[str, Settlement]]:
        """Settle what holders left behind whose leases have ended, as a `LeaseWatch` found them,
        and return each claim as `effect#attempt`."""
        # The written time is compared again: between the look at the leases and this call, which
        # may be another transaction, a holder can have renewed its lease.
        dead = {holder for holder, until in ended.items() if self.leases.get(holder) == until}
        if not dead:
            return []
        settled = [
            (key, self.cut_off(*_parts_of(key), now))
            for key, claim in self.claims.items()
            if claim.holder in dead and claim.state is ClaimState.SENT
        ]
        self.scopes.close_parts_of(dead)
        for name in [name for name, waiter in self.waiters.items() if waiter.holder in dead]:
            del self.waiters[name]
        for holder in dead:
            del self.leases[holder]
        return settled

    def _settle(
        self,
        claim: Claim,
        state: ClaimState,
        charge: int,
        now: int,
        rules: ScopeRules = NO_RULES,
    ) -> Settlement:
        # A claim that was settled before reserves nothing any more: its amount went back then.
        released = claim.amount if claim.state is ClaimState.SENT else 0
        changed = charge - claim.charged
        notices = self.scopes.move(claim.scope, released, changed, claim.counted_in, rules)
        if claim.state is not ClaimState.UNKNOWN:  # a late answer does not make it younger
            claim.charged_at_ms = now
        claim.state = state
        claim.charged = charge
        return Settlement(state, Money(changed), notices)


def _parts_of(key: str) -> tuple[EffectKey, int]:
    effect, _, attempt = key.rpartition("#")
    return EffectKey(effect), int(attempt)
