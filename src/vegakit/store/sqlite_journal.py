"""Answers by effect key on a SQLite file, for one program after the other, with one writer.

| an effect's row          | means                           | on resume                        |
|--------------------------|---------------------------------|----------------------------------|
| none                     | it was not begun                | it is carried out                |
| claimed, without outcome | it was begun, and our side died | the ledger knows if it was sent: |
|                          |                                 | Unknown, or it is begun anew     |
| with outcome             | it is done                      | that outcome, never again        |

Every write is on disk when it is answered (`synchronous=full`); writes that come at the same time
share one transaction. A torn last transaction is dropped by SQLite when the file is opened.
"""

from collections.abc import Awaitable, Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from msgspec import structs

from vegakit.effects import CallTool, Effect
from vegakit.errors import BugError, StoreError, UserError
from vegakit.events import EffectOutcome, charged_for
from vegakit.ids import Digest, EffectKey, ProgramId
from vegakit.money import Money
from vegakit.ports import Begun, Recorded, Run
from vegakit.records import from_json, to_json
from vegakit.store.sqlite_file import Format
from vegakit.store.sqlite_thread import SqliteThread

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteJournal", "locked"]

_RUNS = "SELECT run, ended_ms FROM runs ORDER BY program"
_FIND = "SELECT digest, outcome FROM effects WHERE key = ?"
_CLAIM = "INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?, NULL) ON CONFLICT (key) DO NOTHING"
_RECORD = "UPDATE effects SET outcome = ? WHERE key = ? AND outcome IS NULL"

_JOURNAL = Format(
    "journal",
    1,
    (
        """CREATE TABLE runs (
            program TEXT PRIMARY KEY, ended_ms INTEGER, run TEXT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE effects (
            key TEXT PRIMARY KEY, program TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
            repeatable INTEGER NOT NULL, digest TEXT NOT NULL, claimed_ms INTEGER NOT NULL,
            outcome TEXT
        ) WITHOUT ROWID""",
    ),
)
"""No second index: a claim and a record would each write one page more, for what is read once."""


class SqliteJournal:
    """Implements `ports.Journal`. The file is locked from `begin` to `aclose`."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(fspath(path))
        self._thread = SqliteThread(fspath(path), _JOURNAL, "full", lambda file: file)
        self._lock: IO[str] | None = None
        self._program = ProgramId("")

    async def begin(self, run: Run) -> Run:
        self._take_lock()
        unfinished = "SELECT run FROM runs WHERE ended_ms IS NULL ORDER BY program DESC LIMIT 1"
        for (text,) in await self._read(unfinished):
            run = from_json(Run, text)
        text = to_json(run).decode()
        await self._write("INSERT OR IGNORE INTO runs VALUES (?, NULL, ?)", run.program, text)
        self._program = run.program
        return run

    def end(self, now: int) -> Awaitable[None]:
        return self._write("UPDATE runs SET ended_ms = ? WHERE program = ?", now, self._program)

    async def raise_budget(self, amount: Money) -> Run:
        """Of the unfinished run, which then goes on with that much more."""
        self._take_lock()
        run = next((run for run in await self.runs() if run.ended_ms is None), None)
        if run is None:
            raise UserError(f"no run in {self.path} is unfinished; start a new one")
        run = structs.replace(run, raised=Money(run.raised + amount))
        text = to_json(run).decode()
        await self._write("UPDATE runs SET run = ? WHERE program = ?", text, run.program)
        return run

    async def runs(self) -> Sequence[Run]:
        found = await self._read(_RUNS)
        return [structs.replace(from_json(Run, text), ended_ms=at) for text, at in found]

    def find(self, key: EffectKey) -> Awaitable[Recorded | None]:
        return self._thread.do(lambda file: (_found(file, key), _nothing))

    def claim(self, effect: Effect, now: int) -> Awaitable[Recorded | None]:
        kind = type(effect.request).__name__
        repeatable = isinstance(effect.request, CallTool) and effect.request.repeatable
        place = (effect.key, self._program, str(effect.path))
        values = (*place, kind, repeatable, effect.digest, now)

        def work(file: "sqlite3.Connection") -> tuple[Recorded | None, Callable[[], object]]:
            is_new = file.execute(_CLAIM, values).rowcount
            return None if is_new else _found(file, effect.key), _nothing

        return self._thread.do(work)

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        text = to_json(outcome).decode()

        def work(file: "sqlite3.Connection") -> tuple[None, Callable[[], object]]:
            is_first = file.execute(_RECORD, (text, key)).rowcount
            if not is_first and file.execute(_FIND, (key,)).fetchone() is None:
                raise BugError(f"the effect {key} was not claimed before it was recorded")
            return None, _nothing

        return self._thread.do(work)

    def drop(self, key: EffectKey) -> Awaitable[None]:
        return self._write("DELETE FROM effects WHERE key = ? AND outcome IS NULL", key)

    async def cut_off(self) -> Sequence[Begun]:
        query = "SELECT key, kind, repeatable FROM effects WHERE program = ? AND outcome IS NULL"
        found = await self._read(query, self._program)
        return [Begun(EffectKey(key), kind, bool(repeatable)) for key, kind, repeatable in found]

    async def charges(self) -> Sequence[tuple[EffectKey, Money]]:
        query = "SELECT key, outcome FROM effects WHERE program = ? AND kind = 'CallModel'"
        found = await self._read(f"{query} AND outcome IS NOT NULL", self._program)
        return [(EffectKey(key), charged_for(_outcome_of(text))) for key, text in found]

    async def aclose(self) -> None:
        await self._thread.aclose()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_lock(self) -> None:
        self._lock = self._lock or locked(self.path)
        if self._lock is None:
            raise StoreError(
                f"the journal {self.path} is being written by another process; "
                "wait until that run has ended, or name another journal"
            )

    def _read(self, query: str, *values: object) -> Awaitable[list[tuple[Any, ...]]]:
        return self._thread.do(lambda file: (file.execute(query, values).fetchall(), _nothing))

    def _write(self, statement: str, *values: object) -> Awaitable[None]:
        return self._thread.do(lambda file: (None, lambda: file.execute(statement, values)))


def locked(path: Path) -> IO[str] | None:
    """Until it is closed nobody else writes that journal; None if somebody does."""
    import fcntl  # not on every system, and needed only here

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = Path(f"{path}.lock").open("w", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _nothing() -> None:
    pass


def _found(file: "sqlite3.Connection", key: EffectKey) -> Recorded | None:
    row = file.execute(_FIND, (key,)).fetchone()
    if row is None:
        return None
    digest, outcome = row
    return Digest(digest), None if outcome is None else _outcome_of(outcome)


def _outcome_of(text: str) -> EffectOutcome:
    return from_json(cast("type[EffectOutcome]", EffectOutcome), text)
