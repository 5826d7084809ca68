"""The journal on a SQLite file, and its runs as they are seen from outside.

Every write is on disk when it is answered (`synchronous=full`); writes that come at the same time
share one transaction. A torn last transaction is dropped by SQLite when the file is opened.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from vegakit.errors import StoreError
from vegakit.ports import RunRecord
from vegakit.store.journal import (
    ForgottenRuns,
    RetentionRule,
    SqlJournal,
    check_effects,
    forget_ended,
)
from vegakit.store.ledger_rows import LEDGER
from vegakit.store.runs import (
    SIZE,
    RecordedCall,
    RecordedEffect,
    RunQueries,
    RunSummary,
    recorded_call,
    recorded_effect,
    summaries,
)
from vegakit.store.seals import RowSeals, move_away_command, user_seal
from vegakit.store.spool import RunFiles
from vegakit.store.sqlite.connection import (
    BUSY_S,
    SqliteThread,
    held,
    reject_foreign_schema,
    sqlite_error,
)
from vegakit.store.sqlite.stores import DOCUMENTS, LedgerHandle, SqliteLedger, SqliteStore
from vegakit.store.thread import Format

if TYPE_CHECKING:
    import sqlite3

_LOG = logging.getLogger("vegakit")
_JOURNAL = Format(
    "journal",
    4,
    (
        """CREATE TABLE runs (
            program TEXT PRIMARY KEY, ended_ms INTEGER, run TEXT NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE effects (
            key TEXT PRIMARY KEY, program TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
            idempotent INTEGER NOT NULL, digest TEXT NOT NULL, claimed_ms INTEGER NOT NULL,
            outcome TEXT, code TEXT NOT NULL, committed INTEGER NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
    ),
)
"""No second index: a claim and a record would each write one page more, for what is read once. A
key begins with the place of its effect, so what else is known of a place stands beside it."""
_CHECKED_BYTES = 64 << 20
"""A file up to this size is checked whole when a run in it is taken up; of a larger one, what is
read."""
_FORGOTTEN = 20
"""How many runs are forgotten at the end of each run: more than one run makes, and never long."""


