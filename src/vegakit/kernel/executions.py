"""Pipelines that servers run: each is a session whose worker is the server that holds it.

    begun ──▶ due ── a server claims it ──▶ held ── ends ──▶ ended
               ▲                             │ ▲
               ├── its lease ends: killed ───┤ └── answered ── put aside while people are asked
               └── the server is stopped ────┘

All of it is in the store: the pipeline's agents beside its session, and who holds it until when.
So a server that is killed leaves nothing behind but a lease that ends. Whoever claims what is due
takes its tasks back, under new ids: a report of a server that lives on unknown to itself is
refused.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, Self, TypeVar

from msgspec.structs import replace

from vegakit.control import (
    CreateInterruptRequest,
    CreateProcessRequest,
    ExecutePipelineRequest,
    ExecutionMetrics,
    InitializeSessionRequest,
    KernelEventKind,
    OperationError,
    PipelineEnvelope,
    RecordUsageRequest,
    RefusalCode,
    ReportRequest,
    SessionReply,
    TerminateSessionRequest,
)
from vegakit.ids import Digest, InterruptId, TenantId
from vegakit.kernel import interrupts, processes, sessions
from vegakit.kernel.processes import CallShare
from vegakit.kernel.tables import (
    EXECUTION,
    NEVER,
    PROCESS,
    RUNNING,
    SESSION,
    ExecutionRecord,
    KernelTables,
    check_repeats,
)
from vegakit.policy import (
    INTERRUPT_KINDS,
    AgentDefinition,
    Consumption,
    Declined,
    InterruptStatus,
    PipelineDefinition,
    ProcessState,
    RunAgent,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageTask,
    TaskId,
    TerminalReason,
    Terminate,
    WaitForInterrupts,
    WaitForTasks,
    agent_problems,
    answer_output,
    stage_prompt,
)
from vegakit.ports import AgentResult, AgentRun, AgentRunner, Clock, TenantStore
from vegakit.records import digest128

T = TypeVar("T")

_LOG = logging.getLogger("vegakit")
_PAGE = 100
_LOOK_MS = 1_000
_TASK = "task "
"""What a task has reserved is under this and its id, since who claims it takes that back, too."""
_CHUNK_S = 0.2
"""Text is told so often: each telling is a transaction."""


class ExecutionHost(Protocol):
    """The parts of a kernel that running pipelines needs. Naming only these keeps it below."""

    clock: Clock
    store: TenantStore
    is_draining: bool

    def transact(self, tenant: TenantId, decide: Callable[[KernelTables], T]) -> Awaitable[T]:
        """Carry out a decision in a transaction of the tenant."""
        ...

    def read(self, tenant: TenantId, look: Callable[[KernelTables], T]) -> Awaitable[T]:
        """Return what the tenant's records say now."""
        ...

    def wait_for_change(self, tenant: TenantId, until_ms: int) -> Awaitable[None]:
        """Return when something may have changed for the tenant, at the latest at this time."""
        ...


# Decisions, each in one transaction.


def check_runs_here(definition: PipelineDefinition, runner: AgentRunner) -> None:
    """Refuse a pipeline whose agents are not defined well, or not known here."""
    found = agent_problems(definition)
    for name in () if found else definition.agent_names:
        agent = definition.agents.get(name)
        if agent is None or agent.asks is None:
            found += filter(None, [runner.problem(name, agent)])
    if found:
        raise OperationError(
            RefusalCode.INVALID, "the pipeline cannot run here:\n- " + "\n- ".join(found)
        )


def begin(
    tables: KernelTables,
    request: ExecutePipelineRequest,
    pid: str,
    by: processes.ProcessMaker,
    envelope: str,
) -> int:
    """Begin a pipeline, or find the one that was begun; return the cursor before its events."""
    definition, there = request.pipeline, tables.get(EXECUTION, pid)
    if there is not None:
        _check_same(tables, there, request, by.user)
        return there.before
    if definition is None or request.after:
        raise OperationError(
            RefusalCode.NOT_FOUND,
            f"no pipeline of process {pid[:80]!r} is run here; to begin one, send `pipeline`, and "
            "no `after`",
        )
    if tables.get(PROCESS, pid) is not None:
        raise OperationError(
            RefusalCode.CONFLICT,
            f"process {pid!r} is there already; give the pipeline another pid",
        )
    before = tables.records.last_event()
    processes.create(tables, CreateProcessRequest(pid=pid, quota=request.quota), pid, by)
    process = processes.schedule(tables, pid)
    processes.moved(tables, process, ProcessState.RUNNING)
    sessions.begin(
        tables,
        InitializeSessionRequest(pid, definition.pipeline, request.input, request.idle_ms),
        envelope,
    )
    tables.put(
        EXECUTION,
        EXECUTION.record(pid, by.user, definition.agents, before, request.chunks),
    )
    return before


