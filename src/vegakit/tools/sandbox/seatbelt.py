"""macOS: a command under a profile of `sandbox-exec`. Written from its manual; it has not run yet.

It reads the system, the workspace and what else is `readable`, writes the workspace and a private
folder that is its home, and has no network. The profile is made of what bubblewrap is given: what
was found in the workspace, and the one list of protected names, which it knows at any depth, absent
ones included. Its processes are the user's and are not counted apart, so `Limits.processes` is not
set; memory is not bounded.

| rule                     | why                                                                   |
|--------------------------|-----------------------------------------------------------------------|
| signals to its own alone | else it ends what else the person runs                                |
| few services by name     | others start programs outside (`open`, `launchctl`, `osascript`)      |
| the last rule that fits  | wins: what is guarded stands after what is allowed                    |
"""

import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from vegakit.errors import UserError
from vegakit.ports import Clock, Launched, Launcher, Ran
from vegakit.tools.confined.protected import NO_SECRET, Kind, patterns
from vegakit.tools.sandbox.limits import DEFAULT_LIMITS, Limits
from vegakit.tools.sandbox.running import joined, run_within, serve_within
from vegakit.tools.sandbox.setting_aside import tidied
from vegakit.tools.sandbox.workspace import Found, look_over

__all__ = ["Seatbelt", "limited", "profile_of"]

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
    """`readable` and `path` as for bubblewrap."""

    name = "seatbelt"

    def __init__(
        self,
        launcher: Launcher,
        clock: Clock,
        workspace: Path,
        *,
        readable: Sequence[Path] = (),
        path: Sequence[Path] = (),
        limits: Limits = DEFAULT_LIMITS,
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
        return [*clean, str(_PROGRAM), "-p", profile, *limited(self._limits, argv)]


def limited(limits: Limits, argv: Sequence[str]) -> list[str]:
    """There is no `prlimit`. A shell in its POSIX way counts blocks of 512 bytes."""
    script = (
        f"ulimit -c 0; ulimit -t {limits.cpu_s}; ulimit -f {limits.file_bytes // _BLOCK}; "
        f'ulimit -n {limits.open_files}; exec "$@"'
    )
    return ["/bin/sh", "-c", script, "sh", *argv]


def profile_of(
    workspace: Path,
    found: Found,
    *,
    writable: bool = True,
    readable: Iterable[Path] = (),
    private: Path | None = None,
) -> str:
    """The last rule that fits wins."""
    rights = "file-read* file-write*" if writable else "file-read*"
    frozen = [workspace.joinpath(*names) for names in (*found.frozen, *zip(found.absent))]
    hidden = [workspace.joinpath(*(name for name, _ in trail)) for trail in found.hidden.values()]
    secret = patterns(Kind.CREDENTIALS, Kind.SECRET)
    harmless = [re.escape(name) for name in sorted(NO_SECRET)]
    return "\n".join(
        [
            *_ALLOWED,
            *(_rule("allow file-read*", path) for path in (*_READABLE, _HOMEBREW, *readable)),
            *(_rule("allow file-read* file-write*", path) for path in (private,) if path),
            _rule(f"allow {rights}", workspace),
            _named("deny file-write*", workspace, patterns(Kind.TRUSTED)),
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
    """At any depth, whatever the case: most disks of a Mac take `.GIT` for `.git`."""
    root = re.escape(str(workspace)).replace('"', '\\"')
    either = _any_case("|".join(names))
    return f'({what} (regex #"^{root}/(.*/)?({either})(/.*)?$"))'


def _any_case(pattern: str) -> str:
    return re.sub(r"[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", pattern)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
