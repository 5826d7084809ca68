"""Programs on Temporal as Python code sees them, from any process.

connection = await connect("localhost:7233", queue="vega")
program = await connection.start_program()
writer = await program.spawn("writer", wallet="$2")
reply = await program.ask(writer, "…")
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, cast

from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from vegakit.concurrency import SteadyClock
from vegakit.control import KillResult, Question, plan_kill
from vegakit.durable.messages import (
    BETWEEN_TASKS,
    RECORDS,
    ChargedReply,
    Command,
    Launch,
    PersonAnswer,
    Reply,
    ReplyPending,
)
from vegakit.durable.workflow import PROGRAM, ProgramWorkflow
from vegakit.errors import BugError, UserError, rebuild_error
from vegakit.host import Child, Reply as RuntimeReply, python_value
from vegakit.ids import Digest, ProgramId, TenantId, TraceId, new_program_id
from vegakit.money import Dollars, dollars
from vegakit.policy import ChildType, ExitKind, ExitReason
from vegakit.program import (
    DEFAULT_WINDOW,
    Bounds,
    CancelAsk,
    ChildSpec,
    Event,
    MessageFailed,
    Post,
    ProcessMessage,
    ProcessSpec,
    Program,
    Returned,
    SendExitSignal,
    ShutDown,
    Spawn,
    Spawned,
    SpawnRefused,
    TerminateProcess,
)

T = TypeVar("T")

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.03, 2.0
_KILL_S = 10.0
_NOBODY_THERE = {
    RPCStatusCode.ABORTED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.FAILED_PRECONDITION,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
}
"""No worker, or no server, for the moment: they may come back."""
_CUT_IN_THE_MIDDLE = "transport error"
"""How Temporal's library tells a connection that was lost while it waited, with status UNKNOWN: the
server was killed. Every command has an id, so it is safe to say it again."""
_UNPROCESSED = "UnprocessedUpdate"
"""Temporal's word for an update that lost a race with other tasks and never reached the program."""


async def connect(
    address: str = "localhost:7233", *, namespace: str = "default", queue: str = "vega"
) -> "TemporalConnection":
    """Connect to a Temporal server. `queue` is that of the workers that have the programs' code."""
    try:
        client = await Client.connect(address, namespace=namespace, data_converter=RECORDS)
    except RuntimeError as error:
        raise UserError(
            f"no Temporal server answers at {address} ({error}); check the address, or start one "
            "for development: temporal server start-dev"
        ) from error
    return TemporalConnection(client, queue)


class TemporalConnection:
    """A connection to a Temporal server, and the queue of the workers that have the programs'
    code."""

    def __init__(self, client: Client, queue: str) -> None:
        self.client = client
        self.queue = queue

    async def start_program(
        self,
        *,
        program_id: str = "",
        tenant: str = "local",
        bounds: Bounds | None = None,
        **launch: Any,  # noqa: ANN401
    ) -> "ProgramHandle":
        """Start a program without processes. `launch` is what `Launch` takes, such as
        `heartbeat_ms`."""
        fresh = new_program_id(SteadyClock().now(), secrets.token_bytes(10))
        state = Program(
            ProgramId(program_id or fresh),
            tenant=TenantId(tenant),
            bounds=(bounds or Bounds(window=DEFAULT_WINDOW)).with_pool(),
        )
        await self.client.start_workflow(
            PROGRAM, Launch(state, self.queue, **launch), id=state.id, task_queue=self.queue
        )
        return self.program(state.id)

    def program(self, program_id: str) -> "ProgramHandle":
        """Return a program that was started before, here or elsewhere."""
        workflow = self.client.get_workflow_handle_for(ProgramWorkflow.run, program_id)
        return ProgramHandle(workflow)


