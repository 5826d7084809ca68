"""A PostgreSQL server that several machines share: how it is reached, what goes wrong there, and
the thread that works on it.

Each subject has its own tables and its own row in `format_versions`, all in one schema.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

from vegakit.errors import SettingsError, StoreError, VegaError
from vegakit.records import digest128
from vegakit.store.thread import Format, Job, JobResult, StoreThread, create_tables, run_job

if TYPE_CHECKING:
    import psycopg


_Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

LOCK_S = 10
_SETTINGS = {"connect_timeout": 10, "tcp_user_timeout": 20_000, "application_name": "vega"}
_ALIVE = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 3}
"""After 25 s the server gives up a client whose machine is gone, and with it the runs it held."""
_ADVICE = {
    "": "start the server, or check host, port and network",
    "08": "start the server, or check host, port and network",
    "22003": "an amount is above nine billion dollars",
    "22": "a name or text holds what PostgreSQL cannot keep; leave it out",
    "28": "check user and password",
    "3D": "make the database with `createdb`, or name another",
    "40": "others changed the same rows again and again; try again",
    "42501": "give this user the right to use and make tables in the schema",
    "53100": "its disk is full; free some space and try again",
    "53300": "it has too many connections; end some, or raise `max_connections`",
    "54": "a name is too long; keep names below 2,000 bytes",
    "55P03": f"another process has held the rows for {LOCK_S} s; end that process",
    "57P03": "it is starting or stopping; try again in a moment",
}
"""By the code of the error, or how it begins."""


@lru_cache(maxsize=256)
def _translated(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


class PostgresSession:
    """One connection, which belongs to the thread that opens it."""

    def __init__(self, server: "Server", layouts: Sequence[Format]) -> None:
        import psycopg

        self.transactions = 0
        settings: dict[str, Any] = {**_SETTINGS, **server.parameters}
        self.connection: _Connection = psycopg.connect(**settings, autocommit=True)
        try:
            self._enter(server.schema)
            with self.connection.transaction():
                self.execute("SELECT pg_advisory_xact_lock(?)", (key_lock(server.schema),))
                for layout in layouts:
                    create_tables(self.execute, server.name, layout)
        except BaseException:
            self.connection.close()
            raise

    def execute(self, statement: str, values: Sequence[object] = ()) -> "psycopg.Cursor[Any]":
        """Run a statement with `?` for its values. Inside a pipeline it is only sent: the cursor
        waits for the reply when it is read."""
        return self.connection.execute(_translated(statement), values)

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement on each of the rows."""
        self.connection.cursor().executemany(_translated(statement), rows)

    def _enter(self, schema: str) -> None:
        from psycopg import sql

        name = sql.Identifier(schema)
        with self.connection.transaction():
            self.execute("SELECT pg_advisory_xact_lock(?)", (key_lock(schema),))
            known = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
            if self.execute(known, (schema,)).fetchone() is None:
                self.connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        self.connection.execute(sql.SQL("SET search_path TO {}").format(name))
        self.execute(f"SET lock_timeout TO '{LOCK_S}s'")
        for name, value in _ALIVE.items():
            self.execute(f"SET {name} TO {value}")

    def lock(self, keys: set[int]) -> None:
        """Hold these locks until the transaction ends. They are taken in one order, so that nobody
        waits in a circle."""
        if keys:
            self.execute(
                "SELECT pg_advisory_xact_lock(key) FROM unnest(?::bigint[]) AS key", (sorted(keys),)
            )


def single_value(cursor: "psycopg.Cursor[Any]") -> Any:  # noqa: ANN401  (whatever its column holds)
    """Return the one column of the first row; None if there is no row."""
    (value,) = cursor.fetchone() or (None,)
    return value


def key_lock(*names: str) -> int:
    """Return the number by which PostgreSQL knows a lock on what has this name."""
    return int(digest128(list(names))[:15], 16)


class Server(NamedTuple):
    """Says where a server is reached, and the schema that our tables are in."""

    parameters: dict[str, Any]
    schema: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        """Return what messages call it: without user and password."""
        host, port = self.parameters.get("host", "localhost"), self.parameters.get("port", 5432)
        database = self.parameters.get("dbname", "")
        return f"schema {self.schema!r} of PostgreSQL at {host}:{port}/{database}"


