"""The documents of the kernel by kind, and how each is found and ordered.

| kind      | state                | rank                                              | owner   |
|-----------|----------------------|---------------------------------------------------|---------|
| process   | of the process       | ready: its place in the queue, or a time that     | user    |
|           |                      | never comes while a question holds it; running:   |         |
|           |                      | the end of its lease; ended: when; else when it   |         |
|           |                      | was made                                          |         |
| interrupt | pending, resolved, … | when it expires, or a time that never comes       | pid     |
| session   | running or ended     | when it has been idle for too long                | user    |
| envelope  |                      | when it was last changed                          | user    |
| usage     |                      | when it was counted                               | pid     |
| service   | its health           | when the first of its slots ends, or it is gone   | type    |
| call      | queued at a service, | its deadline; done: when                          | service |
|           | taken or done        |                                                   |         |
| rate      | counted              | when nothing of it counts any more                |         |
| execution | running or ended     | when the lease of the server that runs it ends,   | user    |
|           |                      | or a time that never comes while people are asked |         |
| reserved  |                      | a time that never comes: it goes with its process |         |
| command   | waiting, taken       | waiting: when it expires; taken: the end of its   | topic   |
|           |                      | lease, or of a query's time if that is sooner     |         |
| tenant    |                      |                                                   |         |
| handled   | done, failed, …      | when it ended                                     |         |

A sweep asks for what is due by (kind, state, rank), and the queue is the processes that are ready
by rank: nothing else keeps an order, so that nothing can disagree with it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec import Struct

from vegakit.control import (
    CommandRecord,
    CommandStatus,
    InterruptRecord,
    KernelEvent,
    KernelEventKind,
    KernelProcess,
    OperationError,
    PipelineEnvelope,
    RefusalCode,
    ServiceCall,
    SessionRecord,
    TenantRecord,
)
from vegakit.ids import TenantId
from vegakit.policy import (
    AgentDefinition,
    AgingRule,
    Consumption,
    InterruptKind,
    ProcessState,
    Service,
    UserRate,
    ready_rank,
)
from vegakit.ports import Document, TenantRecords
from vegakit.records import canonical, from_json, to_json

T = TypeVar("T", bound=Struct)

USAGE = "usage"
CHECKPOINT = "checkpoint"
NEVER = (1 << 62) - 1
"""A time that does not come."""
AGING = AgingRule()
KEEP_MS = 7 * 86_400_000
"""How long a process that has ended, an envelope that nobody changes and that is of no session, and
what was told of a tenant, are kept."""
MOST_BYTES = 4 << 20
PAGE_BYTES = 1 << 20


class UsageReport(Struct, frozen=True):
    """A report of usage that was counted, so that it is not counted again."""

    pid: str
    counted_ms: int
    usage: Consumption | None = None
    """None in reports of before it was kept."""


class HeldCalls(Struct, frozen=True):
    """Model calls that a run may still make, until its time is over."""

    calls: int
    until_ms: int


class ReservedCalls(Struct, frozen=True):
    """The model calls that runs of a process have reserved, by run: not used yet, and not free."""

    pid: str
    by_run: dict[str, HeldCalls]


class UserRateRecord(Struct, frozen=True):
    """A user has taken this much of the limits of users."""

    user: str
    rate: UserRate


class ExecutionRecord(Struct, frozen=True, omit_defaults=True):
    """A pipeline that servers run. `holder` is the server that runs it now, until `lease_until_ms`;
    from then on any server may. `before` is the number of the last event before its first."""

    pid: str
    user: str
    agents: dict[str, AgentDefinition]
    before: int
    chunks: bool = False
    holder: str = ""
    lease_until_ms: int = 0
    ended: bool = False


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind of document. `called` is what a message calls it."""

    name: str
    called: str
    record: type[T]
    key: Callable[[T], str]
    rank: Callable[[T], int]
    state: Callable[[T], str] = lambda _: ""
    owner: Callable[[T], str] = lambda _: ""


