"""The standing of users, of processes and of the kernel as a whole: rates, bounds, what is left.

Looks, and two changes: requests are taken of a user's limits, and a session that has ended is
forgotten.
"""

from collections.abc import Mapping

from vegakit.control import (
    Bound,
    BoundsReply,
    CheckRateLimitRequest,
    KernelRequestStatus,
    OperationError,
    ProcessCounts,
    RateLimitReply,
    RefusalCode,
    SessionRecord,
    SystemStatus,
    UserRateUsage,
)
from vegakit.kernel import services
from vegakit.kernel.interrupts import pending_of
from vegakit.kernel.tables import (
    ENVELOPE,
    INTERRUPT,
    PROCESS,
    RATE,
    SESSION,
    KernelTables,
    UserRateRecord,
)
from vegakit.policy import (
    Consumption,
    Dimension,
    InterruptStatus,
    PipelineSession,
    ProcessState,
    QuotaExceeded,
    UserRate,
    UserRateRule,
)

_MOST_USERS = 200


def check_rate(
    tables: KernelTables, rule: UserRateRule, request: CheckRateLimitRequest, user: str
) -> RateLimitReply:
    """Take requests of a user's limits if they fit; what does not fit takes nothing."""
    record = tables.get(RATE, user) or UserRateRecord(user, UserRate())
    rate = record.rate
    if request.take:
        decision = rate.take(rule, request.wanted, tables.now)
        if decision.allowed:
            tables.put(RATE, record)
    else:
        decision = rate.check(rule, request.wanted, tables.now)
    return RateLimitReply(user, decision, rate.usage(rule, tables.now))


def forget_rate(tables: KernelTables, key: str) -> None:
    """Forget a user of whom nothing counts any more."""
    record = tables.get(RATE, key)
    if record is not None and record.rate.over_ms <= tables.now:
        tables.records.delete(RATE.name, key)


def system_status(tables: KernelTables, rule: UserRateRule, uptime_ms: int) -> SystemStatus:
    """Count what there is."""
    users, _ = tables.find(RATE, limit=_MOST_USERS)
    return SystemStatus(
        uptime_ms,
        process_counts(tables.records.counts(PROCESS.name)),
        tables.records.counts(INTERRUPT.name).get(InterruptStatus.PENDING, 0),
        services.stats(tables).by_type,
        {record.user: UserRateUsage(record.rate.usage(rule, tables.now)) for record in users},
    )


def process_counts(by_state: Mapping[str, int]) -> ProcessCounts:
    """Return the counts of all states, also of those that nothing is in."""
    counts = {state.value: by_state.get(state, 0) for state in ProcessState}
    return ProcessCounts(counts, sum(counts.values()))


def request_status(tables: KernelTables, pid: str) -> KernelRequestStatus:
    """Return a process with all that is of it."""
    process = tables.need(PROCESS, pid)
    session = tables.get(SESSION, pid)
    return KernelRequestStatus(
        process,
        process.quota.remaining(tables.now),
        tables.get(ENVELOPE, session.envelope) if session else None,
        pending_of(tables, pid),
    )


def check_bounds(tables: KernelTables, pid: str) -> BoundsReply:
    """Return every bound of a process and of its session."""
    quota, now = tables.need(PROCESS, pid).quota, tables.now
    left = quota.remaining(now)
    bounds = [
        Bound(name, quota.used_of(name, now), getattr(quota.rule, name), getattr(left, name))
        for name in Dimension
    ]
    verdict = quota.check(Consumption(), now)
    exceeded = verdict.dimension if isinstance(verdict, QuotaExceeded) else ""
    record = tables.get(SESSION, pid)
    if record is None:
        return BoundsReply(tuple(bounds), exceeded=exceeded)
    ended = record.session.ended
    return BoundsReply(
        tuple(bounds),
        tuple(_session_bounds(record.session)),
        exceeded,
        ended.reason if ended else "",
    )


def _session_bounds(session: PipelineSession) -> list[Bound]:
    """The bounds of a pipeline, by the names they have there; edges by theirs."""
    bounds = session.pipeline.bounds
    iterations = max((place.runs for place in session.places.values()), default=0)
    counted: list[tuple[str, int, int | None]] = [
        ("max_iterations", iterations, bounds.max_iterations),
        ("max_llm_calls", session.llm_calls, bounds.max_llm_calls),
        ("max_agent_hops", session.hops, bounds.max_agent_hops),
        *((name, session.taken.get(name, 0), most) for name, most in bounds.edge_limits.items()),
    ]
    return [
        Bound(name, used, most, None if most is None else max(0, most - used))
        for name, used, most in counted
    ]


def forget_session(tables: KernelTables, pid: str) -> SessionRecord:
    """Remove a session that has ended, with its envelope."""
    record = tables.need(SESSION, pid)
    if record.session.ended is None:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"the session of process {pid!r} has not ended; end it by terminate_session first",
        )
    tables.records.delete(ENVELOPE.name, record.envelope)
    tables.records.delete(SESSION.name, pid)
    return record
