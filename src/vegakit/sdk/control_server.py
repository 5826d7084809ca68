"""Control of a live runtime, and the socket on which it is offered to the same user.

caller ──▶ ControlServer: line, right, request ──▶ RuntimeControl ──▶ the runtime
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from vegakit.child_process import Children
from vegakit.config import sockets_dir
from vegakit.control import (
    ALL_RIGHTS,
    KillPlan,
    KillResult,
    LogEntry,
    ProcessView,
    Question,
    ReplyShape,
    Right,
    RuntimeView,
    decode_request,
    encode_reply,
    is_mine,
    offered_by,
    open_socket,
    plan_kill,
    reserved_by_path,
    resolve,
    values,
)
from vegakit.errors import StoreError, UserError
from vegakit.host import ActivityLog, Approvals, ProgramRun
from vegakit.ids import Digest
from vegakit.money import Dollars, Money
from vegakit.policy import ExitKind
from vegakit.ports import Clock, RunQuote
from vegakit.telemetry import Redactor

_LOOKS = 1_000
_BETWEEN_LOOKS_S = 0.01


class ControlledRuntime(Protocol):
    """The parts of a runtime that control uses. The `Runtime` of this package has all of them;
    naming only these keeps the server below the class that opens it."""

    name: str
    clock: Clock
    children: Children
    activity: ActivityLog
    approvals: Approvals
    quote: RunQuote | None

    @property
    def program(self) -> ProgramRun:
        """The run of all processes."""
        ...

    async def spent(self) -> Dollars:
        """Return the amount that was spent within the budget."""
        ...

    async def remaining(self) -> Dollars | None:
        """Return what is left of the budget, or None if nothing limits it."""
        ...

    def ps(self) -> list[ProcessView]:
        """Return a view of each process, in tree order."""
        ...

    def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered."""
        ...