def _check_same(
    tables: KernelTables, there: ExecutionRecord, request: ExecutePipelineRequest, user: str
) -> None:
    """Refuse another pipeline under the pid of one. Who only reads on names what it wants to."""
    definition, session = request.pipeline, tables.need(SESSION, there.pid)
    asked = InitializeSessionRequest(
        there.pid,
        definition.pipeline if definition else session.session.pipeline,
        request.input,
        request.idle_ms,
    )
    pairs = {
        **sessions.session_pairs(tables, session, asked),
        "quota": (tables.need(PROCESS, there.pid).quota.rule, request.quota),
        "chunks": (there.chunks, request.chunks),
    }
    if definition is None:
        unsaid = ExecutePipelineRequest(there.pid)
        pairs = {key: pair for key, pair in pairs.items() if getattr(unsaid, key) != pair[1]}
        del pairs["pipeline"]
    else:
        pairs |= {"user": (there.user, user), "agents": (there.agents, definition.agents)}
    check_repeats(f"pipeline {there.pid!r}", pairs, "pid")


def claim(tables: KernelTables, pid: str, holder: str, lease_ms: int) -> bool:
    """Take a pipeline that is due, with all tasks that its last holder had; say whether it was."""
    execution = tables.get(EXECUTION, pid)
    if execution is None or execution.ended or execution.lease_until_ms > tables.now:
        return False
    session = tables.need(SESSION, pid)
    if session.session.ended is None:
        session.session.take_back_all()
        tables.put(SESSION, session)
    processes.free_calls(tables, pid, lambda run: run.startswith(_TASK))
    until = tables.now + lease_ms
    tables.put(EXECUTION, replace(execution, holder=holder, lease_until_ms=until))
    return True


class ExecutionStep(NamedTuple):
    """Tells a holder its next instruction, and which of its tasks still count."""

    reply: SessionReply
    version: int
    tasks_out: tuple[TaskId, ...]


def step(tables: KernelTables, pid: str, holder: str, lease_ms: int) -> ExecutionStep | None:
    """Renew what the holder has, and return what it does next; None if it holds it no longer. The
    end of the session is the end of its process."""
    execution = tables.get(EXECUTION, pid)
    if execution is None or execution.ended or execution.holder != holder:
        return None
    asked = processes.open_questions(tables, pid)
    session = tables.need(SESSION, pid)
    for task in session.session.tasks_out:
        session.session.renew(task, tables.now)
    tables.put(SESSION, replace(session, active_ms=tables.now))
    reply, version = sessions.next_instruction(tables, pid)
    until, ended = tables.now + lease_ms, False
    if isinstance(reply.instruction, WaitForInterrupts):
        holder, until = "", NEVER
    elif isinstance(reply.instruction, Terminate):
        process = tables.need(PROCESS, pid)
        if process.state.is_living:
            processes.ended(tables, process, reply.instruction.reason, asked)
        ended = True
    tables.put(EXECUTION, replace(execution, holder=holder, lease_until_ms=until, ended=ended))
    return ExecutionStep(reply, version, tables.need(SESSION, pid).session.tasks_out)


def release(tables: KernelTables, pid: str, holder: str) -> None:
    """Let go of a pipeline, so that another server may have it at once."""
    execution = tables.get(EXECUTION, pid)
    if execution is not None and not execution.ended and execution.holder == holder:
        tables.put(EXECUTION, replace(execution, holder="", lease_until_ms=tables.now))


