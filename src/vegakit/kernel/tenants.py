"""Tenants and what the agents that servers run for them may spend.

A budget that was set is a record of the servers, not of the tenant. It is read for every run of an
agent, so that it holds at every server from the next run on; what was spent is on the ledger that
the runners of all servers share.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from vegakit.control import (
    ListTenantsRequest,
    SetTenantBudgetRequest,
    TenantPage,
    TenantRecord,
)
from vegakit.ids import TenantId
from vegakit.kernel.tables import SERVERS, TENANT, KernelTables
from vegakit.money import parse_allowance
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
        record = await self._records.read(SERVERS, lambda it: tenant_of(it, run.tenant))
        return await self._runner.run(replace(run, tenant_budget=record.budget), on_text)

    async def spending(self, tenant: TenantId, budget: str) -> TenantSpending:
        """Return how a tenant stands by its budget."""
        return await self._runner.spending(tenant, budget)


def tenant_of(tables: KernelTables, tenant: str) -> TenantRecord:
    """Return what was set for a tenant."""
    return tables.get(TENANT, tenant) or TenantRecord(tenant)


def set_budget(tables: KernelTables, request: SetTenantBudgetRequest, by: str) -> TenantRecord:
    """Keep the budget of a tenant; what is none is refused."""
    if request.budget:
        parse_allowance(request.budget)
    return tables.put(TENANT, TenantRecord(request.tenant, request.budget, by, tables.now))


def list_page(tables: KernelTables, request: ListTenantsRequest) -> TenantPage:
    """Return a page of tenants."""
    return TenantPage(*tables.page(TENANT, after=request.after, limit=request.limit))
