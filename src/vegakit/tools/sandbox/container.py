"""The container, or pod, that Vega runs in is the boundary; chosen by name only, never found.

The container decides about network, files, memory and kernel calls: `CONTAINER_FLAGS`. Here a
command gets no variable of ours, rlimits, and another user than Vega's, so that it can read neither
the keys nor the memory of Vega. Names that other programs act on are not protected: nothing outside
may use this workspace before it was looked at.
"""

import os
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from vegakit.errors import UserError
from vegakit.ports import Clock, Launched, Launcher, Ran
from vegakit.tools.sandbox.limits import DEFAULT_LIMITS, Limits
from vegakit.tools.sandbox.running import run_within, serve_within, with_limits

__all__ = ["CONTAINER_FLAGS", "Container"]

CONTAINER_FLAGS = (
    "--network none --pids-limit 512 --memory 2g --read-only --tmpfs /tmp "
    "--security-opt no-new-privileges --cap-drop ALL "
    "--cap-add SETUID --cap-add SETGID --cap-add KILL"
)
_NOBODY = 65_534
_PATH = "/usr/local/bin:/usr/bin:/bin"


class Container:
    """`user` owns what commands may write to."""

    name = "container"

    def __init__(
        self,
        launcher: Launcher,
        clock: Clock,
        workspace: Path,
        *,
        user: int = _NOBODY,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self._workspace = workspace.resolve()
        self._user = user
        self._limits = limits
        self._refuse_halves()

    async def probe(self) -> None:
        """Raises unless a command runs, and cannot read what Vega was given."""
        stolen = f"cat /proc/{os.getpid()}/environ /proc/$PPID/environ 2>/dev/null; id -u"
        ran = await self.run(["sh", "-c", stolen], owner="probe")
        if ran.stdout.strip() != str(self._user):
            raise UserError(
                f"no command is run: it would not be user {self._user}, or could read the "
                f"environment of Vega ({ran.stderr.strip() or 'it was readable'}); start the "
                f"container as root with {CONTAINER_FLAGS}"
            )

    async def run(self, argv: Sequence[str], *, owner: str, said: bytes = b"") -> Ran:
        return await run_within(
            self._launcher,
            self._clock,
            self.wrap(argv),
            self._workspace,
            self._limits,
            owner,
            said=said,
        )

    @asynccontextmanager
    async def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AsyncGenerator[Launched]:
        wrapped = self.wrap(argv, cleared=not env)
        async with serve_within(self._launcher, wrapped, self._workspace, env, owner) as child:
            yield child

    def wrap(self, argv: Sequence[str], *, cleared: bool = True) -> list[str]:
        as_other = ["--reuid", str(self._user), "--regid", str(self._user), "--clear-groups"]
        without_rights = ["--inh-caps", "-all", "--no-new-privs", "--pdeathsig", "KILL"]
        variables = [f"PATH={_PATH}", "HOME=/tmp", "LANG=C.UTF-8"]
        return [
            *("/usr/bin/setpriv", *as_other, *without_rights),
            *("/usr/bin/env", *["-i"] * cleared, *variables),
            *with_limits(self._limits, argv),
        ]

    def _refuse_halves(self) -> None:
        if self._user == os.geteuid() or os.geteuid() != 0:
            raise UserError(
                "no command is run: where the container is the boundary, commands run as another "
                f"user than Vega, and only root can do that; start it as root with "
                f"{CONTAINER_FLAGS}"
            )
        missing = [
            name for name in ("setpriv", "prlimit") if shutil.which(name, path=_PATH) is None
        ]
        if missing:
            raise UserError(f"no command is run: {missing[0]} is missing; install util-linux")
