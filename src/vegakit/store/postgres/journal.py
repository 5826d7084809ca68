"""The journal on a PostgreSQL server, with the ledger and the documents of its schema, and its runs
as they are seen from outside.

A run has one owner at a time, by an advisory lock that lasts as long as the connection. Nothing is
written on a connection that does not hold it: after a lost connection the lock is taken again
before anything else, and whoever finds that another process has it meanwhile is refused. So two
owners never write, whatever the network does. Replies are spooled on the machine that got them,
since the server may be away when they come.

Every row is sealed with the secret of the user who wrote it, and `owner` says whose secret that is
without telling it. Users see their own runs only. A row that carries somebody's mark and not their
seal was planted, and is refused.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from vegakit.config import user_data_dir
from vegakit.errors import StoreError
from vegakit.ids import ProgramId
from vegakit.ports import RunRecord, Store
from vegakit.store.conversations import check_name
from vegakit.store.journal import EffectRow, ForgottenRuns, RetentionRule, SqlJournal, forget_ended
from vegakit.store.ledger import SqlLedger
from vegakit.store.ledger_rows import LockSet
from vegakit.store.postgres.connection import (
    PostgresSession,
    PostgresThread,
    Server,
    key_lock,
    postgres_error,
    server_of,
    single_value,
)
from vegakit.store.postgres.stores import DOCUMENTS, LEDGER, LockedRows, PostgresStore
from vegakit.store.runs import (
    SIZE,
    RecordedCall,
    RecordedEffect,
    RunQueries,
    RunSummary,
    recorded_call,
    recorded_effect,
    summaries,
)
from vegakit.store.seals import SEAL_BYTES, RowSeals, user_seal
from vegakit.store.spool import RunFiles
from vegakit.store.thread import Format

if TYPE_CHECKING:
    from datetime import datetime

_LOG = logging.getLogger("vegakit")
_JOURNAL = Format(
    "journal",
    1,
    (
        """CREATE TABLE runs (
            program TEXT COLLATE "C" PRIMARY KEY, ended_ms BIGINT, run TEXT NOT NULL,
            seal BYTEA NOT NULL, owner TEXT NOT NULL DEFAULT current_setting('vega.owner')
        )""",
        "CREATE INDEX runs_of ON runs (owner)",
        """CREATE TABLE effects (
            key TEXT COLLATE "C" PRIMARY KEY, program TEXT COLLATE "C" NOT NULL, path TEXT NOT NULL,
            kind TEXT NOT NULL, idempotent BOOLEAN NOT NULL, digest TEXT NOT NULL,
            claimed_ms BIGINT NOT NULL, outcome TEXT, code TEXT NOT NULL,
            committed BOOLEAN NOT NULL, seal BYTEA NOT NULL
        )""",
        "CREATE INDEX effects_of ON effects (program)",
    ),
)
"""As in SQLite, and who owns a run: one schema serves many users and machines, so that what belongs
to one run is found by an index."""
_LAYOUTS = (_JOURNAL, LEDGER, DOCUMENTS)
_OWN = "owner = current_setting('vega.owner')"
_TAKE = "SELECT pg_try_advisory_lock(?)"
_HELD = """SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32) | objid::bigint = ANY(?)"""
_ME = """SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"""
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = ? AND backend_start = ?"
_TAKE_S, _POLL_S = 2.0, 0.05
"""How long a lock is waited for whose holder was killed: the server has to notice that first."""
_FORGOTTEN = 20


class _Ownership:
    """The locks that a journal holds, taken again on each new connection of its thread."""

    def __init__(self, refused: Callable[[], StoreError]) -> None:
        self.keys: set[int] = set()
        self._refused = refused
        self._session: tuple[int, datetime] | None = None

    def renew(self, session: PostgresSession) -> None:
        """Take every lock again, before anything is written on this connection."""
        before, self._session = self._session, session.execute(_ME).fetchone()
        if not self.keys:
            return
        if before is not None:
            # Our last connection may be lost to us alone: the server would keep its locks until
            # it notices. A process id is used again, so the time of its start is compared, too.
            session.execute(_END, before)
        gives_up = time.monotonic() + _TAKE_S
        while not all(single_value(session.execute(_TAKE, (key,))) for key in self.keys):
            if time.monotonic() > gives_up:
                raise self._refused()
            time.sleep(_POLL_S)


class _JournalHandle(LockedRows):
    """The rows of the ledger, and the effects of the journal that were claimed."""

    def __init__(self, session: PostgresSession, place: str, ownership: _Ownership) -> None:
        super().__init__(session)
        self.execute, self.executemany = session.execute, session.executemany
        self.seals, self.claimed = _seals(place), dict[str, EffectRow]()
        self._session = session
        _enter(session)
        ownership.renew(session)

    @contextmanager
    def locked(self, lock_set: Sequence[LockSet | int | None]) -> Generator[None]:
        """Documents are locked before rows of the ledger, always: nobody waits in a circle. Of the
        journal nothing is locked, since its run has one writer."""
        self._session.lock({lock for lock in lock_set if isinstance(lock, int)})
        self.lock_rows([lock for lock in lock_set if isinstance(lock, LockSet)])
        yield
        self.flush()

    def lock_rows(self, lock_set: Sequence[LockSet]) -> None:
        """Without an operation on the ledger the server is not asked for its rows."""
        if lock_set:
            super().lock_rows(lock_set)
        else:
            self.clear()


class PostgresJournal(SqlJournal[PostgresThread[_JournalHandle]]):
    """A journal on a server, with the ledger and the documents of its schema. `dsn` is a URL, or
    libpq's `key=value` text."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str | None = None,
        shared: bool = False,
        keep: RetentionRule | None = None,
    ) -> None:
        self._dsn, self._server = dsn, server_of(dsn, schema)
        name = self._server.name
        self._ownership = _Ownership(lambda: self._not_owner(self._program))
        thread = PostgresThread(
            self._server,
            _LAYOUTS,
            partial(_JournalHandle, place=name, ownership=self._ownership),
        )
        files = _files(self._server)
        super().__init__(name, thread, files, shared=shared, keep=keep, own=_OWN)

    def ledger(self) -> SqlLedger:
        return SqlLedger(self._thread, owns_thread=False)

    def store(self) -> "SealedStore":
        documents = PostgresStore(self._dsn, schema=self._server.schema, thread=self._thread)
        return SealedStore(documents, self.place)

    async def is_running(self, run: RunRecord) -> bool:
        keys = _keys(self._server, run)
        return await self._thread.do(lambda handle: (_is_held(handle, keys), lambda: None))

    async def tidy(self, now: int) -> None:
        """Forget by age only: `vega gc` also looks at the size, which takes the server a while to
        tell."""
        if self.keep_runs is None:
            return
        work = partial(_forget, self._server, now - self.keep_runs.for_ms, None, at_most=_FORGOTTEN)
        try:
            await asyncio.to_thread(work)
        except StoreError as error:  # the run has ended well: the next one tries again
            _LOG.warning("old runs were not forgotten: %s", error)

    async def _own(self, program: ProgramId) -> None:
        """The file's lock first: it is free at once when its process is dead, so that of two
        processes of this machine one is refused without asking the server."""
        await super()._own(program)
        key = _run_key(self._server, program) if self.shared else _journal_key(self._server)

        def work(handle: _JournalHandle) -> tuple[bool, Callable[[], None]]:
            if key in self._ownership.keys:
                return True, lambda: None
            # Noted before it is taken: if the connection is lost in between, the next one takes it.
            self._ownership.keys.add(key)
            is_ours = bool(single_value(handle.execute(_TAKE, (key,))))
            if not is_ours:
                self._ownership.keys.discard(key)
            return is_ours, lambda: None

        gives_up = time.monotonic() + _TAKE_S
        while not await self._thread.do(work):
            if time.monotonic() > gives_up:
                raise self._not_owner(program)
            await asyncio.sleep(_POLL_S)


