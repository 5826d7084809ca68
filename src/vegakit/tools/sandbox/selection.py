"""The other boundaries, seatbelt on macOS and the container Vega runs in, and the selection of the
sandbox for this machine.
"""

import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from vegakit.errors import UserError
from vegakit.ports import ChildLauncher, Clock, CommandResult, LaunchedChild, Sandbox
from vegakit.tools.protected_names import NO_SECRET, ProtectionKind, patterns
from vegakit.tools.sandbox.bubblewrap import Bubblewrap
from vegakit.tools.sandbox.command import (
    DEFAULT_LIMITS,
    SandboxLimits,
    run_within,
    serve_within,
    with_limits,
    with_notes,
)
from vegakit.tools.sandbox.quarantine import quarantine
from vegakit.tools.sandbox.workspace import WorkspaceScan, scan_workspace

# macOS: a command under a profile of `sandbox-exec`. Written from its manual; it has not run yet.
#
# It reads the system, the workspace and what else is `readable`, writes the workspace and a
# private folder that is its home, and has no network. The profile is made of what bubblewrap is
# given: what was found in the workspace, and the one list of protected names, which it knows at
# any depth, absent ones included. Its processes are the user's and are not counted apart, so
# `SandboxLimits.processes` is not set; memory is not bounded.
#
# | rule                     | why                                                                 |
# |--------------------------|---------------------------------------------------------------------|
# | signals to its own alone | else it ends what else the person runs                              |
# | few services by name     | others start programs outside (`open`, `launchctl`, `osascript`)    |
# | the last rule that fits  | wins: what is guarded stands after what is allowed                  |


_PROGRAM = Path("/usr/bin/sandbox-exec")
_READABLE = tuple(
    map(Path, "/usr /bin /sbin /System /Library /private/etc /private/var/db /dev".split())
)
_HOMEBREW = Path("/opt/homebrew")
_PATH = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")
_SERVICES = (
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
    "com.apple.system.notification_center",
)
_ALLOWED = (
    "(version 1)",
    "(deny default)",
    "(allow process-fork process-exec sysctl-read)",
    "(allow signal process-info* (target same-sandbox))",
    *(f'(allow mach-lookup (global-name "{service}"))' for service in _SERVICES),
    "(allow file-read-metadata)",
    '(allow file-read* (literal "/"))',
)
_DEVICES = (
    '(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))',
)
_BLOCK = 512


class Seatbelt:
    """A sandbox by macOS itself. `readable` and `path` are as for bubblewrap."""

    name = "seatbelt"

    def __init__(
        self,
        launcher: ChildLauncher,
        clock: Clock,
        workspace: Path,
        *,
        readable: Sequence[Path] = (),
        path: Sequence[Path] = (),
        limits: SandboxLimits = DEFAULT_LIMITS,
        writable: bool = True,
    ) -> None:
        if sys.platform != "darwin" or not _PROGRAM.exists():
            raise UserError(f"no command is run: {_PROGRAM} is part of macOS and is not here")
        self._launcher = launcher
        self._clock = clock
        self._workspace = workspace.resolve()
        self._readable = tuple(folder.resolve() for folder in (*readable, *path))
        self._path = ":".join([*map(str, path), *_PATH])
        self._limits = limits
        self._writable = writable
        self._private = Path(tempfile.mkdtemp(prefix="vega-home-")).resolve()
        weakref.finalize(self, shutil.rmtree, self._private, ignore_errors=True)

    @property
    def workspace(self) -> Path:
        """Return the folder that commands may write to."""
        return self._workspace

    async def run(
        self,
        argv: Sequence[str],
        *,
        owner: str,
        said: bytes = b"",
        on_output: Callable[[bytes], object] | None = None,
    ) -> CommandResult:
        # Scanned for each command: the profile names what is there, and the last command may have
        # made more.
        before = await scan_workspace(self._workspace)
        wrapped = self._wrap(argv, before)
        limits, workspace = self._limits, self._workspace
        async with quarantine(workspace, before, {}) as notes:
            ran = await run_within(
                self._launcher,
                self._clock,
                wrapped,
                workspace,
                limits,
                owner,
                said=said,
                on_output=on_output,
            )
        return with_notes(ran, notes)

    @asynccontextmanager
    async def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AsyncGenerator[LaunchedChild]:
        before = await scan_workspace(self._workspace)
        wrapped = self._wrap(argv, before, cleared=not env)
        workspace = self._workspace
        async with (
            quarantine(workspace, before, {}),
            serve_within(self._launcher, wrapped, workspace, env, owner) as child,
        ):
            yield child

    def _wrap(
        self, argv: Sequence[str], found: WorkspaceScan, *, cleared: bool = True
    ) -> list[str]:
        profile = profile_of(
            self._workspace,
            found,
            writable=self._writable,
            readable=self._readable,
            private=self._private,
        )
        home = str(self._private)
        variables = (f"PATH={self._path}", f"HOME={home}", f"TMPDIR={home}", "LANG=en_US.UTF-8")
        clean = ["/usr/bin/env", *["-i"] * cleared, *variables]
        return [*clean, str(_PROGRAM), "-p", profile, *with_ulimits(self._limits, argv)]


