"""The ledger on SQL rows that any number of processes share, on SQLite and on PostgreSQL.

Every method says which rows it will touch, loads them, and lets the pure machine decide; see
`ledger_rows`.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import (
    LEASE_MS,
    NO_RULES,
    Admission,
    Claim,
    Counter,
    Deadlock,
    Scope,
    ScopeAdmission,
    ScopeRule,
    ScopeRules,
    Settlement,
    counter_id,
)
from vegakit.store.ledger_rows import (
    LedgerRows,
    LockSet,
    claim_id,
    locks_for_expired,
    locks_for_settled,
)
from vegakit.store.thread import StoreThread

T = TypeVar("T")

_NOTHING = LockSet()


class SqlLedger:
    """Implements `ports.Ledger` on a thread."""

    is_personal = True

    def __init__(
        self,
        thread: StoreThread[Any],
        rows_at: Callable[[Any], LedgerRows] = lambda handle: handle,
        *,
        owns_thread: bool = True,
    ) -> None:
        """`rows_at` finds the rows in what the thread works with, where others may have theirs. A
        thread that it does not own is closed by whoever shares it, such as a journal."""
        self._thread, self._rows_at, self._owns_thread = thread, rows_at, owns_thread

    def is_on(self, thread: StoreThread[Any]) -> bool:
        """Say whether what is called together on both is one transaction."""
        return self._thread is thread

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
        def decide(rows: LedgerRows) -> ScopeAdmission:
            rows.load_chain(scope_id)
            rows.load_bounds(parent, now)
            return rows.budget.scopes.open(
                scope_id, rule, now, parent=parent, part=part, holder=holder
            )

        return await self._do(
            decide, LockSet((scope_id, parent), numbers_at_ms=now if part else None)
        )

    async def close(self, scope_id: ScopeId) -> None:
        def decide(rows: LedgerRows) -> None:
            rows.load_chain(scope_id)
            rows.load_inside(scope_id)
            rows.budget.scopes.close(scope_id)

        await self._do(decide, LockSet((scope_id,)))

    async def set_limits(self, owner: ScopeId, rules: Sequence[ScopeRule]) -> None:
        def decide(rows: LedgerRows) -> None:
            rows.load_limits(owner)
            rows.budget.scopes.set_limits(owner, rules)

        await self._do(decide)

    async def scope(self, scope_id: ScopeId) -> Scope | None:
        def decide(rows: LedgerRows) -> Scope | None:
            rows.load_chain(scope_id)
            return copy(rows.budget.scopes.by_id.get(scope_id))

        return await self._do(decide, LockSet((scope_id,)))

    async def counter(self, owner: ScopeId, period: Period | None, now: int) -> Counter:
        def decide(rows: LedgerRows) -> Counter:
            rows.load_chain(owner)
            rows.load_counters([counter_id(owner, period, now)])
            return copy(rows.budget.scopes.counter(owner, period, now))

        return await self._do(decide, LockSet((owner,)))

    async def room(
        self, scope_id: ScopeId, now: int, rules: ScopeRules = NO_RULES, *, settled: bool = False
    ) -> Money | None:
        def decide(rows: LedgerRows) -> Money | None:
            rows.load_bounds(scope_id, now, rules)
            return rows.budget.scopes.room(scope_id, now, rules, settled=settled)

        return await self._do(decide, LockSet((scope_id,)))

    def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        holder: HolderId,
        now: int,
        *,
        lease_ms: int = LEASE_MS,
        rules: ScopeRules = NO_RULES,
    ) -> Awaitable[Admission]:
        def decide(rows: LedgerRows) -> Admission:
            rows.load_claim(effect, attempt)
            rows.load_lease(holder)
            rows.load_bounds(scope_id, now, rules)
            return rows.budget.reserve(
                effect, attempt, scope_id, worst_case, holder, now, lease_ms, rules
            )

        return self._do(
            decide,
            LockSet(
                scopes=(scope_id,),
                claims=(claim_id(effect, attempt),),
                holders=(holder,),
                owners=(*rules,),
                numbers_at_ms=now,
            ),
        )

    def answer(
        self,
        effect: EffectKey,
        attempt: int,
        bill: Money,
        now: int,
        *,
        rules: ScopeRules = NO_RULES,
    ) -> Awaitable[Settlement]:
        def decide(rows: LedgerRows) -> Settlement:
            rows.load_settling(effect, attempt)
            return rows.budget.answer(effect, attempt, bill, now, rules)

        return self._do(decide, _claim(effect, attempt))

    def cut_off(
        self, effect: EffectKey, attempt: int, now: int, *, rules: ScopeRules = NO_RULES
    ) -> Awaitable[Settlement]:
        def decide(rows: LedgerRows) -> Settlement:
            rows.load_settling(effect, attempt)
            return rows.budget.cut_off(effect, attempt, now, rules)

        return self._do(decide, _claim(effect, attempt))

    async def claims(self, effects: Sequence[EffectKey]) -> Mapping[EffectKey, tuple[Claim, ...]]:
        return await self._do(lambda rows: rows.all_claims(effects))

    async def wait(
        self,
        effect: EffectKey,
        scope_id: ScopeId,
        wanted: Money,
        inside: Sequence[EffectKey],
        holder: HolderId,
        now: int,
        rules: ScopeRules = NO_RULES,
    ) -> Deadlock | None:
        def decide(rows: LedgerRows) -> Deadlock | None:
            rows.load_waiters(effect)
            rows.load_attempts(inside)
            rows.load_bounds(scope_id, now, rules)
            return rows.budget.wait(
                effect, scope_id, wanted, inside, holder=holder, now=now, rules=rules
            )

        lock_set = LockSet(scopes=(scope_id,), owners=(*rules,), numbers_at_ms=now)
        return await self._do(decide, lock_set)

    async def end_wait(self, effect: EffectKey) -> None:
        def decide(rows: LedgerRows) -> None:
            rows.load_waiters(effect)
            rows.budget.end_wait(effect)

        await self._do(decide)

    async def renew(self, holder: HolderId, until_ms: int) -> None:
        def decide(rows: LedgerRows) -> None:
            rows.load_lease(holder)
            rows.budget.renew(holder, until_ms)

        await self._do(decide, LockSet(holders=(holder,)))

    async def leases(self) -> Mapping[HolderId, int]:
        return await self._do(LedgerRows.load_leases)

    async def expire(
        self, ended: Mapping[HolderId, int], now: int
    ) -> Sequence[tuple[str, Settlement]]:
        def decide(rows: LedgerRows) -> Sequence[tuple[str, Settlement]]:
            rows.load_dead(ended)
            return rows.budget.expire(ended, now)

        return await self._do(decide, locks_for_expired(ended))

    async def prune(self, before_ms: int) -> int:
        """Prune a page at a time, so that others get their turn in between."""
        pruned, after = 0, ""
        while after is not None:
            lock_set = locks_for_settled(before_ms, after)
            count, after = await self._do(_prune_page(before_ms, after), lock_set)
            pruned += count
        return pruned

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        if self._owns_thread:
            await self._thread.aclose()

    def _do(self, decide: Callable[[LedgerRows], T], lock_set: LockSet = _NOTHING) -> "Future[T]":
        def work(handle: object) -> tuple[T, Callable[[], None]]:
            rows = self._rows_at(handle)
            rows.begin()
            return decide(rows), rows.write

        return self._thread.do(work, lock_set)


def _claim(effect: EffectKey, attempt: int) -> LockSet:
    return LockSet(claims=(claim_id(effect, attempt),))


def _prune_page(before_ms: int, after: str) -> Callable[[LedgerRows], tuple[int, str | None]]:
    def decide(rows: LedgerRows) -> tuple[int, str | None]:
        next_page = rows.load_settled(before_ms, after)
        return rows.budget.prune(before_ms), next_page

    return decide
