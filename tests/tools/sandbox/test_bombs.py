"""What takes all it can get: it gets its limit, and soon its whole tree is gone."""

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.patience import until
from tests.runtime.children.processes import comes_true, marked
from tests.tools.sandbox.stage import boxed
from vegakit.errors import UserError
from vegakit.tools import SandboxLimits
from vegakit.tools.sandbox import workspace as walking
from vegakit.tools.sandbox.quarantine import quarantine
from vegakit.tools.sandbox.workspace import scan_workspace

GONE_MS = 30_000
MB = 1 << 20


@pytest.mark.parametrize(
    "script",
    [
        ":(){ :|:& };:",
        "while :; do :; done",
        "trap '' TERM HUP INT; while :; do sleep 9; done",
        "(setsid setsid sleep 99 &); (trap '' TERM; setsid sleep 99) & sleep 99",
        "yes > /dev/null & yes > /dev/null",
    ],
    ids=["forks", "burns", "ignores", "hides", "yes"],
)
async def test_time_ends_the_whole_tree(script: str, tmp_path: Path) -> None:
    """Whatever it does to stay."""
    mark = f"mark-{tmp_path.name}"
    async with boxed(tmp_path, SandboxLimits(wall_ms=500, processes=64)) as box:
        ran = await box.run("bash", "-c", f"{script}\n: {mark}; wait; sleep 99")
        assert marked(mark) == []
    assert ran.duration_ms <= 500 + GONE_MS
    assert ran.notes == ("ended: it ran longer than 500 ms",)


async def test_a_daemon_does_not_outlive_its_command(tmp_path: Path) -> None:
    """Once the command has exited, what it left behind is gone."""
    mark = f"mark-{tmp_path.name}"
    async with boxed(tmp_path) as box:
        ran = await box.sh(f"setsid nohup bash -c 'sleep 999; : {mark}' >/dev/null 2>&1 & disown")
        assert marked(mark) == []
    assert ran.exit_code == 0
    assert ran.duration_ms <= GONE_MS


async def test_processes_are_counted(tmp_path: Path) -> None:
    """The next fork fails; those of other sandboxes do not count."""
    script = """
import os, signal
born = 0
try:
    while True:
        if os.fork() == 0: signal.pause()
        born += 1
except BlockingIOError:
    print(born)
"""
    async with boxed(tmp_path, SandboxLimits(processes=40)) as box:
        both = await asyncio.gather(box.python(script), box.python(script))
    assert all(30 <= int(ran.stdout) <= 40 for ran in both)


async def test_four_gigabytes_are_refused(tmp_path: Path) -> None:
    """And one megabyte is not."""
    async with boxed(tmp_path) as box:
        assert (await box.python("bytearray(1 << 20)")).exit_code == 0
        assert "MemoryError" in (await box.python("bytearray(4 << 30)")).stderr


TWO = """
import os, signal
pid = os.fork()
x = b"x" * (80 << 20)
os.wait() if pid else signal.pause()
"""
SHARED = """
import mmap, signal
shared = mmap.mmap(-1, 160 << 20)
for at in range(0, 160 << 20, 4096): shared[at] = 1
signal.pause()
"""
SYSTEM_V = """
import ctypes, signal
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
ctypes.memset(libc.shmat(libc.shmget(0, 160 << 20, 0o1600), None, 0), 1, 160 << 20)
signal.pause()
"""


@pytest.mark.parametrize("script", [TWO, SHARED, SYSTEM_V], ids=["two", "shared", "system v"])
async def test_memory_is_the_whole_tree_s(script: str, tmp_path: Path) -> None:
    """Two that each stay below the limit are over it together; and what is shared is memory, too.
    Control groups end one of them, or we all of them."""
    async with boxed(tmp_path, SandboxLimits(memory_bytes=128 * MB, wall_ms=60_000)) as box:
        ran = await box.python(f"{script}\nprint('whole')")
    assert "whole" not in ran.stdout or script == TWO
    assert ran.duration_ms < 60_000
    if os.geteuid() != 0:
        assert ran.notes == (f"ended: it took more than {128 * MB} bytes of memory in all",)


