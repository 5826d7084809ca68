"""Linux: a command in namespaces and control groups of its own, through bubblewrap.

The workspace is guarded before bubblewrap starts, by the process that starts it, in a mount
namespace of its own and on descriptors. Bubblewrap is given no name inside the workspace: it
would follow a link that another command puts there meanwhile.
"""

import asyncio
import os
import platform
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from weakref import WeakValueDictionary

from vegakit.errors import UserError
from vegakit.ports import (
    ChildLauncher,
    Clock,
    CommandResult,
    GuardedFolder,
    GuardsOutdatedError,
    LaunchedChild,
    PathGuard,
)
from vegakit.tools.sandbox.command import (
    DEFAULT_LIMITS,
    LaunchOptions,
    SandboxLimits,
    WorkspaceUsage,
    run_within,
    serve_within,
    with_limits,
    with_notes,
)
from vegakit.tools.sandbox.quarantine import lock_stubs, quarantine, remove_stubs
from vegakit.tools.sandbox.seccomp import MACHINES, filter_file
from vegakit.tools.sandbox.workspace import (
    SETTINGS_OF_A_REPOSITORY,
    Identity,
    WorkspaceScan,
    opened_root,
    scan_workspace,
)

# Control groups: bound a whole tree's processes and memory, also root's, whom rlimits do not bind.
#
# Version 1 is nested in our own groups; version 2 stands beside our own, because there a group
# with processes has no groups in it (untested: the machines we test on have version 1).


_ROOT = Path("/sys/fs/cgroup")
_SOCKETS = "memory.kmem.tcp.limit_in_bytes"
"""Version 1 counts what waits in TCP sockets apart, if at all."""
_SUPERVISOR = 1
"""Who keeps the command is in its groups too."""


def control_groups(limits: SandboxLimits) -> Mapping[str, Mapping[str, str]]:
    """The settings of those whom a command is born in, by the folder that each is made in."""
    try:
        ours = _our_groups()
        parents = _second(limits, ours) if _is_second() else _first(limits, ours)
    except (OSError, KeyError) as error:
        raise UserError(
            "commands of root need control groups that bound their processes and memory, and none "
            f"could be made below {_ROOT}: {error}; run Vega as another user than root"
        ) from error
    return {str(folder): settings for folder, settings in parents.items()}


def _is_second() -> bool:
    return (_ROOT / "cgroup.controllers").exists()


def _second(limits: SandboxLimits, ours: Mapping[str, str]) -> dict[Path, dict[str, str]]:
    beside = _ROOT / ours.get("", "/").lstrip("/")
    parent = beside if beside == _ROOT else beside.parent
    return {parent: {**_processes(limits), "memory.max": str(limits.memory_bytes)}}


