"""An MCP server in use: one session from start to end, the connection that restarts it, and the
accepted tools that agents call.

Imports the MCP library, so it is loaded when a server is first used.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    AudioContent,
    BlobResourceContents,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    CreateMessageRequestParams,
    CreateMessageResult,
    EmbeddedResource,
    ErrorData,
    ImageContent,
    Implementation,
    InputRequiredResult,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    SamplingMessage,
    TextContent,
)
from pydantic import TypeAdapter, ValidationError

from vegakit.conversation import AssistantMessage, Message, Text, ToolSpec, UserMessage
from vegakit.errors import (
    CapabilityDenied,
    ErrorClass,
    LimitReached,
    StoreError,
    Timeout,
    ToolFailed,
    UserError,
    VegaError,
    WorldError,
)
from vegakit.policy import Grant, Use, mark_untrusted, sanitise
from vegakit.ports import Clock, Tool
from vegakit.records import canonical
from vegakit.tools.functions import ApprovedTool, Approver, ToolRights
from vegakit.tools.mcp.pins import (
    MOST_TOOLS,
    ListedTool,
    ToolList,
    changes,
    model_name,
    shown_schema,
    tool_list_of,
)
from vegakit.tools.mcp.servers import (
    McpSamplingRequest,
    McpSamplingResult,
    McpServer,
    SamplingHandler,
)
from vegakit.tools.mcp.transport import BoundedReader, Streams

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp.client import ClientSession
    from mcp.client.session import ClientRequestContext, SamplingFnT


# A result becomes text: a part that is no text is named, and never fetched.


_MOST_BYTES = 60_000
"""Less than any result may have, so that the marks stay on it."""


def result_text(result: CallToolResult) -> str:
    """Return a result as text, between the marks of what is not to be trusted."""
    text = "\n".join(map(_block, result.content))
    if not text and result.structured_content is not None:
        text = canonical(result.structured_content).decode()
    if result.is_error:
        detail = mark_untrusted(sanitise(text, _MOST_BYTES)) if text else "and not why"
        raise ToolFailed(f"the server says that it failed: {detail}")
    return mark_untrusted(sanitise(text, _MOST_BYTES))


def _block(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case (
            ImageContent(mime_type=kind, data=content) | AudioContent(mime_type=kind, data=content)
        ):
            return f"[{kind}, {len(content) * 3 // 4:,} bytes, not shown]"
        case EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=content)):
            return f"[{uri}, {len(content) * 3 // 4:,} bytes, not shown]"
        case EmbeddedResource(resource=resource):
            return getattr(resource, "text", "")
        case _:
            return f"[{block.uri}, not fetched]"


# A server that asks for a model: what it asks, as our own records, and what it is told.
#
# Who answers is given from outside and pays from the server's own budget. Texts only: no picture,
# no tools, nothing of our own conversations goes along.


def make_sampling_callback(answer: SamplingHandler) -> "SamplingFnT":
    """Return the callback by which a server asks a model of ours."""

    async def sample(
        context: "ClientRequestContext", params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        del context
        try:
            result = await answer(_sample(params))
        except (UserError, StoreError, WorldError) as error:
            return ErrorData(code=INVALID_REQUEST, message=f"{type(error).__name__}: {error}")
        return _result(result)

    return sample


def _sample(params: CreateMessageRequestParams) -> McpSamplingRequest:
    if params.tools or params.tool_choice:
        raise UserError("a server is given no tools; ask for text")
    messages = tuple(map(_message, params.messages))
    if not messages or not isinstance(messages[-1], UserMessage):
        raise UserError("the last message must be the user's")
    return McpSamplingRequest(
        messages, sanitise(params.system_prompt or ""), max(1, params.max_tokens)
    )


def _message(message: SamplingMessage) -> Message:
    content = message.content if isinstance(message.content, list) else [message.content]
    texts = tuple(Text(sanitise(block.text)) for block in content if isinstance(block, TextContent))
    if len(texts) < len(content):
        raise UserError("a server may send text only")
    return UserMessage(texts) if message.role == "user" else AssistantMessage(texts)


def _result(result: McpSamplingResult) -> CreateMessageResult:
    return CreateMessageResult(
        role="assistant",
        content=TextContent(type="text", text=result.text),
        model=result.model,
        stop_reason="endTurn",
    )


# One session with a server: from its start, or the first request to it, until it ends or is ended.
#
#     who calls ── call, listing ──▶ session ◀── messages ──▶ the server
#                                       ▲
#                      a task of its own holds it open, and ends with it
#
# Whatever way it ends, those who wait are told at once.


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


class McpSession:
    """`open_streams` is given what to call when the server must end, with the reason."""

    def __init__(
        self,
        name: str,
        open_streams: Callable[[Callable[[str], None]], AbstractAsyncContextManager[Streams]],
        answer: SamplingHandler | None,
        stderr_text: Callable[[], str],
    ) -> None:
        _tame_logs()
        self.is_stale = True
        """Its tools have not been looked at since it started, or since it said they changed."""
        self._name = name
        self._answer = answer
        self._stderr_text = stderr_text
        self._why = ""
        self._reader: BoundedReader | None = None
        self._ending = asyncio.Event()
        self._session: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._keep(open_streams(self._end)))
        self._task.add_done_callback(_discard_error)

    @property
    def has_ended(self) -> bool:
        """Return whether the session is over or ending."""
        return self._ending.is_set() or self._task.done()

    async def call(self, tool: str, arguments: Mapping[str, Any], timeout_s: float) -> str:
        """Call a tool, without `ClientSession.call_tool`, which holds results against a schema of
        the server's own: a pattern in it could take for ever."""
        params = CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = CallToolRequest(params=params)
        answer = await self._ask(request, _Raw, timeout_s)
        result: CallToolResult | InputRequiredResult = self._read(
            request.method, _Called, answer, "content"
        )
        if isinstance(result, InputRequiredResult):
            raise ToolFailed(f"{self._name} wants more input during a call, which is not given")
        return result_text(result)

    async def list_tools(self) -> list[tuple[str, str, Any]]:
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
            self._end(f"it did not answer within {_START_S:g} s")
        await self.aclose()
        raise self._failure("did not start")

    async def aclose(self) -> None:
        """End the session, by force if it does not end in time."""
        self._ending.set()
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self, streams: AbstractAsyncContextManager[Streams]) -> None:
        from mcp.client import ClientSession

        async with streams as (reading, writing):
            self._reader = BoundedReader(reading, self._on_changed, self._end)
            sample = None if self._answer is None else make_sampling_callback(self._answer)
            async with ClientSession(
                self._reader, writing, sampling_callback=sample, client_info=_US
            ) as session:
                await _handshake(session)
                self._session.set_result(session)
                await self._ending.wait()

    async def _ask(self, request: Any, kind: Any, timeout_s: float) -> Any:  # noqa: ANN401
        from mcp import MCPError

        assert self._reader is not None
        self._reader.on_asked()
        try:
            return await self._session.result().send_request(request, kind, timeout_s)
        except MCPError as error:
            raise await self._translated(error, timeout_s) from error
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

    async def _translated(self, error: "MCPError", timeout_s: float) -> Exception:
        if error.code == REQUEST_TIMEOUT:
            return Timeout(f"{self._name} did not answer within {timeout_s:g} s")
        if self.has_ended or (error.code, error.message) == _LOST:
            self._end("the connection was lost")
            await asyncio.wait([self._task], timeout=_CLOSE_S)
            return self._failure("ended during the call")
        return ToolFailed(f"{self._name} refused: {mark_untrusted(sanitise(error.message, 4_000))}")

    def _failure(self, what: str) -> VegaError:
        """Return the error for a failed start. An error that a person must fix, such as a missing
        sandbox, is returned as it is."""
        cause = _cause(self._task)
        if isinstance(cause, UserError | StoreError):
            return cause
        parts = [self._why or (f"{type(cause).__name__}: {cause}" if cause else "")]
        parts.append(self._stderr_text())
        detail = mark_untrusted(sanitise("; ".join(part for part in parts if part), 4_000))
        return WorldError(f"{self._name} {what}: {detail}", ErrorClass.CONNECTION)

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._ending.set()

    def _on_changed(self) -> None:
        self.is_stale = True


