"""`vega mcp`: serve programs to MCP clients under a fixed server policy, and accept MCP servers for
our own agents.
"""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from msgspec import structs

from vegakit.cli.look import one_line
from vegakit.cli.main import Argument, CommandParser, declare
from vegakit.cli.serve import serve_command
from vegakit.concurrency import end_signals
from vegakit.config import Settings, load, parse_duration_ms
from vegakit.errors import SettingsError, UserError
from vegakit.money import Money, dollars, format_money
from vegakit.ports import Model
from vegakit.sdk import Runtime, runtime_arguments
from vegakit.server import (
    Operations,
    ServerPolicy,
    address_of,
    check_installed,
    read_or_create_token,
    serve_http,
    serve_stdio,
)
from vegakit.tools import McpPins, McpReview, McpServer, mcp_server

# `vega mcp serve`: from flags and vega.toml to a server with a fixed charter.


_GRACE_S = 3.0
_LEAST_IDLE_MS = 1_000
_DEPTH = 2
"""Processes of the server above each program."""
_GRANTS = {
    "reads": ("--may-read", "GLOB", "files that programs may read, from the project's folder"),
    "writes": ("--may-write", "GLOB", "files that they may read and write"),
    "gets": ("--may-get", "HOST", "hosts that they may fetch from"),
    "posts": ("--may-post", "HOST", "hosts that they may fetch from and send to"),
    "commands": ("--may-run", "COMMAND", "commands that they may run in the sandbox"),
    "models": ("--may-ask", "MODEL", "models beside the aliases of vega.toml"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vega mcp serve`."""
    declare(
        parser,
        [
            Argument("--root", type=Path, help="the project's folder; without it, as by .git"),
            Argument("--budget", metavar="'$1'", help="for all runs together; as in vega.toml"),
            Argument("--model", help="for all agents; scripted:FILE needs no key"),
        ],
    )
    for name, (flag, what, says) in _GRANTS.items():
        parser.add_argument(flag, dest=name, action="append", default=[], metavar=what, help=says)
    declare(
        parser,
        [
            Argument("--may-ask-people", action="store_true", help="see vega interrupts"),
            Argument(
                "--all-runtimes",
                action="store_true",
                help="ps and kill reach all runtimes of yours",
            ),
            Argument("--http", metavar="HOST:PORT", help="over HTTP, with a token, not stdio"),
            Argument(
                "--idle",
                type=_duration_s,
                default="30m",
                metavar="30m",
                help="over HTTP, end a client's session after so long without a request",
            ),
            Argument("--remote", metavar="NAME", default="", help="beyond this machine, by name"),
        ],
    )


def _duration_s(text: str) -> float:
    try:
        idle_ms = parse_duration_ms(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if idle_ms < _LEAST_IDLE_MS:
        raise argparse.ArgumentTypeError(f"at least 1s, as in 30m; got {text!r}")
    return idle_ms / 1_000


def serve_clients(chosen: argparse.Namespace) -> int:
    """Run `vega mcp serve`."""
    check_installed()
    address = address_of(chosen.http, chosen.remote) if chosen.http else None
    root = _root(chosen.root)
    # A server that was killed is started again by its client: nobody resumes it.
    settings = load({"journal.enabled": False}, directory=root)
    server_policy = _server_policy(chosen, root, settings)

    async def serve(operations: Operations) -> None:
        if address is None:
            await serve_stdio(operations)
            return
        path = settings.data_path / "mcp.token"
        token = read_or_create_token(path)
        await serve_http(
            operations,
            address,
            token,
            lambda url: _tell(url, path, server_policy),
            idle_s=chosen.idle,
        )

    asyncio.run(_while_served(_parts(settings, chosen.model), server_policy, serve))
    return 0


def _root(given: Path | None) -> Path:
    root = (given or Path()).resolve()
    if not root.is_dir():
        raise UserError(f"{root} is no folder; give that of a project: --root FOLDER")
    return root


def _server_policy(chosen: argparse.Namespace, root: Path, settings: Settings) -> ServerPolicy:
    grants = {name: tuple(getattr(chosen, name)) for name in _GRANTS if name != "models"}
    budget = settings.budget_rule.cap if chosen.budget is None else dollars(chosen.budget)
    if budget is None:
        raise UserError("vega.toml sets no budget; say what all runs may spend: --budget '$1'")
    return ServerPolicy(
        root,
        Money(budget),
        **grants,
        people=chosen.may_ask_people,
        models=frozenset({*settings.models, *chosen.models, "default"}),
        all_runtimes=chosen.all_runtimes,
    )


def _parts(settings: Settings, model: str | None) -> dict[str, Any]:
    parts = runtime_arguments(settings)
    bounds = parts["bounds"]
    parts["bounds"] = structs.replace(bounds, depth=bounds.depth + _DEPTH)
    if model:
        only = cache(partial(parts["models"], model))

        def find(_: str) -> Model:
            return only()

        parts["models"] = find
    return parts


async def _while_served(
    parts: dict[str, Any],
    server_policy: ServerPolicy,
    serve: Callable[[Operations], Awaitable[None]],
) -> None:
    """Serve until something ends it. Whatever that is, all runs end first."""
    stopped = asyncio.ensure_future(_stopped())
    async with Runtime(**parts) as rt:
        operations = Operations(rt, server_policy)
        gone = await operations.runs.open()
        gc.collect()
        gc.freeze()  # what lives as long as the server is not gone through again and again
        serving = asyncio.ensure_future(serve(operations))
        await asyncio.wait({serving, gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        stopped.cancel()
    serving.cancel()
    await asyncio.wait({serving}, timeout=_GRACE_S)
    if not serving.done():
        os._exit(0)  # a thread waits for a line on stdin, and nobody can call it off
    if not serving.cancelled():
        serving.result()


async def _stopped() -> None:
    asked = asyncio.Event()
    for number in (signal.SIGINT, *end_signals()):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()


def _tell(url: str, token: Path, server_policy: ServerPolicy) -> None:
    print(
        f"serving {server_policy.root} at {url}, "
        f"{format_money(server_policy.budget)} for all runs together\n"
        f"clients send the header Authorization: Bearer TOKEN; the token is in {token}",
        file=sys.stderr,
        flush=True,
    )


# `vega mcp`: programs for MCP clients, and the servers that vega.toml describes for ours.


def mcp_command(arguments: Sequence[str]) -> int:
    """Run `vega mcp`."""
    if arguments and arguments[0] == "kernel":
        return serve_command(["--doors", "mcp", *arguments[1:]])
    bare = not arguments or (arguments[0].startswith("-") and arguments[0] not in {"-h", "--help"})
    chosen = _parser().parse_args(["serve", *arguments] if bare else arguments)
    if chosen.action == "serve":
        return serve_clients(chosen)
    settings = load()
    if chosen.action == "list":
        return asyncio.run(_list(settings))
    return asyncio.run(_accept(settings, chosen.name, chosen.digest))


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega mcp",
        description="Offer programs to MCP clients, or use MCP servers of others. Without a word "
        "after it, as `vega mcp serve`: on stdin and stdout, for a client that starts it.",
    )
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="serve | kernel | list | accept"
    )
    serving = actions.add_parser(
        "serve", help="check, price and run programs for MCP clients, within a fixed grant"
    )
    add_arguments(serving)
    actions.add_parser("kernel", help="short for: vega serve --doors mcp", add_help=False)
    actions.add_parser("list", help="the servers of vega.toml, and what was accepted of each")
    actions.add_parser(
        "accept",
        help="look at what a server offers now, and accept it or not",
        arguments=[
            Argument("name", help="of a server in vega.toml"),
            Argument(
                "--digest", help="accept without asking, if this is what it offers: for programs"
            ),
        ],
    )
    return parser


async def _list(settings: Settings) -> int:
    """Print the servers of vega.toml; none of them is started."""
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
    async with Runtime(pins=settings.pins_path, observable=False) as rt:
        review = await rt.mcp.review(server)
        print(_shown(server, review))
        if review.is_settled:
            return 0
        if not _agreed(name, review, digest):
            print("not accepted")
            return 1
        await rt.mcp.accept(server, review)
    print(f"accepted: {', '.join(tool.name for tool in review.tool_list.tools)}")
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
