"""One life of a server: from its start, or the first request to it, until it ends or is ended.

    who calls ── call, listing ──▶ session ◀── messages ──▶ the server
                                      ▲
                     a task of its own holds it open, and ends with it

Whatever way it ends, those who wait are told at once.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
)
from pydantic import TypeAdapter, ValidationError

from vegakit.errors import (
    ErrorClass,
    LimitReached,
    Timeout,
    ToolFailed,
    UserError,
    VegaError,
    WorldError,
)
from vegakit.policy import for_model, sanitise
from vegakit.tools.mcp.asking import Answer
from vegakit.tools.mcp.offering import MOST_TOOLS
from vegakit.tools.mcp.results import text_of
from vegakit.tools.mcp.sampling import sampling_of
from vegakit.tools.mcp.streams import Streams, Watched

if TYPE_CHECKING:  # it loads a whole server along
    from mcp import MCPError
    from mcp.client import ClientSession

__all__ = ["Life"]

_START_S = 30.0
_CLOSE_S = 0.5
_MOST_PAGES = 64
_MOST_LOGGED_BYTES = 500
_US = Implementation(name="vegakit", version="1")
_MOST_PARTS = 1_000
_LOST = (CONNECTION_CLOSED, "Connection closed")
"""As the SDK says it. The number alone is any server's: it stands for errors of its own, too."""
_T = TypeVar("_T")
_Raw = TypeAdapter(dict[str, Any])
_Listed = TypeAdapter(ListToolsResult)
_Called: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)


class Life:
    """`open_streams` is given what to call when the server must end, with the reason."""

    def __init__(
        self,
        name: str,
        open_streams: Callable[[Callable[[str], None]], AbstractAsyncContextManager[Streams]],
        answer: Answer | None,
        complaint: Callable[[], str],
    ) -> None:
        _tame_logs()
        self.is_stale = True
        """Its tools have not been looked at since it started, or since it said they changed."""
        self._name = name
        self._answer = answer
        self._complaint = complaint
        self._why = ""
        self._watched: Watched | None = None
        self._ending = asyncio.Event()
        self._session: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._keep(open_streams(self._over)))
        self._task.add_done_callback(_seen)

    @property
    def is_over(self) -> bool:
        return self._ending.is_set() or self._task.done()

    async def call(self, tool: str, arguments: Mapping[str, Any], timeout_s: float) -> str:
        """Without `ClientSession.call_tool`, which holds results against a schema of the server's
        own: a pattern in it could take for ever."""
        params = CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = CallToolRequest(params=params)
        answer = await self._ask(request, _Raw, timeout_s)
        result: CallToolResult | InputRequiredResult = self._read(
            request.method, _Called, answer, "content"
        )
        if isinstance(result, InputRequiredResult):
            raise ToolFailed(f"{self._name} wants more input during a call, which is not given")
        return text_of(result)

    async def listing(self) -> list[tuple[str, str, Any]]:
        """Names, descriptions, schemas."""
        self.is_stale = False
        listed: list[tuple[str, str, Any]] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
            answer = await self._ask(request, _Raw, _START_S)
            page: ListToolsResult = self._read(request.method, _Listed, answer, "tools")
            listed += [
                (tool.name, tool.description or "", tool.input_schema) for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None or len(listed) > MOST_TOOLS:
                return listed
        raise LimitReached(f"{self._name} lists its tools on more than {_MOST_PAGES} pages")

    async def ready(self) -> None:
        """Raises why it did not start."""
        waited = [self._session, self._task]
        await asyncio.wait(waited, timeout=_START_S, return_when=asyncio.FIRST_COMPLETED)
        if self._session.done():
            return
        if not self._task.done():
            self._over(f"it did not answer within {_START_S:g} s")
        await self.aclose()
        raise self._failure("did not start")

    async def aclose(self) -> None:
        self._ending.set()
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self, streams: AbstractAsyncContextManager[Streams]) -> None:
        from mcp.client import ClientSession

        async with streams as (reading, writing):
            self._watched = Watched(reading, self._on_changed, self._over)
            sample = None if self._answer is None else sampling_of(self._answer)
            async with ClientSession(
                self._watched, writing, sampling_callback=sample, client_info=_US
            ) as session:
                await _greet(session)
                self._session.set_result(session)
                await self._ending.wait()

    async def _ask(self, request: Any, kind: Any, timeout_s: float) -> Any:  # noqa: ANN401
        from mcp import MCPError

        assert self._watched is not None
        self._watched.on_asked()
        try:
            return await self._session.result().send_request(request, kind, timeout_s)
        except MCPError as error:
            raise await self._told(error, timeout_s) from error
        except ValidationError as error:
            raise ToolFailed(
                f"{self._name} answered what is no answer to {request.method}"
            ) from error

    def _read(self, method: str, kind: TypeAdapter[_T], answer: dict[str, Any], many: str) -> _T:
        """Counted before it is looked at: to check 30,000 blocks would hold the loop for seconds.
        What is left out is no part of the answer."""
        items: object = answer.get(many)
        if isinstance(items, list) and len(cast("list[object]", items)) > _MOST_PARTS:
            raise LimitReached(
                f"{self._name} answered {method} with {len(cast('list[object]', items)):,} parts, "
                f"and at most {_MOST_PARTS:,} are read"
            )
        try:
            return kind.validate_python(answer, by_name=False)
        except ValidationError as error:
            raise ToolFailed(f"{self._name} answered what is no answer to {method}") from error

    async def _told(self, error: "MCPError", timeout_s: float) -> Exception:
        if error.code == REQUEST_TIMEOUT:
            return Timeout(f"{self._name} did not answer within {timeout_s:g} s")
        if self.is_over or (error.code, error.message) == _LOST:
            self._over("the connection was lost")
            await asyncio.wait([self._task], timeout=_CLOSE_S)
            return self._failure("ended during the call")
        return ToolFailed(f"{self._name} refused: {for_model(sanitise(error.message, 4_000))}")

    def _failure(self, what: str) -> VegaError:
        """What a person must do, such as install a sandbox, is said as it is."""
        cause = _cause(self._task)
        if isinstance(cause, UserError):
            return cause
        parts = [self._why or (f"{type(cause).__name__}: {cause}" if cause else "")]
        parts.append(self._complaint())
        told = for_model(sanitise("; ".join(part for part in parts if part), 4_000))
        return WorldError(f"{self._name} {what}: {told}", ErrorClass.CONNECTION)

    def _over(self, why: str) -> None:
        self._why = self._why or why
        self._ending.set()

    def _on_changed(self) -> None:
        self.is_stale = True


async def _greet(session: "ClientSession") -> None:
    """In the words that every server knows; those who know only newer ones say so."""
    from mcp import MCPError

    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


def _cause(task: "asyncio.Task[None]") -> BaseException | None:
    """The first of the errors that it ended with."""
    error = task.exception() if task.done() and not task.cancelled() else None
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _seen(task: "asyncio.Task[None]") -> None:
    """Its error is told to who waits; else to nobody."""
    if not task.cancelled():
        task.exception()


def _tame_logs() -> None:
    """What a server says reaches a log, or a terminal, harmless to read and in one line."""
    theirs = [name for name in logging.root.manager.loggerDict if name.startswith("mcp.")]
    for name in ("client", *theirs):
        logging.getLogger(name).addFilter(_harmless)


def _harmless(record: logging.LogRecord) -> bool:
    if "mcp" in Path(record.pathname).parts:
        record.msg = sanitise(record.getMessage(), _MOST_LOGGED_BYTES).replace("\n", " ")
        record.args, record.exc_info, record.exc_text = (), None, None
    return True