async def _handshake(session: "ClientSession") -> None:
    """Greet the server in the version that every server knows; one that knows only newer ones says
    so."""
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


def _discard_error(task: "asyncio.Task[None]") -> None:
    """Its error is told to who waits; else to nobody."""
    if not task.cancelled():
        task.exception()


def _tame_logs() -> None:
    """Make what a server says harmless to read, and one line, before it reaches a log or a
    terminal."""
    theirs = [name for name in logging.root.manager.loggerDict if name.startswith("mcp.")]
    for name in ("client", *theirs):
        logging.getLogger(name).addFilter(_harmless)


def _harmless(record: logging.LogRecord) -> bool:
    if "mcp" in Path(record.pathname).parts:
        record.msg = sanitise(record.getMessage(), _MOST_LOGGED_BYTES).replace("\n", " ")
        record.args, record.exc_info, record.exc_text = (), None, None
    return True


# A server as one owner sees it: started when first used, started again when it died, and held to
# what was accepted.
#
# at a call                                        | what happens
# -------------------------------------------------|---------------------------------------------
# the server does not run                          | it is started, at most 4 times a minute
# it was just started, or says that tools changed  | it is asked what it offers
# the tool is not what the model was told it is    | the call is refused, and says what changed
# the server ends meanwhile                        | the call fails; the next one starts it again


