"""Serving one client over our own standard input and output, until it hangs up."""

from vegakit.serving.desk import Desk
from vegakit.serving.server import server_of

__all__ = ["serve_stdio"]


async def serve_stdio(desk: Desk) -> None:
    """Meanwhile what anybody prints here goes to stderr."""
    from mcp.server.stdio import stdio_server

    server = server_of(desk)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
