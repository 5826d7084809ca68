"""The one thread that works on a SQLite file."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from vegakit.errors import VegaError
from vegakit.store.sqlite_file import Format, Synchronous, connect, explained
from vegakit.store.thread import Answer, Job, StoreThread, answered

if TYPE_CHECKING:
    import sqlite3

__all__ = ["FileDesk", "SqliteThread"]


class FileDesk:
    """The desk of whoever works on the file by statements."""

    def __init__(self, file: "sqlite3.Connection") -> None:
        self.file = file
        self.execute, self.executemany = file.execute, file.executemany

    def begin(self) -> None:
        """A transaction has begun, so nobody else writes until it ends."""

    def flush(self) -> None:
        """Write what was put off to the end of the transaction."""


Desk = TypeVar("Desk", bound=FileDesk)


class SqliteThread(StoreThread[Desk]):
    def __init__(
        self,
        path: str,
        layouts: Format | Sequence[Format],
        synchronous: Synchronous,
        desk: "Callable[[sqlite3.Connection], Desk]",
    ) -> None:
        several = (layouts,) if isinstance(layouts, Format) else layouts
        self._connect = lambda: connect(path, several, synchronous)
        self._make_desk = desk
        self._connection: sqlite3.Connection | None = None
        super().__init__(path, " and ".join(layout.subject for layout in several))

    def _carry_out(self, batch: list[Job]) -> list[Answer]:
        import sqlite3

        try:
            return self._transact(batch)
        except (sqlite3.Error, OSError, OverflowError) as error:
            told = explained(self._place, error)
        except VegaError as error:
            told = error
        self._disconnect()
        return [Answer(job.caller, error=told) for job in batch]

    def _transact(self, batch: list[Job]) -> list[Answer]:
        """Takes the write lock at once: a lock taken later could find its reads outdated."""
        if self._connection is None:
            self._connection = self._connect()
            self._desk = self._make_desk(self._connection)
        self._connection.execute("BEGIN IMMEDIATE")
        self._desk.begin()
        answers = [answered(self._desk, job) for job in batch]
        self._desk.flush()
        self._connection.execute("COMMIT")
        return answers

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