class SqliteJournal(SqlJournal[SqliteThread[LedgerHandle]]):
    """A journal in a file. What belongs to one run is beside the file, or of one that is `shared`
    in the folder `runs` beside it."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        shared: bool = False,
        keep: RetentionRule | None = None,
    ) -> None:
        self.path = Path(fspath(path))
        make = partial(LedgerHandle, place=fspath(path))
        thread = SqliteThread(fspath(path), (_JOURNAL, LEDGER, DOCUMENTS), "full", make)
        super().__init__(fspath(path), thread, _files(self.path), shared=shared, keep=keep)

    def ledger(self) -> SqliteLedger:
        return SqliteLedger(self.path, thread=self._thread)

    def store(self) -> SqliteStore:
        return SqliteStore(self.path, thread=self._thread)

    async def is_running(self, run: RunRecord) -> bool:
        return _is_running(self.path, run)

    async def tidy(self, now: int) -> None:
        if self.keep_runs is None:
            return
        before_ms, most_bytes = now - self.keep_runs.for_ms, self.keep_runs.most_bytes
        work = partial(forget_runs, self.path, before_ms, most_bytes, at_most=_FORGOTTEN)
        try:
            await asyncio.to_thread(work)
        except StoreError as error:  # the run has ended well: the next one tries again
            _LOG.warning("old runs were not forgotten: %s", error)

    async def _check_all(self) -> None:
        def work(handle: LedgerHandle) -> tuple[None, Callable[[], None]]:
            if self.path.stat().st_size <= _CHECKED_BYTES:
                for (told,) in handle.execute("PRAGMA quick_check(1)"):
                    if told != "ok":
                        raise StoreError(
                            f"{self.path} is damaged ({told}); put a copy of it back, or to start "
                            f"over, type: {move_away_command(str(self.path))}"
                        )
                check_effects(handle)
            return None, lambda: None

        await self._thread.do(work)


def _files(path: Path) -> RunFiles:
    return RunFiles(path, path.parent / "runs")


def _is_running(path: Path, run: RunRecord) -> bool:
    """Who writes it has locked the journal, or its run in one that is shared."""
    return _files(path).is_locked("") or _files(path).is_locked(run.program)


# The runs of a file, looked at from outside: listing writes nothing to it.


def _field(*path: str) -> str:
    return f"json_extract(outcome, '$.{'.'.join(path)}')"


_QUERIES = RunQueries(_field, _field)


def list_runs(path: str | PathLike[str]) -> list[RunSummary]:
    """Return the runs of a journal, the first first."""
    file_path = Path(path)
    if not file_path.is_file():
        raise StoreError(f"there is no journal {path}; name the file that Runtime(journal=…) names")
    seals = RowSeals(str(path), user_seal)
    with _opened(file_path) as file:
        rows = file.execute(_QUERIES.runs)
        is_running, spooled = partial(_is_running, file_path), _files(file_path).spooled
        return summaries(rows, seals, is_running, partial(_QUERIES.unrecorded, file, spooled))


def recorded_calls(path: str | PathLike[str]) -> list[RecordedCall]:
    """Return the model calls in a file that `list_runs` can read."""
    with _opened(Path(path)) as file:
        return [recorded_call(row) for row in file.execute(_QUERIES.calls)]


def recorded_effects(path: str | PathLike[str], program: str) -> list[RecordedEffect]:
    """Return the effects of a run in a file that `list_runs` can read."""
    with _opened(Path(path)) as file:
        return [recorded_effect(row) for row in file.execute(_QUERIES.effects, (program,))]


def forget_runs(
    path: str | PathLike[str],
    before_ms: int,
    most_bytes: int,
    *,
    at_most: int | None = None,
    dry_run: bool = False,
    shrink: bool = False,
) -> ForgottenRuns:
    """Forget runs that ended before then, and the oldest ones while the rest is larger than
    `most_bytes`. `at_most` bounds the work, for who has something else to do. Space that is freed
    is used again by the next runs; only `shrink` gives it back to the disk, since that writes the
    whole file anew."""
    place = Path(path)
    if not place.is_file():
        return ForgottenRuns()
    with _opened(place, writable=True) as file:

        def delete(program: str) -> None:
            file.execute("BEGIN IMMEDIATE")
            file.execute("DELETE FROM effects WHERE program = ?", (program,))
            file.execute("DELETE FROM runs WHERE program = ?", (program,))
            file.execute("COMMIT")
            _files(place).remove(program)

        forgotten = forget_ended(
            file.execute(_QUERIES.ended).fetchall()[:at_most],
            lambda program: file.execute(SIZE, (program,)).fetchone()[0] or 0,
            (lambda _: None) if dry_run else delete,
            before_ms,
            _used(file) - most_bytes,
        )
        if shrink and not dry_run:
            file.execute("VACUUM")
        return forgotten


def journal_size(path: str | PathLike[str]) -> int | None:
    """Return how many bytes the file has; None without a file, or if the file has no journal, as
    when it holds only a budget."""
    import sqlite3

    file_path = Path(path)
    if not file_path.is_file():
        return None
    address = f"{file_path.resolve().as_uri()}?mode=ro"
    # The operation that reads a damaged file reports it.
    with (
        suppress(sqlite3.Error, StoreError),
        held(file_path),
        closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as file,
    ):
        if not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchall():
            return None
    return file_path.stat().st_size


@contextmanager
def _opened(path: Path, *, writable: bool = False) -> "Generator[sqlite3.Connection]":
    import sqlite3

    address = f"{path.resolve().as_uri()}?mode={'rw' if writable else 'ro'}"
    try:
        with (
            held(path),
            closing(
                sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
            ) as file,
        ):
            reject_foreign_schema(file, str(path))
            yield file
    except sqlite3.Error as error:
        if "no such table" in str(error):
            raise StoreError(
                f"{path} holds no journal; name the file that Runtime(journal=…) names"
            ) from None
        raise sqlite_error(str(path), error) from error


def _used(file: "sqlite3.Connection") -> int:
    pages, free, size = (
        file.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
