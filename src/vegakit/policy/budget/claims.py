"""Budget: reserve the worst case, send, settle the truth.

A claim is one attempt at one effect, held by a holder (a runtime, a worker) while its lease lasts:

| claim    | mark_sent | answer(x)           | cut_off, lease ends | release  |
|----------|-----------|---------------------|---------------------|----------|
| RESERVED | SENT      | ANSWERED, x charged | RELEASED            | RELEASED |
| SENT     | –         | ANSWERED, x charged | UNKNOWN, all of it  | –        |
| UNKNOWN  | –         | ANSWERED, set to x  | –                   | –        |
| RELEASED | –         | ANSWERED, x charged | –                   | –        |
| ANSWERED | –         | –                   | –                   | –        |

A holder that reserves is alive, so reserving renews its lease where that is due. A living holder is
never refused for its lease: if others settled its calls meanwhile, their answers correct that.

"–" changes nothing, so settling twice is settling once. A bill is a bill: an answer is charged
truly even above its reservation; then `Overran` is reported and the scope admits nothing until it
fits. How money moves through nested scopes stands in `scope_tree`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from vegakit.errors import BugError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy.budget.leases import LEASE_MS
from vegakit.policy.budget.scope_tree import ScopeTree
from vegakit.policy.budget.scopes import Notice, Reserved, ScopeAdmission, check_amount

__all__ = ["Admission", "Budget", "Claim", "ClaimState", "Settled"]


class ClaimState(StrEnum):
    RESERVED = "reserved"
    SENT = "sent"
    ANSWERED = "answered"
    UNKNOWN = "unknown"
    RELEASED = "released"


_LIVE = {ClaimState.RESERVED, ClaimState.SENT}


class Claim(Struct, gc=False):
    scope: ScopeId
    holder: HolderId
    amount: int
    state: ClaimState = ClaimState.RESERVED
    charged: int = 0
    charged_at_ms: int = 0


Admission: TypeAlias = ScopeAdmission
"""What asking for a reservation comes to."""


class Settled(Struct, frozen=True, tag=True):
    """`state` is where the claim stands now; `changed` by how much the charge moved."""

    state: ClaimState
    changed: Money
    notices: tuple[Notice, ...] = ()


class Budget(Struct):
    scopes: ScopeTree = field(default_factory=ScopeTree)
    claims: dict[str, Claim] = field(default_factory=dict)
    leases: dict[HolderId, int] = field(default_factory=dict)

    def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        holder: HolderId,
        now: int,
        lease_ms: int = LEASE_MS,
    ) -> Admission:
        check_amount(worst_case)
        key = f"{effect}#{attempt}"
        if key in self.claims:
            raise BugError(f"attempt {attempt} of effect {effect} is already claimed")
        # First what may fail: an operation that fails has written nothing.
        verdict = self.scopes.admit(scope_id, worst_case, now)
        if self.leases.get(holder, now) - now < lease_ms // 2:  # rarely: it is a row to write
            self.renew(holder, now + lease_ms)
        if isinstance(verdict, Reserved):
            self.claims[key] = Claim(scope_id, holder, worst_case)
            self.scopes.by_id[scope_id].claims += 1
        return verdict

    def claim(self, effect: EffectKey, attempt: int) -> Claim | None:
        return self.claims.get(f"{effect}#{attempt}")

    def mark_sent(self, effect: EffectKey, attempt: int) -> bool:
        """True exactly once; False means: do not send, the claim is not yours any more."""
        claim = self.claims[f"{effect}#{attempt}"]
        if claim.state is not ClaimState.RESERVED:
            return False
        claim.state = ClaimState.SENT
        return True

    def answer(self, effect: EffectKey, attempt: int, bill: Money, now: int) -> Settled:
        check_amount(bill)
        claim = self.claims[f"{effect}#{attempt}"]
        if claim.state is ClaimState.ANSWERED:
            return Settled(claim.state, Money(0))
        return self._settle(claim, ClaimState.ANSWERED, bill, now)

    def cut_off(self, effect: EffectKey, attempt: int, now: int) -> Settled:
        """The call was given up: charged in full if it was sent, since it may have been billed."""
        claim = self.claims[f"{effect}#{attempt}"]
        if claim.state is ClaimState.SENT:
            return self._settle(claim, ClaimState.UNKNOWN, claim.amount, now)
        return self.release(effect, attempt, now)

    def release(self, effect: EffectKey, attempt: int, now: int) -> Settled:
        claim = self.claims[f"{effect}#{attempt}"]
        if claim.state is not ClaimState.RESERVED:
            return Settled(claim.state, Money(0))
        return self._settle(claim, ClaimState.RELEASED, 0, now)

    def forget(self, effect: EffectKey, attempt: int) -> bool:
        """Drops a claim whose outcome is recorded elsewhere; a late answer then finds nothing."""
        key = f"{effect}#{attempt}"
        claim = self.claims[key]
        if claim.state in _LIVE:
            return False
        del self.claims[key]
        self.scopes.by_id[claim.scope].claims -= 1
        return True

    def prune(self, before_ms: int) -> int:
        """Forgets what was settled before then, and the closed scopes that this leaves empty."""
        old = [
            key
            for key, claim in self.claims.items()
            if claim.state not in _LIVE and claim.charged_at_ms < before_ms
        ]
        emptied = {self.claims[key].scope for key in old}
        for key in old:
            self.forget(*_parts_of(key))
        for scope_id in emptied:
            self.scopes.drop_outward(scope_id)
        return len(old)

    def renew(self, holder: HolderId, until_ms: int) -> None:
        self.leases[holder] = max(until_ms, self.leases.get(holder, until_ms))

    def expire(self, ended: Mapping[HolderId, int], now: int) -> list[tuple[str, Settled]]:
        """Settles what holders left behind whose leases have ended, as a `LeaseWatch` found them,
        and answers each claim as `effect#attempt`. Who renewed its lease since then lives."""
        dead = {holder for holder, until in ended.items() if self.leases.get(holder) == until}
        settled: list[tuple[str, Settled]] = []
        if not dead:
            return settled
        for key, claim in self.claims.items():
            if claim.holder in dead and claim.state in _LIVE:
                settled.append((key, self.cut_off(*_parts_of(key), now)))
        self.scopes.close_parts_of(dead, now)
        for holder in dead:
            del self.leases[holder]
        return settled

    def _settle(self, claim: Claim, state: ClaimState, charge: int, now: int) -> Settled:
        released = claim.amount if claim.state in _LIVE else 0
        changed = charge - claim.charged
        at = now if claim.state is not ClaimState.UNKNOWN else claim.charged_at_ms
        notices = self.scopes.move(claim.scope, released, changed, at, now)
        claim.state, claim.charged, claim.charged_at_ms = state, charge, at
        return Settled(state, Money(changed), notices)


def _parts_of(key: str) -> tuple[EffectKey, int]:
    effect, _, attempt = key.rpartition("#")
    return EffectKey(effect), int(attempt)
