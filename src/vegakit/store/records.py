"""Records of tables that nodes read and write by key, one transaction a run: in memory, in a SQLite
file, on a PostgreSQL server.

| backend    | what keeps runs apart                                                              |
|------------|------------------------------------------------------------------------------------|
| memory     | one run at a time                                                                  |
| SQLite     | the write lock of the file, taken before anything is read                          |
| PostgreSQL | a lock on each row that is read, in the order of the keys; a run that meets others |
|            | in a circle, or makes a row that somebody else made, is undone and run again       |

The tables are those of the user, with a column a field. Beside them stands one of ours: the outcome
of each request that has a key, written in the transaction of what it changed, so that neither is
ever there without the other.
"""

import json
import re
import threading
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import deepcopy
from decimal import Decimal
from functools import lru_cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Protocol

from vegakit.contracts import (
    SCALARS,
    BooleanType,
    BytesType,
    DecimalType,
    IntegerType,
    NodeType,
    NodeValueError,
    RecordType,
    StateRecords,
    TimestampType,
    read_value,
    show_value,
)
from vegakit.errors import StoreError
from vegakit.store.sqlite.connection import BUSY_S, connect, sqlite_error
from vegakit.store.thread import Format

if TYPE_CHECKING:
    import sqlite3

    from vegakit.store.postgres.connection import PostgresSession

_KEPT = """CREATE TABLE node_outcomes (
    node TEXT NOT NULL, request TEXT NOT NULL, digest TEXT NOT NULL, outcome TEXT NOT NULL,
    PRIMARY KEY (node, request)
)"""
_OUTCOMES = Format("outcomes of nodes", 1, (_KEPT,))
_CLAIM = "INSERT INTO node_outcomes VALUES (?, ?, ?, '') ON CONFLICT DO NOTHING"
_FIND = "SELECT digest, outcome FROM node_outcomes WHERE node = ? AND request = ?"
_KEEP = "UPDATE node_outcomes SET outcome = ? WHERE node = ? AND request = ?"
_BOUND_NAME = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")
_NOT_MEANT = ("40001", "40P01", "23505")
"""Not serializable, deadlock, and a row that somebody else made first."""
_CUT_OFF = "57014"


class RecordsConflict(StoreError):  # noqa: N818  (an outcome: run it again)
    """Another run got in the way; this one was undone and can be run again."""


class RecordsTimeout(StoreError):  # noqa: N818  (an outcome of a run)
    """The transaction took longer than it may, and was undone."""


