"""Truth about money."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import LEASE_MS, Admission, Claim, Scope, ScopeAdmission, ScopeRule, Settled

__all__ = [
    "Ledger",
]


class Ledger(Protocol):
    """Truth about money, shared by every runtime that opens it. The rules are `policy.Budget`'s.

    Each method is one transaction: the claim and the scopes it moves change together. Methods are
    carried out in the order they are called. One that has begun is carried out to its end even if
    its caller is cancelled: who does not know whether it reserved asks for the `claim`.
    """

    def open(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> Awaitable[ScopeAdmission]:
        """A scope that is open already keeps its figures and takes the new rule, so that every
        process may declare it; a part is opened once, and closed when its holder's lease ends."""
        ...

    def close(self, scope_id: ScopeId, now: int) -> Awaitable[None]: ...

    def set_cap(self, scope_id: ScopeId, cap: Money, now: int) -> Awaitable[ScopeAdmission]: ...

    def scope(self, scope_id: ScopeId, now: int) -> Awaitable[Scope | None]: ...

    def room(self, scope_id: ScopeId, now: int) -> Awaitable[Money | None]: ...

    def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        holder: HolderId,
        now: int,
        *,
        sent: bool = False,
        lease_ms: int = LEASE_MS,
    ) -> Awaitable[Admission]:
        """`sent`: marked so at once, for who sends as soon as it is reserved. The holder's lease is
        renewed in the same transaction where that is due: a loop that stalled for longer than its
        lease finds its reservations before its renewal in the queue."""
        ...

    def mark_sent(self, effect: EffectKey, attempt: int) -> Awaitable[bool]: ...

    def answer(
        self, effect: EffectKey, attempt: int, bill: Money, now: int
    ) -> Awaitable[Settled]: ...

    def cut_off(self, effect: EffectKey, attempt: int, now: int) -> Awaitable[Settled]: ...

    def release(self, effect: EffectKey, attempt: int, now: int) -> Awaitable[Settled]: ...

    def claim(self, effect: EffectKey, attempt: int) -> Awaitable[Claim | None]: ...

    def renew(self, holder: HolderId, until_ms: int) -> Awaitable[None]: ...

    def leases(self) -> Awaitable[Mapping[HolderId, int]]:
        """Until when each holder says it is alive, by its own clock."""
        ...

    def expire(
        self, ended: Mapping[HolderId, int], now: int
    ) -> Awaitable[Sequence[tuple[str, Settled]]]:
        """Settles what these holders left behind, in any order, unless they renewed the lease that
        was seen. Whose lease has ended a `policy.LeaseWatch` tells."""
        ...

    def prune(self, before_ms: int) -> Awaitable[int]:
        """Forgets what was settled before then, and the closed scopes that this leaves empty."""
        ...

    def aclose(self) -> Awaitable[None]: ...
