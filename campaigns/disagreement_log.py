"""Every commit of a ledger, read from outside: what each transaction changed, in order.

SQLite keeps each committed page in its write-ahead log, and a reader that stays open prevents the
log from being reset. So the log holds every state of the file, which plain `sqlite3` opens. On
PostgreSQL a trigger copies each changed row. It runs while the transaction holds its locks, so two
transactions on one counter are copied in the order of their commits.
"""

import json
import sqlite3
import struct
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from psycopg import sql
from tests.store.postgres import connected

__all__ = ["Commit", "PostgresLog", "Row", "SqliteLog", "Watch"]

Row = dict[str, Any]
TABLES = {
    "claims": "id, scope, holder, amount, counted_in, state, charged",
    "limits": "id, rules",
    "scopes": "id, parent, is_part, settled, reserved",
    "counters": "id, settled, reserved",
}
CHANGED = ("claims", "limits")
"""The tables whose changes are told; of the others only the last state is read."""
_POLL_S = 0.002
_LATE_MS = 300
"""A transaction on PostgreSQL is committed no later than this after its rows were copied."""


class Commit(NamedTuple):
    """The rows that one transaction wrote, as (table, id, old row, new row), and when: after
    `since_ms` and not after `until_ms`, by the clock of the machine."""

    since_ms: float
    until_ms: float
    rows: list[tuple[str, str, Row | None, Row | None]]


class Watch(Protocol):
    """Watches a ledger from before the first client until after the last."""

    def commits(self) -> list[Commit]:
        """Return all commits, and stop watching."""
        ...

    def table(self, name: str) -> list[Row]:
        """Return the rows of a table as they are now."""
        ...


class SqliteLog:
    """Watches a ledger in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._wal = path, path.with_name(f"{path.name}-wal")
        self._reader = sqlite3.connect(_uri(path), uri=True, isolation_level=None)
        self._reader.execute("BEGIN")
        self._reader.execute("SELECT count(*) FROM claims").fetchall()
        self._sizes: list[tuple[int, float, float]] = []
        self._is_over = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)
        self._polling.start()

    def _poll(self) -> None:
        """Note when the log has grown: it carries no times."""
        known, before = -1, time.time()
        while not self._is_over.is_set():
            size = self._wal.stat().st_size if self._wal.exists() else 0
            now = time.time()
            if size != known:
                self._sizes.append((size, 1000 * before, 1000 * now))
                known = size
            before = now
            self._is_over.wait(_POLL_S)

    def commits(self) -> list[Commit]:
        """Return all commits, and stop watching."""
        self._is_over.set()
        self._polling.join()
        end = 1000 * time.time()
        sizes = [size for size, _, _ in self._sizes]
        old: dict[str, dict[str, Row]] = {table: {} for table in CHANGED}
        found: list[Commit] = []
        for offset, image in _states(self._path.read_bytes(), self._wal.read_bytes()):
            new = _tables_of(image)
            rows = [
                (table, id_, old[table].get(id_), new[table].get(id_))
                for table in CHANGED
                for id_ in {**old[table], **new[table]}
                if old[table].get(id_) != new[table].get(id_)
            ]
            old = new
            if rows:
                at = bisect_left(sizes, offset)
                _, since, until = self._sizes[at] if at < len(sizes) else (0, end, end)
                found.append(Commit(since, until, rows))
        self._reader.close()
        return found

    def table(self, name: str) -> list[Row]:
        """Return the rows of a table as they are now."""
        with closing(sqlite3.connect(_uri(self._path), uri=True)) as file:
            return _rows(file, name)


def _uri(path: Path) -> str:
    return f"file:{path}?mode=ro"


def _states(data: bytes, log: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the file as each commit leaves it, with the end of the commit in the log."""
    _, _, page, _, *salts = struct.unpack(">6I", log[:24])
    pages = {1 + at // page: data[at : at + page] for at in range(0, len(data), page)}
    for offset in range(32, len(log), 24 + page):
        number, size, *given = struct.unpack(">4I", log[offset : offset + 16])
        if given != salts:
            return
        pages[number] = log[offset + 24 : offset + 24 + page]
        if size:
            image = bytearray(b"".join(pages[at] for at in range(1, size + 1)))
            image[18:20] = b"\1\1"  # a file in memory has no write-ahead log
            yield offset + 24 + page, bytes(image)


def _tables_of(image: bytes) -> dict[str, dict[str, Row]]:
    with closing(sqlite3.connect(":memory:")) as file:
        file.deserialize(image)
        return {table: {row["id"]: row for row in _rows(file, table)} for table in CHANGED}


def _rows(file: sqlite3.Connection, table: str) -> list[Row]:
    cursor = file.execute(f"SELECT {TABLES[table]} FROM {table}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


_COPIES = """
    CREATE TABLE copies (
        number BIGINT GENERATED ALWAYS AS IDENTITY, moved BIGINT DEFAULT txid_current(),
        began TIMESTAMPTZ DEFAULT transaction_timestamp(),
        copied TIMESTAMPTZ DEFAULT clock_timestamp(),
        of TEXT NOT NULL, id TEXT NOT NULL, old JSONB, new JSONB
    );
    CREATE FUNCTION copy_row() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        INSERT INTO copies (of, id, old, new) VALUES (
            TG_TABLE_NAME, CASE TG_OP WHEN 'DELETE' THEN OLD.id ELSE NEW.id END,
            CASE TG_OP WHEN 'INSERT' THEN NULL ELSE to_jsonb(OLD) END,
            CASE TG_OP WHEN 'DELETE' THEN NULL ELSE to_jsonb(NEW) END
        );
        RETURN NULL;
    END $$;
"""
_TRIGGER = """
    CREATE TRIGGER copied AFTER INSERT OR UPDATE OR DELETE ON {}
    FOR EACH ROW EXECUTE FUNCTION copy_row();
"""
_COPIED = """
    SELECT moved, extract(epoch FROM began) * 1000, extract(epoch FROM copied) * 1000, of, id, old,
    new FROM copies ORDER BY number
"""


class PostgresLog:
    """Watches a ledger on a server."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        triggers = "".join(_TRIGGER.format(table) for table in CHANGED)
        with connected() as server:
            server.execute(_path_of(schema))
            server.execute((_COPIES + triggers).encode())

    def commits(self) -> list[Commit]:
        """Return all commits."""
        with connected() as server:
            server.execute(_path_of(self._schema))
            copied = server.execute(_COPIED).fetchall()
        found: dict[int, Commit] = {}
        for moved, began, stamp, table, id_, old, new in copied:
            commit = found.pop(moved, Commit(float(began), 0.0, []))
            commit.rows.append((table, id_, old, new))
            found[moved] = commit._replace(until_ms=float(stamp) + _LATE_MS)
        return [*found.values()]

    def table(self, name: str) -> list[Row]:
        """Return the rows of a table as they are now."""
        with connected() as server:
            server.execute(_path_of(self._schema))
            query = f"SELECT to_jsonb(row) FROM (SELECT {TABLES[name]} FROM {name}) AS row"
            return [row for (row,) in server.execute(query.encode()).fetchall()]


def _path_of(schema: str) -> sql.Composed:
    return sql.SQL("SET search_path TO {}").format(sql.Identifier(schema))


def names_in(text: str) -> list[str]:
    """Return the windows that a claim counts in."""
    return [str(name) for name in json.loads(text)]