class SealedStore:
    """Documents of one user among those of others, each behind its seal: an answer to a question
    that somebody else put there must not be taken for a person's. Implements `ports.Store`."""

    def __init__(self, documents: PostgresStore, place: str) -> None:
        self._documents, self._seals = documents, _seals(place)

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        found = await self._documents.get(_owned(kind), key)
        if found is None:
            return None
        value, version = found
        row = (kind, key, value[SEAL_BYTES:], version, value[:SEAL_BYTES])
        for _, _, plain, _ in self._seals.checked("documents", [row]):
            return plain, version
        return None

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        check_name(kind, key)
        seal = self._seals.of("documents", (kind, key, value, expected + 1))
        return await self._documents.put(_owned(kind), key, seal + value, expected=expected)

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        return await self._documents.delete(_owned(kind), key, expected=expected)

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        return await self._documents.keys(_owned(kind), after=after, limit=limit)

    async def aclose(self) -> None:
        await self._documents.aclose()


def open_stores(dsn: str) -> tuple[Store, ...]:
    """Return the documents beside the user's journal, and those that all users of the schema
    share."""
    own = SealedStore(PostgresStore(dsn), server_of(dsn).name)
    return own, PostgresStore(dsn)


def _owned(kind: str) -> str:
    return f"{_owner()}/{kind}"


def _owner() -> str:
    """The mark of the user's secret: a seal of a fixed text, which tells nothing about it."""
    return user_seal().of(b"owner of a journal").hex()