SOCKETS = """
import signal, socket
listening, kept, sent = socket.create_server(("127.0.0.1", 0), backlog=100), [], 0
for _ in range(450):
    one = socket.create_connection(listening.getsockname())
    kept += [one, listening.accept()[0]]
    one.setblocking(False)
    try:
        while True: sent += one.send(bytes(1 << 16))
    except BlockingIOError:
        pass
print(sent >> 20, flush=True)
signal.pause()
"""


async def test_what_waits_in_sockets_is_memory(tmp_path: Path) -> None:
    """It belongs to no process. A control group takes no more of it; else all of them are ended."""
    async with boxed(tmp_path, SandboxLimits(memory_bytes=128 * MB, wall_ms=15_000)) as box:
        ran = await box.python(SOCKETS)
    if ran.notes != (f"ended: it took more than {128 * MB} bytes of memory in all",):
        assert os.geteuid() == 0
        assert int(ran.stdout) < 128


async def test_loopback_can_be_used(tmp_path: Path) -> None:
    """Tests of projects do."""
    script = SOCKETS.replace("450", "3").replace("signal.pause()", "")
    async with boxed(tmp_path) as box:
        assert (await box.python(script)).exit_code == 0


async def test_memory_that_nobody_counts_is_not_given(tmp_path: Path) -> None:
    """Files in memory, and private folders that together are more than the memory."""
    fill = "import os\nfor d in ('/tmp', '/dev/shm'): open(d + '/x', 'wb').write(b'x' * (50 << 20))"
    async with boxed(tmp_path, SandboxLimits(memory_bytes=64 * MB, file_bytes=64 * MB)) as box:
        assert "not implemented" in (await box.python("import os; os.memfd_create('x')")).stderr
        assert (await box.python(fill)).exit_code != 0


async def test_inotify_is_not_used_up(tmp_path: Path) -> None:
    """The kernel gives a user 128: an editor would watch no more files."""
    script = """
import ctypes
libc, made = ctypes.CDLL(None), 0
while libc.inotify_init1(0) >= 0: made += 1
print(made)
"""
    async with boxed(tmp_path) as box:
        assert 0 < int((await box.python(script)).stdout) <= 32


@pytest.fixture
def in_memory() -> Generator[Path]:
    """A disk that nobody else uses meanwhile."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


async def test_what_commands_leave_is_counted(in_memory: Path) -> None:
    """Over all of them: then the next is refused, until something is removed."""
    async with boxed(in_memory, SandboxLimits(left_bytes=4 * MB)) as box:
        (box.workspace / "of the person").write_bytes(b"x" * (8 * MB))
        os.utime(box.workspace / "of the person", (0, 0))
        changed = (box.workspace / "of the person").stat().st_ctime
        await until(lambda: time.time() >= changed + 2)  # a change is noted by the second
    async with boxed(in_memory, SandboxLimits(left_bytes=4 * MB)) as box:
        for number in range(3):
            await box.sh(f"head -c 2M /dev/zero > {number}")
        with pytest.raises(UserError, match=r"commands have left 3 files with 6 MB in .* 4 MB are"):
            await box.run("true")
        (box.workspace / "0").unlink()
        assert (await box.run("true")).exit_code == 0


async def test_files_are_counted(in_memory: Path) -> None:
    """While it runs and when it has ended."""
    make = "import os\nfor n in range({}): os.mknod(str(n))\nimport signal; {}"
    async with boxed(in_memory, SandboxLimits(entries=1_000)) as box:
        ran = await box.python(make.format(2_000, "signal.pause()"))
        assert ran.notes == ("ended: the disk lost room for more than 1000 files while it ran",)
        # How many it had made when it was ended is a matter of who was faster.
        with pytest.raises(UserError, match=r"commands have left [12],[0-9]{3} files"):
            await box.run("true")


async def test_disk_is_not_taken_at_once(tmp_path: Path) -> None:
    """Faster than anybody looks: who asks for it writes instead."""
    script = "import ctypes, os; f = os.open('f', os.O_CREAT | os.O_RDWR)\n"
    call = "print(ctypes.CDLL(None).fallocate(f, 0, ctypes.c_long(0), ctypes.c_long(1 << 20)))"
    async with boxed(tmp_path) as box:
        assert (await box.python(script + call)).stdout == "-1\n"
        assert (await box.python(script + "os.posix_fallocate(f, 0, 1 << 20)")).exit_code == 0
        assert (box.workspace / "f").stat().st_size == 1 << 20


async def test_many_files_do_not_hold_up_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are gone through by another thread; ours reads no more than it must to know that."""
    for number in range(20_000):
        (tmp_path / f"{number}").touch()
    taken: dict[int, int] = {}
    real = walking.islice

    def counting(scan: Iterator[object], most: int) -> list[object]:
        some = list(real(scan, most))
        taken[threading.get_ident()] = taken.get(threading.get_ident(), 0) + len(some)
        return some

    monkeypatch.setattr(walking, "islice", counting)
    found = await scan_workspace(tmp_path)
    await asyncio.to_thread(lambda: None)
    assert taken.pop(threading.get_ident()) <= 1_000
    assert [*taken.values()] == [20_000]
    taken.clear()
    async with quarantine(tmp_path, found, {}):
        pass
    assert taken.pop(threading.get_ident()) <= 1_000
    assert [*taken.values()] == [20_000]


