"""Sessions: a process walks through a pipeline, its workers are told what to do next.

    worker:  get_next_instruction ──▶ RunAgent(tasks) ── runs them ──▶ report_agent_result ──▶ next

The rules are those of `policy.PipelineSession`. A report is counted against the quota of the
process in the same transaction in which it moves the session: a step that passes a limit ends the
session with the reason of that limit. Outputs are kept in the envelope, each under its stage.
"""

from msgspec import UNSET
from msgspec.structs import replace

from vegakit.control import (
    CreateEnvelopeRequest,
    ExecutionMetrics,
    InitializeSessionRequest,
    KernelEventKind,
    OperationError,
    PipelineEnvelope,
    ProcessingRecord,
    RefusalCode,
    ReportRequest,
    SessionRecord,
    SessionReply,
    TerminateSessionRequest,
    UpdateEnvelopeRequest,
)
from vegakit.errors import InvalidRuleError
from vegakit.kernel.tables import (
    ENVELOPE,
    EXECUTION,
    INTERRUPT,
    KEEP_MS,
    NEVER,
    PROCESS,
    SESSION,
    KernelTables,
    check_repeats,
)
from vegakit.policy import (
    INTERRUPT_KINDS,
    Consequence,
    Consumption,
    Declined,
    Dimension,
    Interrupt,
    InterruptStatus,
    QuotaExceeded,
    ReportRefusal,
    Resume,
    RunAgent,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageOutcome,
    TaskId,
    TerminalReason,
    Terminate,
    begin_session,
)
from vegakit.records import to_json

_MOST_RECORDS = 10_000
_MOST_TOLD = 16 << 10
"""An event carries the output of a stage up to this size; the envelope has all of them."""

_BOUNDS = (
    TerminalReason.MAX_ITERATIONS,
    TerminalReason.MAX_LLM_CALLS,
    TerminalReason.MAX_AGENT_HOPS,
)
"""Each is also the name of a field of `PipelineBounds`."""

_ENDED_BY: dict[Dimension, TerminalReason] = {
    Dimension.MODEL_CALLS: TerminalReason.MAX_LLM_CALLS,
    Dimension.AGENT_HOPS: TerminalReason.MAX_AGENT_HOPS,
    Dimension.ITERATIONS: TerminalReason.MAX_ITERATIONS,
    Dimension.WALL_MS: TerminalReason.TIMEOUT,
}
"""Every other limit of a process is a resource that is exhausted."""

_REFUSED = {
    ReportRefusal.SESSION_ENDED: "the session has ended",
    ReportRefusal.NOT_RUNNING: "no such task is out: it was reported, or is issued under another "
    "id; ask for the next instruction",
    ReportRefusal.LATE: "its lease has ended, and it is issued again; ask for the next instruction",
    ReportRefusal.NEGATIVE_COUNT: "a count below 0 was reported",
    ReportRefusal.NOT_WAITING: "no stage waits for this question",
}


# Envelopes.


def create_envelope(
    tables: KernelTables, request: CreateEnvelopeRequest, key: str, user: str
) -> PipelineEnvelope:
    """Make an envelope. One that is there already is returned if it was made alike."""
    there = tables.get(ENVELOPE, key)
    if there is not None:
        pairs: dict[str, tuple[object, object]] = {
            "user": (there.user, user),
            "input": (there.input, request.input),
            "request": (there.request, request.request),
            "session": (there.session, request.session),
        }
        if there.version == 1:  # what was merged in since is in the metadata, too
            pairs["metadata"] = (there.metadata, request.metadata)
        check_repeats(f"envelope {key!r}", pairs, "id")
        return there
    return tables.put(
        ENVELOPE,
        PipelineEnvelope(
            key,
            tables.now,
            request.input,
            request=request.request,
            user=user,
            session=request.session,
            metadata=request.metadata,
        ),
        rank=tables.now,
    )


def update_envelope(tables: KernelTables, request: UpdateEnvelopeRequest) -> PipelineEnvelope:
    """Merge what is new into an envelope, if the caller has seen its latest version."""
    envelope = tables.need(ENVELOPE, request.id)
    if envelope.version != request.version:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"envelope {request.id!r} is at version {envelope.version}, not {request.version}; "
            "read it again and merge into that",
        )
    stage = envelope.stage if request.stage is UNSET else request.stage
    return tables.put(
        ENVELOPE,
        replace(
            envelope,
            stage=stage,
            outputs=envelope.outputs | request.outputs,
            metadata=envelope.metadata | request.metadata,
            version=envelope.version + 1,
        ),
        rank=tables.now,
    )


