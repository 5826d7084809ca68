"""The MCP door of the kernel: the table of its operations as tools, below `/mcp` of the HTTP port.

    POST /mcp ── token, limits, body as for HTTP ──▶ MCP package ──▶ tool: a row ──▶ reply

A tool is a row, and a caller is shown those that its role may call. There are no sessions: any
server answers any request, so a client goes on when one is killed. A stream is a tool that returns
a page: what came until it ended, had so many items, or was quiet for a while; `after` in the next
call goes on from the number that was seen last.

A pipeline that asks a person maps to the result `input_required`: a client whose token may answer
is asked there and then, and repeats its call with the answer. Every other caller sees the question
in the page, and whoever may answers it by `resolve_interrupt`, through any door.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct, ValidationError, convert, json as msgspec_json

from vegakit.control import (
    KERNEL_OPERATIONS,
    AgentAnswer,
    ExecutePipelineRequest,
    InterruptRecord,
    Operation,
    OperationError,
    PidRequest,
    PipelineEventKind,
    RefusalCode,
    ReplyShape,
    ResolveInterruptRequest,
    Right,
    answer_from,
    select,
)
from vegakit.kernel import Kernel, TenantKernel
from vegakit.policy import InterruptRule
from vegakit.records import UNREADABLE_JSON
from vegakit.server.admission import (
    Admission,
    AdmittedRequest,
    DoorLimits,
    PlaceKind,
    failure_of,
    place_of,
    waits,
)
from vegakit.server.asgi import AsgiReceive, AsgiScope, AsgiSend
from vegakit.server.mcp import (
    FIELDS,
    asks_people,
    input_required,
    package_server,
    tool_of,
    tool_result,
)

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ElicitResult,
        InputRequiredResult,
        ListToolsResult,
        PaginatedRequestParams,
        Tool,
    )

_INSTRUCTIONS: Final = (
    "The kernel that a team's agents share: processes with quotas, questions to people, sessions "
    "through pipelines, services and a bus. Begin with get_system_status."
)
_CALL: Final = "vegakit.call"
_PAGE_S: Final = 10.0
"""How long a page of a stream waits for more."""
_MOST_ITEMS: Final = 200
_RULE: Final = InterruptRule()
_PAGED: Final = (
    "Returns a page of `items`; unless `ended`, go on with `after`, the number seen last."
)


class _AskedParams(Struct, frozen=True):
    name: str = ""


class _Asked(Struct, frozen=True):
    """The part of a request that names a tool."""

    params: _AskedParams = _AskedParams()


class KernelMcp:
    """Translates requests of MCP that were admitted, while `open` lasts."""

    def __init__(self, kernel: Kernel, limits: DoorLimits, admission: Admission) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        self._kernel, self._admission = kernel, admission
        server = package_server(_INSTRUCTIONS, self._list, self._call)
        # Without a session or a stream of its own: any server can answer the next request.
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=limits.body_bytes
        )

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Keep what the package needs to serve requests."""
        async with self._manager.run():
            yield

    async def respond(
        self, call: AdmittedRequest, body: bytes, scope: AsgiScope, send: AsgiSend
    ) -> None:
        """Answer a request whose body was read."""
        await self._manager.handle_request({**scope, _CALL: call}, _replayed(body), send)

    def place_of(self, body: bytes) -> PlaceKind:
        """Return what a request takes a place for. What is no call of a tool that there is, is
        answered at once."""
        try:
            row = KERNEL_OPERATIONS.get(msgspec_json.decode(body, type=_Asked).params.name)
        except UNREADABLE_JSON:
            return PlaceKind.CALL
        return PlaceKind.CALL if row is None else place_of(row)

    async def _list(
        self, ctx: "ServerRequestContext[Any, Any]", asked: "PaginatedRequestParams | None"
    ) -> "ListToolsResult":
        import mcp_types as types

        return types.ListToolsResult(tools=[*_tools(_call_of(ctx).identity.rights)])

    async def _call(
        self, ctx: "ServerRequestContext[Any, Any]", asked: "CallToolRequestParams"
    ) -> "CallToolResult | InputRequiredResult":
        call = _call_of(ctx)
        try:
            row = select(asked.name, KERNEL_OPERATIONS, call.identity.rights)
            request = _request(row, asked.arguments)
            kernel = TenantKernel(self._kernel, call.identity.caller)
            if isinstance(request, ExecutePipelineRequest):
                people = _People(kernel, request.pid, ctx, call.identity.rights)
                return await _run_pipeline(kernel, request, asked, people, call.due)
            if row.shape is ReplyShape.STREAM:
                page = await _page(getattr(kernel, row.name)(request), call.due)
                return tool_result(page)
            async with asyncio.timeout_at(call.due):
                calling = getattr(kernel, row.name)(request)
                if waits(row):
                    calling = self._admission.checked(calling, call.authorization)
                reply = await calling
                # A model that was refused or took too long is a reply of the kernel, and no answer.
                return tool_result(
                    reply, is_error=isinstance(reply, AgentAnswer) and bool(reply.failure)
                )
        except Exception as error:  # noqa: BLE001  (a client is told, and the server goes on)
            code, text = failure_of(error)
            return tool_result({"error": {"code": code, "message": text}}, is_error=True)


