"""Questions of a tenant's processes to people: opened, answered, expired.

The rules are those of `policy.Interrupts`, run on the one question that an operation is about;
what counts over all of them, how many may wait, is asked of the store. A question holds its
process: one that runs is blocked until the question is settled, and then waits for its turn again;
one that waits in the queue is handed to no worker until then, and keeps its place.
"""

from msgspec.structs import replace

from vegakit.control import (
    CreateInterruptRequest,
    InterruptPage,
    InterruptRecord,
    KernelEventKind,
    KernelProcess,
    ListInterruptsRequest,
    OperationError,
    RefusalCode,
    ResolveInterruptRequest,
    UseApprovalRequest,
)
from vegakit.ids import InterruptId, Pid
from vegakit.kernel.processes import ended, keep_settled, moved, open_questions
from vegakit.kernel.sessions import consequence_of, settle_in_session
from vegakit.kernel.tables import (
    EXECUTION,
    INTERRUPT,
    PROCESS,
    KernelTables,
    check_repeats,
)
from vegakit.policy import (
    Consequence,
    Interrupt,
    InterruptRefusal,
    InterruptRequest,
    InterruptRule,
    Interrupts,
    InterruptStatus,
    ProcessState,
    TakeErrorNext,
    Terminate,
)
from vegakit.records import to_json

_RULE = InterruptRule()
_MOST_DATA = 16 << 10

_REFUSED: dict[InterruptRefusal, tuple[RefusalCode, str]] = {
    InterruptRefusal.MISLEADING_TEXT: (
        RefusalCode.INVALID,
        "the question holds characters that another screen shows otherwise; leave them out",
    ),
    InterruptRefusal.NO_ACTION: (
        RefusalCode.INVALID,
        "this kind permits an action; send the digest of the action",
    ),
    InterruptRefusal.TOO_LONG: (RefusalCode.INVALID, "the question is too long; shorten it"),
    InterruptRefusal.TOO_MANY: (
        RefusalCode.EXHAUSTED,
        "too many questions wait for an answer; answer or cancel some",
    ),
    InterruptRefusal.SETTLED: (RefusalCode.CONFLICT, "the question is settled already"),
    InterruptRefusal.LATE: (RefusalCode.CONFLICT, "its time is over"),
    InterruptRefusal.ANONYMOUS: (RefusalCode.FORBIDDEN, "whoever answers needs a name"),
    InterruptRefusal.OWN_QUESTION: (
        RefusalCode.FORBIDDEN,
        "a process does not answer its own question",
    ),
    InterruptRefusal.WRONG_ACTION: (
        RefusalCode.CONFLICT,
        "the question is about another action than the one shown; read it again",
    ),
    InterruptRefusal.NOT_APPROVED: (RefusalCode.CONFLICT, "nobody approved it"),
    InterruptRefusal.ALREADY_USED: (
        RefusalCode.CONFLICT,
        "the approval was used; ask again for the next action",
    ),
    InterruptRefusal.WRONG_ANSWER: (
        RefusalCode.INVALID,
        "approve or decline what asks for a permission, and reply to what asks for words",
    ),
}


def create(
    tables: KernelTables, request: CreateInterruptRequest, key: InterruptId
) -> InterruptRecord:
    """Open a question. One that is there already is returned if it is the same."""
    process = tables.need(PROCESS, request.pid)
    there = tables.get(INTERRUPT, key)
    if there is not None:
        asked = there.interrupt.ask
        pairs = {
            "kind": (asked.kind, request.kind),
            "pid": (asked.owner, request.pid),
            "question": (asked.text, request.question),
            "action": (asked.action, request.action),
        }
        check_repeats(f"question {key!r}", pairs, "id")
        return there
    if len(to_json(request.data)) > _MOST_DATA:
        raise OperationError(
            RefusalCode.INVALID, f"the data of a question are at most {_MOST_DATA} bytes of JSON"
        )
    if not process.state.is_living:
        raise OperationError(
            RefusalCode.CONFLICT, f"process {process.pid!r} has ended and asks nobody"
        )
    rule = _RULE.of(request.kind)
    waiting = tables.records.counts(INTERRUPT.name).get(InterruptStatus.PENDING, 0)
    if rule.needs_response and waiting >= _RULE.max_pending:
        raise _refused(InterruptRefusal.TOO_MANY, key)
    ask = InterruptRequest(
        key, request.kind, Pid(request.pid), request.question, request.action, request.expires_ms
    )
    opened = Interrupts(_RULE).open(ask, tables.now)
    if isinstance(opened, InterruptRefusal):
        raise _refused(opened, key)
    tables.emit(
        KernelEventKind.INTERRUPT_CREATED,
        process.pid,
        id=key,
        interrupt_kind=request.kind,
        expires_ms=opened.expires_ms,
    )
    if rule.at_expiry is not None:
        _hold(tables, process, key)
    return tables.put(
        INTERRUPT,
        InterruptRecord(opened, process.request, process.user, request.message, request.data),
    )


