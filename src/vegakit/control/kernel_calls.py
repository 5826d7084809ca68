"""The operations of the kernel as methods of a client, each with its own request and reply.

Made from the table by `python tools/kernel_calls.py --write`; a test compares. How a request is
carried is for a subclass to say.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TypeVar

from msgspec import Struct

from vegakit.control.bus_messages import (
    AnswerCommandRequest,
    CommandIdRequest,
    CommandRecord,
    PublishedMessage,
    PublishRequest,
    QueryRequest,
    RenewCommandRequest,
    SendRequest,
    SubscribeRequest,
    TakeCommandRequest,
    TakenCommand,
    TopicItem,
)
from vegakit.control.execution_messages import (
    AgentAnswer,
    ExecuteAgentRequest,
    ExecutePipelineRequest,
    InferenceRequest,
    ListTenantsRequest,
    NumberedPipelineEvent,
    SetTenantBudgetRequest,
    TenantBudget,
    TenantPage,
    TenantRequest,
)
from vegakit.control.kernel_messages import (
    CheckQuotaRequest,
    CreateEnvelopeRequest,
    CreateInterruptRequest,
    CreateProcessRequest,
    EnvelopeIdRequest,
    InitializeSessionRequest,
    InterruptIdRequest,
    InterruptPage,
    InterruptRecord,
    KernelProcess,
    ListInterruptsRequest,
    ListProcessesRequest,
    NextInstructionRequest,
    NextRunnable,
    NextRunnableRequest,
    NumberedEvent,
    PendingInterrupt,
    PidRequest,
    PipelineEnvelope,
    ProcessCounts,
    ProcessPage,
    QuotaReply,
    RecordUsageRequest,
    RenewProcessRequest,
    RenewTaskRequest,
    ReportRequest,
    ResolveInterruptRequest,
    SessionRecord,
    SessionReply,
    TaskLease,
    TerminateProcessRequest,
    TerminateSessionRequest,
    TransitionRequest,
    UpdateEnvelopeRequest,
    UseApprovalRequest,
    WatchRequest,
)
from vegakit.control.messages import EmptyRequest
from vegakit.control.service_messages import (
    BoundsReply,
    CheckRateLimitRequest,
    CompleteCallRequest,
    DispatchReply,
    DispatchRequest,
    KernelRequestStatus,
    ListServicesRequest,
    RateLimitReply,
    RegisterServiceRequest,
    RenewCallRequest,
    ServiceCall,
    ServiceNameRequest,
    ServicePage,
    ServiceStats,
    ServiceView,
    SystemStatus,
    TakeCallRequest,
    TakenCall,
    UpdateHealthRequest,
)
from vegakit.policy import RemainingBudget

ReplyT = TypeVar("ReplyT", bound=Struct)


class KernelCalls(ABC):
    """The rows of `KERNEL_OPERATIONS`, as `kernel.TenantKernel` has them."""

    @abstractmethod
    async def call(self, name: str, request: Struct, reply: type[ReplyT]) -> ReplyT:
        """Carry out the operation of this name, and return its reply."""

    @abstractmethod
    def stream(self, name: str, request: Struct, reply: type[ReplyT]) -> AsyncGenerator[ReplyT]:
        """Begin the stream of this name, and yield what it tells."""

    async def create_process(self, request: CreateProcessRequest) -> KernelProcess:
        """Make a process, in state new."""
        return await self.call("create_process", request, KernelProcess)

    async def submit(self, request: CreateProcessRequest) -> KernelProcess:
        """Make a process and put it into the queue."""
        return await self.call("submit", request, KernelProcess)

    async def get_process(self, request: PidRequest) -> KernelProcess:
        """Show a process."""
        return await self.call("get_process", request, KernelProcess)

    async def schedule_process(self, request: PidRequest) -> KernelProcess:
        """Put a process into the queue of those that are ready."""
        return await self.call("schedule_process", request, KernelProcess)

    async def get_next_runnable(self, request: NextRunnableRequest) -> NextRunnable:
        """Take the next process of the queue, to run it."""
        return await self.call("get_next_runnable", request, NextRunnable)

    async def renew_process(self, request: RenewProcessRequest) -> KernelProcess:
        """Keep a process that is still worked on."""
        return await self.call("renew_process", request, KernelProcess)

    async def transition_state(self, request: TransitionRequest) -> KernelProcess:
        """Move a process to another state, by the one table of moves."""
        return await self.call("transition_state", request, KernelProcess)

    async def terminate_process(self, request: TerminateProcessRequest) -> KernelProcess:
        """End a process, with its questions and its children."""
        return await self.call("terminate_process", request, KernelProcess)

    async def check_quota(self, request: CheckQuotaRequest) -> QuotaReply:
        """Say whether a step fits the quota of a process, and what is left."""
        return await self.call("check_quota", request, QuotaReply)

    async def record_usage(self, request: RecordUsageRequest) -> QuotaReply:
        """Count what a process has used, and say what is left."""
        return await self.call("record_usage", request, QuotaReply)

    async def list_processes(self, request: ListProcessesRequest) -> ProcessPage:
        """List processes, a page at a time."""
        return await self.call("list_processes", request, ProcessPage)

    async def get_process_counts(self, request: EmptyRequest) -> ProcessCounts:
        """Count the processes by state."""
        return await self.call("get_process_counts", request, ProcessCounts)

    async def create_interrupt(self, request: CreateInterruptRequest) -> InterruptRecord:
        """Ask a person, and hold the process until someone answers."""
        return await self.call("create_interrupt", request, InterruptRecord)

    async def resolve_interrupt(self, request: ResolveInterruptRequest) -> InterruptRecord:
        """Answer a question; an answer is final."""
        return await self.call("resolve_interrupt", request, InterruptRecord)

    async def use_approval(self, request: UseApprovalRequest) -> InterruptRecord:
        """Use an approval for exactly the action that was approved, once."""
        return await self.call("use_approval", request, InterruptRecord)

    async def cancel_interrupt(self, request: InterruptIdRequest) -> InterruptRecord:
        """Close a question, or take back a permission that was not used."""
        return await self.call("cancel_interrupt", request, InterruptRecord)

    async def get_interrupt(self, request: InterruptIdRequest) -> InterruptRecord:
        """Show a question and how it stands."""
        return await self.call("get_interrupt", request, InterruptRecord)

    async def get_pending_interrupt(self, request: PidRequest) -> PendingInterrupt:
        """Show the question that holds a process."""
        return await self.call("get_pending_interrupt", request, PendingInterrupt)

    async def list_interrupts(self, request: ListInterruptsRequest) -> InterruptPage:
        """List questions, a page at a time."""
        return await self.call("list_interrupts", request, InterruptPage)

    def watch_events(self, request: WatchRequest) -> AsyncGenerator[NumberedEvent]:
        """Show what happened after a cursor, and what happens next."""
        return self.stream("watch_events", request, NumberedEvent)

    async def create_envelope(self, request: CreateEnvelopeRequest) -> PipelineEnvelope:
        """Make an envelope for a request."""
        return await self.call("create_envelope", request, PipelineEnvelope)

    async def get_envelope(self, request: EnvelopeIdRequest) -> PipelineEnvelope:
        """Show an envelope."""
        return await self.call("get_envelope", request, PipelineEnvelope)

    async def update_envelope(self, request: UpdateEnvelopeRequest) -> PipelineEnvelope:
        """Merge outputs into an envelope, if nobody changed it meanwhile."""
        return await self.call("update_envelope", request, PipelineEnvelope)

    async def clone_envelope(self, request: EnvelopeIdRequest) -> PipelineEnvelope:
        """Copy an envelope, to go two ways with it."""
        return await self.call("clone_envelope", request, PipelineEnvelope)

    async def initialize_session(self, request: InitializeSessionRequest) -> SessionReply:
        """Begin a session of a process through a pipeline."""
        return await self.call("initialize_session", request, SessionReply)

    async def get_next_instruction(self, request: NextInstructionRequest) -> SessionReply:
        """Say what a worker does next: run tasks, wait, or end."""
        return await self.call("get_next_instruction", request, SessionReply)

    async def report_agent_result(self, request: ReportRequest) -> SessionReply:
        """Take what came of a task, and say what comes next."""
        return await self.call("report_agent_result", request, SessionReply)

    async def renew_task(self, request: RenewTaskRequest) -> TaskLease:
        """Keep a task that is still worked on."""
        return await self.call("renew_task", request, TaskLease)

    async def get_session_state(self, request: PidRequest) -> SessionRecord:
        """Show a session as it stands."""
        return await self.call("get_session_state", request, SessionRecord)

    async def terminate_session(self, request: TerminateSessionRequest) -> SessionRecord:
        """End a session; the first reason stands."""
        return await self.call("terminate_session", request, SessionRecord)

    def execute_pipeline(
        self, request: ExecutePipelineRequest
    ) -> AsyncGenerator[NumberedPipelineEvent]:
        """Run a pipeline with its agents on the server, and show what happens in it."""
        return self.stream("execute_pipeline", request, NumberedPipelineEvent)

    async def execute_agent(self, request: ExecuteAgentRequest) -> AgentAnswer:
        """Run one agent on the server, for one answer."""
        return await self.call("execute_agent", request, AgentAnswer)

    async def dispatch_inference(self, request: InferenceRequest) -> AgentAnswer:
        """Call a model once, through the gate and within what is left to spend."""
        return await self.call("dispatch_inference", request, AgentAnswer)

    async def list_tenants(self, request: ListTenantsRequest) -> TenantPage:
        """List the tenants that have had a token or a budget, a page at a time."""
        return await self.call("list_tenants", request, TenantPage)

    async def get_tenant_budget(self, request: TenantRequest) -> TenantBudget:
        """Show what the agents of a tenant may spend, and have spent."""
        return await self.call("get_tenant_budget", request, TenantBudget)

    async def set_tenant_budget(self, request: SetTenantBudgetRequest) -> TenantBudget:
        """Say what the agents of a tenant may spend, at every server from the next call on."""
        return await self.call("set_tenant_budget", request, TenantBudget)

    async def get_budget(self, request: EmptyRequest) -> TenantBudget:
        """Show what the agents of your own tenant may spend, and have spent."""
        return await self.call("get_budget", request, TenantBudget)

    async def publish(self, request: PublishRequest) -> PublishedMessage:
        """Give a message to whoever reads a topic; it is not kept for long."""
        return await self.call("publish", request, PublishedMessage)

    def subscribe(self, request: SubscribeRequest) -> AsyncGenerator[TopicItem]:
        """Show the messages of a topic after a cursor, and those to come."""
        return self.stream("subscribe", request, TopicItem)

    async def send(self, request: SendRequest) -> CommandRecord:
        """Give a command to exactly one handler of a topic; it is kept until it is handled."""
        return await self.call("send", request, CommandRecord)

    async def query(self, request: QueryRequest) -> CommandRecord:
        """Give a command to exactly one handler of a topic, and wait for its answer."""
        return await self.call("query", request, CommandRecord)

    async def take_command(self, request: TakeCommandRequest) -> TakenCommand:
        """Take the next command of a topic, to handle it."""
        return await self.call("take_command", request, TakenCommand)

    async def renew_command(self, request: RenewCommandRequest) -> CommandRecord:
        """Keep a command that is still handled."""
        return await self.call("renew_command", request, CommandRecord)

    async def answer_command(self, request: AnswerCommandRequest) -> CommandRecord:
        """Say what came of a command; the first answer stands."""
        return await self.call("answer_command", request, CommandRecord)

    async def get_command(self, request: CommandIdRequest) -> CommandRecord:
        """Show a command and how it stands."""
        return await self.call("get_command", request, CommandRecord)

    async def register_service(self, request: RegisterServiceRequest) -> ServiceView:
        """Offer a service, or say what is different now."""
        return await self.call("register_service", request, ServiceView)

    async def unregister_service(self, request: ServiceNameRequest) -> ServiceView:
        """Take a service away; its requests go to others that can do them."""
        return await self.call("unregister_service", request, ServiceView)

    async def update_health(self, request: UpdateHealthRequest) -> ServiceView:
        """Say how a service is, and that it lives."""
        return await self.call("update_health", request, ServiceView)

    async def get_service(self, request: ServiceNameRequest) -> ServiceView:
        """Show a service, its load and its health."""
        return await self.call("get_service", request, ServiceView)

    async def list_services(self, request: ListServicesRequest) -> ServicePage:
        """List services, of a type or with a capability, a page at a time."""
        return await self.call("list_services", request, ServicePage)

    async def get_service_stats(self, request: EmptyRequest) -> ServiceStats:
        """Count the services, their load and what they can take."""
        return await self.call("get_service_stats", request, ServiceStats)

    async def dispatch(self, request: DispatchRequest) -> DispatchReply:
        """Have the least loaded service do a request, and wait for its response."""
        return await self.call("dispatch", request, DispatchReply)

    async def take_request(self, request: TakeCallRequest) -> TakenCall:
        """Take the next request of a service, to work on it."""
        return await self.call("take_request", request, TakenCall)

    async def renew_request(self, request: RenewCallRequest) -> ServiceCall:
        """Keep a request that is still worked on."""
        return await self.call("renew_request", request, ServiceCall)

    async def complete_request(self, request: CompleteCallRequest) -> ServiceCall:
        """Give the response to a request."""
        return await self.call("complete_request", request, ServiceCall)

    async def check_rate_limit(self, request: CheckRateLimitRequest) -> RateLimitReply:
        """Take requests of a user's limits, or say when they fit."""
        return await self.call("check_rate_limit", request, RateLimitReply)

    async def get_system_status(self, request: EmptyRequest) -> SystemStatus:
        """Show the kernel as a whole."""
        return await self.call("get_system_status", request, SystemStatus)

    async def get_request_status(self, request: PidRequest) -> KernelRequestStatus:
        """Show a process with its envelope, its question and what it may still use."""
        return await self.call("get_request_status", request, KernelRequestStatus)

    async def check_bounds(self, request: PidRequest) -> BoundsReply:
        """Show every bound of a process and its session, and which one ended it."""
        return await self.call("check_bounds", request, BoundsReply)

    async def get_remaining(self, request: PidRequest) -> RemainingBudget:
        """Show what a process may still use."""
        return await self.call("get_remaining", request, RemainingBudget)

    async def forget_session(self, request: PidRequest) -> SessionRecord:
        """Remove a session that has ended, with its envelope; its process may begin another."""
        return await self.call("forget_session", request, SessionRecord)
