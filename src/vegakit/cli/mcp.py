"""`vega mcp`: programs for MCP clients, and the servers that vega.toml describes for ours."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from vegakit.cli import mcp_serve
from vegakit.cli.looking import one_line
from vegakit.config import Settings, load
from vegakit.errors import UserError
from vegakit.runtime import Runtime
from vegakit.tools import McpPins, McpReview, McpServer, mcp_server

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    bare = not words or (words[0].startswith("-") and words[0] not in {"-h", "--help"})
    chosen = _parser().parse_args(["serve", *words] if bare else words)
    if chosen.action == "serve":
        return mcp_serve.run(chosen)
    settings = load()
    if chosen.action == "list":
        return asyncio.run(_list(settings))
    return asyncio.run(_accept(settings, chosen.name, chosen.digest))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega mcp",
        description="Offer programs to MCP clients, or use MCP servers of others. Without a word "
        "after it, as `vega mcp serve`: on stdin and stdout, for a client that starts it.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="serve | list | accept")
    serving = actions.add_parser(
        "serve", help="check, price and run programs for MCP clients, within a fixed grant"
    )
    mcp_serve.add_arguments(serving)
    actions.add_parser("list", help="the servers of vega.toml, and what was accepted of each")
    accepting = actions.add_parser(
        "accept", help="look at what a server offers now, and accept it or not"
    )
    accepting.add_argument("name", help="of a server in vega.toml")
    accepting.add_argument(
        "--digest", help="accept without asking, if this is what it offers: for programs"
    )
    return parser


async def _list(settings: Settings) -> int:
    """Starts none of them."""
    pins = McpPins(settings.pins_path)
    for name in settings.mcp:
        server = await mcp_server(settings, name, to_look_at=True)
        pinned = pins.of(server)
        tools = ", ".join(tool.name for tool in pinned.tools) if pinned else ""
        state = f"accepted: {tools}" if pinned else f"not accepted; type: vega mcp accept {name}"
        print(f"{name}  {one_line(server.place)}  {state}")
    if not settings.mcp:
        print("vega.toml describes no MCP server; write [mcp.NAME] with a command or a url")
    return 0


async def _accept(settings: Settings, name: str, digest: str | None) -> int:
    server = await mcp_server(settings, name)
    async with Runtime(pins=settings.pins_path) as rt:
        review = await rt.mcp.review(server)
        print(_shown(server, review))
        if review.is_settled:
            return 0
        if not _agreed(name, review, digest):
            print("not accepted")
            return 1
        await rt.mcp.accept(server, review)
    print(f"accepted: {', '.join(tool.name for tool in review.offer.tools)}")
    return 0


def _shown(server: McpServer, review: McpReview) -> str:
    asked = "nothing" if server.sampling is None else server.sampling
    lines = [
        f"{server.name}: {one_line(server.place)}",
        f"capabilities: {', '.join(server.capabilities) or 'none named: each call is asked about'}",
        f"may spend on models: {asked}",
        "",
        review.text or "no tools",
        "",
        "nothing changed" if review.is_settled else f"digest {review.digest}",
    ]
    return "\n".join(lines)


def _agreed(name: str, review: McpReview, digest: str | None) -> bool:
    if digest is not None:
        return digest == review.digest
    if not sys.stdin.isatty():
        raise UserError(
            "a person looks at this at a terminal; a program that knows what it accepts types: "
            f"vega mcp accept {name} --digest {review.digest}"
        )
    return input("Models read these descriptions. Accept them? Type yes: ").strip() == "yes"
