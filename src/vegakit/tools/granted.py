"""`@tool`: a function with the rights it declares, and handles that cannot do more.

    @tool(capabilities=["fs::read"], allowed_paths=["src/**"])
    async def read_source(ctx: ToolContext, path: str) -> str:
        "Read one file of the project."
        return (await ctx.files.read(path)).decode()

The function is the user's own code and is trusted; what it is handed is not wider than its grant,
whatever the model asks for. A capability that is not named is not there.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any

from vegakit.errors import CapabilityDenied
from vegakit.policy import Denied, Grant, RunCommand, decide, parse_command
from vegakit.ports import AuditLevel, Ran
from vegakit.tools.confined import Files, Http
from vegakit.tools.functions import FunctionTool
from vegakit.tools.isolated import IsolatedTool
from vegakit.tools.rights import current_effect
from vegakit.tools.sandboxes import Place, sandboxes_here

__all__ = ["ToolContext", "tool"]


class ToolContext:
    """The only handles a tool may use; each is made when it is first wanted."""

    def __init__(self, root: Path, grant: Grant) -> None:
        self._root = root
        self.grant = grant

    @property
    def idempotency_key(self) -> str:
        """Of this very call: the same if it is made again when a run is resumed, never that of
        another call. Give it to a service that drops what it has seen."""
        return current_effect.get()

    async def exec(self, command: str | Sequence[str]) -> Ran:
        """Run one of `allowed_commands` in the sandbox, where `root` is writable and nothing else.

        Words as a list, or a line of them; no shell reads it. Any exit code is an answer.
        """
        words = parse_command(command) if isinstance(command, str) else RunCommand((*command,))
        verdict = words if isinstance(words, Denied) else decide(self.grant, words)
        if isinstance(verdict, Denied):
            raise CapabilityDenied(verdict.reason)
        assert isinstance(verdict.wanted, RunCommand)
        return await sandboxes_here().run(verdict.wanted.argv, Place(self._root.resolve()))

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
    audit: str = AuditLevel.BASIC,
    isolated: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]:
    """Paths are globs from `root`. `repeatable`: calling it twice with the same arguments does no
    harm, so a crash may do so. `audit`: none, basic, or detailed with what it was given and gave.
    `isolated`: it runs in the sandbox, so it need not be trusted."""
    grant = Grant(
        tuple(capabilities),
        paths=tuple(allowed_paths),
        commands=tuple(allowed_commands),
        hosts=tuple(allowed_hosts),
    )

    def made(function: Callable[..., Any]) -> FunctionTool:
        kind = partial(IsolatedTool, root=Path(root), grant=grant) if isolated else FunctionTool
        return kind(
            function,
            name=name,
            repeatable=repeatable,
            timeout_ms=round(timeout * 1000),
            context=ToolContext(Path(root), grant),
            audit=audit,
        )

    return made
