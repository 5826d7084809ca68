"""Tenants and what the agents that servers run for them may spend.

A budget that was set is a record of the servers, not of the tenant. It is read for every run of an
agent, so that it holds at every server from the next run on; what was spent is on the ledger that
the runners of all servers share.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

from vegakit.control import (
    ListTenantsRequest,
    OperationError,
    RefusalCode,
    SetTenantBudgetRequest,
    TenantPage,
    TenantRecord,
)
from vegakit.ids import TenantId
from vegakit.kernel.tables import SERVERS, TENANT, KernelTables
from vegakit.money import Money, parse_allowance
from vegakit.policy import AgentDefinition
from vegakit.ports import AgentResult, AgentRun, AgentRunner, TenantSpending

T = TypeVar("T")


class TenantReader(Protocol):
    """Reads the records of a tenant."""

    def read(self, tenant: TenantId, look: Callable[[KernelTables], T]) -> Awaitable[T]:
        """Return what the tenant's records say now."""
        ...


class BudgetedAgents:
    """Implements `ports.AgentRunner`: another one, held to the budgets that were set."""

    def __init__(self, records: TenantReader, runner: AgentRunner) -> None:
        self._records, self._runner = records, runner

    def problem(self, name: str, definition: AgentDefinition | None) -> str:
        """Return why such an agent cannot be run here; empty if it can."""
        return self._runner.problem(name, definition)

    def most_calls(
        self, name: str, definition: AgentDefinition | None, tools: tuple[str, ...] | None
    ) -> int:
        """Return how many calls of a model a run of such an agent may make."""
        return self._runner.most_calls(name, definition, tools)

    async def run(
        self, run: AgentRun, on_text: Callable[[str], object] | None = None
    ) -> AgentResult:
        """Run an agent within what its tenant may spend now."""
        found = await self._records.read(SERVERS, lambda it: tenant_of(it, run.tenant))
        return await self._runner.run(replace(run, tenant_budget=found.record.budget), on_text)

    async def spending(
        self, tenant: TenantId, budget: str, wallet: str = "", wallet_cap: Money | None = None
    ) -> TenantSpending:
        """Return how a tenant stands by its budget, and a wallet in it."""
        return await self._runner.spending(tenant, budget, wallet, wallet_cap)


class FoundTenant(NamedTuple):
    """A tenant, and whether it had a token or a budget before it was asked about."""

    record: TenantRecord
    known: bool


def tenant_of(tables: KernelTables, tenant: str) -> FoundTenant:
    """Return what was set for a tenant."""
    found = tables.get(TENANT, tenant)
    return FoundTenant(found or TenantRecord(tenant), found is not None)


def set_budget(tables: KernelTables, request: SetTenantBudgetRequest, by: str) -> FoundTenant:
    """Keep the budget of a tenant; what is none is refused."""
    tenant = request.tenant
    if tenant != tenant.strip():
        raise OperationError(
            RefusalCode.INVALID,
            f"tenant {tenant!r} begins or ends with a blank, and no token has such a tenant; "
            f"write {tenant.strip()!r}",
        )
    if request.budget:
        parse_allowance(request.budget)
    known = tables.get(TENANT, tenant) is not None
    record = tables.put(TENANT, TenantRecord(tenant, request.budget, by, tables.now))
    return FoundTenant(record, known)


def list_page(tables: KernelTables, request: ListTenantsRequest) -> TenantPage:
    """Return a page of tenants."""
    return TenantPage(*tables.page(TENANT, after=request.after, limit=request.limit))
