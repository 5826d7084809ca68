"""The control operations as tools of an MCP server, and the server on standard input and output."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, ValidationError, convert, json as msgspec_json, structs, to_builtins

from vegakit.control import (
    CheckReply,
    ControlClient,
    Operation,
    ProcessView,
    Question,
    Right,
    RunReply,
    answer_command,
    offered_by,
    render_question,
)
from vegakit.errors import CatchableError, UserError, VegaError, error_name
from vegakit.money import format_money
from vegakit.policy import sanitise
from vegakit.records import to_json
from vegakit.server.operations import (
    Operations,
    ProgramRefusedError,
    amount,
    current_client,
    current_progress,
)
from vegakit.server.policy import McpKillRequest, McpPsRequest, schema_of
from vegakit.server.runs import ProgressCallback

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
        ListToolsResult,
        PaginatedRequestParams,
        Tool,
    )


# How clients are shown a reply: as text, and the same as JSON for programs.


@dataclass(frozen=True)
class McpResult:
    """The reply to a client. What `is_spelled` is harmless to read as it is, and may not be cut."""

    text: str
    page: dict[str, Any] | None = None
    refused: bool = False
    is_spelled: bool = False


async def _show(page: dict[str, Any], *, refused: bool = False) -> McpResult:
    text = await asyncio.to_thread(
        lambda: json.dumps(page, indent=1, ensure_ascii=False, default=str)
    )
    return McpResult(text, page, refused)


async def _show_reply(_: object, reply: Any) -> McpResult:  # noqa: ANN401
    if isinstance(reply, str):
        return McpResult(reply)
    page = await asyncio.to_thread(to_builtins, reply)
    return await _show(page, refused=isinstance(reply, RunReply) and bool(reply.error))


async def _show_check(_: object, reply: CheckReply) -> McpResult:
    page = {"in_order": reply.in_order, "diagnostics": list(reply.diagnostics)}
    lines = [reply.text, "in order" if reply.in_order else ""]
    return McpResult("\n".join(filter(None, lines)), page, refused=not reply.in_order)


async def _show_ps(control: Operations | ControlClient, views: list[ProcessView]) -> McpResult:
    runtime = await control.info()
    page: dict[str, Any] = {
        "processes": [_view_row(view, runtime.now_ms) for view in views],
        "left": amount(runtime.left),
    }
    if isinstance(control, ControlClient):
        page |= {"runtime": runtime.name, "os_pid": runtime.os_pid}
    return await _show(page)


async def _show_interrupts(control: Operations, questions: list[Question]) -> McpResult:
    now_ms = (await control.info()).now_ms
    page = {"questions": [_question_row(one, now_ms) for one in questions]}
    shown = await asyncio.to_thread(lambda: list(map(render_question, questions)))
    text = "\n\n".join(map("\n".join, shown))
    return McpResult(text or "nothing is asked", page, is_spelled=True)


def _view_row(view: ProcessView, now_ms: int) -> dict[str, Any]:
    return {
        "id": view.path,
        "kind": view.kind,
        "state": view.state,
        "health": view.health,
        "waiting_for": sanitise(view.waiting_for),
        "seconds": max(0, now_ms - view.since_ms) / 1_000,
        "spent": format_money(view.spent),
        "left": amount(view.left),
    }


def _question_row(question: Question, now_ms: int) -> dict[str, Any]:
    """The text is spelled: a backslash in it begins an escape of JSON."""
    left_ms = None if question.expires_ms is None else max(0, question.expires_ms - now_ms)
    return {
        "id": question.id,
        "kind": question.kind,
        "process": sanitise(question.process),
        "text": question.text,
        "seconds_left": None if left_ms is None else left_ms / 1_000,
        "answer": answer_command(question),
    }


# The tools: the rows of the control table that this server implements and clients have a right to.


class McpTool(Struct, frozen=True):
    """A row as a tool. `request` is that of the row unless a client may say less or more: it may
    name a runtime with `at`. `fixed` are fields it has no choice of."""

    row: Operation[Any, Any]
    request: type[Struct]
    show: Callable[[Any, Any], Awaitable[McpResult]] = _show_reply
    fixed: Mapping[str, Any] = {}
    note: str = ""

    @property
    def description(self) -> str:
        """The words for a model that chooses a tool."""
        return f"{self.row.description} {self.note}".rstrip()


_RIGHTS = frozenset({Right.READ, Right.ACT})
_OFFERED = offered_by(Operations)
_SPECIAL = {
    "check": McpTool(_OFFERED["check"], _OFFERED["check"].request, _show_check),
    "ps": McpTool(_OFFERED["ps"], McpPsRequest, _show_ps),
    "kill": McpTool(
        _OFFERED["kill"],
        McpKillRequest,
        fixed={"tree": True},
        note="Here always for good, with all that it started.",
    ),
    "interrupts": McpTool(
        _OFFERED["interrupts"],
        _OFFERED["interrupts"].request,
        _show_interrupts,
        note="With what a person types to answer. Show it to them as it is: only a person answers, "
        "at a terminal of this machine.",
    ),
}
MCP_TOOLS = {
    name: _SPECIAL.get(name) or McpTool(row, row.request)
    for name, row in _OFFERED.items()
    if row.right in _RIGHTS and name != "info"  # which is told with ps
}


async def call_operation(
    operations: Operations,
    name: str,
    given: Mapping[str, Any] | None,
    report_progress: ProgressCallback | None = None,
) -> McpResult:
    """Perform an operation for a client. What is wrong with a request is told like any refusal, so
    that a model can fix it."""
    tool = MCP_TOOLS.get(name)
    if tool is None:
        reason = f"there is no tool {name[:80]!a}; there are: {', '.join(MCP_TOOLS)}"
        return McpResult(reason, refused=True)
    current_progress.set(report_progress)
    try:
        asked = convert(dict(given or {}), tool.request)
        fields = structs.asdict(asked) | dict(tool.fixed)
        control = operations.control_at(fields.pop("at")) if "at" in fields else operations
        return await tool.show(control, await getattr(control, name)(**fields))
    except ValidationError as error:
        return McpResult(f"{name} does not take this: {error}", refused=True)
    except ProgramRefusedError as error:
        return McpResult(str(error), {"refused": error.kind}, refused=True)
    except VegaError as error:
        kind = f"{error_name(error)}: " if isinstance(error, CatchableError) else ""
        return McpResult(f"{kind}{error}", refused=True)


# The tools as an MCP server of the official package, on stdio.


INSTRUCTIONS = (
    "Programs that ask agents, priced before they run and held to it. Call `card` for the "
    "language, write a program, look at it with `check` and `cost`, then `run` it."
)


def check_installed() -> None:
    """Raise what to type if the mcp package is missing."""
    try:
        import mcp.server.lowlevel  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise UserError(
            f"a server needs the mcp package ({error}); type: pip install 'vegakit[mcp]'"
        ) from None


def _client_of(request: Any) -> str:  # noqa: ANN401
    """Name the client: by its session over HTTP, or its connection where it has none; on stdio it
    is the only one."""
    if request is None:
        return ""
    return request.headers.get("mcp-session-id") or ":".join(map(str, request.client or ()))


def tool_of(row: Operation[Any, Any], request: type[Struct], description: str) -> "Tool":
    """Return a row as a tool of the official package."""
    import mcp_types as types

    return types.Tool(
        name=row.name,
        description=description,
        input_schema=schema_of(request),
        annotations=types.ToolAnnotations(
            read_only_hint=row.right is Right.READ,
            # What is left out counts as destructive where a tool is not read-only.
            destructive_hint=row.destructive or None,
            idempotent_hint=row.idempotent,
            open_world_hint=row.right is not Right.READ,
        ),
    )


def tool_result(page: object, text: str = "", *, is_error: bool = False) -> "CallToolResult":
    """Return a reply for programs and as text: a record or plain values as JSON, beside a text of
    its own if it has one."""
    import mcp_types as types

    content = to_json(page)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=sanitise(text or content.decode()))],
        structured_content=msgspec_json.decode(content),
        is_error=is_error,
    )


FIELDS: Final = {True: "approve", False: "answer"}
"""The field of the form for a question that permits an action, and for one that does not."""


def input_required(
    key: str, text: str, state: str | None, *, permits: bool
) -> "InputRequiredResult":
    """Return a question for the person of a client, who repeats the call with the answer."""
    import mcp_types as types

    name = FIELDS[permits]
    schema = {
        "type": "object",
        "properties": {name: {"type": "boolean" if permits else "string"}},
        "required": [name],
    }
    form = types.ElicitRequestFormParams(message=text, requested_schema=schema)
    asked: Any = {key: types.ElicitRequest(params=form)}
    return types.InputRequiredResult(input_requests=asked, request_state=state)


def asks_people(ctx: "ServerRequestContext[Any, Any]") -> bool:
    """Say whether the client asks people, by results that it comes back with."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    able = ctx.session.client_capabilities
    is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and able is not None and able.elicitation is not None