class RuntimeControl:
    """Implements `ProcessControl` for a live runtime. Reasons and log entries are redacted; the
    questions to people are not, because nobody may approve what is hidden from them."""

    def __init__(self, runtime: ControlledRuntime, redactor: Redactor | None = None) -> None:
        self._runtime = runtime
        self._redactor = redactor or Redactor()
        self._since_ms = runtime.clock.now()

    async def info(self) -> RuntimeView:
        """Return the runtime as a whole."""
        from importlib.metadata import version  # it loads parsers of mail, and few ever look in

        rt = self._runtime
        left, spent, state = await rt.remaining(), await rt.spent(), rt.program.machine.state
        added = state.bounds.raised, state.beyond
        at_most = None if rt.quote is None else rt.quote.live(spent, state.saved, *added)
        return RuntimeView(
            rt.name,
            os.getpid(),
            version("vegakit"),
            rt.clock.now(),
            self._since_ms,
            rt.program.id,
            len(state.processes),
            rt.program.host.busy,
            len(rt.children.all()),
            Money(spent),
            None if left is None else Money(left),
            Money(sum(reserved_by_path(state).values())),
            at_most,
        )

    async def ps(self) -> list[ProcessView]:
        """Return every process in tree order: each before what is below it."""
        redact = self._redactor.redact
        return [replace(view, last_exit=redact(view.last_exit)) for view in self._runtime.ps()]

    async def logs(self, id: str, *, follow: bool = False) -> AsyncGenerator[LogEntry]:  # noqa: A002
        """Yield what is remembered of a process and of those below it; with `follow`, go on."""
        rt = self._runtime
        known = {view.path for view in rt.ps()} | rt.activity.processes()
        path = resolve(id, rt.program.id, known)
        async for entry in rt.activity.entries(path, self._redactor, follow=follow):
            yield entry

    async def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
        """End this incarnation, or with `tree` the process for good with all below it, and count
        what is left when it is gone or ten seconds have passed."""
        program = self._runtime.program
        kill = plan_kill(program.machine.state, id, tree=tree)
        if tree:
            await program.end(kill.path, kill=True)
        else:
            program.exit(kill.path, ExitKind.KILLED)
        for _ in range(_LOOKS):
            if self._left_of(kill).is_clean:
                break
            await asyncio.sleep(_BETWEEN_LOOKS_S)
        return self._left_of(kill)

    async def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered, the oldest first."""
        return self._runtime.interrupts()

    async def answer(
        self,
        id: str,  # noqa: A002
        answer: bool | str,
        *,
        action: Digest | None = None,
    ) -> None:
        """Answer a question as the user of this machine: nobody else reaches this."""
        await self._runtime.approvals.answer(id, answer, "", action)

    def _left_of(self, kill: KillPlan) -> KillResult:
        os_children = sum(child.owner in kill.doomed for child in self._runtime.children.all())
        return kill.result(self._runtime.program.machine.state, os_children)


_LOG = logging.getLogger("vegakit")
_ASK_WITHIN_S = 10.0
_ANSWER_WITHIN_S = 2.0
"""After a runtime has begun to close; who reads a stream is not waited for."""


class ControlServer:
    """Serves the operations that `RuntimeControl` offers to callers of the same user, who have
    `rights`. A runtime that cannot be looked into runs on: that is a warning, not an error, and
    not even a warning where nobody asked for it."""

    def __init__(
        self,
        directory: Path,
        redactor: Redactor | None = None,
        rights: Collection[Right] = ALL_RIGHTS,
        *,
        is_asked_for: bool = True,
    ) -> None:
        self._directory = directory
        self._level = logging.WARNING if is_asked_for else logging.INFO
        self._redactor = redactor
        self._rights = rights
        self._control: RuntimeControl | None = None
        self._server: asyncio.Server | None = None
        self._callers: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self.path: Path | None = None

    async def open(self, runtime: ControlledRuntime) -> None:
        """Listen for callers of this runtime."""
        self._control = RuntimeControl(runtime, self._redactor)
        try:
            self._server, self.path = await self._listen(runtime.name)
        # A read-only home, a path that is too long, a loop or a system without such sockets:
        # whatever it is, nobody's program fails because it cannot be looked into.
        except Exception as error:  # noqa: BLE001
            _LOG.log(
                self._level,
                "`vega ps` cannot look into this runtime: no socket in %s (%s); set "
                'observable.sockets to another directory, or to "" to do without',
                self._directory,
                error,
            )

    async def _listen(self, name: str) -> tuple[asyncio.Server, Path]:
        listening, path = open_socket(self._directory, name)
        try:
            return await asyncio.start_unix_server(self._adopt, sock=listening), path
        except BaseException:
            listening.close()
            path.unlink(missing_ok=True)
            raise

    async def aclose(self) -> None:
        """Remove the socket, and hang up on who is still being answered."""
        if self._server is None or self.path is None:
            return
        self._server.close()
        self.path.unlink(missing_ok=True)
        # Whoever killed what this runtime waited for is told so before it is gone.
        if self._answering:
            await asyncio.wait(self._answering, timeout=_ANSWER_WITHIN_S)
        for caller in self._callers:
            caller.cancel()
        if self._callers:
            await asyncio.wait(self._callers)

    def _adopt(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = asyncio.ensure_future(self._serve(reader, writer))
        self._callers.add(caller)
        caller.add_done_callback(self._on_served)

    def _on_served(self, caller: "asyncio.Task[None]") -> None:
        self._callers.discard(caller)
        if not caller.cancelled() and (error := caller.exception()) is not None:
            _LOG.error("whoever looked in got no answer", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, TimeoutError, ValueError):
                if is_mine(writer.get_extra_info("socket")):
                    asked = await asyncio.wait_for(reader.readline(), _ASK_WITHIN_S)
                    await self._answer_while_connected(asked, reader, writer)
        finally:
            writer.close()

    async def _answer_while_connected(
        self, asked: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # A caller who hangs up ends the answer: nobody reads a log that is followed for ever.
        answering = asyncio.ensure_future(self._answer(asked, writer))
        answering.add_done_callback(self._answering.discard)
        hanging_up = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answering, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answering.cancel()
            hanging_up.cancel()
            await asyncio.wait({answering, hanging_up})
        if not answering.cancelled():
            answering.result()

    async def _answer(self, asked: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            row, request = decode_request(asked, offered_by(RuntimeControl), self._rights)
            if row.shape is not ReplyShape.STREAM and (task := asyncio.current_task()):
                self._answering.add(task)
            async with aclosing(values(self._control, row, request)) as replies:
                async for value in replies:
                    writer.write(encode_reply(value=value))
                    await writer.drain()
            writer.write(encode_reply(end=True))
        except (UserError, msgspec.DecodeError) as error:
            writer.write(encode_reply(error=str(error), end=True))
        except StoreError as error:
            _LOG.error("what was asked of this runtime failed: %s", error)
            writer.write(encode_reply(error=str(error), end=True))
        await writer.drain()


def default_control_server(redactor: Redactor) -> ControlServer | None:
    """Return the server of a runtime that was made without settings: its socket is where `vega ps`
    looks. Return None if the settings say that there is none."""
    directory = sockets_dir()
    return None if directory is None else ControlServer(directory, redactor, is_asked_for=False)
