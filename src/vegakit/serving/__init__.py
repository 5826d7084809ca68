"""Programs for MCP clients: checked, priced and run under one charter (edge, host).

client ── stdio, HTTP ──▶ tools ──▶ Desk ──▶ one process with the wallet ──▶ runs below it

The charter is fixed when the server starts; a request can ask for less, never for more.
"""

from vegakit.serving.charter import Charter
from vegakit.serving.desk import Desk
from vegakit.serving.http import Address, address_of, serve_http, token_in
from vegakit.serving.server import check_installed
from vegakit.serving.stdio import serve_stdio

__all__ = [
    "Address",
    "Charter",
    "Desk",
    "address_of",
    "check_installed",
    "serve_http",
    "serve_stdio",
    "token_in",
]