def clone_envelope(tables: KernelTables, key: str, new_key: str) -> PipelineEnvelope:
    """Copy an envelope under another id; what is done to one is not seen in the other."""
    original = tables.need(ENVELOPE, key)
    return tables.put(ENVELOPE, replace(original, id=new_key, version=1), rank=tables.now)


def forget_envelope(tables: KernelTables, key: str) -> None:
    """Forget an envelope that nobody has changed for long; that of a session goes with it."""
    found = tables.records.get(ENVELOPE.name, key)
    if found is None or found.rank > tables.now - KEEP_MS:
        return
    envelope = tables.need(ENVELOPE, key)
    session = tables.get(SESSION, envelope.session) if envelope.session else None
    if session is not None and session.envelope == key:
        tables.put(ENVELOPE, envelope, rank=tables.now)
    else:
        tables.records.delete(ENVELOPE.name, key)


# Sessions.


def initialize(
    tables: KernelTables, request: InitializeSessionRequest, envelope_id: str
) -> SessionReply:
    """Begin the session of a process, and return its first instruction; of one that is begun, the
    next."""
    there = tables.get(SESSION, request.pid)
    if there is None:
        return _advance(tables, begin(tables, request, envelope_id))
    check_repeats(
        f"a session of process {there.pid!r}", session_pairs(tables, there, request), "pid"
    )
    return next_instruction(tables, there.pid)[0]


def session_pairs(
    tables: KernelTables, there: SessionRecord, request: InitializeSessionRequest
) -> dict[str, tuple[object, object]]:
    """Return a session as it was begun beside how it is asked for, see `check_repeats`."""
    return {
        "pipeline": (there.session.pipeline, request.pipeline),
        "input": (tables.need(ENVELOPE, there.envelope).input, request.input),
        "idle_ms": (there.idle_ms, request.idle_ms),
    }


def begin(
    tables: KernelTables, request: InitializeSessionRequest, envelope_id: str
) -> SessionRecord:
    """Begin the session of a process, of which no task is out yet."""
    process = tables.need(PROCESS, request.pid)
    if not process.state.is_living:
        raise OperationError(
            RefusalCode.CONFLICT, f"process {request.pid!r} has ended; make another process"
        )
    try:
        session = begin_session(request.pipeline)
    except InvalidRuleError as error:
        raise OperationError(RefusalCode.INVALID, str(error)) from error
    create_envelope(
        tables,
        CreateEnvelopeRequest(input=request.input, request=process.request, session=process.pid),
        envelope_id,
        process.user,
    )
    return tables.put(
        SESSION,
        SessionRecord(process.pid, session, envelope_id, tables.now, tables.now, request.idle_ms),
    )


def version_of(tables: KernelTables, pid: str) -> int:
    """Return how often the session was changed."""
    found = tables.records.get(SESSION.name, pid)
    return found.version if found else 0


def next_instruction(tables: KernelTables, pid: str) -> tuple[SessionReply, int]:
    """Return what to do now, and the version of the session that says so."""
    record = tables.need(SESSION, pid)
    reply = _advance(tables, record, before=to_json(record.session))
    return reply, version_of(tables, pid)


def report(tables: KernelTables, request: ReportRequest) -> SessionReply:
    """Take the outcome of a task, count what it used, and return what to do next."""
    record = tables.need(SESSION, request.pid)
    session, metrics = record.session, request.metrics
    calls = max(request.outcome.llm_calls, metrics.llm_calls)
    outcome = replace(request.outcome, llm_calls=calls)
    stage = request.task.rpartition("#")[0]
    asked = _question(tables, request.pid, outcome) if isinstance(outcome, StageAsked) else None
    refusal = session.report(request.task, outcome, tables.now)
    if refusal is not None:
        code = RefusalCode.CONFLICT
        if refusal is ReportRefusal.NEGATIVE_COUNT:
            code = RefusalCode.INVALID
        raise OperationError(code, f"task {request.task[:80]!r}: {_REFUSED[refusal]}")
    _tell_bound(tables, record)
    _count(tables, record, metrics, calls)
    agent = session.pipeline.by_name[stage].agent
    try:
        _keep_outcome(tables, record.envelope, stage, agent, request, outcome)
    except OperationError as error:
        # An envelope that is full would refuse this report for ever, and every one after it.
        session.terminate(TerminalReason.RESOURCE_EXHAUSTED)
        record = replace(record, message=str(error))
    if asked is not None and session.ended is None:
        session.on_interrupt_settled(asked.ask.id, consequence_of(asked))
    return _advance(tables, record)


