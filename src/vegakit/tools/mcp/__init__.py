"""MCP servers: in the sandbox or at one host, and held to what a person accepted (host).

McpServer ── described by a person ──▶ McpServers.tools ──▶ accepted tools, for `Agent(tools=…)`
                                           │ first call
                                           ▼
                         Connection ── starts, checks, starts again ──▶ Life ──▶ the server
"""

from vegakit.tools.mcp.pins import McpPins, McpReview
from vegakit.tools.mcp.registry import McpServers
from vegakit.tools.mcp.servers import (
    McpSamplingRequest,
    McpSamplingResult,
    McpServer,
    SamplingHandler,
    mcp_server,
)

__all__ = [
    "McpPins",
    "McpReview",
    "McpSamplingRequest",
    "McpSamplingResult",
    "McpServer",
    "McpServers",
    "SamplingHandler",
    "mcp_server",
]