def ask_person(
    tables: KernelTables, pid: str, task: StageTask, agent: AgentDefinition, question: str
) -> SessionReply:
    """Ask what a stage asks, or report what was answered. The question is named by its place, so
    that a stage which is issued again finds the one it has asked."""
    assert agent.asks is not None, "only a stage that asks is asked"
    place = digest128([pid, task.stage, task.iteration])
    key = InterruptId(f"{task.stage}-{task.iteration}-{place}")
    permits = INTERRUPT_KINDS[agent.asks].use_within_ms is not None
    action = Digest(digest128([place, question])) if permits else None
    request = CreateInterruptRequest(
        pid, agent.asks, question, key, data={"stage": task.stage}, action=action
    )
    asked = interrupts.create(tables, request, key).interrupt
    if asked.status is InterruptStatus.PENDING:
        outcome = StageAsked(key, agent.asks)
    else:
        outcome = StageCompleted(answer_output(asked.answer or Declined(f"it was {asked.status}")))
    return sessions.report(tables, ReportRequest(pid, task.id, outcome))


def reserve_for(tables: KernelTables, pid: str, task: StageTask, wanted: int) -> CallShare:
    """Reserve the model calls of a task, within the quota and the bound of the pipeline."""
    session = tables.need(SESSION, pid).session
    most = session.pipeline.bounds.max_llm_calls
    left = None if most is None else most - session.llm_calls
    return processes.reserve_calls(tables, pid, _TASK + task.id, wanted, NEVER, left)


def settle(
    tables: KernelTables, pid: str, task: StageTask, result: AgentResult
) -> SessionReply | None:
    """Report what a run has brought, or only count what it used if nobody waits for it any more:
    it was cut off, or came too late."""
    processes.free_calls(tables, pid, lambda run: run == _TASK + task.id)
    if not result.was_cut:
        try:
            return sessions.report(tables, report_of(pid, task.id, result))
        except OperationError as error:
            if error.code is not RefusalCode.CONFLICT:
                raise
            _LOG.info("task %s of process %s: %s", task.id, pid, error)
    usage = RecordUsageRequest(pid, used_by(result), f"cut off {task.id}")
    processes.record_usage(tables, usage)
    return None


def tell_text(tables: KernelTables, pid: str, task: StageTask, text: str) -> None:
    """Tell a piece of an agent's text, as long as its task is out."""
    if task.id in tables.need(SESSION, pid).session.tasks_out:
        tables.emit(KernelEventKind.STAGE_CHUNK, pid, stage=task.stage, task=task.id, text=text)


# The worker: what a server does with the pipelines that it holds.


class Executions:
    """The pipelines that this server runs. `lease_ms` is how long after its death another goes on
    with them."""

    def __init__(
        self, host: ExecutionHost, runner: AgentRunner | None, lease_ms: int = 15_000
    ) -> None:
        self._host, self._runner, self.lease_ms = host, runner, lease_ms
        self._holder = secrets.token_hex(8)
        self._walks: dict[tuple[TenantId, str], asyncio.Task[None]] = {}
        self.most = 256

    @property
    def has_agents(self) -> bool:
        """Say whether this server runs agents."""
        return self._runner is not None

    @property
    def runner(self) -> AgentRunner:
        """Return who runs agents here, or refuse."""
        if self._runner is None:
            raise OperationError(
                RefusalCode.NOT_FOUND,
                "this server runs no agents; let workers run them, or start it with a model for "
                "them: vega serve --may-ask MODEL",
            )
        return self._runner

    def start(self, tenant: TenantId, pid: str) -> None:
        """Run a pipeline if it is due, unless it is run here already, or nothing more can be."""
        has_room = self._runner is not None and len(self._walks) < self.most
        has_room = has_room and not self._host.is_draining
        if has_room and (tenant, pid) not in self._walks:
            walk = asyncio.ensure_future(self._hold(tenant, pid))
            self._walks[tenant, pid] = walk
            walk.add_done_callback(partial(self._on_done, (tenant, pid)))

    async def start_due(self) -> None:
        """Run what is due: new, answered, or of a server that is gone."""
        if self._runner is not None:
            now = self._host.clock.now()
            for tenant, pid in await self._host.store.due(
                EXECUTION.name, RUNNING, now, limit=_PAGE
            ):
                self.start(tenant, pid)

    async def finish(self, within_s: float) -> None:
        """Let the stages that run now come to their end, for so long; no other is begun while the
        kernel drains."""
        if self._walks:
            await asyncio.wait({*self._walks.values()}, timeout=within_s)

    async def aclose(self) -> None:
        """Stop running, and let go of what is held here."""
        walks = [*self._walks.values()]
        for walk in walks:
            walk.cancel()
        if walks:
            await asyncio.wait(walks)

    def _on_done(self, key: tuple[TenantId, str], walk: "asyncio.Task[None]") -> None:
        del self._walks[key]
        if not walk.cancelled() and walk.exception() is not None:
            _LOG.error(
                "pipeline of process %s is not run any more here, and again when its lease has "
                "ended",
                key[1],
                exc_info=walk.exception(),
            )

    async def _hold(self, tenant: TenantId, pid: str) -> None:
        host, holder = self._host, self._holder
        lease_ms = self.lease_ms
        if not await host.transact(tenant, lambda it: claim(it, pid, holder, lease_ms)):
            return
        walk = _Walk(host, self.runner, tenant, pid)
        try:
            await walk.run(lambda it: step(it, pid, holder, lease_ms), lease_ms)
        finally:
            await walk.aclose()
            await host.transact(tenant, lambda it: release(it, pid, holder))


