"""Another user of the machine cannot hold up or end a run by holding a lock on its files."""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vegakit import Agent, Runtime
from vegakit.errors import StoreError
from vegakit.providers import ScriptedModel

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as somebody else"
)

OTHER = 54_322
HOLD = """
import fcntl, os, sys
how, path = sys.argv[1:]
os.umask(0)
file = os.open(path, os.O_RDWR | os.O_CREAT if how == "plant" else os.O_RDONLY, 0o666)
if how == "wal":
    fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 120, 0)
else:
    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
os.write(1, b"held")
os.read(0, 1)
"""


@pytest.fixture
def shared() -> Generator[Path]:
    """A folder in which everybody may read and write, below folders that everybody may pass."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@contextmanager
def held_by_other(how: str, path: Path) -> Generator[bool]:
    """Whether the other user holds a lock on the file meanwhile."""
    words = ["/usr/bin/env", "python3", "-I", "-c", HOLD, how, str(path)]
    with subprocess.Popen(
        words,
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.read(4) == b"held"
        process.communicate(b"x")


async def run(journal: Path, held: list[bool], *files: str) -> str:
    """A run of two questions; between them the other user tries to lock these files."""
    async with Runtime("$1", journal=journal) as rt:
        agent = Agent("a", model=ScriptedModel("hello"))
        said = (await rt.ask(agent, "one")).output
        for name in files:
            how = "wal" if name.endswith("-shm") else "flock"
            with held_by_other(how, journal.parent / name) as is_held:
                held.append(is_held)
                said = (await rt.ask(agent, "two")).output
        return said


FILES = ("run.db", "run.db-wal", "run.db-shm", "run.db.lock", "run.db.spool")


async def test_nobody_else_may_lock_the_files_of_a_run(shared: Path) -> None:
    """Though the folder is open to all; the other user does reach it, as the last line shows."""
    held: list[bool] = []
    assert await run(shared / "run.db", held, *FILES) == "hello"
    assert held == [False] * len(FILES)
    (shared / "anything").touch(0o644)
    with held_by_other("flock", shared / "anything") as is_held:
        assert is_held


async def test_files_that_were_left_open_to_all_are_closed(shared: Path) -> None:
    """As earlier versions left them, or a person who changed the modes."""
    await run(shared / "run.db", [])
    for name in ("run.db", "run.db.lock", "run.db.spool"):
        (shared / name).chmod(0o644)
    held: list[bool] = []
    assert await run(shared / "run.db", held, *FILES) == "hello"
    assert held == [False] * len(FILES)


@pytest.mark.parametrize("name", FILES[1:])
async def test_a_file_that_another_user_put_there_is_named(shared: Path, name: str) -> None:
    """Rather than waited for, or taken for another run of ours."""
    if name in ("run.db-wal", "run.db-shm"):
        await run(shared / "run.db", [])
    with held_by_other("plant", shared / name) as is_held:
        assert is_held
        with pytest.raises(StoreError, match=rf"{name} belongs to another user .* name a journal"):
            await run(shared / "run.db", [])


async def test_a_group_that_may_write_keeps_its_file(shared: Path) -> None:
    """A ledger may be shared on purpose; others lose it still."""
    await run(shared / "run.db", [])
    (shared / "run.db").chmod(0o664)
    await run(shared / "run.db", [])
    assert (shared / "run.db").stat().st_mode & 0o777 == 0o660
