"""The ledger on a SQLite file that any number of processes share.

`kill -9` at any instant loses no answered operation; what a dead process had reserved comes back
when its lease ends. With `synchronous="full"` the same holds when the power fails.
"""

from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from vegakit.store.ledger_rows import Rows
from vegakit.store.ledger_sql import SqlLedger
from vegakit.store.ledger_tables import LEDGER
from vegakit.store.secret import RowSeals, seal_of_user
from vegakit.store.sqlite_file import Synchronous
from vegakit.store.sqlite_thread import FileDesk, SqliteThread

if TYPE_CHECKING:
    import sqlite3

__all__ = ["LedgerDesk", "SqliteLedger"]


class LedgerDesk(FileDesk):
    """Holds the rows of the ledger that were read, as long as they are good, and the seals of all
    rows of the file."""

    def __init__(self, file: "sqlite3.Connection", place: str) -> None:
        super().__init__(file)
        self.seals = RowSeals(place, seal_of_user)
        self.seals.install(file)
        self.rows = _FileRows(file, self.seals)
        self.claimed: dict[str, tuple[Any, ...]] = {}
        """For the journal: effects that were claimed at this desk and have no outcome yet."""

    def begin(self) -> None:
        self.rows.forget_version()

    def flush(self) -> None:
        """Once for a transaction: a scope that many calls in it moved is one statement."""
        self.rows.flush()


class SqliteLedger(SqlLedger):
    def __init__(
        self,
        path: str | PathLike[str],
        *,
        synchronous: Synchronous = "normal",
        thread: SqliteThread[LedgerDesk] | None = None,
    ) -> None:
        """`thread` is one that others use, too, and that they close."""
        place = fspath(path)
        make = partial(LedgerDesk, place=place)
        own = thread or SqliteThread(place, LEDGER, synchronous, make)
        super().__init__(own, _rows_at)
        self._owns_thread = thread is None

    def is_on(self, thread: SqliteThread[Any]) -> bool:
        return self._thread is thread

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        if self._owns_thread:
            await super().aclose()


def _rows_at(desk: LedgerDesk) -> Rows:
    return desk.rows


class _FileRows(Rows):
    def __init__(self, connection: "sqlite3.Connection", seals: RowSeals) -> None:
        self._known: int | None = None
        self._file = connection
        super().__init__(connection, self._data_version, seals=seals)

    def forget_version(self) -> None:
        """It is asked for once in each transaction, during which nobody else writes."""
        self._known = None

    def _data_version(self) -> int:
        if self._known is None:
            self._known = int(self._file.execute("PRAGMA data_version").fetchone()[0])
        return self._known