def server_of(dsn: str, schema: str | None = None) -> Server:
    """Return the server of a URL or of libpq's `key=value` text. The schema may stand in the URL as
    `?schema=…`, which libpq does not know; it is `vega` if nobody names one."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise SettingsError(
            f"PostgreSQL is reached by psycopg, which is not installed ({error}); "
            "type: pip install 'vegakit[postgres]'"
        ) from error
    named = ""
    if "://" in dsn:
        dsn, _, query = dsn.partition("?")
        options = [option for option in query.split("&") if option]
        ours = [option for option in options if option.startswith("schema=")]
        named = unquote(ours[-1].partition("=")[2]) if ours else ""
        rest = "&".join(option for option in options if option not in ours)
        dsn += f"?{rest}" if rest else ""
    try:
        known = conninfo_to_dict(dsn)
    except ProgrammingError:
        known = {"host": "@"}
    # A `/` or `@` of a password that is not escaped moves the rest of it into host or database.
    if any("@" in str(known.get(part, "")) for part in ("host", "port", "dbname")):
        # Neither what was written nor what libpq says of it is shown: it may quote the password.
        raise SettingsError(
            "the address of the PostgreSQL server cannot be read; write it like "
            "postgresql://user@host:5432/database, with characters such as @ / ? # % in a user or "
            "password as %40 %2F %3F %23 %25, and only options that libpq knows"
        ) from None
    return Server(known, schema or named or "vega")


def postgres_error(place: str, error: Exception) -> StoreError:
    """Return what PostgreSQL says, and what to do about it."""
    code = getattr(error, "sqlstate", None) or ("22" if isinstance(error, UnicodeError) else "")
    found = (_ADVICE[code[:n]] for n in (5, 2) if code[:n] in _ADVICE)
    hint = next(found, "check the server's log")
    told = " ".join(str(error).split())
    return StoreError(f"cannot use {place}: {told}; {hint}")


# The one thread that works on a PostgreSQL server.
#
#     BEGIN, lock all that the batch touches in one order, work it out, write, COMMIT
#
# Statements go out without waiting for the answers of those before (pipeline mode), so a batch
# costs about two round trips however long it is. A transaction that others got in the way of is
# carried out again. After a lost connection the server is asked whether the transaction was
# committed.


class _Locking(Protocol):
    def locked(self, lock_set: Sequence[Any]) -> AbstractContextManager[None]:
        """For the rest of the transaction; what was put off is written on leaving."""
        ...


HandleT = TypeVar("HandleT", bound=_Locking)

_RERUNS = {"40001": 10, "40P01": 10, "23505": 10}
"""Not serializable, deadlock, and a row that somebody else made first."""
_RECONNECTS = 1
_DOUBT_S, _DOUBT_POLL_S = 10.0, 0.02


class PostgresThread(StoreThread[HandleT]):
    """The thread of a server. `handle` is made anew with each connection, and may refuse it by
    raising `StoreError`."""

    def __init__(
        self,
        server: Server,
        layouts: Format | Sequence[Format],
        handle: Callable[[PostgresSession], HandleT],
    ) -> None:
        several = (layouts,) if isinstance(layouts, Format) else layouts
        self._connect = lambda: PostgresSession(server, several)
        self._make_handle = handle
        self._session: PostgresSession | None = None
        self._in_doubt: tuple[str, list[JobResult]] | None = None
        """Being committed: the transaction's number, and what it answers."""
        super().__init__(server.name, " and ".join(layout.subject for layout in several))

    def _carry_out(self, batch: list[Job]) -> list[JobResult]:
        import psycopg

        tried = 0
        while True:
            try:
                return self._doubted_answers() or self._transact(batch)
            except (psycopg.Error, OSError, UnicodeError) as error:
                self._disconnect()
                if not _is_loss(error):
                    self._in_doubt = None  # the server itself said that it is undone
                if tried < _reruns(error):
                    tried += 1
                    continue
                if isinstance(error, psycopg.DataError | UnicodeError) and len(batch) > 1:
                    return [answer for job in batch for answer in self._carry_out([job])]
                return self._failed(batch, postgres_error(self._place, error))
            except VegaError as error:
                self._disconnect()
                return self._failed(batch, error)

    def _transact(self, batch: list[Job]) -> list[JobResult]:
        session = self._connected()
        session.transactions += 1
        with _pipeline(session.connection):
            session.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            number = session.execute("SELECT pg_current_xact_id()::text")
            with self._handle.locked([job.lock_set for job in batch]):
                answers = [run_job(self._handle, job) for job in batch]
            self._in_doubt = single_value(number), answers
            session.execute("COMMIT")
        self._in_doubt = None
        return answers

    def _doubted_answers(self) -> list[JobResult] | None:
        """Those of a transaction that was being committed when the connection was lost; None if
        it must be carried out again."""
        if self._in_doubt is None:
            return None
        number, answers = self._in_doubt
        session = self._connected()
        for _ in range(int(_DOUBT_S / _DOUBT_POLL_S)):
            status = single_value(session.execute("SELECT pg_xact_status(?::xid8)", (number,)))
            if status != "in progress":
                self._in_doubt = None
                return answers if status == "committed" else None
            time.sleep(_DOUBT_POLL_S)
        raise StoreError(f"the connection to {self._place} was lost")

    def _failed(self, batch: list[Job], told: VegaError) -> list[JobResult]:
        if self._in_doubt is not None:
            self._in_doubt = None
            told = StoreError(
                f"{told}; whether this operation was carried out is not known: look before you "
                "do it again"
            )
        return [JobResult(job.caller, error=told) for job in batch]

    def _connected(self) -> PostgresSession:
        if self._session is None:
            self._session = self._connect()
            self._handle = self._make_handle(self._session)
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.connection.close()
            self._session = None


class PostgresReader(PostgresThread[HandleT]):
    """A thread that only looks, on a connection of its own: it takes no lock and waits for none.
    Each statement sees what is committed by then, so there is no transaction to begin, to number
    and to end."""

    def _transact(self, batch: list[Job]) -> list[JobResult]:
        self._connected()
        return [run_job(self._handle, job) for job in batch]


@contextmanager
def _pipeline(connection: _Connection) -> Generator[None]:
    """Send statements without waiting. Those behind a failed one fail, too: read here, psycopg does
    not log that on its way out."""
    with connection.pipeline() as pipeline:
        try:
            yield
        except Exception:
            with suppress(Exception):
                pipeline.sync()
            raise


def _is_loss(error: Exception) -> bool:
    import psycopg

    code = getattr(error, "sqlstate", None)
    if code is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
    return code.startswith(("08", "57P"))


def _reruns(error: Exception) -> int:
    return _RECONNECTS if _is_loss(error) else _RERUNS.get(getattr(error, "sqlstate", ""), 0)
