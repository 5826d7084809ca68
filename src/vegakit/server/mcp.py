"""The operations as tools of an MCP server, and the server on standard input and output."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, ValidationError, convert

from vegakit.errors import CatchableError, UserError, VegaError, error_name
from vegakit.policy import sanitise
from vegakit.server.operations import OperationResult, Operations, current_client
from vegakit.server.policy import (
    CardRequest,
    InterruptsRequest,
    KillRequest,
    ProgramRequest,
    PsRequest,
    RunRequest,
    ServerRequest,
    schema_of,
)
from vegakit.server.runs import ProgressCallback

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
    )


# The tools of the server: name, what a client sends, and what it is told about it.


R = TypeVar("R", bound=ServerRequest)


class McpTool(Struct, Generic[R], frozen=True):
    """`changes`: more than looking. `tells`: it also hears how to tell what comes meanwhile."""

    kind: type[R]
    perform: Callable[..., Awaitable[OperationResult]]
    description: str
    changes: bool = False
    reports_progress: bool = False


MCP_TOOLS: dict[str, McpTool[Any]] = {
    "card": McpTool(
        CardRequest,
        Operations.card,
        "The whole language on one page. Read it before you write a program.",
    ),
    "check": McpTool(
        ProgramRequest,
        Operations.check,
        "All that is wrong with a program, with lines and suggested edits. Calls no model.",
    ),
    "cost": McpTool(
        ProgramRequest,
        Operations.cost,
        "What a program may cost at most, send by send, and what is left here. Calls no model.",
    ),
    "explain": McpTool(
        ProgramRequest,
        Operations.explain,
        "What a program may ask, call and touch, what of it is not granted, what runs at once and "
        "what waits for what. Calls no model.",
    ),
    "run": McpTool(
        RunRequest,
        Operations.run,
        "Run a program to its end: its result, what it printed and what it spent. It is checked "
        "and priced first; a refusal says what to change, and nothing was spent. To cancel the "
        "request ends the run.",
        changes=True,
        reports_progress=True,
    ),
    "ps": McpTool(
        PsRequest, Operations.ps, "What runs here now: each process, its state and its money."
    ),
    "interrupts": McpTool(
        InterruptsRequest,
        Operations.interrupts,
        "What runs here ask people, exactly and whole, and what a person types to answer. Show it "
        "to them as it is: only a person answers, at a terminal of this machine.",
    ),
    "kill": McpTool(
        KillRequest,
        Operations.kill,
        "End a run or a process for good, with all that it started.",
        changes=True,
    ),
}


async def call_operation(
    operations: Operations,
    name: str,
    given: Mapping[str, Any] | None,
    report_progress: ProgressCallback | None = None,
) -> OperationResult:
    """What is wrong with a request is told like any refusal, so that a model can fix it."""
    tool = MCP_TOOLS.get(name)
    if tool is None:
        reason = f"there is no tool {name[:80]!a}; there are: {', '.join(MCP_TOOLS)}"
        return OperationResult(reason, refused=True)
    try:
        asked = convert(dict(given or {}), tool.kind)
    except ValidationError as error:
        return OperationResult(f"{name} does not take this: {error}", refused=True)
    try:
        return await tool.perform(
            operations, asked, *([report_progress] if tool.reports_progress else [])
        )
    except VegaError as error:
        name = f"{error_name(error)}: " if isinstance(error, CatchableError) else ""
        return OperationResult(f"{name}{error}", refused=True)


# The tools as an MCP server of the official package, on stdio.


INSTRUCTIONS = (
    "Programs that ask agents, priced before they run and held to it. Call `card` for the "
    "language, write a program, look at it with `check` and `cost`, then `run` it."
)


def check_installed() -> None:
    try:
        import mcp.server.lowlevel  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise UserError(
            f"a server needs the mcp package ({error}); type: pip install 'vegakit[mcp]'"
        ) from None


def _client_of(request: Any) -> str:  # noqa: ANN401
    """By its session over HTTP, or its connection where it has none; on stdio there is one."""
    if request is None:
        return ""
    return request.headers.get("mcp-session-id") or ":".join(map(str, request.client or ()))


def server_of(operations: Operations) -> "Server[dict[str, Any]]":
    from importlib.metadata import version

    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def on_list(_: Any, asked: "PaginatedRequestParams | None") -> "ListToolsResult":  # noqa: ANN401
        del asked
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=tool.description,
                    input_schema=schema_of(tool.kind),
                    annotations=types.ToolAnnotations(
                        read_only_hint=not tool.changes, open_world_hint=tool.changes
                    ),
                )
                for name, tool in MCP_TOOLS.items()
            ]
        )

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

    return Server(
        "vega",
        version=version("vegakit"),
        instructions=INSTRUCTIONS,
        on_list_tools=on_list,
        on_call_tool=on_call,
    )


# Serving one client over our own standard input and output, until it hangs up.


async def serve_stdio(operations: Operations) -> None:
    """Meanwhile what anybody prints here goes to stderr."""
    from mcp.server.stdio import stdio_server

    server = server_of(operations)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
