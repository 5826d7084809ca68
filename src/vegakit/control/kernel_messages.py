"""Records, requests and replies of the kernel's operations (pure).

A record is what the kernel keeps and what callers see of it. No request has a field for the tenant
or for who asks: whoever carries a request to the kernel has authenticated the caller. Times are
milliseconds since 1970.
"""

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from vegakit.ids import Digest, InterruptId
from vegakit.money import Money
from vegakit.policy import (
    Consumption,
    Instruction,
    Interrupt,
    InterruptAnswer,
    InterruptKind,
    InterruptStatus,
    Pipeline,
    PipelineSession,
    Priority,
    ProcessState,
    Quota,
    QuotaExceeded,
    QuotaRule,
    RemainingBudget,
    StageOutcome,
    TaskId,
    TerminalReason,
    WithinQuota,
)

_PRINTED = r"^[^\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]*$(?!\n)"
"""What a database and a screen can hold: no control characters, and none that turn the direction of
what is read. In Python `$` also stands before a last newline."""
_MOST = 1 << 53
"""The largest whole number that every client of JSON can hold."""
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=_PRINTED)]
OptionalName: TypeAlias = Annotated[str, Meta(max_length=200, pattern=_PRINTED)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST)]
PageSize: TypeAlias = Annotated[int, Meta(ge=1, le=200)]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=1, le=7 * 86_400_000)]
JsonObject: TypeAlias = dict[str, Any]


# Processes.


class KernelProcess(Struct, frozen=True, omit_defaults=True):
    """A process of a tenant. `ready_ms` is since when it waits for its turn; `lease_until_ms` is
    how long its `holder`, who took it to run it, has said it lives. `wallet` is the token that it
    was made with, if that has one: what agents spend for it here is of its `wallet_cap`."""

    pid: str
    user: str
    created_ms: int
    quota: Quota
    request: str = ""
    session: str = ""
    parent: str = ""
    children: tuple[str, ...] = ()
    priority: Priority = Priority.NORMAL
    state: ProcessState = ProcessState.NEW
    stage: str = ""
    service: str = ""
    interrupt: InterruptId | None = None
    ready_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    holder: str = ""
    lease_until_ms: int | None = None
    reason: str = ""
    wallet: str = ""
    wallet_cap: Money | None = None


class CreateProcessRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A caller that names the `pid` may ask again without making a second process."""

    pid: OptionalName = ""
    request: OptionalName = ""
    session: OptionalName = ""
    parent: OptionalName = ""
    priority: Priority = Priority.NORMAL
    quota: QuotaRule = QuotaRule()


class PidRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The process that an operation is about."""

    pid: Name


class NextRunnableRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`holder` is who runs it; if it renews nothing for `lease_ms`, the process is ready again."""

    holder: Name
    lease_ms: Milliseconds = 60_000


class RenewProcessRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`holder` still works on the process, and will say so again within `lease_ms`."""

    pid: Name
    holder: Name
    lease_ms: Milliseconds = 60_000


class NextRunnable(Struct, frozen=True, omit_defaults=True):
    """The process to run; None if none is ready."""

    process: KernelProcess | None = None


class TransitionRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`stage` and `service` are set where given. A `holder` that is named must still have what it
    runs; whoever runs it again has it for `lease_ms`."""

    pid: Name
    to: ProcessState
    holder: OptionalName = ""
    lease_ms: Milliseconds = 60_000
    stage: OptionalName | UnsetType = UNSET
    service: OptionalName | UnsetType = UNSET
    reason: Annotated[str, Meta(max_length=2_000)] = ""


class TerminateProcessRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Its children end too, and theirs, unless `tree` is false."""

    pid: Name
    reason: Annotated[str, Meta(max_length=2_000)] = ""
    tree: bool = True


class ListProcessesRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`after` is `next` of the page before."""

    state: ProcessState | None = None
    user: OptionalName = ""
    after: OptionalName = ""
    limit: PageSize = 100


class ProcessPage(Struct, frozen=True, omit_defaults=True):
    """A page of processes by pid; `next` is empty on the last page."""

    processes: tuple[KernelProcess, ...]
    next: str = ""


class ProcessCounts(Struct, frozen=True):
    """The number of processes in each state, and of all."""

    by_state: dict[str, int]
    total: int


# Quotas.


class CheckQuotaRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`wanted` is what the next step will use."""

    pid: Name
    wanted: Consumption = Consumption()


class QuotaReply(Struct, frozen=True, omit_defaults=True):
    """Whether the step fits, and what is left."""

    verdict: WithinQuota | QuotaExceeded
    remaining: RemainingBudget


class RecordUsageRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`usage_id` is counted once, however often it is reported."""

    pid: Name
    usage: Consumption
    usage_id: OptionalName = ""


# Questions to people.


class InterruptRecord(Struct, frozen=True, omit_defaults=True):
    """A question and how it stands, with the process and the user it is of."""

    interrupt: Interrupt
    request: str = ""
    user: str = ""
    message: str = ""
    data: JsonObject = {}


class CreateInterruptRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`action` is the digest of what an answer permits; kinds that permit need one."""

    pid: Name
    kind: InterruptKind
    question: Annotated[str, Meta(max_length=100_000)]
    id: OptionalName = ""
    message: Annotated[str, Meta(max_length=10_000)] = ""
    data: JsonObject = {}
    action: Digest | None = None
    expires_ms: Count | None = None


class InterruptIdRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The question that an operation is about."""

    id: Name


class ResolveInterruptRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`action` is the digest of what the person was shown."""

    id: Name
    answer: InterruptAnswer
    action: Digest | None = None


class UseApprovalRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`action` is the digest of what is about to be done."""

    id: Name
    action: Digest


class ListInterruptsRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The questions of one process, or of all; `after` is `next` of the page before."""

    pid: OptionalName = ""
    status: InterruptStatus | None = None
    after: OptionalName = ""
    limit: PageSize = 100


class InterruptPage(Struct, frozen=True, omit_defaults=True):
    """A page of questions by id; `next` is empty on the last page."""

    interrupts: tuple[InterruptRecord, ...]
    next: str = ""


class PendingInterrupt(Struct, frozen=True, omit_defaults=True):
    """The question that holds a process; None if none does."""

    interrupt: InterruptRecord | None = None


# Sessions: a walk through a pipeline, and the envelope that it fills.


class ProcessingRecord(Struct, frozen=True, omit_defaults=True):
    """One run of a stage: who ran it, when, and what came of it."""

    stage: str
    agent: str
    task: str
    ended_ms: int
    status: str
    error: str = ""
    metrics: "ExecutionMetrics | None" = None


class ExecutionMetrics(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker used this much for one task."""

    llm_calls: Count = 0
    tool_calls: Count = 0
    tokens_in: Count = 0
    tokens_out: Count = 0
    duration_ms: Count = 0
    cost: Annotated[Money, Meta(ge=0, le=_MOST)] = Money(0)


class PipelineEnvelope(Struct, frozen=True, omit_defaults=True):
    """A request carries this through its stages. `version` counts its changes."""

    id: str
    received_ms: int
    input: Any = None
    request: str = ""
    user: str = ""
    session: str = ""
    stage: str = ""
    outputs: JsonObject = {}
    metadata: JsonObject = {}
    records: tuple[ProcessingRecord, ...] = ()
    version: int = 1


class CreateEnvelopeRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A caller that names the `id` may ask again without making a second envelope."""

    id: OptionalName = ""
    input: Any = None
    request: OptionalName = ""
    session: OptionalName = ""
    metadata: JsonObject = {}


class EnvelopeIdRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The envelope that an operation is about."""

    id: Name


class UpdateEnvelopeRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`outputs` and `metadata` are merged in by key, if `version` is the one there now."""

    id: Name
    version: int
    stage: OptionalName | UnsetType = UNSET
    outputs: JsonObject = {}
    metadata: JsonObject = {}


class InitializeSessionRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A session of a process through a pipeline; it ends when it is idle for `idle_ms`."""

    pid: Name
    pipeline: Pipeline
    input: Any = None
    idle_ms: Milliseconds = 86_400_000


class SessionRecord(Struct, frozen=True, omit_defaults=True):
    """A session, its envelope's id, and when something last happened in it."""

    pid: str
    session: PipelineSession
    envelope: str
    created_ms: int
    active_ms: int
    idle_ms: int
    message: str = ""


class NextInstructionRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """While all tasks are taken the reply waits, for at most `wait_ms`."""

    pid: Name
    wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0


class SessionReply(Struct, frozen=True, omit_defaults=True):
    """Tells a worker what to do next, with the envelope as it is now."""

    instruction: Instruction
    envelope: PipelineEnvelope
    message: str = ""


class ReportRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Reports what came of a task, and what it used. The reply carries the next instruction."""

    pid: Name
    task: TaskId
    outcome: StageOutcome
    metrics: ExecutionMetrics = ExecutionMetrics()
    error: Annotated[str, Meta(max_length=10_000)] = ""


class RenewTaskRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A task that takes longer than its lease."""

    pid: Name
    task: TaskId


class TaskLease(Struct, frozen=True):
    """Says until when a worker has its task."""

    until_ms: int


class TerminateSessionRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first reason stands."""

    pid: Name
    reason: TerminalReason = TerminalReason.USER_CANCELLED
    message: Annotated[str, Meta(max_length=2_000)] = ""


# Events.


class KernelEventKind(StrEnum):
    """The kinds of what happens in a kernel."""

    PROCESS_CREATED = "process_created"
    PROCESS_STATE_CHANGED = "process_state_changed"
    PROCESS_TERMINATED = "process_terminated"
    RESOURCE_EXCEEDED = "resource_exceeded"
    INTERRUPT_CREATED = "interrupt_created"
    INTERRUPT_RESOLVED = "interrupt_resolved"
    STAGE_STARTED = "stage_started"
    STAGE_COMPLETED = "stage_completed"
    STAGE_FAILED = "stage_failed"
    STAGE_CHUNK = "stage_chunk"
    SESSION_ENDED = "session_ended"
    SERVICE_REGISTERED = "service_registered"
    SERVICE_HEALTH_CHANGED = "service_health_changed"
    SERVICE_REMOVED = "service_removed"


class KernelEvent(Struct, frozen=True, omit_defaults=True):
    """Something that happened to a process, or to a service, which has no pid; `detail` are the
    fields of its kind."""

    kind: KernelEventKind
    pid: str
    detail: JsonObject = {}


class WatchRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The events after the number `after`, of one process or of all; with `follow`, those to
    come."""

    after: Count = 0
    pid: OptionalName = ""
    kinds: tuple[KernelEventKind, ...] = ()
    follow: bool = False


class NumberedEvent(Struct, frozen=True, omit_defaults=True):
    """An event with its number, which is the cursor to go on from; `missed` is how many before it
    are no longer kept."""

    number: int
    at_ms: int
    event: KernelEvent
    missed: int = 0

    @property
    def kind(self) -> str:
        """Return the kind of the event, as which a stream shows it."""
        return self.event.kind
