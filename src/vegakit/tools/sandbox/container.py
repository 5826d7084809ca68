"""The container, or pod, that Vega runs in is the boundary; chosen by name only, never found.

The container decides about network, files, memory and kernel calls: `CONTAINER_FLAGS`. Here a
command gets no variable of ours, rlimits, and another user than Vega's, so that it can read neither
the keys nor the memory of Vega. Each owner has in each workspace a user and a home of its own: what
it runs can neither look into, end, nor plant anything for what another runs. Those of one workspace
have its group in common, and no other workspace may have that group.

Names that other programs act on are not protected: nothing outside may use this workspace before it
was looked at. `/tmp` and `/dev/shm` are one for all, as the container has them.
"""

import os
import secrets
import shutil
import stat
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

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
_FIRST_USER, _USERS = 20_000, 40_000
"""Above those of a system, within those that a container without root's rights has."""
_NO_GROUP, _FREE_GROUPS = 65_534, (60_000, 65_000)
_PATH = "/usr/local/bin:/usr/bin:/bin"
_AT_HOME = (
    'umask 002; mkdir -m 700 "$HOME" 2>/dev/null || { [ -O "$HOME" ] && [ ! -L "$HOME" ]; } || '
    '{ echo "somebody else made the home $HOME" >&2; exit 126; }; exec "$@"'
)
_users: dict[tuple[str, str], int] = {}
"""By owner and workspace, in this process: in another, the same have the same."""
_groups: dict[int, Path] = {}
"""Whose workspace has it."""


class _Who(NamedTuple):
    user: int
    group: int
    home: str


class Container:
    """Commands may write to a workspace whose group may."""

    name = "container"

    def __init__(
        self,
        launcher: Launcher,
        clock: Clock,
        workspace: Path,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self._workspace = workspace.resolve()
        self._limits = limits
        self._homes = secrets.token_hex(4)
        self._refuse_halves()
        self._group = _group_of(self._workspace)

    async def probe(self) -> None:
        """Raises unless a command runs, and cannot read what Vega was given."""
        stolen = f"cat /proc/{os.getpid()}/environ /proc/$PPID/environ 2>/dev/null; id -u"
        ran = await self.run(["sh", "-c", stolen], owner="probe")
        user = self._who("probe").user
        if ran.stdout.strip() != str(user):
            raise UserError(
                f"no command is run: it would not be user {user}, or could read the "
                f"environment of Vega ({ran.stderr.strip() or 'it was readable'}); start the "
                f"container as root with {CONTAINER_FLAGS}"
            )

    async def run(self, argv: Sequence[str], *, owner: str, said: bytes = b"") -> Ran:
        return await run_within(
            self._launcher,
            self._clock,
            self.wrap(argv, owner),
            self._workspace,
            self._limits,
            owner,
            said=said,
        )

    @asynccontextmanager
    async def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AsyncGenerator[Launched]:
        wrapped = self.wrap(argv, owner, cleared=not env)
        async with serve_within(self._launcher, wrapped, self._workspace, env, owner) as child:
            yield child

    def wrap(self, argv: Sequence[str], owner: str, *, cleared: bool = True) -> list[str]:
        who = self._who(owner)
        as_other = ["--reuid", str(who.user), "--regid", str(who.group), "--clear-groups"]
        without_rights = ["--inh-caps", "-all", "--no-new-privs", "--pdeathsig", "KILL"]
        variables = [f"PATH={_PATH}", f"HOME={who.home}", "LANG=C.UTF-8"]
        # git trusts no repository of another user, and that of a workspace is the person's
        for at, trusted in enumerate((self._workspace, self._workspace / "*")):
            variables += [f"GIT_CONFIG_KEY_{at}=safe.directory", f"GIT_CONFIG_VALUE_{at}={trusted}"]
        variables.append("GIT_CONFIG_COUNT=2")
        return [
            *("/usr/bin/setpriv", *as_other, *without_rights),
            *("/usr/bin/env", *["-i"] * cleared, *variables),
            *with_limits(self._limits, ["/bin/sh", "-c", _AT_HOME, "sh", *argv]),
        ]

    def _who(self, owner: str) -> _Who:
        key = (owner, str(self._workspace))
        if key not in _users:
            digest = blake2b("\0".join(key).encode(), digest_size=8).digest()
            taken, at = {*_users.values()}, int.from_bytes(digest)
            _users[key] = next(
                user
                for user in (_FIRST_USER + (at + step) % _USERS for step in range(_USERS))
                if user not in taken
            )
        user = _users[key]
        home = f"/tmp/vega-{self._homes}-{user}"  # noqa: S108  (0700, and nobody knows the name)
        return _Who(user, _NO_GROUP if self._group is None else self._group, home)

    def _refuse_halves(self) -> None:
        if os.geteuid() != 0:
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


def _group_of(workspace: Path) -> int | None:
    """None if commands may only look: it is ours, and not theirs to write to."""
    about = workspace.stat()
    if not about.st_mode & stat.S_IWGRP and about.st_uid == os.geteuid():
        return None
    known = about.st_gid in {0, _NO_GROUP} or _is_taken(about.st_gid, workspace)
    if known or stat.S_IMODE(about.st_mode) & 0o077 != stat.S_IRWXG:
        free = next(group for group in range(*_FREE_GROUPS) if group not in _groups)
        raise UserError(
            f"no command is run: {workspace} must belong to a group that no other workspace and "
            "no system user has, and be open to it and to nobody else, so that the users of its "
            f"commands share it and no others; type: chgrp -R {free} {workspace} && "
            f"chmod -R g+rwX,o-rwx {workspace}"
        )
    _groups[about.st_gid] = workspace
    return about.st_gid


def _is_taken(group: int, workspace: Path) -> bool:
    other = _groups.get(group, workspace)
    return other != workspace and other.exists() and other.stat().st_gid == group
