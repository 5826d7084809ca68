"""`vega mcp serve`: from flags and vega.toml to a server with a fixed charter."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from vegakit.config import Settings, load, parse_duration_ms
from vegakit.errors import SettingsError, UserError
from vegakit.money import Money, dollars, show
from vegakit.ports import Model
from vegakit.program import Bounds
from vegakit.runtime import Runtime, parts_from, root_of
from vegakit.serving import (
    Charter,
    Desk,
    address_of,
    check_installed,
    serve_http,
    serve_stdio,
    token_in,
)

__all__ = ["add_arguments", "run"]

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
    parser.add_argument("--root", type=Path, help="the project's folder; without it, as by .git")
    parser.add_argument("--budget", metavar="'$1'", help="for all runs together; as in vega.toml")
    parser.add_argument("--model", help="for all agents; scripted:FILE needs no key")
    for name, (flag, what, says) in _GRANTS.items():
        parser.add_argument(flag, dest=name, action="append", default=[], metavar=what, help=says)
    parser.add_argument("--may-ask-people", action="store_true", help="see vega interrupts")
    parser.add_argument(
        "--all-runtimes", action="store_true", help="ps and kill reach all runtimes of yours"
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="over HTTP, with a token, not stdio")
    parser.add_argument(
        "--idle",
        type=_duration_s,
        default="30m",
        metavar="30m",
        help="over HTTP, end a client's session after so long without a request",
    )
    parser.add_argument("--remote", metavar="NAME", default="", help="beyond this machine, by name")


def _duration_s(text: str) -> float:
    try:
        idle_ms = parse_duration_ms(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if idle_ms < _LEAST_IDLE_MS:
        raise argparse.ArgumentTypeError(f"at least 1s, as in 30m; got {text!r}")
    return idle_ms / 1_000


def run(chosen: argparse.Namespace) -> int:
    check_installed()
    address = address_of(chosen.http, chosen.remote) if chosen.http else None
    root = _root(chosen.root)
    # A server that was killed is started again by its client: nobody resumes it.
    settings = load({"journal.enabled": False}, directory=root)
    charter = _charter(chosen, root, settings)

    async def serve(desk: Desk) -> None:
        if address is None:
            await serve_stdio(desk)
            return
        path = settings.data_path / "mcp.token"
        token = token_in(path)
        await serve_http(
            desk, address, token, lambda url: _tell(url, path, charter), idle_s=chosen.idle
        )

    asyncio.run(_while_served(_parts(settings, chosen.model), charter, serve))
    return 0


def _root(given: Path | None) -> Path:
    root = root_of(Path.cwd() / "vega.toml") if given is None else given.resolve()
    if not root.is_dir():
        raise UserError(f"{root} is no folder; give that of a project: --root FOLDER")
    return root


def _charter(chosen: argparse.Namespace, root: Path, settings: Settings) -> Charter:
    grants = {name: tuple(getattr(chosen, name)) for name in _GRANTS if name != "models"}
    budget = settings.budget_rule.cap if chosen.budget is None else dollars(chosen.budget)
    if budget is None:
        raise UserError("vega.toml sets no budget; say what all runs may spend: --budget '$1'")
    return Charter(
        root,
        Money(budget),
        **grants,
        people=chosen.may_ask_people,
        models=frozenset({*settings.models, *chosen.models, "default"}),
        all_runtimes=chosen.all_runtimes,
    )


def _parts(settings: Settings, model: str | None) -> dict[str, Any]:
    parts = parts_from(settings)
    parts["bounds"] = Bounds(depth=Bounds().depth + _DEPTH)
    if model:
        only = cache(partial(parts["models"], model))

        def find(_: str) -> Model:
            return only()

        parts["models"] = find
    return parts


async def _while_served(
    parts: dict[str, Any], charter: Charter, serve: Callable[[Desk], Awaitable[None]]
) -> None:
    """Whatever ends it, all runs end first."""
    stopped = asyncio.ensure_future(_stopped())
    async with Runtime(**parts) as rt:
        desk = Desk(rt, charter)
        gone = await desk.runs.open()
        gc.collect()
        gc.freeze()  # what lives as long as the server is not gone through again and again
        serving = asyncio.ensure_future(serve(desk))
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
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()


def _tell(url: str, token: Path, charter: Charter) -> None:
    print(
        f"serving {charter.root} at {url}, {show(charter.budget)} for all runs together\n"
        f"clients send the header Authorization: Bearer TOKEN; the token is in {token}",
        file=sys.stderr,
        flush=True,
    )