def with_ulimits(limits: SandboxLimits, argv: Sequence[str]) -> list[str]:
    """There is no `prlimit`. A shell in its POSIX way counts blocks of 512 bytes."""
    script = (
        f"ulimit -c 0; ulimit -t {limits.cpu_s}; ulimit -f {limits.file_bytes // _BLOCK}; "
        f'ulimit -n {limits.open_files}; exec "$@"'
    )
    return ["/bin/sh", "-c", script, "sh", *argv]


def profile_of(
    workspace: Path,
    found: WorkspaceScan,
    *,
    writable: bool = True,
    readable: Iterable[Path] = (),
    private: Path | None = None,
) -> str:
    """The last rule that fits wins."""
    rights = "file-read* file-write*" if writable else "file-read*"
    frozen = [workspace.joinpath(*names) for names in (*found.frozen, *zip(found.absent))]
    hidden = [workspace.joinpath(*(name for name, _ in trail)) for trail in found.hidden.values()]
    secret = patterns(ProtectionKind.CREDENTIALS, ProtectionKind.SECRET)
    harmless = [re.escape(name) for name in sorted(NO_SECRET)]
    return "\n".join(
        [
            *_ALLOWED,
            *(_rule("allow file-read*", path) for path in (*_READABLE, _HOMEBREW, *readable)),
            *(_rule("allow file-read* file-write*", path) for path in (private,) if path),
            _rule(f"allow {rights}", workspace),
            _named("deny file-write*", workspace, patterns(ProtectionKind.TRUSTED)),
            _named("deny file-read* file-write*", workspace, secret),
            _named(f"allow {rights}", workspace, harmless),
            *(_rule("deny file-write*", path) for path in sorted(frozen)),
            *(_rule("deny file-read* file-write*", path) for path in sorted(hidden)),
            *_DEVICES,
        ]
    )


def _rule(what: str, path: Path) -> str:
    return f"({what} (subpath {_quoted(str(path))}))"


def _named(what: str, workspace: Path, names: Iterable[str]) -> str:
    """Return a rule for these names at any depth, whatever the case: most disks of a Mac take
    `.GIT` for `.git`."""
    root = re.escape(str(workspace)).replace('"', '\\"')
    either = _any_case("|".join(names))
    return f'({what} (regex #"^{root}/(.*/)?({either})(/.*)?$"))'


def _any_case(pattern: str) -> str:
    return re.sub(r"[a-z]", lambda character: f"[{character[0]}{character[0].upper()}]", pattern)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# The container, or pod, that Vega runs in is the boundary; chosen by name only, never found.
#
# The container decides about network, files, memory and kernel calls: `CONTAINER_FLAGS`. Here a
# command gets no variable of ours, rlimits, and another user than Vega's, so that it can read
# neither the keys nor the memory of Vega. Each owner has in each workspace a user and a home of
# its own: what it runs can neither look into, end, nor plant anything for what another runs.
# Those of one workspace have its group in common, and no other workspace may have that group.
#
# Names that other programs act on are not protected: nothing outside may use this workspace
# before it was looked at. `/tmp` and `/dev/shm` are one for all, as the container has them.


CONTAINER_FLAGS = (
    "--network none --pids-limit 512 --memory 2g --read-only --tmpfs /tmp "
    "--security-opt no-new-privileges --cap-drop ALL "
    "--cap-add SETUID --cap-add SETGID --cap-add KILL"
)
_FIRST_USER, _USERS = 20_000, 40_000
"""Above those of a system, within those that a container without root's rights has."""
_NO_GROUP, _FREE_GROUPS = 65_534, (60_000, 65_000)
_CONTAINER_PATH = "/usr/local/bin:/usr/bin:/bin"
_HOME_SCRIPT = (
    'umask 002; mkdir -m 700 "$HOME" 2>/dev/null || { [ -O "$HOME" ] && [ ! -L "$HOME" ]; } || '
    '{ echo "somebody else made the home $HOME" >&2; exit 126; }; exec "$@"'
)
_users: dict[tuple[str, str], int] = {}
"""By owner and workspace, in this process: in another, the same have the same."""
_groups: dict[int, Path] = {}
"""Whose workspace has it."""


class _Identity(NamedTuple):
    user: int
    group: int
    home: str


