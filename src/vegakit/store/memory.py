"""A ledger and a store for one process, gone with it: the pure machine itself, and a dict."""

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import (
    LEASE_MS,
    Admission,
    Budget,
    Claim,
    Reserved,
    Scope,
    ScopeAdmission,
    ScopeRule,
    Settled,
)
from vegakit.store.documents import check_name

__all__ = ["MemoryLedger", "MemoryStore"]


class MemoryLedger:
    def __init__(self) -> None:
        self._budget = Budget()

    async def open(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> ScopeAdmission:
        return self._budget.scopes.ensure(
            scope_id, rule, now, parent=parent, part=part, holder=holder
        )

    async def close(self, scope_id: ScopeId, now: int) -> None:
        self._budget.scopes.close(scope_id, now)

    async def set_cap(self, scope_id: ScopeId, cap: Money, now: int) -> ScopeAdmission:
        return self._budget.scopes.set_cap(scope_id, cap, now)

    async def scope(self, scope_id: ScopeId, now: int) -> Scope | None:
        scope = self._budget.scopes.by_id.get(scope_id)
        if scope is not None:
            scope.roll(now)
        return deepcopy(scope)

    async def room(self, scope_id: ScopeId, now: int) -> Money | None:
        return self._budget.scopes.room(scope_id, now)

    async def reserve(
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
    ) -> Admission:
        verdict = self._budget.reserve(effect, attempt, scope_id, worst_case, holder, now, lease_ms)
        if sent and isinstance(verdict, Reserved):
            self._budget.mark_sent(effect, attempt)
        return verdict

    async def mark_sent(self, effect: EffectKey, attempt: int) -> bool:
        return self._budget.mark_sent(effect, attempt)

    async def answer(self, effect: EffectKey, attempt: int, bill: Money, now: int) -> Settled:
        return self._budget.answer(effect, attempt, bill, now)

    async def cut_off(self, effect: EffectKey, attempt: int, now: int) -> Settled:
        return self._budget.cut_off(effect, attempt, now)

    async def release(self, effect: EffectKey, attempt: int, now: int) -> Settled:
        return self._budget.release(effect, attempt, now)

    async def claim(self, effect: EffectKey, attempt: int) -> Claim | None:
        return copy(self._budget.claim(effect, attempt))

    async def renew(self, holder: HolderId, until_ms: int) -> None:
        self._budget.renew(holder, until_ms)

    async def leases(self) -> Mapping[HolderId, int]:
        return dict(self._budget.leases)

    async def expire(
        self, ended: Mapping[HolderId, int], now: int
    ) -> Sequence[tuple[str, Settled]]:
        return self._budget.expire(ended, now)

    async def prune(self, before_ms: int) -> int:
        return self._budget.prune(before_ms)

    async def aclose(self) -> None:
        pass


class MemoryStore:
    def __init__(self) -> None:
        self._documents: dict[str, dict[str, tuple[bytes, int]]] = {}

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        return self._documents.get(kind, {}).get(key)

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        check_name(kind, key)
        documents = self._documents.setdefault(kind, {})
        fits = documents.get(key, (b"", 0))[1] == expected
        if fits:
            documents[key] = (value, expected + 1)
        return fits

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        documents = self._documents.get(kind, {})
        fits = key in documents and documents[key][1] == expected
        if fits:
            del documents[key]
        return fits

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        later = sorted(key for key in self._documents.get(kind, {}) if key > after)
        return later[: max(0, limit)]

    async def aclose(self) -> None:
        pass
