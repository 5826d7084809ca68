"""The control socket of a runtime: it answers requests of the same user."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from vegakit.child_process import Children
from vegakit.config import load
from vegakit.control import (
    CONTROL_VERSION,
    ControlRequest,
    KillResult,
    LogEntry,
    ProcessKind,
    ProcessView,
    Question,
    RuntimeView,
    encode_reply,
    is_mine,
    is_within,
    open_socket,
)
from vegakit.errors import SettingsError, UserError
from vegakit.host import ActivityLog, Approvals, ProgramRun
from vegakit.money import Money
from vegakit.policy import ExitKind
from vegakit.ports import Clock
from vegakit.program import ProcessPhase, ProcessRecord
from vegakit.telemetry import Redactor

_LOOKS = 1_000
_BETWEEN_LOOKS_S = 0.01


class ControlledRuntime(Protocol):
    """What control uses of a runtime. The `Runtime` of this package has all of it; naming only
    this keeps the server below the class that opens it."""

    name: str
    clock: Clock
    children: Children
    activity: ActivityLog
    approvals: Approvals

    @property
    def program(self) -> ProgramRun: ...

    @property
    def spent(self) -> Money: ...

    async def remaining(self) -> Money | None: ...

    def ps(self) -> list[ProcessView]: ...

    def interrupts(self) -> list[Question]: ...


class ControlHandlers:
    """Answers each operation of the control socket from a live runtime."""

    def __init__(self, runtime: ControlledRuntime, redactor: Redactor) -> None:
        self._runtime = runtime
        self._redactor = redactor
        self._since_ms = runtime.clock.now()

    async def info(self, request: ControlRequest) -> AsyncGenerator[RuntimeView]:
        rt = self._runtime
        yield RuntimeView(
            rt.name,
            os.getpid(),
            version("vegakit"),
            rt.clock.now(),
            self._since_ms,
            rt.program.id,
            len(rt.program.machine.state.processes),
            rt.program.host.busy,
            len(rt.children.all()),
            rt.spent,
            await rt.remaining(),
        )

    async def ps(self, request: ControlRequest) -> AsyncGenerator[ProcessView]:
        for view in self._runtime.ps():
            yield replace(view, last_exit=self._redactor.redact(view.last_exit))

    async def logs(self, request: ControlRequest) -> AsyncGenerator[LogEntry]:
        rt = self._runtime
        known = {view.path for view in rt.ps()} | rt.activity.processes()
        path = _resolved(request.id, rt.program.id, known)
        async for entry in rt.activity.entries(path, self._redactor, follow=request.follow):
            yield entry

    async def kill(self, request: ControlRequest) -> AsyncGenerator[KillResult]:
        program, views = self._runtime.program, {view.path: view for view in self._runtime.ps()}
        path = _resolved(request.id, program.id, set(views))
        doomed = [one for one in views if is_within(one, path)]
        if request.tree:
            await program.end(path, kill=True)
            yield await self._when_gone(doomed, {})
            return
        if views[path].kind is ProcessKind.SUPERVISOR:
            raise UserError(
                f"{path} is a supervisor and has no body of its own to restart; "
                f"to end it with all below it, type: vega kill --tree {path}"
            )
        generation = program.machine.state.processes[path].generation
        program.exit(path, ExitKind.KILLED)
        yield await self._when_gone(doomed, {path: generation})

    async def interrupts(self, request: ControlRequest) -> AsyncGenerator[Question]:
        """As they are: nobody approves what is hidden from them because it looks like a key."""
        for question in self._runtime.interrupts():
            yield question

    async def answer(self, request: ControlRequest) -> AsyncGenerator[str]:
        """Whoever may call here is the user of this runtime."""
        await self._runtime.approvals.answer(request.id, request.answer, "", request.action)
        yield request.id

    async def _when_gone(self, doomed: list[str], generations: dict[str, int]) -> KillResult:
        """Wait until what was killed is gone. A process in `generations` may come back with a later
        generation: that is a restart, not a survivor."""
        for _ in range(_LOOKS):
            if self._left_of(doomed, generations).is_clean:
                break
            await asyncio.sleep(_BETWEEN_LOOKS_S)
        return self._left_of(doomed, generations)

    def _left_of(self, doomed: list[str], generations: dict[str, int]) -> KillResult:
        state = self._runtime.program.machine.state
        reborn = tuple(
            path
            for path, generation in generations.items()
            if path in state.processes and state.processes[path].generation > generation
        )
        resting = {path for path in generations if _is_down(state.processes.get(path))}
        return KillResult(
            tuple(doomed),
            sum(
                path in state.processes or path in state.supervisors
                for path in {*doomed} - {*reborn} - resting
            ),
            sum(
                flight.path in doomed and flight.generation <= generations.get(flight.path, 1 << 62)
                for flight in state.effects_in_flight.values()
            ),
            sum(child.owner in doomed for child in self._runtime.children.all()),
            reborn,
        )


def _is_down(process: ProcessRecord | None) -> bool:
    return process is not None and process.phase is ProcessPhase.DOWN


def _resolved(wanted: str, program: str, known: set[str]) -> str:
    path = wanted.removeprefix(f"{program}/")
    bare = path.rpartition("#")[0] if path != wanted else path
    for exact in (path, bare):
        if exact in known:
            return exact
    ending = sorted(one for one in known if one.endswith(f"/{path}"))
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise UserError(f"{wanted!r} is {len(ending)} processes; type one: {', '.join(ending)}")
    close = get_close_matches(wanted, sorted(known), 1)
    hint = f"did you mean {close[0]}?" if close else "to see them, type: vega ps"
    raise UserError(f"there is no process {wanted!r}; {hint}")


_LOG = logging.getLogger("vegakit")
_ASK_WITHIN_S = 10.0

Verb: TypeAlias = Callable[[ControlRequest], AsyncGenerator[Any]]


class ControlServer:
    """A runtime that cannot be looked into runs on: that is a warning, not an error."""

    def __init__(self, directory: Path, redactor: Redactor | None = None) -> None:
        self._directory = directory
        self._redactor = redactor or Redactor()
        self._verbs: dict[str, Verb] = {}
        self._server: asyncio.Server | None = None
        self._callers: set[asyncio.Task[None]] = set()
        self.path: Path | None = None

    async def open(self, runtime: ControlledRuntime) -> None:
        answers = ControlHandlers(runtime, self._redactor)
        self._verbs = {
            "info": answers.info,
            "ps": answers.ps,
            "kill": answers.kill,
            "logs": answers.logs,
            "interrupts": answers.interrupts,
            "answer": answers.answer,
        }
        try:
            listening, self.path = open_socket(self._directory, runtime.name)
        except (OSError, AttributeError) as error:
            _LOG.warning(
                "`vega ps` cannot look into this runtime: no socket in %s (%s); set view.sockets "
                'to another directory, or to "" to do without',
                self._directory,
                error,
            )
            return
        self._server = await asyncio.start_unix_server(self._adopt, sock=listening)

    async def aclose(self) -> None:
        if self._server is None or self.path is None:
            return
        self._server.close()
        self.path.unlink(missing_ok=True)
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
        answering = asyncio.ensure_future(self._answer(asked, writer))
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
            request = msgspec.json.decode(asked, type=ControlRequest)
            async with aclosing(self._verb(request)(request)) as values:
                async for value in values:
                    writer.write(encode_reply(value=value))
                    await writer.drain()
            writer.write(encode_reply(end=True))
        except (UserError, msgspec.DecodeError) as error:
            writer.write(encode_reply(error=str(error), end=True))
        await writer.drain()

    def _verb(self, request: ControlRequest) -> Verb:
        if request.v > CONTROL_VERSION or request.verb not in self._verbs:
            raise UserError(
                f"this runtime knows {', '.join(self._verbs)} in version {CONTROL_VERSION}, not "
                f"{request.verb!r} in version {request.v}; use the vega it was started with"
            )
        return self._verbs[request.verb]


def control_server_from_settings() -> ControlServer:
    directory = load().sockets_path
    if directory is None:
        raise SettingsError(
            'view=True needs a directory for its socket, and view.sockets is ""; take it out of '
            "vega.toml, or leave out view=True"
        )
    return ControlServer(directory)
