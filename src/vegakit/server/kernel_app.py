"""The HTTP door of the kernel: the table of its operations as an ASGI application.

| request                  | response                                                             |
|--------------------------|----------------------------------------------------------------------|
| `POST /v1/OPERATION`     | the reply as JSON; a stream as server-sent events, each with its     |
|                          | number as id: who comes back with `Last-Event-ID` misses nothing     |
| `GET /openapi.json`      | all operations with their requests and replies                       |
| `GET /schema/pipeline.json` | the JSON Schema of a pipeline with its agents                     |
| `GET /health`            | 200 while the store answers, else 503                                |
| `POST /mcp`              | the same operations as tools of MCP, if that is served               |

    app.mount("/kernel", KernelApp(kernel, tokens.authenticate))

A route is a row: there is no code for any one operation. Whoever calls is authenticated before the
body is read, and the right of the row is checked before it is decoded. Calls and streams are
bounded in number, bodies in size, and a call in time; a call that is cut off may still be carried
out, as its error says.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import ValidationError, json as msgspec_json
from msgspec.structs import fields as msgspec_fields, replace

from vegakit.control import (
    KERNEL_OPERATIONS,
    Operation,
    OperationError,
    RefusalCode,
    ReplyShape,
)
from vegakit.kernel import Kernel, KernelCaller, TenantKernel
from vegakit.records import to_json
from vegakit.sdk import pipeline_schema
from vegakit.server.admission import (
    Admission,
    AdmittedRequest,
    Authenticate,
    DoorLimits,
    PlaceKind,
    UnreadRequestError,
    end_task,
    failure_of,
    place_of,
    probe,
    waits,
)
from vegakit.server.asgi import (
    STATUS,
    AsgiReceive,
    AsgiScope,
    AsgiSend,
    ClientGoneError,
    EventStream,
    check_json,
    header,
    misaddressed,
    path_of,
    read_body,
    send_json,
    send_json_text,
    send_refusal,
    send_rpc_refusal,
    until_gone,
)

if TYPE_CHECKING:
    from vegakit.server.code_sessions import CodeSessions
    from vegakit.server.kernel_mcp import KernelMcp

_ROOT = "/v1/"
_MCP = "/mcp"
_AUTHORIZATION = b"authorization"
_TIMEOUT = b"vega-timeout-ms"
_LAST_EVENT = b"last-event-id"
_MOST_DIGITS = 15


class StreamItem(Protocol):
    """An item of any stream. Its number is the cursor to go on from; the request of the stream
    takes it as `after`."""

    @property
    def number(self) -> int:
        """Return the number of the item."""
        ...

    @property
    def kind(self) -> str:
        """Return what a client sees as the name of the event."""
        ...


class HttpLimits(DoorLimits, frozen=True):
    """Bounds what one server takes on over HTTP."""


class KernelApp:
    """The ASGI application. `authenticate` says who has a bearer token, if anybody; `serves` are
    the ways in below it, `http` for routes and `mcp` for tools; `code` are sessions of the coding
    agent, whose rows are routes, too."""

    def __init__(
        self,
        kernel: Kernel,
        authenticate: Authenticate,
        limits: HttpLimits | None = None,
        *,
        serves: Collection[str] = ("http",),
        code: "CodeSessions | None" = None,
    ) -> None:
        self._kernel, self._limits = kernel, limits or HttpLimits()
        self._code, self._operations = code, _operations(with_code=code is not None)
        self._admission = Admission(authenticate, self._limits, self._operations)
        self._has_routes = "http" in serves
        self._mcp = _mcp_of(kernel, self._limits, self._admission) if "mcp" in serves else None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Keep what serving needs. An application that has no life of its own is used within."""
        async with self._mcp.open() if self._mcp else nullcontext():
            yield

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Serve one request, or the life of the application: while it lasts, time is swept."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._respond(scope, receive, send)

    async def _live(self, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()
        async with self.open():
            sweeping = asyncio.ensure_future(self._kernel.keep_sweeping())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        stream = EventStream(send)
        try:
            await self._route(scope, receive, send, stream)
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001  (a client is told, and the server goes on)
            code, text = failure_of(error)
        else:
            return
        if stream.has_begun:
            await stream.event("error", {"code": code, "message": text})
            await stream.end()
        elif self._mcp is not None and path_of(scope) == _MCP:
            await send_rpc_refusal(send, STATUS[code], code, text)
        else:
            await send_refusal(send, STATUS[code], code, text)

    async def _route(
        self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend, stream: EventStream
    ) -> None:
        path, method = path_of(scope), scope["method"]
        if (method, path) == ("GET", "/health"):
            await probe(self._kernel)
            await send_json(send, 200, {"status": "ok"})
        elif path == _MCP and self._mcp is not None:
            await self._call_tool(self._mcp, scope, receive, send)
        elif not self._has_routes:
            raise OperationError(RefusalCode.NOT_FOUND, f"only MCP is served here, at {_MCP}")
        elif (method, path) == ("GET", "/openapi.json"):
            await send_json_text(send, 200, _document(with_code=self._code is not None))
        elif (method, path) == ("GET", "/schema/pipeline.json"):
            await send_json(send, 200, pipeline_schema())
        elif path.startswith(_ROOT):
            await self._call(path.removeprefix(_ROOT), scope, receive, send, stream)
        else:
            raise OperationError(
                RefusalCode.NOT_FOUND, "there is nothing here; see /openapi.json for what there is"
            )

    async def _call(
        self, name: str, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend, stream: EventStream
    ) -> None:
        row, identity = await self._admission.admit(name, header(scope, _AUTHORIZATION))
        tenant = identity.caller.tenant
        if scope["method"] != "POST":
            text = f"write: POST {_ROOT}{name}"
            await send_refusal(send, 405, RefusalCode.INVALID.value, text, (b"allow", b"POST"))
            return
        method = getattr(self._target(row, identity.caller), row.name)
        # A body that trickles in takes a place and its time like the call that it is.
        with self._admission.counted(place_of(row), tenant):
            until = asyncio.get_running_loop().time() + self._seconds(scope)
            body = await self._body(until, scope, receive)
            is_stream, reply = row.shape is ReplyShape.STREAM, b""
            async with asyncio.timeout_at(until):
                request = await self._admission.converted(tenant, _request_from, body, row)
                if not is_stream:
                    call = method(request)
                    if waits(row):
                        call = self._admission.checked(call, header(scope, _AUTHORIZATION))
                    reply = await self._admission.converted(tenant, to_json, await call)
            if is_stream:
                resumed = _resumed(request, header(scope, _LAST_EVENT))
                await self._stream(method(resumed), scope, receive, stream)
            else:
                await send_json_text(send, 200, reply)

    def _target(self, row: Operation[Any, Any], caller: KernelCaller) -> object:
        if self._code is None or row.name in KERNEL_OPERATIONS:
            return TenantKernel(self._kernel, caller)
        from vegakit.server.code_sessions import TenantCode

        return TenantCode(self._code, caller)

    async def _call_tool(
        self, mcp: "KernelMcp", scope: AsgiScope, receive: AsgiReceive, send: AsgiSend
    ) -> None:
        authorization = header(scope, _AUTHORIZATION)
        identity = await self._admission.identity(authorization)
        if scope["method"] != "POST":
            text = f"write: POST {_MCP}; there is no session to listen to or to end"
            await send_refusal(send, 405, RefusalCode.INVALID.value, text, (b"allow", b"POST"))
            return
        if status := misaddressed(scope):
            text = "the request is from a page of another origin"
            await send_refusal(send, status, RefusalCode.FORBIDDEN.value, text)
            return
        tenant = identity.caller.tenant
        with self._admission.counted(PlaceKind.CALL, tenant):
            due = asyncio.get_running_loop().time() + self._seconds(scope)
            body = await self._body(due, scope, receive)
            await self._admission.converted(tenant, check_json, body)
        # Which tool is called stands in the body: now it is known whether it waits.
        with self._admission.counted(mcp.place_of(body), tenant):
            await mcp.respond(AdmittedRequest(identity, due, authorization), body, scope, send)

    async def _body(self, due: float, scope: AsgiScope, receive: AsgiReceive) -> bytes:
        try:
            async with asyncio.timeout_at(due):
                return await read_body(scope, receive, self._limits.body_bytes)
        except TimeoutError:
            raise UnreadRequestError from None

    def _seconds(self, scope: AsgiScope) -> float:
        """The caller's own deadline, if it is sooner than ours."""
        text = header(scope, _TIMEOUT)
        if not text:
            return self._limits.call_ms / 1_000
        if not _is_number(text) or not int(text):
            raise OperationError(
                RefusalCode.INVALID, "Vega-Timeout-Ms is a whole number of milliseconds"
            )
        return min(int(text), self._limits.call_ms) / 1_000

    async def _stream(
        self,
        items: AsyncGenerator[StreamItem],
        scope: AsgiScope,
        receive: AsgiReceive,
        stream: EventStream,
    ) -> None:
        """Send items until they end or the client goes; say now and then that we are here."""
        gone = asyncio.ensure_future(until_gone(receive))
        watched = self._admission.watched(items, header(scope, _AUTHORIZATION), gone)
        try:
            async with aclosing(watched):
                async for told in watched:
                    if told is None:
                        await stream.keep_alive()
                    else:
                        await stream.event(told.kind, told, told.number)
            if not gone.done():
                await stream.end()
        finally:
            await end_task(gone)


def _request_from(body: bytes, row: Operation[Any, Any]) -> Any:  # noqa: ANN401  (that of the row)
    check_json(body)
    try:
        return msgspec_json.decode(body or b"{}", type=row.request)
    except (ValidationError, ValueError, RecursionError) as error:
        raise OperationError(RefusalCode.INVALID, f"{row.name}: {error}") from error


def _mcp_of(kernel: Kernel, limits: HttpLimits, admission: Admission) -> "KernelMcp":
    from vegakit.server.kernel_mcp import KernelMcp

    return KernelMcp(kernel, limits, admission)


def _is_number(text: str) -> bool:
    """Whether a header is a whole number of a size that a database can hold."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _resumed(request: Any, last_event: str) -> Any:  # noqa: ANN401  (the request of any stream)
    """What a browser says it has seen counts as the cursor."""
    if not last_event:
        return request
    if not _is_number(last_event):
        raise OperationError(
            RefusalCode.INVALID, "Last-Event-ID is the number of the event that was seen last"
        )
    return replace(request, after=max(request.after or 0, int(last_event)))


@cache
def _operations(*, with_code: bool) -> Mapping[str, Operation[Any, Any]]:
    """Return the rows that are served; what the coding agent needs is loaded where it is."""
    if not with_code:
        return KERNEL_OPERATIONS
    from vegakit.server.code_sessions import CODE_OPERATIONS

    return {**KERNEL_OPERATIONS, **CODE_OPERATIONS}


@cache
def _document(*, with_code: bool) -> bytes:
    """Made once: anybody may ask for it, and it takes longer than most calls."""
    return to_json(openapi(with_code=with_code))


def openapi(*, with_code: bool = False) -> dict[str, Any]:
    """Return the OpenAPI document of the table."""
    rows = [*_operations(with_code=with_code).values()]
    types = [kind for row in rows for kind in (row.request, row.reply)]
    schemas, components = msgspec_json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    paths = {
        f"{_ROOT}{row.name}": {"post": _operation(row, *schemas[2 * place : 2 * place + 2])}
        for place, row in enumerate(rows)
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "The Vega kernel", "version": "1"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(
    row: Operation[Any, Any], request: dict[str, Any], reply: dict[str, Any]
) -> dict[str, Any]:
    kind, shown = "application/json", reply
    if row.shape is ReplyShape.STREAM:
        kind, shown = "text/event-stream", _event_schema(reply)
    statuses = {str(status): {"description": code} for code, status in STATUS.items()}
    return {
        "operationId": row.name,
        "summary": row.description,
        "x-right": row.right.value,
        "x-idempotent": row.idempotent,
        "requestBody": {
            "required": any(field.required for field in msgspec_fields(row.request)),
            "content": {"application/json": {"schema": request}},
        },
        "responses": {
            "200": {"description": "the reply", "content": {kind: {"schema": shown}}},
            **statuses,
        },
    }


def _event_schema(reply: dict[str, Any]) -> dict[str, Any]:
    """A server-sent event, whose data is the reply as JSON."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": reply}
    texts = {name: {"type": "string"} for name in ("id", "event")}
    return {"type": "object", "properties": {**texts, "data": data}, "required": ["data"]}