def package_server(instructions: str, on_list: Any, on_call: Any) -> "Server[dict[str, Any]]":  # noqa: ANN401
    """Return a server of the official package, with the functions that list and call its tools."""
    from importlib.metadata import version

    from mcp.server.lowlevel import Server

    return Server(
        "vega",
        version=version("vegakit"),
        instructions=instructions,
        on_list_tools=on_list,
        on_call_tool=on_call,
    )


def server_of(operations: Operations) -> "Server[dict[str, Any]]":
    """Return a server of the official package that offers the tools."""
    import mcp_types as types

    async def on_list(_: Any, asked: "PaginatedRequestParams | None") -> "ListToolsResult":  # noqa: ANN401
        del asked
        tools = [tool_of(tool.row, tool.request, tool.description) for tool in MCP_TOOLS.values()]
        return types.ListToolsResult(tools=tools)

    async def on_call(
        ctx: "ServerRequestContext[dict[str, Any]]", asked: "CallToolRequestParams"
    ) -> "CallToolResult":
        async def tell(count: int, said: str) -> None:
            await ctx.session.report_progress(count, message=said or "still running")

        current_client.set(_client_of(ctx.request))
        result = await call_operation(operations, asked.name, asked.arguments, tell)
        text = result.text if result.is_spelled else sanitise(result.text)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=result.page,
            is_error=result.refused,
        )

    return package_server(INSTRUCTIONS, on_list, on_call)


async def serve_stdio(operations: Operations) -> None:
    """Serve one client over our own standard input and output, until it hangs up. Meanwhile what
    anybody prints here goes to stderr, because stdout belongs to the protocol."""
    from mcp.server.stdio import stdio_server

    server = server_of(operations)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
