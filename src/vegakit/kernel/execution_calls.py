"""Callers have the servers of a kernel run a pipeline, one agent, or one call of a model, within
what their tenant may spend."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, Final

from vegakit.control import (
    AgentAnswer,
    EmptyRequest,
    ExecuteAgentRequest,
    ExecutePipelineRequest,
    InferenceRequest,
    KernelEvent,
    KernelEventKind,
    ListTenantsRequest,
    MessageRole,
    NumberedPipelineEvent,
    OperationError,
    PipelineEvent,
    PipelineEventKind,
    RecordUsageRequest,
    RefusalCode,
    SetTenantBudgetRequest,
    TenantBudget,
    TenantPage,
    TenantRequest,
)
from vegakit.conversation import AssistantMessage, Message, Text, UserMessage
from vegakit.ids import TenantId
from vegakit.kernel import processes, tenants
from vegakit.kernel.executions import begin, check_runs_here, metrics_of, used_by
from vegakit.kernel.kernel import PAGE, POLL_MS, Calls
from vegakit.kernel.tables import EXECUTION, PROCESS, SERVERS, KernelTables
from vegakit.money import Money
from vegakit.policy import (
    AgentDefinition,
    Consumption,
    QuotaExceeded,
    StageFailure,
    TerminalReason,
)
from vegakit.ports import AgentResult, AgentRun
from vegakit.records import from_json

_KINDS: Final = {
    KernelEventKind.STAGE_STARTED: PipelineEventKind.STAGE_STARTED,
    KernelEventKind.STAGE_COMPLETED: PipelineEventKind.STAGE_COMPLETED,
    KernelEventKind.STAGE_FAILED: PipelineEventKind.STAGE_FAILED,
    KernelEventKind.STAGE_CHUNK: PipelineEventKind.CHUNK,
    KernelEventKind.INTERRUPT_CREATED: PipelineEventKind.INTERRUPT_CREATED,
    KernelEventKind.INTERRUPT_RESOLVED: PipelineEventKind.INTERRUPT_RESOLVED,
    KernelEventKind.RESOURCE_EXCEEDED: PipelineEventKind.BOUND_REACHED,
}
"""What the kernel tells of a process, by its meaning for the pipeline; all else has none."""


_LONGEST_MS = 600_000
"""A run takes no longer if the model calls of its process are limited: they are reserved for it."""
_SETTLE_MS = 60_000


class ExecutionCalls(Calls):
    """The operations by which a caller has agents run by the server."""

    async def execute_pipeline(
        self, request: ExecutePipelineRequest
    ) -> AsyncGenerator[NumberedPipelineEvent]:
        """Run a pipeline with its agents on the server, and show what happens in it."""
        kernel, tenant = self._kernel, self._caller.tenant
        pid, envelope = request.pid, self._new_id()
        if request.pipeline is not None:
            check_runs_here(request.pipeline, kernel.executions.runner)
        caller = self._caller
        before = await self._do(lambda it: begin(it, request, pid, caller, envelope))
        after, missed = max(before, request.after), 0
        while True:
            due_ms = await self._see(lambda it: _due_ms(it, pid))
            page = await kernel.store.events(tenant, after=after, limit=PAGE)
            missed += page.missed
            for kept in page.events:
                after, told = kept.number, from_json(KernelEvent, kept.event)
                event = _pipeline_event(told) if told.pid == pid else None
                if event is not None:
                    yield NumberedPipelineEvent(kept.number, kept.at_ms, event, missed)
                    missed = 0
                    if told.kind is KernelEventKind.SESSION_ENDED:
                        return
            if page.events:
                continue
            if due_ms is None:
                return
            if kernel.is_draining:
                raise OperationError(
                    RefusalCode.EXHAUSTED, "this server ends; go on at another with this pid"
                )
            if due_ms <= kernel.clock.now():
                kernel.executions.start(tenant, pid)
            await kernel.wait_for_change(tenant, kernel.clock.now() + POLL_MS)

    async def execute_agent(self, request: ExecuteAgentRequest) -> AgentAnswer:
        """Run one agent on the server, for one answer."""
        return await self._answer(
            AgentRun(
                self._caller.tenant,
                request.agent,
                request.prompt,
                request.definition,
                pid=request.pid,
                timeout_ms=request.timeout_ms,
            )
        )

    async def dispatch_inference(self, request: InferenceRequest) -> AgentAnswer:
        """Call a model once, through the gate and within what is left to spend."""
        said = [_MESSAGES[message.role](message.text) for message in request.messages]
        prompt = request.prompt
        if not prompt:
            if not said or request.messages[-1].role is not MessageRole.USER:
                raise OperationError(
                    RefusalCode.INVALID,
                    "there is nothing to answer; send a `prompt`, or `messages` that end with one "
                    "of the user",
                )
            said.pop()
            prompt = request.messages[-1].text
        definition = AgentDefinition(
            request.model,
            request.system,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            max_steps=1,
            budget=request.budget,
        )
        return await self._answer(
            AgentRun(
                self._caller.tenant,
                "inference",
                prompt,
                definition,
                tuple(said),
                pid=request.pid,
                timeout_ms=request.timeout_ms,
            )
        )

    # Tenants, and what agents may spend for them.

    async def list_tenants(self, request: ListTenantsRequest) -> TenantPage:
        """List the tenants that have had a token or a budget, a page at a time."""
        return await self._kernel.read(SERVERS, lambda it: tenants.list_page(it, request))

    async def get_tenant_budget(self, request: TenantRequest) -> TenantBudget:
        """Show what the agents of a tenant may spend, and have spent."""
        find = self._kernel.read(SERVERS, lambda it: tenants.tenant_of(it, request.tenant))
        return await self._standing(await find)

    async def set_tenant_budget(self, request: SetTenantBudgetRequest) -> TenantBudget:
        """Say what the agents of a tenant may spend, at every server from the next call on."""
        by = self._caller.user
        decide = self._kernel.transact(SERVERS, lambda it: tenants.set_budget(it, request, by))
        return await self._standing(await decide)

    async def get_budget(self, request: EmptyRequest) -> TenantBudget:
        """Show what the agents of your own tenant may spend, and have spent; and your wallet."""
        tenant, caller = self._caller.tenant, self._caller
        find = self._kernel.read(SERVERS, lambda it: tenants.tenant_of(it, tenant))
        return await self._standing(await find, caller.wallet, caller.wallet_cap)

    async def _standing(
        self, found: tenants.FoundTenant, wallet: str = "", wallet_cap: Money | None = None
    ) -> TenantBudget:
        executions, (record, known) = self._kernel.executions, found
        is_set = bool(record.budget)
        if not executions.has_agents:
            return TenantBudget(
                record.tenant, record.budget, is_set, known=known, wallet=wallet_cap
            )
        stands = await executions.runner.spending(
            TenantId(record.tenant), record.budget, wallet, wallet_cap
        )
        return TenantBudget(
            record.tenant,
            stands.budget,
            is_set,
            stands.spent,
            stands.remaining,
            known,
            wallet_cap,
            stands.wallet_spent,
            stands.wallet_remaining,
        )

    async def _answer(self, run: AgentRun) -> AgentAnswer:
        """Run an agent within what is left to its process, and count there what it used."""
        runner, pid = self._kernel.executions.runner, run.pid
        problem = runner.problem(run.agent, run.definition)
        if problem:
            raise OperationError(RefusalCode.INVALID, problem)
        key = self._new_id()
        run = replace(run, wallet=self._caller.wallet, wallet_cap=self._caller.wallet_cap)
        if pid:
            wanted = runner.most_calls(run.agent, run.definition, None)
            run = await self._do(lambda it: _within_quota(it, run, key, wanted))
        # In a task of its own: who waits no longer cuts the run off, but not what it cost.
        running = asyncio.ensure_future(self._counted(run, key))
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            raise
        metrics = metrics_of(result)
        if result.failure is StageFailure.RESOURCE_EXHAUSTED and not result.cost:
            raise OperationError(RefusalCode.BUDGET_EXCEEDED, result.error)
        return AgentAnswer(
            result.text,
            result.output,
            "" if result.finish is None else result.finish,
            metrics,
            "" if result.failure is None else result.failure,
            result.error,
        )

    async def _counted(self, run: AgentRun, key: str) -> AgentResult:
        """Run an agent, and count what it used for its process."""
        result = await self._kernel.executions.runner.run(run)

        def settle(tables: KernelTables) -> None:
            processes.free_calls(tables, run.pid, lambda one: one == key)
            processes.record_usage(tables, RecordUsageRequest(run.pid, used_by(result)))

        if run.pid:
            await self._do(settle)
        return result


_MESSAGES: Final[dict[MessageRole, Callable[[str], Message]]] = {
    MessageRole.USER: lambda text: UserMessage((Text(text),)),
    MessageRole.ASSISTANT: lambda text: AssistantMessage((Text(text),)),
}


def _within_quota(tables: KernelTables, run: AgentRun, key: str, wanted: int) -> AgentRun:
    """Return the run with what its process has left, its model calls reserved; or refuse one that
    has nothing left. A run that could outlast what it has reserved is cut off before."""
    process = tables.need(PROCESS, run.pid)
    if not process.state.is_living:
        raise OperationError(RefusalCode.CONFLICT, f"process {run.pid!r} has ended")
    if run.wallet and run.wallet != process.wallet:
        # It would spend what the wallet of its token does not count.
        raise OperationError(
            RefusalCode.FORBIDDEN,
            f"this token has a wallet, and process {run.pid!r} was made with another token; make "
            "one with this token",
        )
    verdict = process.quota.check(Consumption(model_calls=1), tables.now)
    if isinstance(verdict, QuotaExceeded):
        raise OperationError(
            RefusalCode.BUDGET_EXCEEDED,
            f"process {run.pid!r} has used {verdict.used} of {verdict.limit} {verdict.dimension}; "
            "make another process with a larger quota",
        )
    timeout_ms = min(run.timeout_ms or _LONGEST_MS, _LONGEST_MS)
    until_ms = tables.now + timeout_ms + _SETTLE_MS
    share = processes.reserve_calls(tables, run.pid, key, wanted, until_ms)
    if share.held:
        raise OperationError(
            RefusalCode.EXHAUSTED,
            f"process {run.pid!r} has no model call free: {share.held} are reserved by runs under "
            "way; try again when one has ended, or make another process with a larger quota",
        )
    return replace(
        run,
        money=process.quota.rule.money,
        money_left=process.quota.remaining(tables.now).money,
        calls=share.calls,
        timeout_ms=run.timeout_ms if share.calls is None else timeout_ms,
        wallet=process.wallet,
        wallet_cap=process.wallet_cap,
    )


def _due_ms(tables: KernelTables, pid: str) -> int | None:
    """When a server may claim the pipeline; None if it has ended, or is forgotten."""
    execution = tables.get(EXECUTION, pid)
    return None if execution is None or execution.ended else execution.lease_until_ms


def _pipeline_event(told: KernelEvent) -> PipelineEvent | None:
    detail: dict[str, Any] = {**told.detail}
    stage, task = detail.pop("stage", ""), detail.pop("task", "")
    if told.kind is KernelEventKind.SESSION_ENDED:
        is_complete = detail.get("reason") == TerminalReason.COMPLETED
        kind = PipelineEventKind.COMPLETED if is_complete else PipelineEventKind.TERMINATED
    else:
        found = _KINDS.get(told.kind)
        if found is None:
            return None
        kind = found
    return PipelineEvent(kind, told.pid, stage, task, detail)
