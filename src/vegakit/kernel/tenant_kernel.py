"""The kernel as one caller sees it: the rows of `control.KERNEL_OPERATIONS` as methods.

A method is one decision of its subject's module in one transaction; what waits on purpose (a
stream, the next instruction) looks again whenever something changed.
"""

from collections.abc import AsyncGenerator

from vegakit.control import (
    BoundsReply,
    CheckQuotaRequest,
    CheckRateLimitRequest,
    CreateEnvelopeRequest,
    CreateInterruptRequest,
    CreateProcessRequest,
    EmptyRequest,
    EnvelopeIdRequest,
    InitializeSessionRequest,
    InterruptIdRequest,
    InterruptPage,
    InterruptRecord,
    KernelEvent,
    KernelProcess,
    KernelRequestStatus,
    ListInterruptsRequest,
    ListProcessesRequest,
    NextInstructionRequest,
    NextRunnable,
    NextRunnableRequest,
    NumberedEvent,
    OperationError,
    PendingInterrupt,
    PidRequest,
    PipelineEnvelope,
    ProcessCounts,
    ProcessPage,
    QuotaReply,
    RateLimitReply,
    RecordUsageRequest,
    RefusalCode,
    RenewProcessRequest,
    RenewTaskRequest,
    ReportRequest,
    ResolveInterruptRequest,
    SessionRecord,
    SessionReply,
    SystemStatus,
    TaskLease,
    TerminateProcessRequest,
    TerminateSessionRequest,
    TransitionRequest,
    UpdateEnvelopeRequest,
    UseApprovalRequest,
    WatchRequest,
)
from vegakit.ids import InterruptId
from vegakit.kernel import interrupts, processes, sessions, status
from vegakit.kernel.bus_calls import BusCalls
from vegakit.kernel.execution_calls import ExecutionCalls
from vegakit.kernel.kernel import PAGE, POLL_MS
from vegakit.kernel.service_calls import ServiceCalls
from vegakit.kernel.tables import ENVELOPE, INTERRUPT, PROCESS, SESSION, KernelTables
from vegakit.policy import (
    ProcessState,
    RemainingBudget,
    WaitForInterrupts,
    WaitForTasks,
)
from vegakit.records import from_json


