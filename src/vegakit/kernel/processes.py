"""Processes of a tenant: their moves, their place in the queue, their quota and their end.

Each function is one decision inside a transaction (see `tables`). Moves go by the one table of
`policy.scheduler`; what it refuses is refused in its own words.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from vegakit.control import (
    CheckQuotaRequest,
    CreateProcessRequest,
    InterruptRecord,
    KernelEventKind,
    KernelProcess,
    ListProcessesRequest,
    NextRunnableRequest,
    OperationError,
    ProcessPage,
    QuotaReply,
    RecordUsageRequest,
    RefusalCode,
    RenewProcessRequest,
    TerminateProcessRequest,
    TransitionRequest,
)
from vegakit.ids import InterruptId
from vegakit.kernel.sessions import end_with_process
from vegakit.kernel.tables import (
    ENVELOPE,
    EXECUTION,
    INTERRUPT,
    PROCESS,
    RESERVED,
    SESSION,
    USAGE,
    HeldCalls,
    KernelTables,
    ReservedCalls,
    UsageReport,
    check_repeats,
)
from vegakit.money import Money
from vegakit.policy import (
    Interrupt,
    InterruptStatus,
    MoveRefused,
    ProcessState,
    Quota,
    QuotaExceeded,
    move,
)
from vegakit.records import from_json, to_json

_MOST_CHILDREN = 1_000
"""Every child is named in its parent, which is written anew with each; and a tree ends at once."""
_MOST_INTERRUPTS = 1_000
_MOST_REAPED = 500


class ProcessMaker(Protocol):
    """Says who makes a process, and of which wallet its agents spend."""

    @property
    def user(self) -> str:
        """Return the user."""
        ...

    @property
    def wallet(self) -> str:
        """Return the token that has a wallet; empty if it has none."""
        ...

    @property
    def wallet_cap(self) -> Money | None:
        """Return what is in the wallet."""
        ...


def create(
    tables: KernelTables, request: CreateProcessRequest, pid: str, by: ProcessMaker
) -> KernelProcess:
    """Make a process. One that is there already is returned if it was made alike."""
    user = by.user
    there = tables.get(PROCESS, pid)
    if there is not None:
        pairs = {
            "user": (there.user, user),
            "wallet": (there.wallet, by.wallet),
            "request": (there.request, request.request),
            "session": (there.session, request.session),
            "parent": (there.parent, request.parent),
            "priority": (there.priority, request.priority),
            "quota": (there.quota.rule, request.quota),
        }
        check_repeats(f"process {pid!r}", pairs, "pid")
        return there
    parent = tables.need(PROCESS, request.parent) if request.parent else None
    if parent is not None and (
        not parent.state.is_living or len(parent.children) >= _MOST_CHILDREN
    ):
        raise OperationError(
            RefusalCode.CONFLICT, f"process {parent.pid!r} takes no more children: {parent.state}"
        )
    process = KernelProcess(
        pid,
        user,
        tables.now,
        Quota(request.quota, started_ms=tables.now),
        request=request.request,
        session=request.session,
        parent=request.parent,
        priority=request.priority,
        wallet=by.wallet,
        wallet_cap=by.wallet_cap,
    )
    if parent is not None:
        tables.put(PROCESS, replace(parent, children=(*parent.children, pid)))
    tables.emit(KernelEventKind.PROCESS_CREATED, pid, process=process)
    return tables.put(PROCESS, process)


def schedule(tables: KernelTables, pid: str) -> KernelProcess:
    """Put a process into the queue; one that is in it keeps its place."""
    process = tables.need(PROCESS, pid)
    if process.state is ProcessState.READY:
        return process
    _check_not_held(process)
    return moved(tables, process, ProcessState.READY)


def take_next(tables: KernelTables, request: NextRunnableRequest) -> KernelProcess | None:
    """Take the first process of the queue for a holder. Those that a question holds come last."""
    found, _ = tables.find(PROCESS, state=ProcessState.READY, limit=1)
    if not found or found[0].interrupt is not None:
        return None
    until = tables.now + request.lease_ms
    taken = replace(found[0], holder=request.holder, lease_until_ms=until)
    return moved(tables, taken, ProcessState.RUNNING)


def give_back(tables: KernelTables, key: str) -> None:
    """Put a process back into the queue whose holder has let its lease end."""
    process = tables.get(PROCESS, key)
    if process is None or process.state is not ProcessState.RUNNING:
        return
    if process.lease_until_ms is not None and process.lease_until_ms <= tables.now:
        moved(tables, process, ProcessState.READY, reason=f"the lease of {process.holder} ended")


def renew(tables: KernelTables, request: RenewProcessRequest) -> KernelProcess:
    """Keep a process that its holder still works on."""
    process = held(tables, request.pid, request.holder)
    return tables.put(PROCESS, replace(process, lease_until_ms=tables.now + request.lease_ms))


def held(tables: KernelTables, pid: str, holder: str) -> KernelProcess:
    """Return a process that this holder has, or say that it has it no longer."""
    process = tables.need(PROCESS, pid)
    if holder != process.holder:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"{holder!r} no longer holds process {pid!r}: its lease ended, or it moved on; stop "
            "working on it",
        )
    return process


def transition(tables: KernelTables, request: TransitionRequest, by: str) -> KernelProcess:
    """Move a process by request of its holder or of whoever may act. Whoever runs it again holds it
    for a lease, so that nothing runs for ever."""
    process = tables.need(PROCESS, request.pid)
    if request.holder and process.state is ProcessState.RUNNING:
        process = held(tables, request.pid, request.holder)
    asked = open_questions(tables, request.pid)
    if request.stage is not UNSET:
        process = replace(process, stage=request.stage)
    if request.service is not UNSET:
        process = replace(process, service=request.service)
    if request.to in (ProcessState.READY, ProcessState.RUNNING):
        _check_not_held(process)
    if request.to is ProcessState.RUNNING:
        if process.state is ProcessState.READY:
            raise OperationError(
                RefusalCode.CONFLICT,
                f"process {process.pid!r} is in the queue; take the next one by get_next_runnable",
            )
        until = tables.now + request.lease_ms
        process = replace(process, holder=request.holder or by, lease_until_ms=until)
    if request.to is ProcessState.TERMINATED:
        return ended(tables, process, request.reason, asked)
    return moved(tables, process, request.to, reason=request.reason)


def _check_not_held(process: KernelProcess) -> None:
    if process.interrupt is not None:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"process {process.pid!r} is held by question {process.interrupt!r}; answer or cancel "
            "that",
        )


def moved(
    tables: KernelTables, process: KernelProcess, to: ProcessState, *, reason: str = ""
) -> KernelProcess:
    """Return the process in its next state, or refuse the move."""
    verdict = move(process.state, to)
    if isinstance(verdict, MoveRefused):
        raise OperationError(RefusalCode.CONFLICT, f"process {process.pid!r}: {verdict.reason}")
    after = replace(process, state=to)
    if to is ProcessState.READY:
        after = replace(after, ready_ms=tables.now)
    if to is ProcessState.RUNNING and after.started_ms is None:
        after = replace(after, started_ms=tables.now)
    if to is not ProcessState.RUNNING:
        after = replace(after, holder="", lease_until_ms=None)
    tables.emit(
        KernelEventKind.PROCESS_STATE_CHANGED,
        process.pid,
        old_state=process.state,
        state=to,
        **({"reason": reason} if reason else {}),
    )
    return tables.put(PROCESS, after)


def terminate(tables: KernelTables, request: TerminateProcessRequest) -> KernelProcess:
    """End a process and, with `tree`, all below it; one that has ended stays as it is."""
    process = tables.need(PROCESS, request.pid)
    tree, seen = [process], {process.pid}
    for parent in tree:
        for pid in parent.children if request.tree else ():
            child = tables.get(PROCESS, pid)
            if child is not None and pid not in seen:
                tree.append(child)
                seen.add(pid)
    # Questions are found before anything is changed; those below end first.
    asked = {one.pid: open_questions(tables, one.pid) for one in tree if one.state.is_living}
    for one in reversed(tree):
        if one.state.is_living:
            process = ended(tables, one, request.reason, asked[one.pid])
    return process if process.pid == request.pid else tables.need(PROCESS, request.pid)


def open_questions(tables: KernelTables, pid: str) -> list[InterruptId]:
    """Return the questions that end with a process; asked for before anything is changed."""
    pending = InterruptStatus.PENDING
    found, _ = tables.find(INTERRUPT, owner=pid, state=pending, limit=_MOST_INTERRUPTS)
    return [record.interrupt.ask.id for record in found]


def keep_settled(
    tables: KernelTables, record: InterruptRecord, settled: Interrupt
) -> InterruptRecord:
    """Keep a question as it stands now, and tell so."""
    asked = settled.ask
    tables.emit(KernelEventKind.INTERRUPT_RESOLVED, asked.owner, id=asked.id, status=settled.status)
    return tables.put(INTERRUPT, replace(record, interrupt=settled))


def ended(
    tables: KernelTables, process: KernelProcess, reason: str, asked: list[InterruptId]
) -> KernelProcess:
    """Return a process ended, with its session, and its questions cancelled."""
    for key in asked:
        record = tables.need(INTERRUPT, key)
        cancelled = InterruptStatus.CANCELLED
        keep_settled(
            tables, record, replace(record.interrupt, status=cancelled, settled_ms=tables.now)
        )
    end_with_process(tables, process.pid, reason)
    after = moved(tables, process, ProcessState.TERMINATED, reason=reason)
    after = replace(after, ended_ms=tables.now, reason=reason, interrupt=None)
    tables.emit(KernelEventKind.PROCESS_TERMINATED, process.pid, reason=reason)
    return tables.put(PROCESS, after)


def list_page(tables: KernelTables, request: ListProcessesRequest) -> ProcessPage:
    """Return a page of processes."""
    found, next_ = tables.page(
        PROCESS,
        state=request.state,
        owner=request.user or None,
        after=request.after,
        limit=request.limit,
    )
    return ProcessPage(found, next_)


def reap(tables: KernelTables, key: str) -> None:
    """Forget a process that ended long ago, with all that is of it; a part at a time if that is
    much."""
    process = tables.get(PROCESS, key)
    if process is None or process.ended_ms is None:
        return
    owned = [
        (kind, document.key)
        for kind in (INTERRUPT.name, USAGE)
        for document in tables.records.find(kind, owner=key, limit=_MOST_REAPED)
    ]
    for kind, owned_key in owned:
        tables.records.delete(kind, owned_key)
    if len(owned) >= _MOST_REAPED:
        return
    session = tables.get(SESSION, key)
    if session is not None:
        tables.records.delete(ENVELOPE.name, session.envelope)
    tables.records.delete(SESSION.name, key)
    tables.records.delete(EXECUTION.name, key)
    tables.records.delete(RESERVED.name, key)
    tables.records.delete(PROCESS.name, key)


# Quotas.


def check_quota(tables: KernelTables, request: CheckQuotaRequest) -> QuotaReply:
    """Say whether a step fits."""
    quota = tables.need(PROCESS, request.pid).quota
    return QuotaReply(quota.check(request.wanted, tables.now), quota.remaining(tables.now))


def record_usage(tables: KernelTables, request: RecordUsageRequest) -> QuotaReply:
    """Count what was used, truly, also above a limit; a report that was counted is not again."""
    process = tables.need(PROCESS, request.pid)
    quota, now = process.quota, tables.now
    before = quota.check(_NOTHING, now)
    key = f"{len(request.pid)}:{request.pid}/{request.usage_id}"
    there = tables.records.get(USAGE, key) if request.usage_id else None
    if there is not None:
        counted = from_json(UsageReport, there.value).usage
        usage = {"usage": (counted or request.usage, request.usage)}
        check_repeats(f"usage {request.usage_id!r} of process {process.pid!r}", usage, "usage_id")
        return QuotaReply(before, quota.remaining(now))
    quota.record(request.usage)
    tables.put(PROCESS, process)
    after = quota.check(_NOTHING, now)
    if isinstance(after, QuotaExceeded) and not isinstance(before, QuotaExceeded):
        tables.emit(
            KernelEventKind.RESOURCE_EXCEEDED,
            process.pid,
            resource=after.dimension,
            used=after.used,
            limit=after.limit,
        )
    if request.usage_id:
        report = to_json(UsageReport(process.pid, now, request.usage))
        tables.records.put(USAGE, key, report, rank=now, owner=process.pid)
    # A warning is given once, by the first look; what fits afterwards did so before.
    verdict = after if isinstance(after, QuotaExceeded) else before
    return QuotaReply(verdict, quota.remaining(now))


class CallShare(NamedTuple):
    """The model calls that a run may make; None is without limit. `held` are those of others that
    are under way, if only these leave nothing for it."""

    calls: int | None
    held: int = 0


def reserve_calls(
    tables: KernelTables, pid: str, run: str, wanted: int, until_ms: int, most: int | None = None
) -> CallShare:
    """Reserve model calls of a process for a run, as many as are free of those that it wants, so
    that runs side by side cannot pass the quota, nor the bound that leaves `most` to all of them.
    What it does not use is free again when it is settled, or else when its time is over."""
    limits = (tables.need(PROCESS, pid).quota.remaining(tables.now).model_calls, most)
    left = min((limit for limit in limits if limit is not None), default=None)
    if left is None:
        return CallShare(None)
    others = {key: held for key, held in _held(tables, pid).items() if key != run}
    taken = sum(held.calls for held in others.values())
    calls = max(0, min(wanted, left - taken))
    if calls:
        held = HeldCalls(calls, until_ms)
        tables.put(RESERVED, ReservedCalls(pid, {**others, run: held}))
    return CallShare(calls, taken if left and not calls else 0)


def free_calls(tables: KernelTables, pid: str, runs: Callable[[str], bool]) -> None:
    """Let go of what these runs have reserved: what they used is counted, or they are gone."""
    there = _held(tables, pid)
    if any(map(runs, there)):
        kept = {key: held for key, held in there.items() if not runs(key)}
        tables.put(RESERVED, ReservedCalls(pid, kept))


def _held(tables: KernelTables, pid: str) -> dict[str, HeldCalls]:
    record = tables.get(RESERVED, pid)
    held = record.by_run if record else {}
    return {key: one for key, one in held.items() if one.until_ms > tables.now}


_NOTHING = CheckQuotaRequest("-").wanted