def _call_of(ctx: "ServerRequestContext[Any, Any]") -> AdmittedRequest:
    return ctx.request.scope[_CALL]  # pyright: ignore[reportOptionalMemberAccess]


def _replayed(body: bytes) -> AsgiReceive:
    """A request that has been read is received again; then its client is there until it is not
    needed any more."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return left.pop() if left else await asyncio.get_running_loop().create_future()

    return receive


def _request(row: Operation[Any, Any], fields: dict[str, Any] | None) -> Struct:
    try:
        return convert(fields or {}, row.request)
    except (ValidationError, ValueError, RecursionError) as error:
        raise OperationError(RefusalCode.INVALID, f"{row.name}: {error}") from error


@cache
def _tools(rights: frozenset[Right]) -> "tuple[Tool, ...]":
    return tuple(
        tool_of(row, row.request, f"{row.description} {_PAGED}")
        if row.shape is ReplyShape.STREAM
        else tool_of(row, row.request, row.description)
        for row in KERNEL_OPERATIONS.values()
        if row.right in rights
    )


# Streams as pages.


class _StreamPage(Struct, frozen=True):
    """Items of a stream; it goes on after them unless it has `ended`."""

    items: list[Any]
    ended: bool


async def _page(
    items: AsyncGenerator[Any], due: float, until_kind: PipelineEventKind | None = None
) -> _StreamPage:
    """Read a stream until it ends, a page is full, its time is over, or an item of a kind comes."""
    page, ended = list[Any](), False
    due = min(due, asyncio.get_running_loop().time() + _PAGE_S)
    try:
        async with aclosing(items), asyncio.timeout_at(due):
            async for item in items:
                page.append(item)
                if len(page) == _MOST_ITEMS or item.kind == until_kind:
                    break
            else:
                ended = True
    except TimeoutError:
        pass  # what came by then is the page
    return _StreamPage(page, ended)


# Pipelines that ask people.


class _People(NamedTuple):
    """The people at a client: whether they can be asked, and the questions of one process."""

    kernel: TenantKernel
    pid: str
    ctx: "ServerRequestContext[Any, Any]"
    rights: frozenset[Right]

    def can_answer(self) -> bool:
        """Say whether this client asks people, and may tell what they answer."""
        return Right.ANSWER in self.rights and asks_people(self.ctx)

    async def pending(self) -> InterruptRecord | None:
        """Return the question that holds the process, if there is one."""
        try:
            return (await self.kernel.get_pending_interrupt(PidRequest(self.pid))).interrupt
        except OperationError as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise

    async def take(self, key: str, said: "ElicitResult") -> bool:
        """Take what people said to a question of the process; return whether it was an answer."""
        select("resolve_interrupt", KERNEL_OPERATIONS, self.rights)
        record = await self.pending()
        if record is None or record.interrupt.ask.id != key:
            raise OperationError(
                RefusalCode.CONFLICT, f"question {key[:80]!r} does not hold this process any more"
            )
        ask, permits = record.interrupt.ask, _permits(record)
        given = (said.content or {}).get(FIELDS[permits])
        if said.action == "decline" and permits:
            given = False
        elif said.action != "accept" or not isinstance(given, bool if permits else str):
            return False
        answer = answer_from(given, permits=permits)
        await self.kernel.resolve_interrupt(ResolveInterruptRequest(ask.id, answer, ask.action))
        return True


def _permits(record: InterruptRecord) -> bool:
    return _RULE.of(record.interrupt.ask.kind).use_within_ms is not None


async def _run_pipeline(
    kernel: TenantKernel,
    request: ExecutePipelineRequest,
    asked: "CallToolRequestParams",
    people: _People,
    due: float,
) -> "CallToolResult | InputRequiredResult":
    """Run a pipeline for a page, or until it asks a person."""
    async with asyncio.timeout_at(due):
        said = [await people.take(*one) for one in (asked.input_responses or {}).items()]  # pyright: ignore[reportArgumentType]
        # Who was asked and gave no answer is not asked again by the same call.
        can_answer = people.can_answer() and all(said)
        question = await people.pending() if can_answer else None
    page, items, after = _StreamPage([], ended=False), list[Any](), request.after
    while question is None:
        going_on = ExecutePipelineRequest(
            request.pid,
            request.pipeline,
            request.input,
            request.quota,
            after,
            request.chunks,
            request.idle_ms,
        )
        stream = kernel.execute_pipeline(going_on)
        page = await _page(stream, due, PipelineEventKind.INTERRUPT_CREATED)
        items += page.items
        is_asked = page.items and page.items[-1].kind == PipelineEventKind.INTERRUPT_CREATED
        question = await people.pending() if is_asked else None
        if question is None and (not is_asked or len(items) >= _MOST_ITEMS):
            break
        after = items[-1].number
    if question is not None and can_answer:
        ask = question.interrupt.ask
        return input_required(ask.id, ask.text, None, permits=_permits(question))
    return tool_result(_StreamPage(items, page.ended))
