"""What takes all it can get: it gets its limit, and soon its whole tree is gone."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.runtime.children.processes import comes_true, marked
from tests.tools.sandbox.stage import boxed
from vegakit.tools.sandbox import Limits

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
    async with boxed(tmp_path, Limits(wall_ms=500, processes=64)) as box:
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
    async with boxed(tmp_path, Limits(processes=40)) as box:
        both = await asyncio.gather(box.python(script), box.python(script))
    assert all(30 <= int(ran.stdout) <= 40 for ran in both)


async def test_four_gigabytes_are_refused(tmp_path: Path) -> None:
    """And one megabyte is not."""
    async with boxed(tmp_path) as box:
        assert (await box.python("bytearray(1 << 20)")).exit_code == 0
        assert "MemoryError" in (await box.python("bytearray(4 << 30)")).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups here")
async def test_memory_is_the_whole_tree_s(tmp_path: Path) -> None:
    """Two that each stay below the limit are over it together."""
    script = """
import os, signal
pid = os.fork()
x = b"x" * (80 << 20)
print(len(x), flush=True)
os.wait() if pid else signal.pause()
"""
    async with boxed(tmp_path, Limits(memory_bytes=128 * MB, wall_ms=3_000)) as box:
        ran = await box.python(script)
    assert ran.stdout.count(str(80 << 20)) < 2


async def test_a_full_disk_ends_it(tmp_path: Path) -> None:
    """Many files, each within its limit; the private folders are bounded by themselves."""
    script = "while :; do i=$((i+1)); head -c 8M /dev/zero > f$i || exit 7; done"
    async with boxed(tmp_path, Limits(disk_bytes=64 * MB, file_bytes=16 * MB)) as box:
        ran = await box.sh(script)
        written = sum(path.stat().st_size for path in box.workspace.iterdir())
        private = await box.sh(f"cd /tmp; {script} 2>/dev/null")
        shared = await box.sh(f"cd /dev/shm; {script} 2>/dev/null")
    assert ran.notes == (f"ended: the disk lost more than {64 * MB} bytes while it ran",)
    assert written < 2_000 * MB
    assert (private.exit_code, shared.exit_code) == (7, 7)


async def test_one_file_is_bounded(tmp_path: Path) -> None:
    async with boxed(tmp_path, Limits(file_bytes=1 * MB)) as box:
        ran = await box.sh("exec head -c 2M /dev/zero > f")
        assert (box.workspace / "f").stat().st_size == 1 * MB
    assert ran.exit_code != 0


async def test_a_gigabyte_of_output_ends_it(tmp_path: Path) -> None:
    """Its first and its last words are kept, and how many are missing is said."""
    async with boxed(tmp_path, Limits(output_bytes=1_000_000, kept_bytes=1_000)) as box:
        ran = await box.sh("echo first; head -c 1G /dev/zero")
    assert ran.stdout.startswith("first\n")
    assert len(ran.stdout) < 1_100
    assert ran.notes[0] == "ended: it wrote more than 1000000 bytes of output"
    assert "bytes of stdout left out" in ran.notes[1]
    assert ran.duration_ms <= 2 * GONE_MS


async def test_long_output_keeps_both_ends(tmp_path: Path) -> None:
    async with boxed(tmp_path, Limits(kept_bytes=8)) as box:
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
