"""A PostgreSQL server that several processes share: how it is met, what goes wrong.

Each subject has its own tables and its own row in `format_versions`, all in one schema.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from vegakit.errors import SettingsError, StoreError
from vegakit.records import digest128
from vegakit.store.sqlite_file import Format, lay_out

if TYPE_CHECKING:
    import psycopg

__all__ = ["Session", "explained", "key_lock", "one", "place_of"]

_Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

LOCK_S = 10
_SETTINGS = {"connect_timeout": 10, "tcp_user_timeout": 20_000, "application_name": "vega"}
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


class Session:
    """One connection, which belongs to the thread that opens it."""

    def __init__(self, dsn: str, schema: str, layout: Format) -> None:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        self.transactions = 0
        settings: dict[str, Any] = {**_SETTINGS, **conninfo_to_dict(dsn)}
        self.connection: _Connection = psycopg.connect(**settings, autocommit=True)
        try:
            self._enter(schema)
            with self.connection.transaction():
                self.execute("SELECT pg_advisory_xact_lock(?)", (key_lock(schema),))
                lay_out(self.execute, place_of(dsn, schema), layout)
        except BaseException:
            self.connection.close()
            raise

    def execute(self, statement: str, values: Sequence[object] = ()) -> "psycopg.Cursor[Any]":
        return self.connection.execute(_translated(statement), values)

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
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

    def lock(self, keys: set[int]) -> None:
        """Until the transaction ends; in one order, so that nobody waits in a circle."""
        if keys:
            self.execute(
                "SELECT pg_advisory_xact_lock(key) FROM unnest(?::bigint[]) AS key", (sorted(keys),)
            )


def one(cursor: "psycopg.Cursor[Any]") -> Any:  # noqa: ANN401  (whatever its column holds)
    (value,) = cursor.fetchone() or (None,)
    return value


def key_lock(*names: str) -> int:
    """The number by which PostgreSQL knows a lock on what has this name."""
    return int(digest128(list(names))[:15], 16)


def place_of(dsn: str, schema: str) -> str:
    """For messages: without the password."""
    try:
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise SettingsError(
            f"PostgreSQL is met by psycopg, which is not installed ({error}); "
            "type: pip install 'vegakit[postgres]'"
        ) from error

    known = conninfo_to_dict(dsn)
    host, port = known.get("host", "localhost"), known.get("port", 5432)
    return f"schema {schema!r} of PostgreSQL at {host}:{port}/{known.get('dbname', '')}"


def explained(place: str, error: Exception) -> StoreError:
    code = getattr(error, "sqlstate", None) or ("22" if isinstance(error, UnicodeError) else "")
    found = (_ADVICE[code[:n]] for n in (5, 2) if code[:n] in _ADVICE)
    hint = next(found, "check the server's log")
    told = " ".join(str(error).split())
    return StoreError(f"cannot use {place}: {told}; {hint}")
