"""Traces in SQLite: the same records as JSON lines, found by run and by time without reading the
rest.

    runs   trace_id, at_ms, run (both indexed)  one for each trace: when its first call began, and
                                                the recorded run that it is of
    calls  (trace_id, span_id), record          one for each call: its line of JSON

Several processes may share the file. It has a write-ahead log, so whoever reads does not wait for
whoever writes, and a process that is killed in the middle of a batch leaves the batches before it.
"""

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from vegakit.events import CallTraced
from vegakit.telemetry.jsonl import NO_TRACE, FileSink, line_of, open_own
from vegakit.telemetry.redaction import Redactor

_APPLICATION = 0x56545243
"""`VTRC`, in the head of the file: whose tables these are."""
_VERSION = 1
_BUSY_S = 10.0
_BUSY_POLL_S = 0.01
_FORGET_EVERY_S = 3_600.0
_DAY_MS = 86_400_000

_NUMBERS = {
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_LOCKED: errno.EBUSY,
    sqlite3.SQLITE_FULL: errno.ENOSPC,
}
_SCHEMA = (
    """CREATE TABLE runs (trace_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, run TEXT NOT NULL)
    WITHOUT ROWID""",
    "CREATE INDEX runs_by_time ON runs (at_ms)",
    "CREATE INDEX runs_by_run ON runs (run)",
    """CREATE TABLE calls (trace_id TEXT, span_id TEXT, record TEXT NOT NULL,
    PRIMARY KEY (trace_id, span_id)) WITHOUT ROWID""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)
_ADD_RUN = (
    "INSERT INTO runs VALUES (?, ?, ?) "
    "ON CONFLICT (trace_id) DO UPDATE SET at_ms = min(at_ms, excluded.at_ms)"
)
_ADD_CALL = "INSERT OR REPLACE INTO calls VALUES (?, ?, ?)"
_FORGET = (
    "DELETE FROM calls WHERE trace_id IN (SELECT trace_id FROM runs WHERE at_ms < ?)",
    "DELETE FROM runs WHERE at_ms < ?",
)
LATEST = (
    "SELECT record FROM calls WHERE trace_id IN "
    "(SELECT trace_id FROM runs ORDER BY at_ms DESC LIMIT ?)"
)
NAMED = "SELECT record FROM calls WHERE trace_id >= ? AND trace_id < ?"
OF_RUN = (
    "SELECT record FROM calls WHERE trace_id IN "
    "(SELECT trace_id FROM runs WHERE run >= ? AND run < ?)"
)


class SqliteSink(FileSink):
    """Records in a SQLite file. Runs that began longer than `keep_ms` ago are forgotten: nobody
    rotates a file that is a database."""

    setting = "telemetry.sqlite"

    def __init__(
        self,
        path: Path,
        redactor: Redactor | None = None,
        *,
        keep_ms: int = 30 * _DAY_MS,
        capacity: int = 10_000,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(path, redactor, capacity=capacity)
        self._keep_ms = keep_ms
        self._now = now
        self._connection: sqlite3.Connection | None = None
        self._file = 0
        self._forgot_at = float("-inf")

    def _append(self, calls: Sequence[CallTraced]) -> None:
        try:
            self._transact(calls)
        except (sqlite3.Error, OverflowError) as error:
            self._release()
            raise OSError(_number_of(error), str(error)) from error

    def _transact(self, calls: Sequence[CallTraced]) -> None:
        connection = self._connected()
        began = {call.trace_id: call.at_ms for call in calls if call.trace_id != NO_TRACE}
        for call in calls:
            if call.trace_id in began:
                began[call.trace_id] = min(began[call.trace_id], call.at_ms)
        of_run = {call.trace_id: call.run for call in calls}
        lines = [(call.trace_id, call.span_id, line_of(call).decode().rstrip()) for call in calls]
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                _ADD_RUN, [(trace, at_ms, of_run[trace]) for trace, at_ms in began.items()]
            )
            connection.executemany(_ADD_CALL, lines)
            self._forget(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if self._writer.is_closed:
            self._release()  # nobody else will

    def _forget(self, connection: sqlite3.Connection) -> None:
        now = self._now()
        if now - self._forgot_at >= _FORGET_EVERY_S:
            self._forgot_at = now
            for statement in _FORGET:
                connection.execute(statement, (round(now * 1000) - self._keep_ms,))

    def _connected(self) -> sqlite3.Connection:
        """Return the connection, a new one if the file was moved away or replaced meanwhile."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            _make(self._path)
            found = self._path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.ELOOP, "it is a link or no file", str(self._path))
        if self._connection is None or found.st_ino != self._file:
            self._release()
            self._connection, self._file = _opened(self._path), found.st_ino
        return self._connection

    def _release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _number_of(error: Exception) -> int:
    """Return the system's number of an error of SQLite, by which people are told what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _NUMBERS.get(code, errno.EIO)


def _make(path: Path) -> None:
    """Make an empty file that only its owner may read. One that is there is never opened here:
    closing any descriptor of a file lets go of the locks that SQLite holds on it for the whole
    process, and whoever writes at the same time destroys it."""
    with suppress(FileExistsError):  # another process was quicker
        os.close(open_own(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)))


def _opened(path: Path) -> sqlite3.Connection:
    # Used by one thread at a time: the writer's lock is held around each batch.
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        _write_ahead(connection)
        # Without a wait for the disk at each batch: after a power cut the last ones may be missing,
        # and what is there is whole.
        connection.execute("PRAGMA synchronous = normal")
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
        _check_ours(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """SQLite does not wait by itself while another process is turning the same file over."""
    ends = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = wal")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > ends:
                raise
            time.sleep(_BUSY_POLL_S)
        else:
            return


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not ours:
        raise OSError(errno.EINVAL, "it is a database of something else, not of traces", str(path))
    if version != _VERSION:
        raise OSError(errno.EINVAL, "another version of vegakit wrote it", str(path))


def read_lines(path: Path, wanted: str, last: int) -> Iterator[bytes]:
    """Yield the records of the traces whose id, or that of their recorded run, begins with
    `wanted`, or without it of the `last` ones, as lines of JSON; some twice. Raises `OSError`."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    bounds = (wanted, f"{wanted}\U0010ffff")
    queries = [(NAMED, bounds), (OF_RUN, bounds)] if wanted else [(LATEST, (last,))]
    try:
        with closing(sqlite3.connect(address, timeout=_BUSY_S, uri=True)) as connection:
            _check_ours(connection, path)
            for query, given in queries:
                for (record,) in connection.execute(query, given):
                    yield record.encode()
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