class Container:
    """Commands may write to a workspace whose group may."""

    name = "container"

    def __init__(
        self,
        launcher: ChildLauncher,
        clock: Clock,
        workspace: Path,
        *,
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self._workspace = workspace.resolve()
        self._limits = limits
        self._homes = secrets.token_hex(4)
        self._require_root()
        self._group = _group_of(self._workspace)

    @property
    def workspace(self) -> Path:
        """Return the folder that commands may write to."""
        return self._workspace

    async def probe(self) -> None:
        """Raise `UserError` unless a command runs, and cannot read what Vega was given."""
        stolen = f"cat /proc/{os.getpid()}/environ /proc/$PPID/environ 2>/dev/null; id -u"
        ran = await self.run(["sh", "-c", stolen], owner="probe")
        user = self._who("probe").user
        if ran.stdout.strip() != str(user):
            raise UserError(
                f"no command is run: it would not be user {user}, or could read the "
                f"environment of Vega ({ran.stderr.strip() or 'it was readable'}); start the "
                f"container as root with {CONTAINER_FLAGS}"
            )

    async def run(
        self,
        argv: Sequence[str],
        *,
        owner: str,
        said: bytes = b"",
        on_output: Callable[[bytes], object] | None = None,
    ) -> CommandResult:
        return await run_within(
            self._launcher,
            self._clock,
            self.wrap(argv, owner),
            self._workspace,
            self._limits,
            owner,
            said=said,
            on_output=on_output,
        )

    @asynccontextmanager
    async def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AsyncGenerator[LaunchedChild]:
        wrapped = self.wrap(argv, owner, cleared=not env)
        async with serve_within(self._launcher, wrapped, self._workspace, env, owner) as child:
            yield child

    def wrap(self, argv: Sequence[str], owner: str, *, cleared: bool = True) -> list[str]:
        """Return the command line that runs `argv` as another user, without rights."""
        who = self._who(owner)
        as_other = ["--reuid", str(who.user), "--regid", str(who.group), "--clear-groups"]
        without_rights = ["--inh-caps", "-all", "--no-new-privs", "--pdeathsig", "KILL"]
        variables = [f"PATH={_CONTAINER_PATH}", f"HOME={who.home}", "LANG=C.UTF-8"]
        # git trusts no repository of another user, and that of a workspace is the person's
        for at, trusted in enumerate((self._workspace, self._workspace / "*")):
            variables += [f"GIT_CONFIG_KEY_{at}=safe.directory", f"GIT_CONFIG_VALUE_{at}={trusted}"]
        variables.append("GIT_CONFIG_COUNT=2")
        return [
            *("/usr/bin/setpriv", *as_other, *without_rights),
            *("/usr/bin/env", *["-i"] * cleared, *variables),
            *with_limits(self._limits, ["/bin/sh", "-c", _HOME_SCRIPT, "sh", *argv]),
        ]

    def _who(self, owner: str) -> _Identity:
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
        return _Identity(user, _NO_GROUP if self._group is None else self._group, home)

    def _require_root(self) -> None:
        if os.geteuid() != 0:
            raise UserError(
                "no command is run: where the container is the boundary, commands run as another "
                f"user than Vega, and only root can do that; start it as root with "
                f"{CONTAINER_FLAGS}"
            )
        missing = [
            name
            for name in ("setpriv", "prlimit")
            if shutil.which(name, path=_CONTAINER_PATH) is None
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


# The sandbox that is asked for, or that of this system, is tried before it is used.


class SandboxKind(StrEnum):
    """AUTO is never CONTAINER: nobody but you knows that the container is a boundary."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    SEATBELT = "seatbelt"
    CONTAINER = "container"


async def open_sandbox(
    launcher: ChildLauncher,
    clock: Clock,
    workspace: Path,
    *,
    kind: SandboxKind = SandboxKind.AUTO,
    readable: Sequence[Path] = (),
    path: Sequence[Path] = (),
    limits: SandboxLimits = DEFAULT_LIMITS,
    writable: bool = True,
    repository: bool = False,
) -> Sandbox:
    """Return a sandbox, or raise `UserError` with what to install or allow: nothing runs without.
    A container decides by itself what is `writable`. With `repository` the workspace's own `.git`
    is so, but for its settings and hooks."""
    if repository and (kind is SandboxKind.SEATBELT or sys.platform == "darwin"):
        raise UserError(
            "no command is run: the repository is read-only in the sandbox of macOS; change it by "
            "yourself"
        )
    if kind is SandboxKind.CONTAINER:
        container = Container(launcher, clock, workspace, limits=limits)
        await container.probe()
        return container
    if kind is SandboxKind.SEATBELT or (kind is SandboxKind.AUTO and sys.platform == "darwin"):
        return Seatbelt(
            launcher,
            clock,
            workspace,
            readable=readable,
            path=path,
            limits=limits,
            writable=writable,
        )
    if sys.platform == "win32":
        raise UserError(
            "no command is run: there is no sandbox for Windows, and Vega runs none without; "
            "start Vega in WSL 2 or in a Linux container"
        )
    bubblewrap = Bubblewrap(
        launcher,
        clock,
        workspace,
        readable=readable,
        path=path,
        limits=limits,
        writable=writable,
        repository=repository,
    )
    await bubblewrap.probe()
    return bubblewrap
