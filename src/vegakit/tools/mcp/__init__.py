"""MCP servers: in the sandbox or at one host, and held to what a person accepted (host).

McpServer ── described by a person ──▶ McpServers.tools ──▶ accepted tools, for `Agent(tools=…)`
                                           │ first call
                                           ▼
                         Connection ── starts, checks, starts again ──▶ Session ──▶ the server
"""

__all__ = []