def _first(limits: SandboxLimits, ours: Mapping[str, str]) -> dict[Path, dict[str, str]]:
    places = {name: _ROOT / name / ours[name].lstrip("/") for name in ("pids", "memory")}
    memory = {"memory.limit_in_bytes": str(limits.memory_bytes)}
    if (places["memory"] / _SOCKETS).exists():
        memory[_SOCKETS] = str(limits.memory_bytes // 4)
    return {places["pids"]: _processes(limits), places["memory"]: memory}


def _processes(limits: SandboxLimits) -> dict[str, str]:
    return {"pids.max": str(limits.processes + _SUPERVISOR)}


def _our_groups() -> dict[str, str]:
    """Paths by controller; version 2 has no name."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


# Linux: a command in namespaces of its own, through bubblewrap.
#
# It sees the system's programs and libraries, a private `/tmp`, its own processes and the
# workspace; no network, no other file, no variable of ours. What of the workspace it cannot touch
# stands in `workspace`, which calls to the kernel it cannot make in `seccomp`.
#
# The workspace is guarded before bubblewrap starts, by who starts it, in a mount namespace of its
# own and on descriptors (`launcher/guards.py`). Bubblewrap is given no name in the workspace: it
# would follow a link that a command in the same workspace puts there meanwhile.
#
#     bwrap    namespaces, mounts, filter; born in the control groups and behind the guards
#      └─ prlimit    rlimits
#          └─ the command


_PROGRAMS = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
"""Fixed: a PATH could lead to a `bwrap` that somebody left in a workspace."""
_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_NOTHING = Path(__file__).with_name("nothing")
_HOME = "/tmp/home"  # noqa: S108  (the sandbox's own)
_FILTER_FD, _ROOT_FD = 9, 10
_GIT = ".git"
_FOLDERS_OF_SETTINGS = frozenset({"hooks", "info", "modules", "worktrees"})
"""Those that mean nothing to git while they are empty."""
_LOOKS = 20
"""A command that keeps changing what is guarded can stop another from starting, and no more."""
_FLAGS = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL", "--hostname", "sandbox"),
)
_SEALED = ("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")
"""Root may write to /proc/sys without any capability."""
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
        "container be the boundary: `sandbox='container'`. On Ubuntu 24.04 allow them by "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
    "uid map": (
        "this machine lets user namespaces be made but not used. On Ubuntu 24.04 allow them by "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
}


class _Stubs:
    """The files and folders made in a workspace so that they can be guarded, with all sandboxes of
    this process that have commands there: who took a stub away would take the guards of the others
    off it."""

    def __init__(self) -> None:
        self.made: dict[str, Identity] = {}
        self._running = 0
        self._held: int | None = None
        self._changing = threading.Lock()

    @contextmanager
    def kept(self, workspace: Path) -> Generator[None]:
        with self._changing:
            self._running += 1
            if self._held is None:
                self._held = _held(workspace)
        try:
            yield
        finally:
            removed: list[int] = []
            with self._changing:
                self._running -= 1
                if not self._running:
                    removed = remove_stubs(workspace, self.made)
                    removed += [] if self._held is None else [self._held]
                    self._held = None
            if removed:
                asyncio.get_running_loop().run_in_executor(None, _close_all, removed)


def _held(workspace: Path) -> int | None:
    """Return a descriptor by which the stubs of the workspace are this process's; also those that
    a killed one left are taken away."""
    with suppress(UserError), opened_root(workspace) as root:
        lock_stubs(root)
        return os.dup(root)
    return None


_stubs: WeakValueDictionary[Path, _Stubs] = WeakValueDictionary()
"""By workspace."""


class Bubblewrap:
    """A sandbox by bubblewrap. `readable` are folders outside the workspace that commands need,
    such as another Python; `path` are folders searched for programs before the system's. A
    workspace that is not `writable` is only looked at. With `repository` the workspace's own `.git`
    is writable, but for its settings and hooks."""

    name = "bubblewrap"

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
        repository: bool = False,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self._workspace = _usable(workspace)
        self._repository = repository
        self._readable = tuple(folder.resolve() for folder in readable)
        self._path = ":".join([*map(str, path), *_PATH])
        self._limits = limits
        self._writable = writable
        self._program = _found_program()
        self._by_descriptor = _binds_descriptors(self._program)
        self._fixed = [*self._fixed_options()]
        self._last = ["--seccomp", str(_FILTER_FD), "--", *with_limits(limits, ())]
        self._filter = _found_filter()
        self._stubs = _stubs.setdefault(self._workspace, _Stubs())
        self._secret: set[Identity] = set()
        self._usage = WorkspaceUsage(self._workspace, limits, clock.now())

    @property
    def workspace(self) -> Path:
        """Return the folder that commands may write to."""
        return self._workspace

    async def probe(self) -> None:
        """Run a command that does nothing, or raise `UserError` with what must be done first."""
        ran = await self.run(["true"], owner="probe")
        if ran.exit_code:
            raise _cannot_start(ran.stderr)

    async def run(
        self,
        argv: Sequence[str],
        *,
        owner: str,
        said: bytes = b"",
        on_output: Callable[[bytes], object] | None = None,
    ) -> CommandResult:
        # Between the scan and the mounts somebody may swap what was found. The launcher compares
        # device and inode and refuses then; we look again, a few times.
        for tries_left in reversed(range(_LOOKS)):
            try:
                async with self._scanned() as (found, notes), self._kept_repository():
                    ran = await run_within(
                        self._launcher,
                        self._clock,
                        self.wrap(argv),
                        self._workspace,
                        self._limits,
                        owner,
                        self._launch_options(found),
                        said=said,
                        on_output=on_output,
                    )
            except GuardsOutdatedError as error:
                self._give_up(tries_left, error)
            else:
                return with_notes(ran, notes)
        raise AssertionError("the last try raises or returns")

    @asynccontextmanager
    async def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AsyncGenerator[LaunchedChild]:
        """Start a command that is talked to, in the sandbox."""
        # Variables go through our own environment, which holds nothing else: a command line can be
        # read by every user of the machine.
        wrapped = self.wrap(argv, cleared=not env)
        for tries_left in reversed(range(_LOOKS)):
            async with AsyncExitStack() as stack:
                try:
                    found, _ = await stack.enter_async_context(self._scanned())
                    child = await stack.enter_async_context(
                        serve_within(
                            self._launcher,
                            wrapped,
                            self._workspace,
                            env,
                            owner,
                            self._launch_options(found),
                        )
                    )
                except GuardsOutdatedError as error:
                    self._give_up(tries_left, error)
                    continue
                yield child
                return

    def _give_up(self, tries_left: int, error: GuardsOutdatedError) -> None:
        if not tries_left:
            raise UserError(
                f"no command is run: what must be guarded in {self._workspace} keeps changing, "
                f"{_LOOKS} times in a row; end what changes it, then try again"
            ) from error

    @asynccontextmanager
    async def _scanned(self) -> AsyncGenerator[tuple[WorkspaceScan, Sequence[str]]]:
        """Yield what there was before, and what was done about what came, which is known
        afterwards."""
        # Stubs are kept around all of it: a guard is mounted on each, and the look afterwards must
        # not take one for something that the command planted.
        await self._usage.check()
        with self._stubs.kept(self._workspace):
            before = await scan_workspace(
                self._workspace,
                stubs=self._stubs.made if self._writable else None,
                known=self._secret,
            )
            # A file that a link called `.env` leads to stays a secret when a command changes the
            # link.
            self._secret |= before.led_to
            if not self._writable:
                yield before, ()
                return
            async with quarantine(self._workspace, before, self._stubs.made) as notes:
                with self._usage.measured():
                    yield before, notes

    def wrap(self, argv: Sequence[str], *, cleared: bool = True) -> list[str]:
        """Return the command line that runs `argv` in the sandbox."""
        clear = ["--clearenv"] if cleared else []
        return [self._program, *clear, *self._fixed, *_SEALED, *self._last, *argv]

    def _fixed_options(self) -> Iterator[str]:
        # Both folders are memory, so together they may not take more than a command may have.
        size = str(min(self._limits.file_bytes, self._limits.memory_bytes // 2))
        workspace = str(self._workspace)
        yield from _system_options(self._path, size)
        yield from _each("--ro-bind", self._readable)
        bind = "--bind" if self._writable else "--ro-bind"
        if self._by_descriptor:
            yield from (f"{bind}-fd", str(_ROOT_FD), workspace)
        else:
            yield from (bind, workspace, workspace)
        yield from ("--chdir", workspace)

    def guarded(self, found: WorkspaceScan) -> GuardedFolder:
        """Return the guards of the workspace; one that is only looked at is not guarded against
        changes."""
        below = found.guards if self._writable else _only_hidden(found.guards)
        return {
            "root": str(self._workspace),
            "id": [*found.root],
            "fd": _ROOT_FD if self._by_descriptor else -1,
            "empty": str(_NOTHING),
            "below": self._with_repository(below) if self._repository else below,
        }

    def _with_repository(self, guards: dict[str, PathGuard]) -> dict[str, PathGuard]:
        """Let the command write to `.git`, and freeze what git acts on there."""
        folder, frozen = self._workspace / _GIT, dict[str, PathGuard]()
        for name in sorted(SETTINGS_OF_A_REPOSITORY):
            with suppress(FileNotFoundError):
                about = (folder / name).lstat()
                if stat.S_ISLNK(about.st_mode):
                    raise UserError(
                        f"no command is run: {folder / name} is a link, which cannot be guarded; "
                        "change the repository by yourself"
                    )
                frozen[name] = {"id": [about.st_dev, about.st_ino], "how": "freeze", "below": {}}
        return {**guards, _GIT: {"id": guards[_GIT]["id"], "how": "pin", "below": frozen}}

    @asynccontextmanager
    async def _kept_repository(self) -> AsyncGenerator[None]:
        """Make the folders of settings that are absent, so that they can be frozen, and remove a
        file of settings that came meanwhile: git would take others from where that leads."""
        if not self._repository:
            yield
            return
        folder = self._workspace / _GIT
        if not (folder / "config").is_file() or folder.is_symlink():
            raise UserError(
                f"no command is run: {folder} is no repository of its own; go into the folder that "
                "holds one, or make one: git init"
            )
        absent = [name for name in SETTINGS_OF_A_REPOSITORY if not (folder / name).exists()]
        folders = [name for name in absent if name in _FOLDERS_OF_SETTINGS]
        for name in folders:
            (folder / name).mkdir()
        try:
            yield
        finally:
            for name in absent:
                with suppress(FileNotFoundError):
                    (folder / name).rmdir() if name in folders else (folder / name).unlink()

    @cached_property
    def _groups(self) -> Mapping[str, Mapping[str, str]]:
        return control_groups(self._limits) if os.geteuid() == 0 else {}

    def _launch_options(self, found: WorkspaceScan) -> LaunchOptions:
        return LaunchOptions({_FILTER_FD: str(self._filter)}, self._groups, self.guarded(found))


def run_confined(
    argv: Sequence[str], folders: Sequence[Path], wall_s: int
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command of ours on files of others: it sees the system and these folders, which it may
    write to, and nothing else, no network and no variable of ours. It starts in the first. The
    folders are not guarded: that is for commands of an agent, which more commands follow."""
    if sys.platform != "linux":
        raise UserError("it runs in a sandbox only, which Vega has for this on Linux")
    limits = SandboxLimits(cpu_s=wall_s, memory_bytes=4 << 30, file_bytes=1 << 40)
    with _found_filter().open("rb") as rules:
        wrapped = [
            *(_found_program(), "--clearenv"),
            *_system_options(":".join(_PATH), str(1 << 28)),
            *_each("--bind", folders),
            *("--chdir", str(folders[0]), *_SEALED, "--seccomp", str(rules.fileno()), "--"),
            *with_limits(limits, argv),
        ]
        ran = subprocess.run(  # noqa: S603  (in a sandbox)
            wrapped,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=wall_s,
            pass_fds=(rules.fileno(),),
        )
    if ran.returncode and ran.stderr.startswith(b"bwrap: "):
        raise _cannot_start(ran.stderr.decode(errors="replace"))
    return ran


def _cannot_start(stderr: str) -> UserError:
    said = stderr.strip()
    known = (hint for words, hint in _HINTS.items() if words in said)
    hint = next(known, "run `bwrap --unshare-all --ro-bind / / true` to see why")
    return UserError(f"bubblewrap cannot make a sandbox here ({said}): {hint}")


def _system_options(path: str, size: str) -> Iterator[str]:
    yield from _FLAGS
    yield from _variables({"PATH": path, "HOME": _HOME, "LANG": "C.UTF-8"})
    yield from _system_folders()
    yield from ("--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--dir", _HOME)


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _each(option: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from (option, str(path), str(path))


def _variables(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield from ("--setenv", name, value)


def _only_hidden(guards: Mapping[str, PathGuard]) -> dict[str, PathGuard]:
    kept: dict[str, PathGuard] = {}
    for name, guard in guards.items():
        below = _only_hidden(guard["below"])
        if guard["how"] == "hide":
            kept[name] = guard
        elif below:
            kept[name] = {"id": guard["id"], "how": "pass", "below": below}
    return kept


def _system_folders() -> Iterator[str]:
    """`/bin` and its like are links into `/usr`, or folders on older systems."""
    yield from ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev")
    yield from _each("--ro-bind-try", (Path("/etc", name) for name in _ETC))
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


@cache
def _binds_descriptors(program: str) -> bool:
    """Releases before 0.10 have it only where the distribution added it."""
    said = subprocess.run([program, "--help"], capture_output=True, check=False, env={})  # noqa: S603
    return b"--ro-bind-fd" in said.stdout


def _found_filter() -> Path:
    machine = platform.machine()
    if machine not in MACHINES:
        raise UserError(
            f"no command is run: there is no system call filter for {machine}, only for "
            f"{' and '.join(MACHINES)}; use such a machine, or `sandbox='container'`"
        )
    return filter_file(machine)