def _question(tables: KernelTables, pid: str, outcome: StageAsked) -> Interrupt | None:
    """Return the question that a stage waits for, if it is settled already; refuse one that this
    process has not asked."""
    found = tables.get(INTERRUPT, outcome.interrupt)
    ask = found.interrupt.ask if found else None
    if found is None or ask is None or (ask.owner, ask.kind) != (pid, outcome.kind):
        raise OperationError(
            RefusalCode.INVALID,
            f"process {pid!r} has asked no such question; create the interrupt first, and report "
            "its id and kind",
        )
    return None if found.interrupt.status is InterruptStatus.PENDING else found.interrupt


def consequence_of(settled: Interrupt) -> Consequence:
    """Return what follows from a question that is settled."""
    if settled.answer is not None:
        return Resume(settled.answer)
    at_expiry = INTERRUPT_KINDS[settled.ask.kind].at_expiry
    if settled.status is InterruptStatus.EXPIRED and at_expiry is not None:
        return at_expiry
    return Resume(Declined("the question was cancelled"))


def renew(tables: KernelTables, pid: str, task: TaskId) -> int:
    """Keep a task that takes longer than its lease, and return until when."""
    record = tables.need(SESSION, pid)
    until = record.session.renew(task, tables.now)
    if isinstance(until, ReportRefusal):
        raise OperationError(RefusalCode.CONFLICT, f"task {task[:80]!r}: {_REFUSED[until]}")
    tables.put(SESSION, replace(record, active_ms=tables.now))
    return until


def terminate(tables: KernelTables, request: TerminateSessionRequest) -> SessionRecord:
    """End a session; one that has ended keeps its reason."""
    record = tables.need(SESSION, request.pid)
    if record.session.ended is not None:
        return record
    record.session.terminate(request.reason)
    record = replace(record, active_ms=tables.now, message=request.message)
    _tell_end(tables, record)
    _wake_server(tables, request.pid)
    return tables.put(SESSION, record)


def end_with_process(tables: KernelTables, pid: str, reason: str) -> None:
    """End the session of a process that ends, if it has one."""
    if tables.get(SESSION, pid) is not None:
        terminate(tables, TerminateSessionRequest(pid, message=reason))


def end_idle(tables: KernelTables, key: str) -> None:
    """End a session in which nothing has happened for too long."""
    record = tables.get(SESSION, key)
    if record is None or record.active_ms + record.idle_ms > tables.now:
        return
    text = f"nothing happened for {record.idle_ms} ms"
    terminate(tables, TerminateSessionRequest(key, TerminalReason.TIMEOUT, text))


def settle_in_session(tables: KernelTables, settled: Interrupt, consequence: Consequence) -> bool:
    """Let the stages go on that wait for a question; return whether any did."""
    record = tables.get(SESSION, settled.ask.owner)
    if record is None or record.session.ended is not None:
        return False
    refusal = record.session.on_interrupt_settled(settled.ask.id, consequence)
    if refusal is not None:
        return False
    if record.session.ended is not None:
        _tell_end(tables, record)
    tables.put(SESSION, replace(record, active_ms=tables.now))
    _wake_server(tables, record.pid)
    return True


def _advance(tables: KernelTables, record: SessionRecord, before: bytes = b"") -> SessionReply:
    """Keep the session after its next step, which is what its worker is told. `before` is how it
    was kept: a session in which nothing happens, however often workers ask, is not written."""
    was_running = record.session.ended is None
    instruction = record.session.next_instruction(tables.now)
    if was_running:
        _tell_bound(tables, record)
    if isinstance(instruction, RunAgent) and _over_quota(tables, record, instruction):
        instruction = record.session.next_instruction(tables.now)
    if to_json(record.session) != before:
        if isinstance(instruction, Terminate):
            _tell_end(tables, record)
        record = tables.put(SESSION, replace(record, active_ms=tables.now))
    return SessionReply(instruction, tables.need(ENVELOPE, record.envelope), record.message)