def _hold(tables: KernelTables, process: KernelProcess, key: InterruptId) -> None:
    held = replace(process, interrupt=key)
    if process.state is ProcessState.RUNNING:
        moved(tables, held, ProcessState.BLOCKED, reason="a person is asked")
    else:
        tables.put(PROCESS, held)


def resolve(tables: KernelTables, request: ResolveInterruptRequest, by: str) -> InterruptRecord:
    """Take the answer of a person, and let the process go on."""
    record = tables.need(INTERRUPT, request.id)
    settled = _machine(record).answer(
        record.interrupt.ask.id, request.answer, by, request.action, tables.now
    )
    if isinstance(settled, InterruptRefusal):
        raise _refused(settled, request.id)
    others = _others(tables, record)
    record = keep_settled(tables, record, settled)
    _follow(tables, settled, consequence_of(settled), others)
    return record


def use(tables: KernelTables, request: UseApprovalRequest) -> InterruptRecord:
    """Take the leave that an approval gives, which is given once."""
    record = tables.need(INTERRUPT, request.id)
    used = _machine(record).use(record.interrupt.ask.id, request.action, tables.now)
    if isinstance(used, InterruptRefusal):
        raise _refused(used, request.id)
    return tables.put(INTERRUPT, replace(record, interrupt=used))


def cancel(tables: KernelTables, key: str) -> InterruptRecord:
    """Close a question; its process goes on as if it had not been asked."""
    record = tables.need(INTERRUPT, key)
    settled = _machine(record).cancel(record.interrupt.ask.id, tables.now)
    if isinstance(settled, InterruptRefusal):
        raise _refused(settled, key)
    others = _others(tables, record)
    record = keep_settled(tables, record, settled)
    if settled.status is InterruptStatus.CANCELLED:
        _follow(tables, settled, consequence_of(settled), others)
    return record


def expire(tables: KernelTables, key: str) -> None:
    """Let a question expire whose time is over, with what its kind says follows."""
    record = tables.get(INTERRUPT, key)
    if record is None or record.interrupt.status is not InterruptStatus.PENDING:
        return
    machine = _machine(record)
    others = _others(tables, record)
    for expired in machine.on_timer(tables.now):
        settled = machine.by_id[expired.id]
        keep_settled(tables, record, settled)
        _follow(tables, settled, expired.consequence, others)


def pending_of(tables: KernelTables, pid: str) -> InterruptRecord | None:
    """Return the question that holds a process: of several, the one that expires first."""
    tables.need(PROCESS, pid)
    found, _ = tables.find(INTERRUPT, owner=pid, state=InterruptStatus.PENDING)
    return found[0] if found else None


def list_page(tables: KernelTables, request: ListInterruptsRequest) -> InterruptPage:
    """Return a page of questions."""
    found, next_ = tables.page(
        INTERRUPT,
        state=request.status,
        owner=request.pid or None,
        after=request.after,
        limit=request.limit,
    )
    return InterruptPage(found, next_)


def _machine(record: InterruptRecord) -> Interrupts:
    """The machine of all questions, holding this one."""
    interrupt = record.interrupt
    key, machine = interrupt.ask.id, Interrupts(_RULE)
    machine.by_id[key] = interrupt
    if interrupt.status is InterruptStatus.PENDING and interrupt.expires_ms is not None:
        machine.deadlines.append((interrupt.expires_ms, key))
    return machine


def _follow(
    tables: KernelTables, settled: Interrupt, consequence: Consequence, others: list[InterruptId]
) -> None:
    """Have the process and its session go on, or end, as the answer or the silence says; `others`
    are its other questions, which end with it."""
    in_session = settle_in_session(tables, settled, consequence)
    process = tables.need(PROCESS, settled.ask.owner)
    if isinstance(consequence, Terminate):
        ended_for = consequence.reason
    elif isinstance(consequence, TakeErrorNext) and not in_session:
        ended_for = consequence.otherwise
    else:
        _release(tables, process, others)
        return
    if process.state.is_living:
        ended(tables, process, ended_for, others)


def _others(tables: KernelTables, record: InterruptRecord) -> list[InterruptId]:
    """The other questions that hold the process; asked for before anything is changed."""
    asked = record.interrupt.ask
    return [one for one in open_questions(tables, asked.owner) if one != asked.id]


def _release(tables: KernelTables, process: KernelProcess, others: list[InterruptId]) -> None:
    """Let the process go on, unless another question holds it, too."""
    if process.interrupt is None or not process.state.is_living:
        return
    if others:
        tables.put(PROCESS, replace(process, interrupt=others[0]))
        return
    free = replace(process, interrupt=None)
    if process.state is ProcessState.BLOCKED:
        # What a server runs waits in no queue, where another worker would take it.
        is_executed = tables.get(EXECUTION, process.pid) is not None
        to = ProcessState.RUNNING if is_executed else ProcessState.READY
        moved(tables, free, to, reason="the question is settled")
    else:
        tables.put(PROCESS, free)


def _refused(refusal: InterruptRefusal, key: str) -> OperationError:
    code, text = _REFUSED.get(refusal, (RefusalCode.CONFLICT, f"it is refused: {refusal}"))
    return OperationError(code, f"question {key[:80]!r}: {text}")