def _rank_of_process(process: KernelProcess) -> int:
    if process.state is ProcessState.READY and process.interrupt is not None:
        return NEVER
    if process.state is ProcessState.READY:
        return ready_rank(AGING, process.priority, process.ready_ms or 0)
    if process.state is ProcessState.RUNNING:
        return NEVER if process.lease_until_ms is None else process.lease_until_ms
    return process.created_ms if process.ended_ms is None else process.ended_ms


def _expiry(record: InterruptRecord) -> int:
    expires_ms = record.interrupt.expires_ms
    return NEVER if expires_ms is None else expires_ms


def _standing(record: InterruptRecord) -> str:
    """A checkpoint waits for nobody, and takes no place among those that do."""
    interrupt = record.interrupt
    if interrupt.ask.kind is InterruptKind.CHECKPOINT:
        return CHECKPOINT
    return interrupt.status


PROCESS = Kind(
    "process",
    "process",
    KernelProcess,
    key=lambda process: process.pid,
    rank=_rank_of_process,
    state=lambda process: process.state,
    owner=lambda process: process.user,
)
INTERRUPT = Kind(
    "interrupt",
    "question",
    InterruptRecord,
    key=lambda record: record.interrupt.ask.id,
    rank=_expiry,
    state=_standing,
    owner=lambda record: record.interrupt.ask.owner,
)
RUNNING, ENDED = "running", "ended"
SESSION = Kind(
    "session",
    "session of process",
    SessionRecord,
    key=lambda session: session.pid,
    rank=lambda session: session.active_ms + session.idle_ms,
    state=lambda session: RUNNING if session.session.ended is None else ENDED,
)
ENVELOPE = Kind(
    "envelope",
    "envelope",
    PipelineEnvelope,
    key=lambda envelope: envelope.id,
    rank=lambda envelope: envelope.received_ms,
    owner=lambda envelope: envelope.user,
)
SERVICE = Kind(
    "service",
    "service",
    Service,
    key=lambda service: service.facts.name,
    rank=lambda service: NEVER if service.due_ms is None else service.due_ms,
    state=lambda service: service.facts.health,
    owner=lambda service: service.facts.type,
)
TAKEN, DONE = "taken", "done"


def queued_at(service: str) -> str:
    """Return the state of requests that wait at a service. Its name is part of it, so that a server
    finds those of its own handlers among the requests of all tenants."""
    return f"queued {service}"


def _state_of_call(call: ServiceCall) -> str:
    if call.outcome is not None:
        return DONE
    return TAKEN if call.holder else queued_at(call.service)


CALL = Kind(
    "call",
    "request",
    ServiceCall,
    key=lambda call: call.id,
    rank=lambda call: call.deadline_ms if call.done_ms is None else call.done_ms,
    state=_state_of_call,
    owner=lambda call: call.service,
)
COUNTED = "counted"
RATE = Kind(
    "rate",
    "rate of user",
    UserRateRecord,
    key=lambda record: record.user,
    rank=lambda record: record.rate.over_ms,
    state=lambda _: COUNTED,
)

EXECUTION = Kind(
    "execution",
    "pipeline that is run here, of process",
    ExecutionRecord,
    key=lambda execution: execution.pid,
    rank=lambda execution: execution.lease_until_ms,
    state=lambda execution: ENDED if execution.ended else RUNNING,
    owner=lambda execution: execution.user,
)
RESERVED = Kind(
    "reserved",
    "reservation of process",
    ReservedCalls,
    key=lambda reserved: reserved.pid,
    rank=lambda _: NEVER,
)


def _rank_of_command(command: CommandRecord) -> int:
    if command.status is not CommandStatus.TAKEN or command.lease_until_ms is None:
        return command.expires_ms
    until = command.lease_until_ms
    return min(until, command.expires_ms) if command.is_query else until