def _over_quota(tables: KernelTables, record: SessionRecord, instruction: RunAgent) -> bool:
    """Count the tasks that go out before they do; a limit that they would pass ends the session."""
    tasks = instruction.tasks
    used = Consumption(agent_hops=len(tasks), iterations=sum(task.attempt == 1 for task in tasks))
    process = tables.need(PROCESS, record.pid)
    quota = replace(process.quota)
    verdict = quota.check(used, tables.now)
    if isinstance(verdict, QuotaExceeded):
        _exceeded(tables, record, verdict)
        return True
    quota.record(used)
    tables.put(PROCESS, replace(process, quota=quota))
    for task in tasks:
        tables.emit(
            KernelEventKind.STAGE_STARTED,
            record.pid,
            stage=task.stage,
            task=task.id,
            attempt=task.attempt,
        )
    return False


def _count(
    tables: KernelTables, record: SessionRecord, metrics: ExecutionMetrics, calls: int
) -> None:
    """Count what a task has used: it is spent, also above a limit."""
    process = tables.need(PROCESS, record.pid)
    quota = replace(process.quota)
    quota.record(
        Consumption(
            input_tokens=metrics.tokens_in,
            output_tokens=metrics.tokens_out,
            model_calls=calls,
            tool_calls=metrics.tool_calls,
            money=metrics.cost,
        )
    )
    tables.put(PROCESS, replace(process, quota=quota))
    verdict = quota.check(Consumption(), tables.now)
    if isinstance(verdict, QuotaExceeded):
        _exceeded(tables, record, verdict)


def _exceeded(tables: KernelTables, record: SessionRecord, verdict: QuotaExceeded) -> None:
    tables.emit(
        KernelEventKind.RESOURCE_EXCEEDED,
        record.pid,
        resource=verdict.dimension,
        used=verdict.used,
        limit=verdict.limit,
    )
    reason = _ENDED_BY.get(verdict.dimension, TerminalReason.RESOURCE_EXHAUSTED)
    record.session.terminate(reason)


def _keep_outcome(
    tables: KernelTables,
    envelope_id: str,
    stage: str,
    agent: str,
    request: ReportRequest,
    outcome: StageOutcome,
) -> None:
    envelope = tables.need(ENVELOPE, envelope_id)
    status, outputs = "asked", envelope.outputs
    if isinstance(outcome, StageCompleted):
        status, outputs = "completed", outputs | {stage: outcome.output}
        is_small = len(to_json(outcome.output)) <= _MOST_TOLD
        tables.emit(
            KernelEventKind.STAGE_COMPLETED,
            request.pid,
            stage=stage,
            task=request.task,
            **({"output": outcome.output} if is_small else {}),
        )
    elif isinstance(outcome, StageFailed):
        status = outcome.failure
        tables.emit(
            KernelEventKind.STAGE_FAILED,
            request.pid,
            stage=stage,
            task=request.task,
            failure=outcome.failure,
            **({"error": request.error} if request.error else {}),
        )
    done = ProcessingRecord(
        stage, agent, request.task, tables.now, status, request.error, request.metrics
    )
    tables.put(
        ENVELOPE,
        replace(
            envelope,
            stage=stage,
            outputs=outputs,
            records=(*envelope.records, done)[-_MOST_RECORDS:],
            version=envelope.version + 1,
        ),
        rank=tables.now,
    )


def _tell_end(tables: KernelTables, record: SessionRecord) -> None:
    ended = record.session.ended
    assert ended is not None, "only the end of a session is told"
    message = {"message": record.message} if record.message else {}
    tables.emit(KernelEventKind.SESSION_ENDED, record.pid, reason=ended.reason, **message)


def _tell_bound(tables: KernelTables, record: SessionRecord) -> None:
    """Tell that a bound of the pipeline has just ended the session, if one has."""
    reason = None if record.session.ended is None else record.session.ended.reason
    bounds = record.session.pipeline.bounds
    if reason is TerminalReason.MAX_EDGE:
        limits = bounds.edge_limits
        full = [name for name, most in limits.items() if record.session.taken.get(name) == most]
        tables.emit(KernelEventKind.RESOURCE_EXCEEDED, record.pid, resource=reason, edges=full)
    elif reason is not None and reason in _BOUNDS:
        limit = getattr(bounds, reason.value)
        tables.emit(KernelEventKind.RESOURCE_EXCEEDED, record.pid, resource=reason, limit=limit)


def _wake_server(tables: KernelTables, pid: str) -> None:
    """Let a server go on with a pipeline that it runs, if it put that aside for an answer."""
    execution = tables.get(EXECUTION, pid)
    if execution is not None and execution.lease_until_ms == NEVER:
        tables.put(EXECUTION, replace(execution, lease_until_ms=tables.now))
