"""The power fails: the file is as it was at some moment of its write-ahead log, perhaps torn.

`kill -9` does not show this: what was written stays in the kernel's memory. So every prefix of the
log is opened as a file of its own: at the end of each frame, and torn in the middle of each.
"""

import asyncio
import json
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.journal.test_resume import CutOffError, echo
from vegakit.effects import Effect
from vegakit.events import EffectOutcome
from vegakit.host import Agent
from vegakit.ids import EffectKey, ProgramId
from vegakit.ports import ClaimResult, RunRecord
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger, SqliteJournal, list_runs

QUESTIONS = 6
_HEADER, _FRAME_HEADER = 32, 24


class Mark(NamedTuple):
    """How long the log was when a write was answered, and what must be there from then on."""

    wal_bytes: int
    recorded: int
    claimed: int


class WatchedJournal(SqliteJournal):
    """Notes how long the log is whenever a write has been answered."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.marks: list[Mark] = []
        self._counts = [0, 0]

    async def begin(self, run: RunRecord, resume: ProgramId | None = None) -> RunRecord:
        run = await super().begin(run, resume=resume)
        self._mark()
        return run

    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        found = await super().claim(effect, now, speculative=speculative)
        self._counts[1] += found.outcome is None
        self._mark()
        return found

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        await super().record(key, outcome)
        self._counts[0] += 1
        self._mark()

    def _mark(self) -> None:
        self.marks.append(Mark(wal_of(self.path).stat().st_size, *self._counts))


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


async def asks(
    journal: SqliteJournal, model: ScriptedModel, saved: Path | None = None
) -> list[str]:
    """With `saved`, the files are copied there while the run is still open, and it is cut off."""
    agent = Agent("a", model=model)
    async with Runtime(journal=journal, ledger=MemoryLedger()) as rt:
        said = [(await rt.ask(agent, f"question {n}")).text for n in range(QUESTIONS)]
        if saved is not None:
            shutil.copy(journal.path, saved)
            shutil.copy(wal_of(journal.path), wal_of(saved))
            raise CutOffError
    return said


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Mark]]:
    folder = tmp_path_factory.mktemp("power")
    journal = WatchedJournal(folder / "run.db")
    with pytest.raises(CutOffError):
        asyncio.run(asks(journal, ScriptedModel(echo), folder / "saved.db"))
    return folder / "saved.db", journal.marks


def cuts(wal: bytes) -> Iterator[int]:
    """Bytes that reached the disk: whole frames, and half of the next."""
    frame = _FRAME_HEADER + int(struct.unpack(">I", wal[8:12])[0])
    for end in range(_HEADER, len(wal) + 1, frame):
        yield end
        if end < len(wal):
            yield end + frame // 2


def cut_file(saved: Path, at: int, folder: Path, *, garbage: bytes = b"") -> Path:
    path = folder / f"cut-{at}-{len(garbage)}.db"
    shutil.copy(saved, path)
    wal_of(path).write_bytes(wal_of(saved).read_bytes()[:at] + garbage)
    return path


def held(path: Path) -> tuple[int, int]:
    """How many are recorded and how many are claimed; every row is whole."""
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        try:
            rows = file.execute("SELECT outcome FROM effects").fetchall()
        except sqlite3.OperationalError:  # before the tables were there
            return 0, 0
    answers = [json.loads(outcome) for (outcome,) in rows if outcome is not None]
    assert all(answer["type"] == "Answered" for answer in answers)
    return len(answers), len(rows)


def due(marks: list[Mark], at: int) -> Mark:
    return max((mark for mark in marks if mark.wal_bytes <= at), default=Mark(0, 0, 0))


@pytest.mark.parametrize("garbage", [b"", b"\xa5" * 5000], ids=["torn", "torn, then garbage"])
def test_what_was_answered_is_there_after_any_cut(
    written: tuple[Path, list[Mark]], garbage: bytes, tmp_path: Path
) -> None:
    """Every write whose answer came before the cut, and never half of one."""
    saved, marks = written
    found = set[tuple[int, int]]()
    for at in cuts(wal_of(saved).read_bytes()):
        recorded, claimed = held(cut_file(saved, at, tmp_path, garbage=garbage))
        mark = due(marks, at)
        assert recorded >= mark.recorded
        assert claimed >= mark.claimed
        assert claimed - recorded in (0, 1)
        found.add((recorded, claimed))
    steps = {(n, n + more) for n in range(QUESTIONS) for more in (0, 1)}
    assert found == {*steps, (QUESTIONS, QUESTIONS)}


def test_a_run_resumes_from_any_cut(written: tuple[Path, list[Mark]], tmp_path: Path) -> None:
    """What is recorded there is not bought again, and the rest is."""
    saved, _ = written
    for at in cuts(wal_of(saved).read_bytes()):
        path, model = cut_file(saved, at, tmp_path), ScriptedModel(echo)
        recorded, _ = held(cut_file(saved, at, tmp_path, garbage=b"-"))
        said = asyncio.run(asks(SqliteJournal(path), model))
        assert said == [f"echo question {n}" for n in range(QUESTIONS)]
        assert len(model.requests) == QUESTIONS - recorded
        assert list_runs(path)[-1].recorded == QUESTIONS


def test_a_write_that_is_answered_too_early_is_found(tmp_path: Path) -> None:
    """A journal that says `recorded` before the log is longer promises what a cut takes away."""

    class Hasty(WatchedJournal):
        async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
            before = wal_of(self.path).stat().st_size
            await super().record(key, outcome)
            self.marks[-1] = self.marks[-1]._replace(wal_bytes=before)

    async def run() -> list[Mark]:
        journal = Hasty(tmp_path / "run.db")
        with pytest.raises(CutOffError):
            await asks(journal, ScriptedModel(echo), tmp_path / "saved.db")
        return journal.marks

    marks = asyncio.run(run())
    saved = tmp_path / "saved.db"
    wal = wal_of(saved).read_bytes()
    losses = [
        at for at in cuts(wal) if held(cut_file(saved, at, tmp_path))[0] < due(marks, at).recorded
    ]
    assert losses


_COUNTED = """
import asyncio, sys
from pathlib import Path
from tests.journal.test_power_cuts import asks
from tests.journal.test_resume import echo
from vegakit.store import SqliteJournal
from vegakit.testing import ScriptedModel
asyncio.run(asks(SqliteJournal(Path(sys.argv[1])), ScriptedModel(echo)))
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="counts with strace")
def test_each_claim_and_each_record_is_synced(tmp_path: Path) -> None:
    """Two syncs of the log a call; the rest is opening and closing the file."""
    log, path = tmp_path / "calls", tmp_path / "run.db"
    tracing = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(log)]
    command = [*tracing, sys.executable, "-c", _COUNTED, str(path)]
    subprocess.run(command, check=True, timeout=60, cwd=Path(__file__).parents[2])
    synced = sum(f"{path.name}-wal" in line for line in log.read_text().splitlines())
    print(f"{synced} syncs of the log for {QUESTIONS} calls")
    assert 2 * QUESTIONS <= synced <= 2 * QUESTIONS + 6
