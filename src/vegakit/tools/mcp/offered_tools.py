"""An accepted tool of a server, as agents use it: what a model reads of it is what was accepted."""

from collections.abc import Callable, Mapping
from typing import Any

from vegakit.conversation import ToolSpec
from vegakit.errors import CapabilityDenied
from vegakit.policy import Grant, Use, sanitise
from vegakit.ports import Tool
from vegakit.tools.mcp.connections import Connection
from vegakit.tools.mcp.naming import model_name
from vegakit.tools.mcp.offering import Offered, shown_schema
from vegakit.tools.mcp.servers import McpServer
from vegakit.tools.middleware import Approver, approved
from vegakit.tools.rights import Rights

__all__ = ["McpTool", "tool_of"]

_START_MS = 35_000
_MOST_DESCRIPTION_BYTES = 4_096


class McpTool:
    repeatable = False

    def __init__(
        self, server: McpServer, offered: Offered, connect: Callable[[], Connection]
    ) -> None:
        self._rights = _declared(server)
        self.timeout_ms = server.timeout_ms + _START_MS
        self.spec = ToolSpec(
            model_name(server.name, offered.name),
            sanitise(offered.description, _MOST_DESCRIPTION_BYTES),
            shown_schema(offered.schema),
        )
        self._offered = offered
        self._connect = connect

    def rights(self, arguments: Mapping[str, Any]) -> Rights:
        """Those that a person declared for the whole server; else nobody knows."""
        del arguments
        return self._rights

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        return await self._connect().call(self._offered, arguments)


def _declared(server: McpServer) -> Rights:
    if not server.capabilities:
        return Rights()
    grant = Grant(tuple(server.capabilities))
    return Rights(tuple(map(Use, grant.capabilities)), grant, sandboxed=bool(server.command))


class _Refused:
    """Nobody said what it does, and nobody can be asked."""

    def __init__(self, inner: McpTool, server: str) -> None:
        self.spec, self.timeout_ms, self.repeatable = inner.spec, inner.timeout_ms, False
        self._server = server

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        raise CapabilityDenied(
            f"nobody said what {self._server} does, so a call of {self.spec.name} needs a person's "
            'approval and nobody can be asked; name what it does, capabilities=["net::post"], or '
            "give approver="
        )


def tool_of(
    server: McpServer,
    offered: Offered,
    connect: Callable[[], Connection],
    approver: Approver | None,
    *,
    asked: bool,
) -> Tool:
    tool = McpTool(server, offered, connect)
    if server.capabilities or (asked and approver is None):
        return tool
    if approver is None:
        return _Refused(tool, server.name)
    wanted = Use(f"mcp::{server.name.replace('-', '_')}")
    return approved(approver, lambda _: wanted)(tool)
