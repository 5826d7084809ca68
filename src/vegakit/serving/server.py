"""The tools as an MCP server of the official package, on stdio."""

from typing import TYPE_CHECKING, Any

from vegakit.errors import UserError
from vegakit.policy import sanitise
from vegakit.serving.desk import Desk, current_client
from vegakit.serving.offers import OFFERS, answer
from vegakit.serving.requests import schema_of

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
    )

__all__ = ["INSTRUCTIONS", "check_installed", "server_of"]

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


def server_of(desk: Desk) -> "Server[dict[str, Any]]":
    from importlib.metadata import version

    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def on_list(_: Any, asked: "PaginatedRequestParams | None") -> "ListToolsResult":  # noqa: ANN401
        del asked
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=offer.says,
                    input_schema=schema_of(offer.kind),
                    annotations=types.ToolAnnotations(
                        read_only_hint=not offer.changes, open_world_hint=offer.changes
                    ),
                )
                for name, offer in OFFERS.items()
            ]
        )

    async def on_call(
        ctx: "ServerRequestContext[dict[str, Any]]", asked: "CallToolRequestParams"
    ) -> "CallToolResult":
        async def tell(count: int, said: str) -> None:
            await ctx.session.report_progress(count, message=said or "still running")

        current_client.set(_client_of(ctx.request))
        told = await answer(desk, asked.name, asked.arguments, tell)
        text = told.text if told.is_spelled else sanitise(told.text)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=told.page,
            is_error=told.refused,
        )

    return Server(
        "vega",
        version=version("vegakit"),
        instructions=INSTRUCTIONS,
        on_list_tools=on_list,
        on_call_tool=on_call,
    )