_MOST_STARTS = 4
_WINDOW_MS = 60_000


class McpConnection:
    """A connection starts a server when it is first used, checks its tools, and starts it again if
    it dies."""

    def __init__(
        self,
        server: McpServer,
        start_session: Callable[[], McpSession],
        clock: Clock,
    ) -> None:
        self._server = server
        self._start_session = start_session
        self._clock = clock
        self._session: McpSession | None = None
        self._tool_list = ToolList()
        self._starts: deque[int] = deque(maxlen=_MOST_STARTS)
        self._checking = asyncio.Lock()
        self._closed = False

    async def call(self, tool: ListedTool, arguments: Mapping[str, Any]) -> str:
        """`tool` is what was accepted, and told to the model."""
        async with self._checking:
            session = await self._live_session()
            if session.is_stale:
                await self._refresh(session)
            self._refuse_changed(tool)
        return await session.call(tool.name, arguments, self._server.timeout)

    async def tool_list(self) -> ToolList:
        """Return what the server offers now, accepted or not."""
        async with self._checking:
            await self._refresh(await self._live_session())
            return self._tool_list

    async def aclose(self) -> None:
        """End the server."""
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        if self._session is not None:
            await self._session.aclose()

    async def _live_session(self) -> McpSession:
        """Whoever was cancelled while it started has left it to the next."""
        if self._closed:
            raise ToolFailed(f"{self._server.name} ended with the process that used it")
        if self._session is None or self._session.has_ended:
            await self._end()
            self._count_start()
            self._session = self._start_session()
        await self._session.ready()
        return self._session

    def _count_start(self) -> None:
        now = self._clock.now()
        if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _WINDOW_MS:
            raise ToolFailed(
                f"{self._server.name} was started {_MOST_STARTS} times within "
                f"{_WINDOW_MS // 1000} s and ended each time; it is left alone for a while"
            )
        self._starts.append(now)

    async def _refresh(self, session: McpSession) -> None:
        self._tool_list = tool_list_of(self._server.name, await session.list_tools())

    def _refuse_changed(self, tool: ListedTool) -> None:
        for name, what in changes([tool], self._tool_list).items():
            server = self._server.name
            raise CapabilityDenied(
                f"{name} of {server} is not what was accepted, so it is not called. "
                f"A person may look, and type: vega mcp accept {server}\n"
                f"{mark_untrusted(sanitise(what, 4_000))}"
            )


# An accepted tool of a server, as agents use it: what a model reads of it is what was accepted.


_START_MS = 35_000
_MOST_DESCRIPTION_BYTES = 4_096


class RemoteMcpTool:
    """A tool of an MCP server."""

    idempotent = False

    def __init__(
        self, server: McpServer, listed: ListedTool, connect: Callable[[], McpConnection]
    ) -> None:
        self._rights = _declared(server)
        self.timeout_ms = server.timeout_ms + _START_MS
        self.spec = ToolSpec(
            model_name(server.name, listed.name),
            sanitise(listed.description, _MOST_DESCRIPTION_BYTES),
            shown_schema(listed.schema),
        )
        self._listed = listed
        self._connect = connect

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Those that a person declared for the whole server; else nobody knows."""
        del arguments
        return self._rights

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        return await self._connect().call(self._listed, arguments)


def _declared(server: McpServer) -> ToolRights:
    if not server.capabilities:
        return ToolRights()
    grant = Grant(tuple(server.capabilities))
    return ToolRights(tuple(map(Use, grant.capabilities)), grant, sandboxed=bool(server.command))


class _RefusedTool:
    """Nobody said what it does, and nobody can be asked."""

    def __init__(self, inner: RemoteMcpTool, server: str) -> None:
        self.spec, self.timeout_ms, self.idempotent = inner.spec, inner.timeout_ms, False
        self._server = server

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        raise CapabilityDenied(
            f"nobody said what {self._server} does, so a call of {self.spec.name} needs a person's "
            'approval and nobody can be asked; name what it does, capabilities=["net::post"], or '
            "give approver="
        )


def tool_of(
    server: McpServer,
    listed: ListedTool,
    connect: Callable[[], McpConnection],
    approver: Approver | None,
    *,
    asked: bool,
) -> Tool:
    """Return a listed tool. One of a server of which nobody said what it does needs an approval for
    each call."""
    tool = RemoteMcpTool(server, listed, connect)
    if server.capabilities or (asked and approver is None):
        return tool
    if approver is None:
        return _RefusedTool(tool, server.name)
    wanted = Use(f"mcp::{server.name.replace('-', '_')}")
    return ApprovedTool(tool, approver, wanted)