class RecordTransaction(ABC):
    """One transaction. What was read or written stays known here, since nobody else can change it
    until the end; it is kept only if `is_kept` is set before."""

    def __init__(self) -> None:
        self.is_kept = False
        self._known: dict[tuple[str, Any], dict[str, Any] | None] = {}

    def load(self, state: StateRecords, keys: Collection[Any]) -> Mapping[Any, dict[str, Any]]:
        """Return the records that there are, by key, and lock them in the order of their keys."""
        unknown = [key for key in keys if (state.table, key) not in self._known]
        if unknown:
            found = self._select(state, unknown)
            self._known |= {(state.table, key): found.get(key) for key in unknown}
        known = ((key, self._known[state.table, key]) for key in keys)
        return {key: record for key, record in known if record is not None}

    def update(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None:  # noqa: ANN401
        """Write a record that there is."""
        self._update(state, key, record)
        self._known[state.table, key] = record

    def insert(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None:  # noqa: ANN401
        """Write a record that there was not."""
        self._insert(state, record)
        self._known[state.table, key] = record

    @abstractmethod
    def _select(self, state: StateRecords, keys: list[Any]) -> dict[Any, dict[str, Any]]: ...

    @abstractmethod
    def _update(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None: ...  # noqa: ANN401

    @abstractmethod
    def _insert(self, state: StateRecords, record: dict[str, Any]) -> None: ...

    @abstractmethod
    def query(
        self, text: str, values: Mapping[str, Any], kinds: Mapping[str, NodeType], row: RecordType
    ) -> list[dict[str, Any]] | None:
        """Return the rows of a statement that only reads, or None if it cannot be carried out."""

    @abstractmethod
    def claim(self, node: str, request: str, digest: str) -> tuple[str, str] | None:
        """Take a request for this transaction; whoever has it already is waited for. Return the
        digest and the outcome of one that was carried out."""

    @abstractmethod
    def keep(self, node: str, request: str, outcome: str) -> None:
        """Write the outcome of a request that was claimed."""


class RecordStore(Protocol):
    """A place of records."""

    def transaction(self, timeout_s: float) -> AbstractContextManager[RecordTransaction]:
        """Begin a transaction, and end it with the block: kept if it says so, undone otherwise.
        Raises `RecordsConflict` if it is to be run again."""
        ...

    def put(self, state: StateRecords, records: Sequence[Mapping[str, Any]]) -> None:
        """Make the table if it is not there, and write records over those of the same keys."""
        ...

    def all_records(self, state: StateRecords) -> list[dict[str, Any]]:
        """Return all records, in the order of their keys."""
        ...

    def close(self) -> None: ...


def open_records(place: str | PathLike[str] | None) -> RecordStore:
    """Return the records in a file or on the server of a URL; in memory without a place."""
    if place is None:
        return MemoryRecords()
    if fspath(place).startswith(("postgresql://", "postgres://")):
        return PostgresRecords(fspath(place))
    return SqliteRecords(fspath(place))


# In memory.


class _MemoryTransaction(RecordTransaction):
    def __init__(self, tables: dict[str, dict[Any, dict[str, Any]]]) -> None:
        super().__init__()
        self.tables = deepcopy(tables)

    def _select(self, state: StateRecords, keys: list[Any]) -> dict[Any, dict[str, Any]]:
        table = self.tables.get(state.table, {})
        return {key: table[key] for key in keys if key in table}

    def _update(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None:  # noqa: ANN401
        self.tables.setdefault(state.table, {})[key] = record

    def _insert(self, state: StateRecords, record: dict[str, Any]) -> None:
        self._update(state, record[state.key], record)

    def query(
        self, text: str, values: Mapping[str, Any], kinds: Mapping[str, NodeType], row: RecordType
    ) -> list[dict[str, Any]] | None:
        """Refuse: there is no SQL in memory."""
        raise StoreError(
            "a step with sql needs a database; type: --state FILE.db, or --state postgresql://…"
        )

    def claim(self, node: str, request: str, digest: str) -> tuple[str, str] | None:
        requests = self.tables.setdefault("", {})
        if (node, request) in requests:
            found = requests[node, request]
            return found["digest"], found["outcome"]
        requests[node, request] = {"digest": digest, "outcome": ""}
        return None

    def keep(self, node: str, request: str, outcome: str) -> None:
        self.tables[""][node, request]["outcome"] = outcome


class MemoryRecords:
    """Records of this process, gone with it."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Any, dict[str, Any]]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self, timeout_s: float) -> Generator[RecordTransaction]:
        """Begin a transaction on a copy, which takes the place of the records if it is kept."""
        with self._lock:
            made = _MemoryTransaction(self._tables)
            yield made
            if made.is_kept:
                self._tables = made.tables

    def put(self, state: StateRecords, records: Sequence[Mapping[str, Any]]) -> None:
        """Write records."""
        table = self._tables.setdefault(state.table, {})
        table |= {record[state.key]: record for record in _checked(state, records)}

    def all_records(self, state: StateRecords) -> list[dict[str, Any]]:
        """Return all records, in the order of their keys."""
        table = self._tables.get(state.table, {})
        return [table[key] for key in sorted(table)]

    def close(self) -> None:
        """There is nothing to close."""


def _checked(state: StateRecords, records: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    for record in records:
        yield show_value(state.record, read_value(state.record, record, state.name))


# In SQL: the statements are the same, the types of columns and what locks a row are not.


class SqlDialect:
    """The types of columns, and the way in which values go in and come out."""

    columns: Mapping[type, str] = {
        IntegerType: "BIGINT",
        BooleanType: "INTEGER",
        BytesType: "BLOB",
    }
    text = "TEXT"
    row_lock = ""

    def column(self, kind: NodeType) -> str:
        """Return the type of a column."""
        return self.columns.get(type(kind), self.text)

    def given(self, kind: NodeType, value: Any) -> Any:  # noqa: ANN401
        """Return a value of JSON as a statement takes it."""
        if isinstance(kind, BytesType):
            return b64decode(value)
        return value if isinstance(kind, SCALARS) else json.dumps(value)

    def taken(self, kind: NodeType, raw: Any, where: str) -> Any:  # noqa: ANN401
        """Return the value of a column as JSON has it, or raise `NodeValueError`."""
        if isinstance(kind, BooleanType) and raw in (0, 1):
            raw = bool(raw)
        elif not isinstance(kind, SCALARS) and isinstance(raw, str):
            raw = json.loads(raw)
        return show_value(kind, read_value(kind, raw, where))


class _PostgresDialect(SqlDialect):
    columns: Mapping[type, str] = {
        IntegerType: "BIGINT",
        BooleanType: "BOOLEAN",
        BytesType: "BYTEA",
        TimestampType: "TIMESTAMPTZ",
    }
    text = 'TEXT COLLATE "C"'
    row_lock = " FOR UPDATE"

    def column(self, kind: NodeType) -> str:
        if isinstance(kind, DecimalType):
            return f"NUMERIC(38, {kind.scale})"
        return super().column(kind)

    def given(self, kind: NodeType, value: Any) -> Any:  # noqa: ANN401
        return Decimal(value) if isinstance(kind, DecimalType) else super().given(kind, value)


class _Statements:
    """The statements about the records of a state. Names are those that a node may have: small
    letters, digits and `_`, so that quotes around them are enough."""

    def __init__(self, dialect: SqlDialect, state: StateRecords) -> None:
        self.names = [name for name, _ in state.record.fields]
        columns = ", ".join(f'"{name}"' for name in self.names)
        table, key = f'"{state.table}"', f'"{state.key}"'
        self.select = (
            f"SELECT {columns} FROM {table} WHERE {key} IN ({{}}) "  # noqa: S608  (names, see above)
            f"ORDER BY {key}{dialect.row_lock}"
        )
        self.everything = f"SELECT {columns} FROM {table} ORDER BY {key}"  # noqa: S608
        marks = ", ".join("?" * len(self.names))
        self.insert = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
        changed = ", ".join(f'"{name}" = ?' for name in self.names)
        self.update = f"UPDATE {table} SET {changed} WHERE {key} = ?"  # noqa: S608
        others = ", ".join(
            f'"{name}" = excluded."{name}"' for name in self.names if name != state.key
        )
        self.put = f"{self.insert} ON CONFLICT ({key}) DO UPDATE SET {others}"
        kinds = ", ".join(
            f'"{name}" {dialect.column(kind)} NOT NULL' for name, kind in state.record.fields
        )
        self.create = f"CREATE TABLE IF NOT EXISTS {table} ({kinds}, PRIMARY KEY ({key}))"


_statements = lru_cache(maxsize=256)(_Statements)


class _SqlTransaction(RecordTransaction):
    def __init__(self, connection: Any, dialect: SqlDialect) -> None:  # noqa: ANN401  (of two kinds)
        super().__init__()
        self._execute, self._dialect = connection.execute, dialect

    def _row(self, state: StateRecords, raw: Sequence[Any]) -> dict[str, Any]:
        try:
            return {
                name: self._dialect.taken(kind, value, f"{state.table}.{name}")
                for (name, kind), value in zip(state.record.fields, raw, strict=True)
            }
        except (NodeValueError, ValueError) as error:
            raise StoreError(f"a row does not fit the node: {error}; fix that row") from None

    def _given(self, state: StateRecords, record: Mapping[str, Any]) -> list[Any]:
        return [self._dialect.given(kind, record[name]) for name, kind in state.record.fields]

    def _select(self, state: StateRecords, keys: list[Any]) -> dict[Any, dict[str, Any]]:
        select = _statements(self._dialect, state).select.format(", ".join("?" * len(keys)))
        rows = self._execute(select, keys).fetchall()
        return {record[state.key]: record for record in (self._row(state, raw) for raw in rows)}

    def _update(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None:  # noqa: ANN401
        statement = _statements(self._dialect, state).update
        self._execute(statement, [*self._given(state, record), key])

    def _insert(self, state: StateRecords, record: dict[str, Any]) -> None:
        self._execute(_statements(self._dialect, state).insert, self._given(state, record))

    def claim(self, node: str, request: str, digest: str) -> tuple[str, str] | None:
        if self._execute(_CLAIM, (node, request, digest)).rowcount == 1:
            return None
        return self._execute(_FIND, (node, request)).fetchone()

    def keep(self, node: str, request: str, outcome: str) -> None:
        self._execute(_KEEP, (outcome, node, request))

    def put(self, state: StateRecords, records: Iterable[Mapping[str, Any]]) -> None:
        """Make the table if it is not there, and write records."""
        statements = _statements(self._dialect, state)
        self._execute(statements.create)
        for record in _checked(state, records):
            self._execute(statements.put, self._given(state, record))

    def all_records(self, state: StateRecords) -> list[dict[str, Any]]:
        """Return all records, in the order of their keys."""
        rows = self._execute(_statements(self._dialect, state).everything).fetchall()
        return [self._row(state, raw) for raw in rows]

    def query(
        self, text: str, values: Mapping[str, Any], kinds: Mapping[str, NodeType], row: RecordType
    ) -> list[dict[str, Any]] | None:
        given = {name: self._dialect.given(kinds[name], value) for name, value in values.items()}
        found = self._read_only(text, given)
        if found is None:
            return None
        names, rows = found
        try:
            return [
                {
                    name: self._dialect.taken(kind, dict(zip(names, raw, strict=True))[name], name)
                    for name, kind in row.fields
                }
                for raw in rows
            ]
        except (NodeValueError, ValueError, KeyError):
            return None

    def _read_only(
        self, text: str, values: Mapping[str, Any]
    ) -> tuple[list[str], list[Any]] | None:
        raise NotImplementedError


def _names_of(cursor: Any) -> list[str]:  # noqa: ANN401  (of two kinds)
    return [column[0] for column in cursor.description or ()]


class _SqlRecords:
    """What the records of a file and of a server have in common."""

    def transaction(self, timeout_s: float) -> AbstractContextManager[_SqlTransaction]:
        """Begin a transaction."""
        raise NotImplementedError

    def put(self, state: StateRecords, records: Sequence[Mapping[str, Any]]) -> None:
        """Make the table if it is not there, and write records over those of the same keys."""
        with self.transaction(60) as made:
            made.put(state, records)
            made.is_kept = True

    def all_records(self, state: StateRecords) -> list[dict[str, Any]]:
        """Return all records, in the order of their keys."""
        with self.transaction(60) as made:
            return made.all_records(state)

    def close(self) -> None:
        """Close what is open."""


class _SqliteTransaction(_SqlTransaction):
    def _read_only(
        self, text: str, values: Mapping[str, Any]
    ) -> tuple[list[str], list[Any]] | None:
        import sqlite3

        self._execute("PRAGMA query_only = ON")
        try:
            cursor = self._execute(text, values)
            return _names_of(cursor), cursor.fetchall()
        except sqlite3.Error:
            return None
        finally:
            self._execute("PRAGMA query_only = OFF")


class SqliteRecords(_SqlRecords):
    """Records in a SQLite file. Each transaction has a connection of its own: a connection belongs
    to its thread, and runs are carried out by many."""

    def __init__(self, path: str) -> None:
        self._path = path

    @contextmanager
    def transaction(self, timeout_s: float) -> Generator[_SqlTransaction]:
        """Begin a transaction with the write lock: one taken later could find its reads outdated,
        and two that wait for each other's."""
        import sqlite3

        with ExitStack() as hold:
            try:
                connection = connect(self._path, (_OUTCOMES,), "full", hold)
                hold.callback(connection.close)
                self._begin(connection, timeout_s)
                made = _SqliteTransaction(connection, SqlDialect())
                yield made
                connection.execute("COMMIT" if made.is_kept else "ROLLBACK")
            except (sqlite3.Error, OSError, OverflowError) as error:
                raise _sqlite_told(self._path, error) from error

    def _begin(self, connection: "sqlite3.Connection", timeout_s: float) -> None:
        connection.execute(f"PRAGMA busy_timeout = {int(min(timeout_s, BUSY_S) * 1000)}")
        connection.execute("BEGIN IMMEDIATE")


def _sqlite_told(path: str, error: Exception) -> StoreError:
    if "no such table" in str(error):
        return StoreError(
            f"{path} has not the tables of this node: {error}; make them, or give the first "
            "records with --records"
        )
    return sqlite_error(path, error)


class _PostgresTransaction(_SqlTransaction):
    def __init__(self, session: "PostgresSession", dialect: SqlDialect) -> None:
        super().__init__(session, dialect)
        self._connection = session.connection

    def _read_only(
        self, text: str, values: Mapping[str, Any]
    ) -> tuple[list[str], list[Any]] | None:
        """Read within a savepoint: only there the transaction may be made one that reads, and an
        error undoes the statement alone."""
        import psycopg

        self._execute("SAVEPOINT query")
        try:
            self._execute("SET TRANSACTION READ ONLY")
            bound = _BOUND_NAME.sub(r"%(\1)s", text)
            cursor = self._connection.execute(bound.encode(), dict(values))
            found = _names_of(cursor), cursor.fetchall()
            self._execute("RELEASE SAVEPOINT query")
        except psycopg.Error as error:
            if error.sqlstate in (*_NOT_MEANT, _CUT_OFF) or self._connection.broken:
                raise
            self._execute("ROLLBACK TO SAVEPOINT query")
            return None
        return found


class PostgresRecords(_SqlRecords):
    """Records on a PostgreSQL server. Rows are locked as they are read, so that what a run decided
    by is still so when it writes."""

    dialect: SqlDialect = _PostgresDialect()

    def __init__(self, place: str) -> None:
        from vegakit.store.postgres.connection import server_of

        self._server = server_of(place)
        self._idle = list["PostgresSession"]()

    @contextmanager
    def transaction(self, timeout_s: float) -> Generator[_SqlTransaction]:
        """Begin a transaction. Its connection is used again, unless anything went wrong on it."""
        import psycopg

        try:
            session = self._session()
        except (psycopg.Error, OSError) as error:
            raise self._told(error) from error
        is_ending = False
        try:
            session.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            session.execute(f"SET LOCAL statement_timeout = {max(1, int(timeout_s * 1000))}")
            made = _PostgresTransaction(session, self.dialect)
            yield made
            is_ending = made.is_kept
            session.execute("COMMIT" if made.is_kept else "ROLLBACK")
        except (psycopg.Error, OSError, UnicodeError) as error:
            session.connection.close()
            if is_ending and getattr(error, "sqlstate", None) is None:
                raise StoreError(
                    f"the connection to {self._server.name} was lost while a run was being kept; "
                    "whether it was is not known: run it again with the same key"
                ) from error
            raise self._told(error) from error
        except BaseException:
            session.connection.close()
            raise
        self._idle.append(session)

    def _session(self) -> "PostgresSession":
        from vegakit.store.postgres.connection import PostgresSession

        with suppress(IndexError):
            while True:
                if not (found := self._idle.pop()).connection.closed:
                    return found
        return PostgresSession(self._server, (_OUTCOMES,))

    def _told(self, error: Exception) -> StoreError:
        from vegakit.store.postgres.connection import postgres_error

        code, said = getattr(error, "sqlstate", None), str(error).partition("\n")[0]
        if code in _NOT_MEANT:
            return RecordsConflict(f"another run got in the way: {said}")
        if code == _CUT_OFF:
            return RecordsTimeout(f"a statement took longer than the run may: {said}")
        if code == "42P01":
            return StoreError(
                f"{self._server.name} has not the tables of this node: {said}; make them, or give "
                "the first records with --records"
            )
        return postgres_error(self._server.name, error)

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().connection.close()
