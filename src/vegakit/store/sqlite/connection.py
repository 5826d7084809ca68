"""SQLite files that several processes share: how one is opened and checked, and the thread that
works on it.

Each subject (ledger, documents, journal) has its own tables and its own row in
`format_versions`, so one file may hold several. The file must be on a local disk, because its
processes meet in shared memory.
"""

import os
import secrets
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from vegakit.errors import StoreError, VegaError
from vegakit.store.seals import keep_private, move_away_command
from vegakit.store.thread import Format, Job, JobResult, StoreThread, create_tables, run_job

if TYPE_CHECKING:
    import sqlite3


# A file is made whole under another name and then linked into place, so that no kill leaves an
# empty one behind: an empty file, or one shorter than it says, was cut, and is refused.


Synchronous: TypeAlias = Literal["normal", "full"]
"""Both survive `kill -9`; `full` also keeps the last transactions when the power fails."""

BUSY_S = 10.0
_BUSY_POLL_S = 0.01
_LOOK_S, _PAUSE_S, _PAUSES = 0.0005, 0.001, 20
"""How often is looked whether others have let go, how long a pause is after a transaction, and
after how many when others were met."""
_PRIMARY_CODE = 0xFF
_STATEMENTS = 256
_LOG_PAGES = 4_000
"""How long the log of writes grows before it is brought into the file, four times as long as usual:
a call touches a few pages again and again, and each is brought in once."""
_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 100
_BESIDE = ("-wal", "-shm", "-journal")


def connect(
    path: str, layouts: Sequence[Format], synchronous: Synchronous, hold: ExitStack
) -> "sqlite3.Connection":
    """Open a file, and make it if it is not there. The connection belongs to the thread that opens
    it; the file is `held` until `hold` is closed, after the connection."""
    place, log = Path(path), Path(f"{path}-wal")
    if not os.path.lexists(place):
        # Looked for again after its log: another process may just have made both, in that order.
        if os.path.lexists(log) and not os.path.lexists(place):
            raise StoreError(
                f"{log} is the log of a file that is gone, and would be taken for the log of a new "
                f"one; put {place} back, or to start over, type: {move_away_command(path)}"
            )
        _make(place, layouts)
    hold.enter_context(held(place))
    for file in (place, *(place.with_name(f"{place.name}{end}") for end in _BESIDE)):
        keep_private(file)
    return _opened(path, layouts, synchronous)


_HOLDING = threading.Lock()
_HELD: Counter[tuple[int, int]] = Counter()
"""How many connections this process has to each file, by device and inode."""


@contextmanager
def held(path: Path) -> Generator[None]:
    """Check a file, and hold it while this process has a connection to it.

    Meanwhile nothing here opens it but SQLite. Whoever closes any descriptor of a file takes all
    locks away that the process has on it; then another process that closes the file takes itself
    for the last one, and deletes the log with what was acknowledged since."""
    with _HOLDING:
        found = _check_kind(path)
        file = found.st_dev, found.st_ino
        if not _HELD[file]:
            _check_whole(path, found.st_size)
        _HELD[file] += 1
    try:
        yield
    finally:
        with _HOLDING:
            _HELD[file] -= 1
            if not _HELD[file]:
                del _HELD[file]


