"""The ledger on a PostgreSQL server that any number of processes on any machines share.

A transaction locks the scopes that it touches, roots first and by name, then claims and leases. All
that moves money moves its root too, so whoever holds the root is alone in everything below it, and
trees with different roots do not wait for each other. `kill -9` of a process or of the server loses
no answered operation; what a dead process had reserved comes back when its lease ends.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import chain

from vegakit.store.ledger_rows import Rows, Touched
from vegakit.store.ledger_sql import SqlLedger
from vegakit.store.ledger_tables import CLAIMS, LEASES, SCOPES
from vegakit.store.postgres_server import Session
from vegakit.store.postgres_thread import PostgresThread
from vegakit.store.sqlite_file import Format

__all__ = ["PostgresLedger"]

_LEDGER = Format(
    "ledger",
    1,
    (
        """CREATE TABLE scopes (
            id TEXT COLLATE "C" PRIMARY KEY, parent TEXT COLLATE "C", is_part BOOLEAN NOT NULL,
            rule TEXT NOT NULL, cap BIGINT, is_open BOOLEAN NOT NULL, settled BIGINT NOT NULL,
            reserved BIGINT NOT NULL, held BIGINT NOT NULL, spent BIGINT NOT NULL, period TEXT,
            alerted_percent BIGINT NOT NULL, children BIGINT NOT NULL, claims BIGINT NOT NULL,
            holder TEXT COLLATE "C"
        ) WITH (fillfactor = 50)""",
        "CREATE INDEX scopes_inside ON scopes (parent)",
        "CREATE INDEX open_parts ON scopes (holder) WHERE is_open AND holder IS NOT NULL",
        """CREATE TABLE claims (
            id TEXT COLLATE "C" PRIMARY KEY, scope TEXT COLLATE "C" NOT NULL,
            holder TEXT COLLATE "C" NOT NULL, amount BIGINT NOT NULL, state TEXT NOT NULL,
            charged BIGINT NOT NULL, charged_at_ms BIGINT NOT NULL
        )""",
        "CREATE INDEX live_claims ON claims (holder) WHERE state IN ('reserved', 'sent')",
        'CREATE TABLE leases (id TEXT COLLATE "C" PRIMARY KEY, until_ms BIGINT NOT NULL)',
    ),
)
"""As in SQLite. Room is left beside each scope, whose figures change all the time."""

_AROUND = f"""
    WITH RECURSIVE around AS (
        SELECT id, parent FROM scopes
        WHERE id = ANY(?) OR id IN (SELECT scope FROM claims WHERE id = ANY(?))
        UNION SELECT outer_one.id, outer_one.parent
        FROM scopes AS outer_one JOIN around ON outer_one.id = around.parent
    )
    {SCOPES.select} id IN (SELECT id FROM around) ORDER BY parent IS NOT NULL, id FOR UPDATE
"""  # noqa: S608  (our words)
_ANY = "id = ANY(?) ORDER BY id FOR UPDATE"


class PostgresLedger(SqlLedger):
    def __init__(self, dsn: str, *, schema: str = "vega") -> None:
        super().__init__(PostgresThread(dsn, schema, _LEDGER, _LockedRows))


class _LockedRows(Rows):
    def __init__(self, session: Session) -> None:
        super().__init__(session, lambda: session.transactions, " FOR UPDATE")

    @contextmanager
    def locked(self, touched: Sequence[Touched]) -> Generator[None]:
        self._lock(touched)
        yield
        self.flush()

    def _lock(self, touched: Sequence[Touched]) -> None:
        """Roots before all else. What an operation turns out to need beyond it is locked when it is
        read: never lost, though it might wait in a circle, which the server ends."""
        self.clear()
        scopes = {*chain.from_iterable(each.scopes for each in touched)} - {None}
        claims = sorted({*chain.from_iterable(each.claims for each in touched)})
        holders = sorted({*chain.from_iterable(each.holders for each in touched)})
        for query in [each.query for each in touched if each.query]:
            scopes.update(row[0] for row in self._execute(*query).fetchall())
        around = self._execute(_AROUND, (list(scopes), claims))
        claimed = self._execute(CLAIMS.select + _ANY, (claims,))
        leased = self._execute(LEASES.select + _ANY, (holders,))
        self._scopes.keep(around.fetchall())
        self._claims.keep(claimed.fetchall(), claims)
        self._leases.keep(leased.fetchall(), holders)
        self.good()
