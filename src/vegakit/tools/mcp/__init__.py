"""MCP servers: in the sandbox or at one host, and held to what a person accepted (host).

McpServer ── described by a person ──▶ McpServers.tools ──▶ accepted tools, for `Agent(tools=…)`
                                           │ first call
                                           ▼
                         Connection ── starts, checks, starts again ──▶ Life ──▶ the server
"""

from vegakit.tools.mcp.asking import Answer, McpSample, McpSampled
from vegakit.tools.mcp.configured import mcp_server
from vegakit.tools.mcp.opening import McpServers
from vegakit.tools.mcp.pins import McpPins, McpReview
from vegakit.tools.mcp.servers import McpServer

__all__ = [
    "Answer",
    "McpPins",
    "McpReview",
    "McpSample",
    "McpSampled",
    "McpServer",
    "McpServers",
    "mcp_server",
]
