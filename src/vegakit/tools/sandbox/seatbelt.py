"""macOS: a command under a profile of `sandbox-exec`. Written from its manual, untested.

It reads the system and the workspace, writes the workspace and its own temporary folder, and has no
network. Its processes are the user's: they are not counted apart, so `Limits.processes` is not set.
"""

import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from vegakit.errors import UserError
from vegakit.ports import Clock, Launched, Launcher, Ran
from vegakit.tools.sandbox.limits import DEFAULT_LIMITS, Limits
from vegakit.tools.sandbox.running import joined, run_within, serve_within
from vegakit.tools.sandbox.setting_aside import tidied
from vegakit.tools.sandbox.workspace import Found, look_over

__all__ = ["Seatbelt", "profile_of"]

_PROGRAM = Path("/usr/bin/sandbox-exec")
_READABLE = (
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library",
    "/private/etc",
    "/private/var/db",
    "/dev",
)
_PATH = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin"


class Seatbelt:
    name = "seatbelt"

    def __init__(
        self,
        launcher: Launcher,
        clock: Clock,
        workspace: Path,
        *,
        limits: Limits = DEFAULT_LIMITS,
        writable: bool = True,
    ) -> None:
        if sys.platform != "darwin" or not _PROGRAM.exists():
            raise UserError(f"no command is run: {_PROGRAM} is part of macOS and is not here")
        self._launcher = launcher
        self._clock = clock
        self._workspace = workspace.resolve()
        self._limits = limits
        self._writable = writable

    async def run(self, argv: Sequence[str], *, owner: str, said: bytes = b"") -> Ran:
        before = await look_over(self._workspace)
        wrapped = self._wrap(argv, before)
        limits, workspace = self._limits, self._workspace
        async with tidied(workspace, before, {}) as notes:
            ran = await run_within(
                self._launcher, self._clock, wrapped, workspace, limits, owner, said=said
            )
        return joined(ran, notes)

    @asynccontextmanager
    async def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AsyncGenerator[Launched]:
        before = await look_over(self._workspace)
        wrapped = self._wrap(argv, before, cleared=not env)
        workspace = self._workspace
        async with (
            tidied(workspace, before, {}),
            serve_within(self._launcher, wrapped, workspace, env, owner) as child,
        ):
            yield child

    def _wrap(self, argv: Sequence[str], found: Found, *, cleared: bool = True) -> list[str]:
        profile = profile_of(self._workspace, found, writable=self._writable)
        variables = (f"PATH={_PATH}", f"HOME={self._workspace}", "LANG=en_US.UTF-8")
        clean = ["/usr/bin/env", *["-i"] * cleared, *variables]
        return [*clean, str(_PROGRAM), "-p", profile, *argv]


def profile_of(workspace: Path, found: Found, *, writable: bool = True) -> str:
    """The last rule that fits wins."""
    rights = "file-read* file-write*" if writable else "file-read*"
    frozen = [workspace.joinpath(*names) for names in (*found.frozen, *zip(found.absent))]
    hidden = [workspace.joinpath(*(name for name, _ in trail)) for trail in found.hidden.values()]
    return "\n".join(
        [
            "(version 1)",
            "(deny default)",
            "(allow process-fork process-exec signal sysctl-read mach-lookup)",
            "(allow file-read-metadata)",
            *(_rule("allow file-read*", path) for path in map(Path, _READABLE)),
            _rule(f"allow {rights}", workspace),
            *(_rule("deny file-write*", path) for path in frozen),
            *(_rule("deny file-read* file-write*", path) for path in hidden),
            '(allow file-write-data (literal "/dev/null"))',
        ]
    )


def _rule(what: str, path: Path) -> str:
    return f"({what} (subpath {json.dumps(str(path), ensure_ascii=False)}))"
