"""What a file may name, and what it may not."""

from os import kill
from subprocess import run

from vegakit.tools import ToolContext

__all__ = ["add", "kill", "read", "run"]


def add(a: int, b: int) -> int:
    """Documented here."""
    return _hidden(a) + b


async def read(ctx: ToolContext, path: str) -> str:
    return (await ctx.files.read(path)).decode()


def _hidden(a: int) -> int:
    return a
