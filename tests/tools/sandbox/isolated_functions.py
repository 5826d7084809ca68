"""Functions that are run in the sandbox, some of which try to get out of it."""

import datetime as dt
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from vegakit.tools import ToolContext, tool

__all__ = [
    "add",
    "fail",
    "files",
    "hang",
    "lie",
    "look",
    "pick",
    "reach",
    "shout",
    "vanish",
    "write",
]


@tool(isolated=True)
def add(a: int, when: dt.date) -> str:
    """Arguments arrive as their types."""
    print("noise")
    return f"{a + 1} {when.year + 1}"


@tool(isolated=True)
def look() -> list[str]:
    """What of the machine can be seen."""
    seen = [str(path) for path in Path().iterdir()]
    others = [name for name in ("/var", "/opt", "/mnt", "/etc/shadow") if Path(name).exists()]
    return [*seen, *others, *sorted(os.environ)]


@tool(isolated=True)
def fail() -> None:
    """Fails."""
    raise ValueError("this is wrong")


@tool(isolated=True)
def vanish() -> None:
    """Ends its process."""
    print("last words", file=sys.stderr)
    os._exit(7)


@tool(isolated=True)
def lie(answer: str) -> None:
    """Answers in the stead of who calls it."""
    for number in range(3, 20):
        with suppress(OSError):
            os.write(number, answer.encode())
    os._exit(0)


@tool(isolated=True, timeout=1)
def hang() -> None:
    """Never returns."""
    while True:
        pass


@tool(isolated=True)
def shout() -> str:
    """More than a model can read."""
    return "x" * 1_000_000


@tool(isolated=True)
def reach(port: int) -> str:
    """Reach a server on this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "reached"


@tool(isolated=True)
def write(path: str) -> str:
    """Write a file, without any handle."""
    Path(path).write_text("PWNED")
    return "written"


@tool(isolated=True, capabilities=["fs::read"], allowed_paths=["a/*"])
async def files(ctx: ToolContext, path: str) -> str:
    """Read through the handle."""
    return (await ctx.files.read(path)).decode()


@tool(isolated=True, capabilities=["process::exec"], allowed_commands=["true"])
async def pick(ctx: ToolContext) -> str:
    """Run a command from inside."""
    return (await ctx.exec(["true"])).stdout