class _Walk:
    """One pipeline while this server holds it, and those of its tasks that run now."""

    def __init__(
        self, host: ExecutionHost, runner: AgentRunner, tenant: TenantId, pid: str
    ) -> None:
        self._host, self._runner, self._tenant, self._pid = host, runner, tenant, pid
        self._tasks: dict[TaskId, asyncio.Task[SessionReply | None]] = {}
        self._ending: set[asyncio.Task[SessionReply | None]] = set()

    async def run(
        self, decide: Callable[[KernelTables], ExecutionStep | None], lease_ms: int
    ) -> None:
        """Do what the session says until it ends, waits for people, or is another's."""
        while True:
            if self._host.is_draining:
                if self._tasks:
                    await asyncio.wait(self._tasks.values())
                return
            told = await self._host.transact(self._tenant, decide)
            if told is None:
                return
            # A task whose time is over, or that ended with its process, has no one to report to.
            for gone in self._tasks.keys() - {*told.tasks_out}:
                self._end(gone)
            self._begin(told.reply)
            instruction = told.reply.instruction
            if isinstance(instruction, Terminate | WaitForInterrupts):
                return
            until = self._host.clock.now() + lease_ms // 3
            if isinstance(instruction, WaitForTasks):
                until = min(until, instruction.until_ms)
            await self._wait(told.version, until)
            for done in [key for key, task in self._tasks.items() if task.done()]:
                reply = self._tasks.pop(done).result()
                if reply is not None:
                    self._begin(reply)

    def _end(self, key: TaskId) -> None:
        """Cut a task off; it still counts what it has spent."""
        task = self._tasks.pop(key)
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        """End the tasks that still run."""
        for key in [*self._tasks]:
            self._end(key)
        if self._ending:
            await asyncio.wait({*self._ending})

    def _begin(self, reply: SessionReply) -> None:
        if isinstance(reply.instruction, RunAgent):
            for task in reply.instruction.tasks:
                work = self._run_task(task, reply.envelope)
                self._tasks[task.id] = asyncio.ensure_future(work)

    async def _wait(self, version: int, until_ms: int) -> None:
        """Return when a task is done, the session was changed by others, or the time has come."""
        host, pid = self._host, self._pid
        while (
            host.clock.now() < until_ms
            and not host.is_draining
            and not any(one.done() for one in self._tasks.values())
        ):
            changed = asyncio.ensure_future(host.wait_for_change(self._tenant, until_ms))
            try:
                await asyncio.wait(
                    {changed, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                changed.cancel()
            if await host.read(self._tenant, lambda it: sessions.version_of(it, pid)) != version:
                return

    async def _run_task(self, task: StageTask, envelope: PipelineEnvelope) -> SessionReply | None:
        """Run one task and report it; return what comes next, or None if it is no longer ours."""
        transact, tenant, pid = self._host.transact, self._tenant, self._pid
        try:
            execution, process = await self._host.read(
                tenant, lambda it: (it.need(EXECUTION, pid), it.need(PROCESS, pid))
            )
            quota = process.quota
            agent = execution.agents.get(task.agent)
            prompt = stage_prompt(agent, envelope.input, envelope.outputs)
            if agent is not None and agent.asks is not None:
                return await transact(tenant, lambda it: ask_person(it, pid, task, agent, prompt))
            wanted = self._runner.most_calls(task.agent, agent, task.tools)
            calls = await self._reserved(task, wanted)
            now = self._host.clock.now()
            run = AgentRun(
                tenant,
                task.agent,
                prompt,
                agent,
                pid=pid,
                money=quota.rule.money,
                money_left=quota.remaining(now).money,
                calls=calls,
                timeout_ms=None if task.deadline_ms is None else max(1, task.deadline_ms - now),
                tools=task.tools,
                wallet=process.wallet,
                wallet_cap=process.wallet_cap,
                # A refusal is the end of all that the pipeline has paid for by now.
                waits=True,
            )
            async with _Chunks(self, task, is_on=execution.chunks) as chunks:
                result = await self._runner.run(run, chunks.add if execution.chunks else None)
            return await transact(tenant, lambda it: settle(it, pid, task, result))
        except OperationError as error:
            if error.code is RefusalCode.CONFLICT:
                _LOG.info("task %s of process %s: %s", task.id, pid, error)
                return None
            await self._give_up(f"stage {task.stage}: {error}")
        except Exception:  # noqa: BLE001  (it ends this session, and no other)
            _LOG.exception("task %s of process %s failed by a bug", task.id, pid)
            await self._give_up(f"stage {task.stage}: a bug of the server; its log says more")
        return None

    async def _reserved(self, task: StageTask, wanted: int) -> int | None:
        """Reserve the model calls of a task; if all that are left are with others, wait for what
        those do not use."""
        host, tenant, pid = self._host, self._tenant, self._pid
        while True:
            share = await host.transact(tenant, lambda it: reserve_for(it, pid, task, wanted))
            if not share.held:
                return share.calls
            await host.wait_for_change(tenant, host.clock.now() + _LOOK_MS)

    async def tell(self, task: StageTask, text: str) -> None:
        """Tell a piece of text."""
        await self._host.transact(self._tenant, lambda it: tell_text(it, self._pid, task, text))

    async def _give_up(self, why: str) -> None:
        ending = TerminateSessionRequest(self._pid, TerminalReason.SYSTEM_ERROR, why[:2_000])
        await self._host.transact(self._tenant, lambda it: sessions.terminate(it, ending))


def report_of(pid: str, task: TaskId, result: AgentResult) -> ReportRequest:
    """Return the report of a run."""
    if result.failure is None:
        outcome = StageCompleted(result.output, result.llm_calls)
    else:
        outcome = StageFailed(result.failure, result.llm_calls)
    return ReportRequest(pid, task, outcome, metrics_of(result), result.error[:10_000])


def used_by(result: AgentResult) -> Consumption:
    """Return what a run takes of the quota of its process."""
    return Consumption(
        input_tokens=result.tokens_in,
        output_tokens=result.tokens_out,
        model_calls=result.llm_calls,
        tool_calls=result.tool_calls,
        money=result.cost,
    )


def metrics_of(result: AgentResult) -> ExecutionMetrics:
    """Return what a run has used."""
    return ExecutionMetrics(
        result.llm_calls,
        result.tool_calls,
        result.tokens_in,
        result.tokens_out,
        result.duration_ms,
        result.cost,
    )


class _Chunks:
    """The text of a task on its way to whoever watches: what comes together is told together."""

    def __init__(self, walk: _Walk, task: StageTask, *, is_on: bool) -> None:
        self._walk, self._task, self._is_on = walk, task, is_on
        self._text: list[str] = []
        self._teller: asyncio.Future[None] | None = None

    def add(self, text: str) -> None:
        """Tell it soon."""
        self._text.append(text)

    async def __aenter__(self) -> Self:
        if self._is_on:
            self._teller = asyncio.ensure_future(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._teller is not None:
            self._teller.cancel()
            with suppress(asyncio.CancelledError):
                await self._teller
            await self._tell()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_CHUNK_S)
            await self._tell()

    async def _tell(self) -> None:
        text = "".join(self._text)
        if text:
            self._text.clear()
            await self._walk.tell(self._task, text)
