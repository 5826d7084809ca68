"""A SQLite file that several processes share: how it is opened, what is in it, what goes wrong.

Each subject (the ledger, the documents) has its own tables and its own row in `format_versions`, so
one file may hold several. The file must be on a local disk: its processes meet in shared memory.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from vegakit.errors import InvalidRecordError, StoreError

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Format", "Synchronous", "connect", "explained", "lay_out"]

Synchronous: TypeAlias = Literal["normal", "full"]
"""Both survive `kill -9`; `full` also keeps the last transactions when the power fails."""

BUSY_S = 10.0
_BUSY_POLL_S = 0.01
_PRIMARY_CODE = 0xFF
_STATEMENTS = 256


class Format(NamedTuple):
    """`upgrades` lead from each older format to the next."""

    subject: str
    version: int
    tables: tuple[str, ...]
    upgrades: Mapping[int, tuple[str, ...]] = {}


def connect(path: str, layout: Format, synchronous: Synchronous) -> "sqlite3.Connection":
    """The connection belongs to the thread that opens it."""
    import sqlite3

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, cached_statements=_STATEMENTS
    )
    try:
        _write_ahead(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("BEGIN IMMEDIATE")
        lay_out(connection.execute, path, layout)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def explained(path: str, error: Exception) -> StoreError:
    import sqlite3

    if isinstance(error, OverflowError):
        return StoreError(f"cannot write {path}: an amount is above nine billion dollars")
    advice = {
        sqlite3.SQLITE_BUSY: f"another process has held it for {BUSY_S:.0f} s; end that process",
        sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
        sqlite3.SQLITE_NOTADB: "it is not a SQLite file; name another file",
        sqlite3.SQLITE_CANTOPEN: "check that it may be written by you and is not a folder",
        sqlite3.SQLITE_READONLY: "it may only be read; make it and its folder writable",
        sqlite3.SQLITE_CORRUPT: "it is damaged; restore a copy of it",
    }
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


def lay_out(execute: Callable[..., Any], place: str, layout: Format) -> None:
    """In a transaction that nobody else may lay out beside."""
    execute(
        "CREATE TABLE IF NOT EXISTS format_versions"
        " (subject TEXT PRIMARY KEY, format_version INTEGER NOT NULL)"
    )
    found = execute(
        "SELECT format_version FROM format_versions WHERE subject = ?", (layout.subject,)
    ).fetchone()
    if found is None:
        _change(execute, layout, layout.version, layout.tables)
        return
    version = int(found[0])
    while version in layout.upgrades:
        _change(execute, layout, version + 1, layout.upgrades[version])
        version += 1
    if version != layout.version:
        remedy = "update vegakit" if version > layout.version else "use the vegakit that wrote it"
        raise InvalidRecordError(
            f"{place} holds the {layout.subject} in format {version}, but this vegakit reads "
            f"format {layout.version}; {remedy}, or name another place"
        )


def _change(
    execute: Callable[..., Any], layout: Format, version: int, steps: tuple[str, ...]
) -> None:
    for step in steps:
        execute(step)
    execute("DELETE FROM format_versions WHERE subject = ?", (layout.subject,))
    execute("INSERT INTO format_versions VALUES (?, ?)", (layout.subject, version))
