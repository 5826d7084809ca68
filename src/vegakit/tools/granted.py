"""`@tool`: a function with the rights it declares, and handles that cannot do more.

    @tool(capabilities=["fs::read"], allowed_paths=["src/**"])
    async def read_source(ctx: ToolContext, path: str) -> str:
        "Read one file of the project."
        return (await ctx.files.read(path)).decode()

The function is the user's own code and is trusted; what it is handed is not wider than its grant,
whatever the model asks for. A capability that is not named is not there.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from vegakit.policy import Grant
from vegakit.tools.confined import Files, Http
from vegakit.tools.functions import FunctionTool

__all__ = ["ToolContext", "tool"]


class ToolContext:
    """The only handles a tool may use; each is made when it is first wanted."""

    def __init__(self, root: Path, grant: Grant) -> None:
        self._root = root
        self.grant = grant

    @cached_property
    def files(self) -> Files:
        return Files(self._root, self.grant)

    @cached_property
    def http(self) -> Http:
        return Http(self.grant)


def tool(
    *,
    capabilities: Sequence[str] = (),
    allowed_paths: Sequence[str] = (),
    allowed_commands: Sequence[str] = (),
    allowed_hosts: Sequence[str] = (),
    root: str | PathLike[str] = ".",
    name: str | None = None,
    repeatable: bool = False,
    timeout: float = 60.0,
) -> Callable[[Callable[..., Any]], FunctionTool]:
    """Paths are globs from `root`. `repeatable`: calling it twice with the same arguments does no
    harm, so a crash may do so."""
    grant = Grant(
        tuple(capabilities),
        paths=tuple(allowed_paths),
        commands=tuple(allowed_commands),
        hosts=tuple(allowed_hosts),
    )

    def made(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(
            function,
            name=name,
            repeatable=repeatable,
            timeout_ms=round(timeout * 1000),
            context=ToolContext(Path(root), grant),
        )

    return made