class TenantKernel(ServiceCalls, ExecutionCalls, BusCalls):
    """The kernel of one tenant, as one caller sees it. Its methods are the rows of
    `KERNEL_OPERATIONS`."""

    # Processes.

    async def create_process(self, request: CreateProcessRequest) -> KernelProcess:
        """Make a process, in state new."""
        pid = request.pid or self._new_id()
        return await self._do(lambda it: processes.create(it, request, pid, self._caller))

    async def submit(self, request: CreateProcessRequest) -> KernelProcess:
        """Make a process and put it into the queue."""
        pid = request.pid or self._new_id()

        def decide(tables: KernelTables) -> KernelProcess:
            process = processes.create(tables, request, pid, self._caller)
            is_new = process.state is ProcessState.NEW
            return processes.schedule(tables, pid) if is_new else process

        return await self._do(decide)

    async def get_process(self, request: PidRequest) -> KernelProcess:
        """Show a process."""
        return await self._see(lambda it: it.need(PROCESS, request.pid))

    async def schedule_process(self, request: PidRequest) -> KernelProcess:
        """Put a process into the queue of those that are ready."""
        return await self._do(lambda it: processes.schedule(it, request.pid))

    async def get_next_runnable(self, request: NextRunnableRequest) -> NextRunnable:
        """Take the next process of the queue, to run it."""
        return NextRunnable(await self._do(lambda it: processes.take_next(it, request)))

    async def renew_process(self, request: RenewProcessRequest) -> KernelProcess:
        """Keep a process that is still worked on."""
        return await self._do(lambda it: processes.renew(it, request))

    async def transition_state(self, request: TransitionRequest) -> KernelProcess:
        """Move a process to another state, by the one table of moves."""
        return await self._do(lambda it: processes.transition(it, request, self._caller.user))

    async def terminate_process(self, request: TerminateProcessRequest) -> KernelProcess:
        """End a process, with its questions and its children."""
        return await self._do(lambda it: processes.terminate(it, request))

    async def check_quota(self, request: CheckQuotaRequest) -> QuotaReply:
        """Say whether a step fits the quota of a process, and what is left."""
        return await self._see(lambda it: processes.check_quota(it, request))

    async def record_usage(self, request: RecordUsageRequest) -> QuotaReply:
        """Count what a process has used, and say what is left."""
        return await self._do(lambda it: processes.record_usage(it, request))

    async def list_processes(self, request: ListProcessesRequest) -> ProcessPage:
        """List processes, a page at a time."""
        return await self._see(lambda it: processes.list_page(it, request))

    async def get_process_counts(self, request: EmptyRequest) -> ProcessCounts:
        """Count the processes by state."""
        return await self._see(lambda it: status.process_counts(it.records.counts(PROCESS.name)))

    # Questions.

    async def create_interrupt(self, request: CreateInterruptRequest) -> InterruptRecord:
        """Ask a person, and hold the process until someone answers."""
        key = InterruptId(request.id or self._new_id())
        return await self._do(lambda it: interrupts.create(it, request, key))

    async def resolve_interrupt(self, request: ResolveInterruptRequest) -> InterruptRecord:
        """Answer a question; an answer is final."""
        return await self._do(lambda it: interrupts.resolve(it, request, self._caller.user))

    async def use_approval(self, request: UseApprovalRequest) -> InterruptRecord:
        """Use an approval for exactly the action that was approved, once."""
        return await self._do(lambda it: interrupts.use(it, request))

    async def cancel_interrupt(self, request: InterruptIdRequest) -> InterruptRecord:
        """Close a question, or take back a permission that was not used."""
        return await self._do(lambda it: interrupts.cancel(it, request.id))

    async def get_interrupt(self, request: InterruptIdRequest) -> InterruptRecord:
        """Show a question and how it stands."""
        return await self._see(lambda it: it.need(INTERRUPT, request.id))

    async def get_pending_interrupt(self, request: PidRequest) -> PendingInterrupt:
        """Show the question that holds a process."""
        found = await self._see(lambda it: interrupts.pending_of(it, request.pid))
        return PendingInterrupt(found)

    async def list_interrupts(self, request: ListInterruptsRequest) -> InterruptPage:
        """List questions, a page at a time."""
        return await self._see(lambda it: interrupts.list_page(it, request))

    async def watch_events(self, request: WatchRequest) -> AsyncGenerator[NumberedEvent]:
        """Show what happened after a cursor, and what happens next."""
        kernel, tenant, after = self._kernel, self._caller.tenant, request.after
        page = await kernel.store.events(tenant, after=after, limit=PAGE)
        if after and not page.events:
            last = await self._see(lambda it: it.records.last_event())
            if after > last:
                # Waiting for it would be silence about all that happens until then.
                raise OperationError(
                    RefusalCode.INVALID,
                    f"after={after} is beyond the last event, {last}; begin there",
                )
        missed = 0
        while True:
            missed += page.missed
            for kept in page.events:
                after, event = kept.number, from_json(KernelEvent, kept.event)
                if request.pid in ("", event.pid) and event.kind in (
                    request.kinds or (event.kind,)
                ):
                    yield NumberedEvent(kept.number, kept.at_ms, event, missed)
                    missed = 0
            is_last = len(page.events) < PAGE
            if (request.follow and kernel.is_draining) or (is_last and not request.follow):
                return
            if is_last and not page.events:
                await kernel.wait_for_change(tenant, kernel.clock.now() + POLL_MS)
            page = await kernel.store.events(tenant, after=after, limit=PAGE)

    # Envelopes and sessions.

    async def create_envelope(self, request: CreateEnvelopeRequest) -> PipelineEnvelope:
        """Make an envelope for a request."""
        key = request.id or self._new_id()
        return await self._do(
            lambda it: sessions.create_envelope(it, request, key, self._caller.user)
        )

    async def get_envelope(self, request: EnvelopeIdRequest) -> PipelineEnvelope:
        """Show an envelope."""
        return await self._see(lambda it: it.need(ENVELOPE, request.id))

    async def update_envelope(self, request: UpdateEnvelopeRequest) -> PipelineEnvelope:
        """Merge outputs into an envelope, if nobody changed it meanwhile."""
        return await self._do(lambda it: sessions.update_envelope(it, request))

    async def clone_envelope(self, request: EnvelopeIdRequest) -> PipelineEnvelope:
        """Copy an envelope, to go two ways with it."""
        new_key = self._new_id()
        return await self._do(lambda it: sessions.clone_envelope(it, request.id, new_key))

    async def initialize_session(self, request: InitializeSessionRequest) -> SessionReply:
        """Begin a session of a process through a pipeline."""
        envelope = self._new_id()
        return await self._do(lambda it: sessions.initialize(it, request, envelope))

    async def get_next_instruction(self, request: NextInstructionRequest) -> SessionReply:
        """Say what a worker does next: run tasks, wait, or end."""
        kernel, tenant = self._kernel, self._caller.tenant
        deadline_ms = kernel.clock.now() + request.wait_ms
        while True:
            reply, version = await self._do(lambda it: sessions.next_instruction(it, request.pid))
            waits = reply.instruction
            if not isinstance(waits, WaitForTasks | WaitForInterrupts):
                return reply
            due_ms = waits.until_ms if isinstance(waits, WaitForTasks) else deadline_ms
            due_ms = min(due_ms, deadline_ms)
            # Looking costs little, and a transaction is only made when there is something new.
            while not (kernel.is_draining or kernel.clock.now() >= due_ms):
                if await self._see(lambda it: sessions.version_of(it, request.pid)) != version:
                    break
                await kernel.wait_for_change(tenant, due_ms)
            if kernel.is_draining or kernel.clock.now() >= deadline_ms:
                return reply

    async def report_agent_result(self, request: ReportRequest) -> SessionReply:
        """Take what came of a task, and say what comes next."""
        return await self._do(lambda it: sessions.report(it, request))

    async def renew_task(self, request: RenewTaskRequest) -> TaskLease:
        """Keep a task that is still worked on."""
        return TaskLease(await self._do(lambda it: sessions.renew(it, request.pid, request.task)))

    async def get_session_state(self, request: PidRequest) -> SessionRecord:
        """Show a session as it stands."""
        return await self._see(lambda it: it.need(SESSION, request.pid))

    async def terminate_session(self, request: TerminateSessionRequest) -> SessionRecord:
        """End a session; the first reason stands."""
        return await self._do(lambda it: sessions.terminate(it, request))

    # How users, processes and the kernel as a whole stand.

    async def check_rate_limit(self, request: CheckRateLimitRequest) -> RateLimitReply:
        """Take requests of a user's limits, or say when they fit."""
        rule, user = self._kernel.user_rate, request.user or self._caller.user
        carry_out = self._do if request.take else self._see
        return await carry_out(lambda it: status.check_rate(it, rule, request, user))

    async def get_system_status(self, request: EmptyRequest) -> SystemStatus:
        """Show the kernel as a whole."""
        kernel = self._kernel
        uptime_ms = kernel.clock.now() - kernel.started_ms
        return await self._see(lambda it: status.system_status(it, kernel.user_rate, uptime_ms))

    async def get_request_status(self, request: PidRequest) -> KernelRequestStatus:
        """Show a process with its envelope, its question and what it may still use."""
        return await self._see(lambda it: status.request_status(it, request.pid))

    async def check_bounds(self, request: PidRequest) -> BoundsReply:
        """Show every bound of a process and its session, and which one ended it."""
        return await self._see(lambda it: status.check_bounds(it, request.pid))

    async def get_remaining(self, request: PidRequest) -> RemainingBudget:
        """Show what a process may still use."""
        return await self._see(lambda it: it.need(PROCESS, request.pid).quota.remaining(it.now))

    async def forget_session(self, request: PidRequest) -> SessionRecord:
        """Remove a session that has ended, with its envelope; its process may begin another."""
        return await self._do(lambda it: status.forget_session(it, request.pid))
