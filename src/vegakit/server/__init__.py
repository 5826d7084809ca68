"""Programs for MCP clients: checked, priced and run under one server policy (edge, host).

    client ── stdio, HTTP ──▶ tools ──▶ Operations ──▶ one process with the wallet ──▶ runs below it

The policy is fixed when the server starts; a request can ask for less, never for more.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.server.mcp import check_installed as check_installed, serve_stdio as serve_stdio
    from vegakit.server.mcp_http import (
        Address as Address,
        address_of as address_of,
        read_or_create_token as read_or_create_token,
        serve_http as serve_http,
    )
    from vegakit.server.operations import Operations as Operations
    from vegakit.server.policy import ServerPolicy as ServerPolicy


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "mcp": "check_installed serve_stdio",
        "mcp_http": "Address address_of read_or_create_token serve_http",
        "operations": "Operations",
        "policy": "ServerPolicy",
    },
)