def _seals(place: str) -> RowSeals:
    remedy = "to start over, name another schema in the URL: ?schema=NAME"
    return RowSeals(place, user_seal, remedy)


def _files(server: Server) -> RunFiles:
    folder = user_data_dir() / "runs"
    return RunFiles(folder / f"postgres-{_journal_key(server):x}", folder)


def _journal_key(server: Server) -> int:
    return key_lock(server.schema, "journal", _owner())


def _run_key(server: Server, program: str) -> int:
    return key_lock(server.schema, "run", program)


def _keys(server: Server, run: RunRecord) -> list[int]:
    """Who writes it has locked the journal, or its run in one that is shared."""
    return [_journal_key(server), _run_key(server, run.program)]


def _is_held(handle: Any, keys: list[int]) -> bool:  # noqa: ANN401  (a session or a handle)
    return handle.execute(_HELD, (keys,)).fetchone() is not None


def _enter(session: PostgresSession) -> None:
    session.execute("SELECT set_config('vega.owner', ?, false)", (_owner(),))


# The runs of a schema, looked at from outside.


def _text(*path: str) -> str:
    """A field of an outcome. PostgreSQL reads no JSON that holds the character NUL, as a reply may,
    so another one stands in for it."""
    readable = r"CAST(REPLACE(outcome, '\u0000', '\u0001') AS JSON)"
    return f"{readable} #>> '{{{','.join(path)}}}'"


def _number(*path: str) -> str:
    return f"CAST({_text(*path)} AS BIGINT)"


_QUERIES = RunQueries(_number, _text, _OWN)
_USED = f"""
    SELECT SUM(LENGTH(key) + LENGTH(path) + LENGTH(digest) + COALESCE(LENGTH(outcome), 0))
    FROM effects JOIN runs USING (program) WHERE {_OWN}
"""  # noqa: S608  (our words)


def list_runs(dsn: str) -> list[RunSummary]:
    """Return the user's runs of a journal, the first first."""
    server = server_of(dsn)
    with _session(server) as session:
        rows = session.execute(_QUERIES.runs).fetchall()

        return summaries(
            rows,
            _seals(server.name),
            lambda run: _is_held(session, _keys(server, run)),
            partial(_QUERIES.unrecorded, session, _files(server).spooled),
        )


def recorded_calls(dsn: str) -> list[RecordedCall]:
    """Return the model calls of the user's runs."""
    with _session(server_of(dsn)) as session:
        return [recorded_call(row) for row in session.execute(_QUERIES.calls).fetchall()]


def recorded_effects(dsn: str, program: str) -> list[RecordedEffect]:
    """Return the effects of one of the user's runs."""
    with _session(server_of(dsn)) as session:
        rows = session.execute(_QUERIES.effects, (program,)).fetchall()
        return [recorded_effect(row) for row in rows]


def forget_runs(
    dsn: str, before_ms: int, most_bytes: int, *, dry_run: bool = False, shrink: bool = False
) -> ForgottenRuns:
    """Forget the user's runs that ended before then, and the oldest ones while the rest is larger
    than `most_bytes`. The server itself uses the space again, so there is nothing to `shrink`."""
    return _forget(server_of(dsn), before_ms, most_bytes, dry_run=dry_run)


def _forget(
    server: Server,
    before_ms: int,
    most_bytes: int | None,
    *,
    at_most: int | None = None,
    dry_run: bool = False,
) -> ForgottenRuns:
    with _session(server) as session:

        def delete(program: str) -> None:
            with session.connection.transaction():
                session.execute("DELETE FROM effects WHERE program = ?", (program,))
                session.execute("DELETE FROM runs WHERE program = ?", (program,))
            _files(server).remove(program)

        used = 0 if most_bytes is None else int(single_value(session.execute(_USED)) or 0)
        return forget_ended(
            session.execute(_QUERIES.ended).fetchall()[:at_most],
            lambda program: int(single_value(session.execute(SIZE, (program,))) or 0),
            (lambda _: None) if dry_run else delete,
            before_ms,
            used - (most_bytes or 0),
        )


def journal_size(dsn: str) -> int | None:
    """Return how many bytes the tables of the journal take, whoever's runs are in them."""
    with _session(server_of(dsn)) as session:
        query = "SELECT pg_total_relation_size('effects') + pg_total_relation_size('runs')"
        return single_value(session.execute(query))


@contextmanager
def _session(server: Server) -> Generator[PostgresSession]:
    import psycopg

    try:
        session = PostgresSession(server, _LAYOUTS)
        with session.connection:
            _enter(session)
            yield session
    except (psycopg.Error, OSError) as error:
        raise postgres_error(server.name, error) from error