async def test_a_full_disk_ends_it(tmp_path: Path) -> None:
    """Many files, each within its limit; the private folders are bounded by themselves."""
    script = "while :; do i=$((i+1)); head -c 8M /dev/zero > f$i || exit 7; done"
    async with boxed(tmp_path, SandboxLimits(disk_bytes=64 * MB, file_bytes=16 * MB)) as box:
        ran = await box.sh(script)
        written = sum(path.stat().st_size for path in box.workspace.iterdir())
        private = await box.sh(f"cd /tmp; {script} 2>/dev/null")
        shared = await box.sh(f"cd /dev/shm; {script} 2>/dev/null")
    assert ran.notes == (f"ended: the disk lost more than {64 * MB} bytes while it ran",)
    assert written < 2_000 * MB
    assert (private.exit_code, shared.exit_code) == (7, 7)


async def test_one_file_is_bounded(tmp_path: Path) -> None:
    async with boxed(tmp_path, SandboxLimits(file_bytes=1 * MB)) as box:
        ran = await box.sh("exec head -c 2M /dev/zero > f")
        assert (box.workspace / "f").stat().st_size == 1 * MB
    assert ran.exit_code != 0


async def test_a_gigabyte_of_output_ends_it(tmp_path: Path) -> None:
    """Its first and its last words are kept, and how many are missing is said."""
    async with boxed(tmp_path, SandboxLimits(output_bytes=1_000_000, kept_bytes=1_000)) as box:
        ran = await box.sh("echo first; head -c 1G /dev/zero")
    assert ran.stdout.startswith("first\n")
    assert len(ran.stdout) < 1_100
    assert ran.notes[0] == "ended: it wrote more than 1000000 bytes of output"
    assert "bytes of stdout left out" in ran.notes[1]
    assert ran.duration_ms <= 2 * GONE_MS


async def test_long_output_keeps_both_ends(tmp_path: Path) -> None:
    async with boxed(tmp_path, SandboxLimits(kept_bytes=8)) as box:
        ran = await box.sh("printf 0123456789; printf abc >&2; exit 3")
    assert (ran.exit_code, ran.stderr) == (3, "abc")
    assert ran.stdout == "0123\n[2 bytes left out]\n6789"
    assert ran.notes == ("2 of 10 bytes of stdout left out",)


async def test_cancelling_leaves_nothing(tmp_path: Path) -> None:
    """Neither a process nor a trace of the guard in the workspace."""
    mark = f"mark-{tmp_path.name}"
    async with boxed(tmp_path) as box:
        task = asyncio.ensure_future(box.sh(f"touch up; sleep 99; : {mark}"))
        assert await asyncio.to_thread(comes_true, (box.workspace / "up").exists, 30)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert marked(mark) == []
        assert [*box.workspace.iterdir()] == [box.workspace / "up"]
