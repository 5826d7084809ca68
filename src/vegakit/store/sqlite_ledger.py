"""The ledger on a SQLite file that any number of processes share.

`kill -9` at any instant loses no answered operation; what a dead process had reserved comes back
when its lease ends. With `synchronous="full"` the same holds when the power fails.
"""

from os import PathLike, fspath
from typing import TYPE_CHECKING

from vegakit.store.ledger_rows import Rows
from vegakit.store.ledger_sql import SqlLedger
from vegakit.store.ledger_tables import LEDGER
from vegakit.store.sqlite_file import Synchronous
from vegakit.store.sqlite_thread import SqliteThread

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteLedger"]


class SqliteLedger(SqlLedger):
    def __init__(self, path: str | PathLike[str], *, synchronous: Synchronous = "normal") -> None:
        super().__init__(SqliteThread(fspath(path), LEDGER, synchronous, _FileRows))


class _FileRows(Rows):
    def __init__(self, connection: "sqlite3.Connection") -> None:
        version = "PRAGMA data_version"
        super().__init__(connection, lambda: connection.execute(version).fetchone()[0])

    def write(self) -> None:
        super().write()
        self.flush()
