"""The socket of a runtime: whoever looks in is answered here, if it is the same user."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from vegakit.config import load
from vegakit.errors import SettingsError, UserError
from vegakit.runtime.viewing.answers import Answers
from vegakit.runtime.viewing.protocol import VIEW_VERSION, Request, line_of
from vegakit.runtime.viewing.sockets import is_mine, open_socket
from vegakit.telemetry import Redactor

if TYPE_CHECKING:
    from vegakit.runtime.runtime import Runtime

__all__ = ["ViewServer", "view_from_settings"]

_LOG = logging.getLogger("vegakit")
_ASK_WITHIN_S = 10.0

Verb: TypeAlias = Callable[[Request], AsyncGenerator[Any]]


class ViewServer:
    """A runtime that cannot be looked into runs on: that is a warning, not an error."""

    def __init__(self, directory: Path, redactor: Redactor | None = None) -> None:
        self._directory = directory
        self._redactor = redactor or Redactor()
        self._verbs: dict[str, Verb] = {}
        self._server: asyncio.Server | None = None
        self._callers: set[asyncio.Task[None]] = set()
        self.path: Path | None = None

    async def open(self, runtime: "Runtime") -> None:
        answers = Answers(runtime, self._redactor)
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
                    await self._answer_while_heard(asked, reader, writer)
        finally:
            writer.close()

    async def _answer_while_heard(
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
            request = msgspec.json.decode(asked, type=Request)
            async with aclosing(self._verb(request)(request)) as values:
                async for value in values:
                    writer.write(line_of(value=value))
                    await writer.drain()
            writer.write(line_of(end=True))
        except (UserError, msgspec.DecodeError) as error:
            writer.write(line_of(error=str(error), end=True))
        await writer.drain()

    def _verb(self, request: Request) -> Verb:
        if request.v > VIEW_VERSION or request.verb not in self._verbs:
            raise UserError(
                f"this runtime knows {', '.join(self._verbs)} in version {VIEW_VERSION}, not "
                f"{request.verb!r} in version {request.v}; use the vega it was started with"
            )
        return self._verbs[request.verb]


def view_from_settings() -> ViewServer:
    directory = load().sockets_path
    if directory is None:
        raise SettingsError(
            'view=True needs a directory for its socket, and view.sockets is ""; take it out of '
            "vega.toml, or leave out view=True"
        )
    return ViewServer(directory)