def _check_kind(path: Path) -> os.stat_result:
    """Refuse what is no file, and what is a link: it could lead to a file that is not ours."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(f"{path} is a link; name the file that it leads to")
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is not a file; name another file")
    return found


def _check_whole(path: Path, size: int) -> None:
    """Refuse a file that was cut: an answer that is missing would be bought again, and money that
    is missing spent."""
    log = Path(f"{path}-wal")
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head and not _MAGIC.startswith(head[: len(_MAGIC)]):
        return  # no database: SQLite says so
    if len(head) == _HEAD_BYTES:
        page_bytes = int.from_bytes(head[16:18], "big")
        needed = (65_536 if page_bytes == 1 else page_bytes) * int.from_bytes(head[28:32], "big")
        is_logged = log.exists() and log.stat().st_size > 0
        if size >= needed or is_logged:
            return  # the end of the file may still be in its log
    raise StoreError(
        f"{path} was cut: it has {size:,} bytes, so what was recorded in it is missing; "
        f"put a copy of it back, or to start over, type: {move_away_command(str(path))}"
    )


def _make(path: Path, layouts: Sequence[Format]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        # Closed at once: by closing, SQLite brings what was written into the file itself.
        _opened(str(draft), layouts, "full").close()
        with suppress(FileExistsError):  # another process was first, and its file is as good
            os.link(draft, path, follow_symlinks=False)
    finally:
        for left in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            left.unlink(missing_ok=True)


def _opened(path: str, layouts: Sequence[Format], synchronous: Synchronous) -> "sqlite3.Connection":
    import sqlite3

    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, cached_statements=_STATEMENTS
    )
    try:
        reject_foreign_schema(connection, path)
        _write_ahead(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA cell_size_check = on")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        connection.execute("BEGIN IMMEDIATE")
        for layout in layouts:
            create_tables(connection.execute, path, layout)
        connection.execute("COMMIT")
    except UnicodeDecodeError as error:  # the text of SQLite's own error has bytes of the damage
        connection.close()
        raise StoreError(
            f"{path} is damaged; put a copy of it back, or to start over, type: "
            f"{move_away_command(path)}"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def reject_foreign_schema(connection: "sqlite3.Connection", path: str) -> None:
    """Refuse a file with triggers or views, since we make none: they are statements of somebody
    else that would run within ours."""
    connection.execute("PRAGMA trusted_schema = off")
    query = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view') LIMIT 1"
    for kind, name in connection.execute(query):
        raise StoreError(
            f"{path} was written by somebody else: it holds the {kind} {name!a}, and vegakit makes "
            f"none; to start over, type: {move_away_command(path)}"
        )


def sqlite_error(path: str, error: Exception) -> StoreError:
    """Return what SQLite or the system says of a file, and what to do about it."""
    import sqlite3

    if isinstance(error, OverflowError):
        return StoreError(f"cannot write {path}: an amount is above nine billion dollars")
    advice = {
        sqlite3.SQLITE_BUSY: f"another process has held it for {BUSY_S:.0f} s; end that process",
        sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
        sqlite3.SQLITE_NOTADB: "it is not a SQLite file; name another file",
        sqlite3.SQLITE_CANTOPEN: "check that it may be written by you and is not a folder",
        sqlite3.SQLITE_READONLY: "it may only be read; make it and its folder writable",
        sqlite3.SQLITE_CORRUPT: "it is damaged; put a copy of it back, or to start over, type: "
        f"{move_away_command(path)}",
    }
    if isinstance(error, OSError):
        return StoreError(
            f"cannot use {path}: {error.strerror or error}; name a file in a folder that you may "
            "write, on a disk that has room"
        )
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    hint = advice.get(code, "check the disk and the permissions of the file and its folder")
    return StoreError(f"cannot use {path}: {error}; {hint}")


def _write_ahead(connection: "sqlite3.Connection") -> None:
    """SQLite does not wait by itself while another process is turning the same file over."""
    import sqlite3

    for left in reversed(range(int(BUSY_S / _BUSY_POLL_S))):
        try:
            connection.execute("PRAGMA journal_mode = wal")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or not left:
                raise
            time.sleep(_BUSY_POLL_S)
        else:
            return


# The one thread that works on a SQLite file.


class SqliteHandle:
    """A thread runs its statements on a SQLite file through a handle."""

    def __init__(self, file: "sqlite3.Connection") -> None:
        self.file = file
        self.execute, self.executemany = file.execute, file.executemany

    def begin(self) -> None:
        """Learn that a transaction has begun, so that nobody else writes until it ends."""

    def flush(self) -> None:
        """Write what was put off to the end of the transaction."""


HandleT = TypeVar("HandleT", bound=SqliteHandle)


class SqliteThread(StoreThread[HandleT]):
    """The thread of a SQLite file."""

    def __init__(
        self,
        path: str,
        layouts: Format | Sequence[Format],
        synchronous: Synchronous,
        handle: "Callable[[sqlite3.Connection], HandleT]",
    ) -> None:
        several = (layouts,) if isinstance(layouts, Format) else layouts
        self._hold = ExitStack()
        self._connect = lambda: connect(path, several, synchronous, self._hold)
        self._make_handle = handle
        self._connection: sqlite3.Connection | None = None
        self._pauses = 0
        super().__init__(path, " and ".join(layout.subject for layout in several))

    def _carry_out(self, batch: list[Job]) -> list[JobResult]:
        import sqlite3

        try:
            return self._transact(batch)
        except (sqlite3.Error, OSError, OverflowError) as error:
            told = sqlite_error(self._place, error)
        except VegaError as error:
            told = error
        self._disconnect()
        return [JobResult(job.caller, error=told) for job in batch]

    def _take(self) -> list[Job]:
        if self._pauses:
            self._pauses -= 1
            time.sleep(_PAUSE_S)
        return super()._take()

    def _transact(self, batch: list[Job]) -> list[JobResult]:
        if self._connection is None:
            self._connection = self._connect()
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._handle = self._make_handle(self._connection)
        self._begin(self._connection)
        self._handle.begin()
        answers = [run_job(self._handle, job) for job in batch]
        self._handle.flush()
        self._connection.execute("COMMIT")
        return answers

    def _begin(self, connection: "sqlite3.Connection") -> None:
        """Take the write lock at once: a lock taken later could find its reads outdated.

        SQLite looks less and less often whether a lock is free, so that the one who has waited
        longest looks least, and the one who has just let go is always first. Here all look equally
        often, and whoever had to wait pauses after its next transactions, so that the look of
        another falls into the pause."""
        import sqlite3

        for left in reversed(range(int(BUSY_S / _LOOK_S))):
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or not left:
                    raise
                self._pauses = _PAUSES
                time.sleep(_LOOK_S)
            else:
                return

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._hold.close()
