"""`vega code` is used by a person at a screen, and with `--acp` and `--mcp` by an editor or an MCP
client that starts it. To a client stdout carries the protocol and nothing else.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from vegakit.cli.look import look_of
from vegakit.concurrency import end_signals
from vegakit.errors import UserError

_NOT_WITH: Final = {
    "prompt": "-p",
    "image": "--image",
    "resume": "--resume",
    "fork": "--fork",
    "session": "--session",
    "json": "--json",
}
"""What the client says itself, by the protocol."""
_KEPT: Final = ("model", "budget", "mode", "programs", "nodes", "max_tokens", "timeout")


def serve_door(chosen: argparse.Namespace) -> int:
    """Serve the client that started us, until it hangs up. Options such as `--budget` hold for each
    session that it begins."""
    for name, option in _NOT_WITH.items():
        if getattr(chosen, name):
            raise UserError(
                f"{option} is for one prompt at a terminal, and with --{chosen.door} a client says "
                "what to do; leave one of them out"
            )
    options = {name: getattr(chosen, name) for name in _KEPT}
    options["nodes"] = options["nodes"] or ""
    if sys.stdin.isatty():
        print(
            f"a client that speaks {chosen.door.upper()} starts this; Ctrl-D ends it",
            file=sys.stderr,
            flush=True,
        )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    try:
        asyncio.run(_until_stopped(_served(chosen.door, options)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 128 + signal.SIGINT
    return 0


def _served(door: str, options: dict[str, Any]) -> Coroutine[Any, Any, None]:
    # One of them: what an editor needs is loaded in a third of the time of both.
    if door == "acp":
        from vegakit.server import serve_acp

        return serve_acp(**options)
    from vegakit.server import serve_code_mcp

    return serve_code_mcp(**options)


async def _until_stopped(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until the client hangs up or a signal comes: both cut off what is under way, and a
    session goes on with it."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(serving)
    for number in end_signals():
        loop.add_signal_handler(number, task.cancel)
    await task


def is_open(chosen: argparse.Namespace) -> bool:
    """Return whether a person sits at a terminal, and wants to stay there: without a prompt the
    agent asks for one, on a screen or in lines."""
    is_for_programs = chosen.prompt is not None or chosen.json or chosen.taken_up
    return not is_for_programs and sys.stdin.isatty() and sys.stdout.isatty()


def open_session(chosen: argparse.Namespace) -> int:
    """Open the terminal of the agent: the screen, or lines where there is none."""
    options = {
        name: getattr(chosen, name)
        for name in ("model", "budget", "mode", "session", "resume", "fork", "resend", "programs")
    }
    more = {"nodes": chosen.nodes or "", "max_tokens": chosen.max_tokens}
    raised = {"raise_budget": chosen.raised, "timeout": chosen.timeout}
    every = {**options, **more, **raised}
    why = _why_lines(chosen)
    if why is None:
        from vegakit.cli.terminal.app import run_screen  # Textual is loaded only here

        return run_screen(Path.cwd(), every)
    from vegakit.cli.terminal.plain import run_plain

    return run_plain(Path.cwd(), every, why)


def _why_lines(chosen: argparse.Namespace) -> str | None:
    """Return why there is no screen, in words that follow others; None if there is one."""
    if chosen.plain:
        return ""
    if not look_of(sys.stdout).moves:
        return ", as TERM is dumb"
    if find_spec("textual") is None:
        return "; for the screen, type: pip install 'vegakit[tui]'"
    return None