COMMAND = Kind(
    "command",
    "command",
    CommandRecord,
    key=lambda command: command.id,
    rank=_rank_of_command,
    state=lambda command: command.status,
    # Only those that wait: the next one of a topic is found at once, however many are taken.
    owner=lambda command: command.topic if command.status is CommandStatus.WAITING else "",
)
HANDLED = Kind(
    "handled",
    "command",
    CommandRecord,
    key=lambda command: command.id,
    rank=lambda command: command.ended_ms or 0,
    state=lambda command: command.status,
)
"""Commands that have ended are a kind of their own, so that to count those that have not stays
cheap."""


SERVERS = TenantId("")
"""The tenant of what is of the servers themselves, which no caller can be of."""
TENANT = Kind(
    "tenant",
    "tenant",
    TenantRecord,
    key=lambda record: record.tenant,
    rank=lambda _: 0,
)


class KernelTables:
    """The records of a tenant inside a transaction, typed; `now` is the time of all of it."""

    def __init__(self, records: TenantRecords, now: int) -> None:
        self.records, self.now = records, now
        self.told: list[bytes] = []
        self.has_changed = False

    def get(self, kind: Kind[T], key: str) -> T | None:
        """Return a record; None if there is none."""
        found = self.records.get(kind.name, key)
        return from_json(kind.record, found.value) if found else None

    def need(self, kind: Kind[T], key: str) -> T:
        """Return a record, or refuse an operation on what is not there."""
        found = self.get(kind, key)
        if found is None:
            raise OperationError(
                RefusalCode.NOT_FOUND, f"there is no {kind.called} {key[:80]!r} of this tenant"
            )
        return found

    def find(self, kind: Kind[T], **wanted: Any) -> tuple[list[T], Sequence[Document]]:  # noqa: ANN401  (those of `TenantRecords.find`)
        """Return the records that are found, and the documents they are in."""
        found = self.records.find(kind.name, **wanted)
        return [from_json(kind.record, document.value) for document in found], found

    def page(self, kind: Kind[T], *, limit: int, **wanted: Any) -> tuple[tuple[T, ...], str]:  # noqa: ANN401
        """Return a page of records, and where the next one begins; empty if this was the last. A
        page ends with the record with which it has `PAGE_BYTES`, so that a reply fits through every
        door, and no reader holds up the others."""
        found, documents = self.find(kind, limit=limit, most_bytes=PAGE_BYTES, **wanted)
        is_full = sum(len(document.value) for document in documents) >= PAGE_BYTES
        is_cut = is_full or len(documents) == limit
        return tuple(found), documents[-1].key if is_cut else ""

    def put(self, kind: Kind[T], record: T, rank: int | None = None) -> T:
        """Keep a record under its key, state, rank and owner; `rank` if the record does not say it.
        One that has grown too large is refused: every step would read and write all of it."""
        value = to_json(record)
        if len(value) > MOST_BYTES:
            raise OperationError(
                RefusalCode.EXHAUSTED,
                f"{kind.called} {kind.key(record)!r} would be larger than {MOST_BYTES} bytes; keep "
                "large values elsewhere and pass on where they are",
            )
        self.has_changed = True
        self.records.put(
            kind.name,
            kind.key(record),
            value,
            state=kind.state(record),
            rank=kind.rank(record) if rank is None else rank,
            owner=kind.owner(record),
        )
        return record

    def emit(self, kind: KernelEventKind, pid: str, **detail: Any) -> None:  # noqa: ANN401  (JSON)
        """Tell whoever watches this tenant."""
        self.has_changed = True
        event = to_json(KernelEvent(kind, pid, detail))
        self.told.append(event)
        self.records.emit(event, self.now)


def check_repeats(what: str, fields: Mapping[str, tuple[object, object]], name: str) -> None:
    """Refuse a request for what is there already, unless it is the one that made it, once more:
    each field is as it was made, and as it is asked for now. `name` is what another one needs."""
    # As JSON, in which 1, 1.0 and true are not the same.
    others = [key for key, (made, asked) in fields.items() if canonical(made) != canonical(asked)]
    if others:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"{what} is there already, with another {' and another '.join(others)}; to repeat a "
            f"request send it as it was; for another one choose another {name}",
        )
