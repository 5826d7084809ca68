"""Doors: programs for MCP clients, checked, priced and run under one server policy, and the kernel
over HTTP, gRPC and MCP, with the program that serves it (edge, host).

    client ── stdio, HTTP ──▶ tools ──▶ Operations ──▶ one process with the wallet ──▶ runs below it

The policy is fixed when the server starts; a request can ask for less, never for more.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