class ProgramHandle:
    """A program on Temporal. It implements `kill`, `interrupts` and `answer` of the control table.
    An `id` makes a command safe to say again: it is obeyed once."""

    def __init__(self, workflow: "WorkflowHandle[ProgramWorkflow, None]") -> None:
        self._workflow = workflow
        self._update: Callable[..., Awaitable[Reply]] = cast("Any", workflow).execute_update
        self.id = ProgramId(workflow.id)

    async def spawn(
        self,
        body: str | ChildSpec,
        *,
        name: str = "",
        id: str = "",  # noqa: A002
        **child: Any,  # noqa: ANN401
    ) -> str:
        """Start a process and return its path. `body` is the name of an agent or reducer of the
        workers; `child` is what `Child` takes, such as `wallet="$2"`."""
        spec = _spec(body, child) if isinstance(body, str) else body
        reply = await self._submit(Command(id or _new_id(), Spawn(spec, name)))
        if isinstance(reply, SpawnRefused):
            raise rebuild_error(reply.error, reply.reason)
        if isinstance(reply, Spawned):
            return reply.path
        raise _unexpected(reply)

    async def ask(
        self,
        path: str,
        message: Any,  # noqa: ANN401
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        id: str = "",  # noqa: A002
    ) -> Any:  # noqa: ANN401
        """Send a message and return the answer: a `Reply` of an agent, a value of a reducer.
        Cancelling it cancels the work."""
        ask = id or _new_id()
        timeout_ms = None if timeout is None else int(timeout * 1000)
        command = Command(ask, Post(path, ProcessMessage(message, ask), ask), timeout_ms)
        try:
            reply = await self._submit(command)
        except asyncio.CancelledError:
            await asyncio.shield(self._tell(CancelAsk(ask)))
            raise
        match reply:
            case MessageFailed(error, reason):
                raise rebuild_error(error, reason)
            case ChargedReply(said, charged):
                text, trace_id = said.text, TraceId(self.id)
                facts = (Dollars.of_nanos(charged), said.usage, said.conversation, trace_id)
                return RuntimeReply(text, text, *facts, steps=said.steps)
            case Returned(value):
                return value
            case _:
                raise _unexpected(reply)

    async def run(
        self,
        body: str = "main",
        *args: Any,  # noqa: ANN401
        wallet: str | float | None = None,
        id: str = "",  # noqa: A002
    ) -> Any:  # noqa: ANN401
        """Run a function of a compiled program of the workers, as a process of its own, to its
        end."""
        command_id = id or _new_id()
        cap = None if wallet is None else dollars(wallet)
        spec = ProcessSpec(body, ChildType.TEMPORARY, wallet=cap)
        path = await self.spawn(spec, name=f"{body}~{command_id}", id=f"{command_id}-run")
        try:
            return python_value(await self.ask(path, list(args), id=command_id))
        finally:
            await self._tell(TerminateProcess(path, kill=True), f"{command_id}-end")

    async def printed(self, path: str = "") -> list[str]:
        """Return the last lines that were printed, by all processes or by one with what it
        started."""
        news = await self._query(ProgramWorkflow.printed)
        return [line.text for line in news if line.path.startswith(path)]

    async def tell(self, path: str, message: Any, *, id: str = "") -> None:  # noqa: A002, ANN401
        """Send a message; nobody waits for an answer."""
        command_id = id or _new_id()
        await self._tell(Post(path, ProcessMessage(message), command_id), command_id)

    async def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered, the oldest first."""
        return await self._query(ProgramWorkflow.questions)

    async def answer(
        self,
        id: str,  # noqa: A002
        answer: bool | str,
        *,
        action: Digest | None = None,
        by: str = "",
    ) -> None:
        """Answer a question. `by` is who answers, as you authenticated them: without it the answer
        is refused. `action`, if it is given, is that of the question as they saw it."""
        given, once = PersonAnswer(id, answer, by, action), _new_id()
        reply = await self._update_until_processed(
            lambda: self._update(ProgramWorkflow.answer, given, id=once)
        )
        if isinstance(reply, MessageFailed):
            raise UserError(reply.reason)

    async def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
        """End this incarnation, after which the supervisor decides; with `tree` end it for good,
        with all below it. Return when nothing of it is left, or after ten seconds with a count of
        what is."""
        kill = plan_kill(await self.state(), id, tree=tree)
        killed = SendExitSignal(kill.path, ExitReason(ExitKind.KILLED))
        event = TerminateProcess(kill.path, kill=True) if tree else killed
        await self._submit(Command(_new_id(), event))
        result, waits, left_s = kill.result(await self.state()), _waits(), _KILL_S
        while not result.is_clean and left_s > 0:
            left_s -= (wait_s := next(waits))
            await asyncio.sleep(wait_s)
            result = kill.result(await self.state())
        return result

    async def stop(self) -> None:
        """End every process, the last started first, and return when the program is over."""
        await self._tell(ShutDown())
        await self.wait()

    async def wait(self) -> None:
        """Wait until the program is over, and raise why it could not go on."""
        waits = _waits()
        while True:
            try:
                return await self._workflow.result()
            except WorkflowFailureError as failed:
                raise BugError(f"program {self.id} failed: {failed.cause}") from failed
            except RPCError as error:
                if not _is_unreachable(error):
                    raise self._explained(error) from error
            await asyncio.sleep(next(waits))

    async def state(self) -> Program:
        """Return the whole program as a record."""
        return await self._query(ProgramWorkflow.state)

    async def _tell(self, event: Event, id: str = "") -> None:  # noqa: A002
        command, waits = Command(id or _new_id(), event), _waits()
        while True:
            try:
                return await self._workflow.signal(ProgramWorkflow.tell, command)
            except RPCError as error:
                if not _is_unreachable(error):
                    raise self._explained(error) from error
            await asyncio.sleep(next(waits))

    async def _submit(self, command: Command) -> Reply:
        """Send a command, again with the same id as long as nobody was there to hear it."""
        reply = await self._update_until_processed(
            lambda: self._update(ProgramWorkflow.submit, command)
        )
        return reply if not isinstance(reply, ReplyPending) else await self._reply(command.id)

    async def _update_until_processed(self, say: Callable[[], Awaitable[Reply]]) -> Reply:
        waits = _waits()
        while True:
            try:
                return await say()
            except WorkflowUpdateRPCTimeoutOrCancelledError as cut_off:
                if isinstance(cut_off.__cause__, asyncio.CancelledError):
                    raise cut_off.__cause__ from None
            except WorkflowUpdateFailedError as failed:
                if not _is_unprocessed(failed):
                    raise
            except RPCError as error:
                if not _is_unreachable(error):
                    raise self._explained(error) from error
            await asyncio.sleep(next(waits))

    async def _reply(self, to: str) -> Reply:
        reply: Reply = ReplyPending()
        for wait_s in _waits():
            await asyncio.sleep(wait_s)
            reply = await self._query(ProgramWorkflow.reply, to)
            if not isinstance(reply, ReplyPending):
                break
        return reply

    async def _query(self, asked: Callable[..., T], *facts: object) -> T:
        """Ask the workflow, again as long as nobody can say."""
        waits, query = _waits(), cast("Callable[..., Awaitable[T]]", self._workflow.query)
        while True:
            try:
                return await query(asked, *facts)
            except WorkflowQueryFailedError as failed:
                if BETWEEN_TASKS not in str(failed):
                    raise
            except RPCError as error:
                if not _is_unreachable(error):
                    raise self._explained(error) from error
            await asyncio.sleep(next(waits))

    def _explained(self, error: RPCError) -> Exception:
        if error.status is not RPCStatusCode.NOT_FOUND:
            return error
        return UserError(
            f"no program {self.id} is running (any more); start one with start_program()"
        )


def _spec(body: str, child: dict[str, Any]) -> ChildSpec:
    return Child(cast("Any", body), **child).spec(lambda given: cast("str", given))


def _is_unreachable(error: RPCError) -> bool:
    cut = error.status is RPCStatusCode.UNKNOWN and _CUT_IN_THE_MIDDLE in error.message
    return cut or error.status in _NOBODY_THERE


def _is_unprocessed(failed: WorkflowUpdateFailedError) -> bool:
    return isinstance(failed.cause, ApplicationError) and failed.cause.type == _UNPROCESSED


def _waits() -> Iterator[float]:
    """Yield longer and longer waits, each a tenth of what has passed: a slow answer is asked for
    seldom."""
    wait_s = _SHORTEST_WAIT_S
    while True:
        yield wait_s
        wait_s = min(_LONGEST_WAIT_S, wait_s * 1.1)


def _new_id() -> str:
    return secrets.token_hex(8)


def _unexpected(reply: Reply) -> BugError:
    return BugError(f"the program replied {reply!r}, which is no answer to this")
