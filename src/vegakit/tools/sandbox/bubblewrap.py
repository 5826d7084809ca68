"""Linux: a command in namespaces of its own, through bubblewrap.

It sees the system's programs and libraries, a private `/tmp`, its own processes and the workspace;
no network, no other file, no variable of ours. What of the workspace it cannot touch stands in
`workspace`, which calls to the kernel it cannot make in `seccomp`.

    sh    joins the control groups, opens the filter as a descriptor
     └─ bwrap    namespaces, mounts, filter
         └─ prlimit    rlimits
             └─ the command
"""

import os
import platform
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from vegakit.errors import UserError
from vegakit.ports import Clock, Launcher, Ran
from vegakit.tools.sandbox.groups import control_groups
from vegakit.tools.sandbox.limits import DEFAULT_LIMITS, Limits
from vegakit.tools.sandbox.running import joined, run_within, with_limits
from vegakit.tools.sandbox.seccomp import MACHINES, filter_file
from vegakit.tools.sandbox.workspace import FROZEN_FILES, Found, look_over, set_aside

__all__ = ["Bubblewrap"]

_PROGRAMS = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
"""Fixed: a PATH could lead to a `bwrap` that somebody left in a workspace."""
_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_NOTHING = Path(__file__).with_name("nothing")
_HOME = "/tmp/home"  # noqa: S108  (the sandbox's own)
_FILTER_FD = "9"
_PAGE = "4096"
_FLAGS = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"),
)
_ETC = (
    *("ld.so.cache", "alternatives", "passwd", "group", "nsswitch.conf", "hosts"),
    *("localtime", "ssl/certs"),
)
_SYSTEM = frozenset(map(Path, "/ /usr /etc /proc /dev /tmp /sys /run".split()))
_HINTS = {
    "Unknown option": "install bubblewrap 0.8 or later",
    "amespace": (
        "this machine allows no user namespaces. In a container, start it with "
        "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, or let the "
        "container be the boundary: sandbox = container. On Ubuntu 24.04 allow them by "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
    "uid map": (
        "this machine lets user namespaces be made but not used. On Ubuntu 24.04 allow them by "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
}


class Bubblewrap:
    """`readable` are folders outside the workspace that commands need, such as another Python;
    `path` are folders searched for programs before the system's."""

    name = "bubblewrap"

    def __init__(
        self,
        launcher: Launcher,
        clock: Clock,
        workspace: Path,
        *,
        readable: Sequence[Path] = (),
        path: Sequence[Path] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self._workspace = _usable(workspace)
        self._readable = tuple(folder.resolve() for folder in readable)
        self._path = ":".join([*map(str, path), *_PATH])
        self._limits = limits
        self._program = _found_program()
        self._filter = _found_filter()
        self._stubs: set[Path] = set()
        self._running = 0

    async def probe(self) -> None:
        """Raises what must be done before commands can run."""
        ran = await self.run(["true"], owner="probe")
        if ran.exit_code:
            said = ran.stderr.strip()
            known = (hint for words, hint in _HINTS.items() if words in said)
            hint = next(known, "run `bwrap --unshare-all --ro-bind / / true` to see why")
            raise UserError(f"bubblewrap cannot make a sandbox here ({said}): {hint}")

    async def run(self, argv: Sequence[str], *, owner: str) -> Ran:
        self._running += 1
        try:
            before = await look_over(self._workspace)
            self._stubs.update(before.absent)
            with self._groups() as groups:
                ran = await run_within(
                    self._launcher,
                    self._clock,
                    self.wrap(argv, before, groups),
                    self._workspace,
                    self._limits,
                    owner,
                )
        finally:
            self._running -= 1
            if not self._running:
                self._remove_stubs()
        after = await look_over(self._workspace)
        return joined(ran, set_aside(before, after, [*self._stubs]))

    def wrap(self, argv: Sequence[str], found: Found, groups: Iterable[Path] = ()) -> list[str]:
        joins = (f"echo 0 >{shlex.quote(f'{group}/cgroup.procs')} && " for group in groups)
        script = f'{"".join(joins)}exec "$@" {_FILTER_FD}<{shlex.quote(str(self._filter))}'
        inside = with_limits(self._limits, argv)
        return ["/bin/sh", "-c", script, "sandbox", self._program, *self._options(found), *inside]

    def _options(self, found: Found) -> Iterator[str]:
        size, workspace = str(self._limits.file_bytes), str(self._workspace)
        yield from _FLAGS
        yield from _variables({"PATH": self._path, "HOME": _HOME, "LANG": "C.UTF-8"})
        yield from ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev")
        yield from _merged_folders()
        yield from _each("--ro-bind-try", (Path("/etc", name) for name in _ETC))
        yield from ("--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp")  # noqa: S108
        yield from ("--dir", _HOME)
        yield from _each("--ro-bind", self._readable)
        yield from ("--bind", workspace, workspace, "--chdir", workspace)
        yield from _each("--ro-bind", [*found.linked, *found.frozen.values()])
        for path in (*found.absent, *found.empty, *found.secret):
            yield from _emptied(path)
        for place in ("/proc", "/dev", "/"):  # root may write to /proc/sys without any capability
            yield from ("--remount-ro", place)
        yield from ("--seccomp", _FILTER_FD, "--")

    def _groups(self) -> AbstractContextManager[Iterable[Path]]:
        return control_groups(self._limits) if os.geteuid() == 0 else nullcontext(())

    def _remove_stubs(self) -> None:
        """Bubblewrap mounts on what exists, so it made what was absent; it is still empty."""
        for path in self._stubs:
            with suppress(OSError):
                if path.is_dir():
                    path.rmdir()
                elif path.stat().st_size == 0:
                    path.unlink()
        self._stubs.clear()


def _each(option: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from (option, str(path), str(path))


def _variables(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield from ("--setenv", name, value)


def _emptied(path: Path) -> tuple[str, ...]:
    is_file = path.is_file() or path.name in FROZEN_FILES
    if is_file:
        return ("--ro-bind", str(_NOTHING), str(path))
    return ("--size", _PAGE, "--perms", "0555", "--tmpfs", str(path))


def _merged_folders() -> Iterator[str]:
    """`/bin` and its like are links into `/usr`, or folders on older systems."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        place = Path("/", name)
        if place.is_symlink():
            yield from ("--symlink", str(place.readlink()), str(place))
        elif place.is_dir():
            yield from ("--ro-bind", str(place), str(place))


def _usable(workspace: Path) -> Path:
    resolved = workspace.resolve()
    if not resolved.is_dir() or resolved in _SYSTEM:
        raise UserError(f"{workspace} is no workspace; name a project's own folder that exists")
    return resolved


def _found_program() -> str:
    program = shutil.which("bwrap", path=_PROGRAMS)
    if program is None:
        raise UserError(
            "no command is run, because bubblewrap, which would confine it, is not installed: "
            "`apt-get install bubblewrap`, `dnf install bubblewrap` or `apk add bubblewrap`"
        )
    return program


def _found_filter() -> Path:
    machine = platform.machine()
    if machine not in MACHINES:
        raise UserError(
            f"no command is run: there is no system call filter for {machine}, only for "
            f"{' and '.join(MACHINES)}; use such a machine, or sandbox = container"
        )
    return filter_file(machine)
