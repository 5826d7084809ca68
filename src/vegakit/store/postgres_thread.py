"""The one thread that works on a PostgreSQL server.

    BEGIN, lock all that the batch touches in one order, work it out, write, COMMIT

Statements go out without waiting for the answers of those before (pipeline mode), so a batch costs
about two round trips however long it is. A transaction that others got in the way of is carried out
again. After a lost connection the server is asked whether the transaction was committed.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from vegakit.errors import StoreError, VegaError
from vegakit.store.postgres_server import Session, explained, one, place_of
from vegakit.store.sqlite_file import Format
from vegakit.store.thread import Answer, Job, StoreThread, answered

__all__ = ["PostgresThread"]


class _Locking(Protocol):
    def locked(self, touched: Sequence[Any]) -> AbstractContextManager[None]:
        """For the rest of the transaction; what was put off is written on leaving."""
        ...


Desk = TypeVar("Desk", bound=_Locking)

_RERUNS = {"40001": 10, "40P01": 10, "23505": 10}
"""Not serializable, deadlock, and a row that somebody else made first."""
_RECONNECTS = 1
_DOUBT_S, _DOUBT_POLL_S = 10.0, 0.02


class PostgresThread(StoreThread[Desk]):
    def __init__(
        self, dsn: str, schema: str, layout: Format, desk: Callable[[Session], Desk]
    ) -> None:
        self._connect = lambda: Session(dsn, schema, layout)
        self._make_desk = desk
        self._session: Session | None = None
        self._in_doubt: tuple[str, list[Answer]] | None = None
        """Being committed: the transaction's number, and what it answers."""
        super().__init__(place_of(dsn, schema), layout.subject)

    def _carry_out(self, batch: list[Job]) -> list[Answer]:
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
                return self._failed(batch, explained(self._place, error))
            except VegaError as error:
                self._disconnect()
                return self._failed(batch, error)

    def _transact(self, batch: list[Job]) -> list[Answer]:
        session = self._connected()
        session.transactions += 1
        with session.connection.pipeline():
            session.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            number = session.execute("SELECT pg_current_xact_id()::text")
            with self._desk.locked([job.touched for job in batch]):
                answers = [answered(self._desk, job) for job in batch]
            self._in_doubt = one(number), answers
            session.execute("COMMIT")
        self._in_doubt = None
        return answers

    def _doubted_answers(self) -> list[Answer] | None:
        """Those of a transaction that was being committed when the connection was lost; None if
        it must be carried out again."""
        if self._in_doubt is None:
            return None
        number, answers = self._in_doubt
        session = self._connected()
        for _ in range(int(_DOUBT_S / _DOUBT_POLL_S)):
            status = one(session.execute("SELECT pg_xact_status(?::xid8)", (number,)))
            if status != "in progress":
                self._in_doubt = None
                return answers if status == "committed" else None
            time.sleep(_DOUBT_POLL_S)
        raise StoreError(f"the connection to {self._place} was lost")

    def _failed(self, batch: list[Job], told: VegaError) -> list[Answer]:
        if self._in_doubt is not None:
            self._in_doubt = None
            told = StoreError(
                f"{told}; whether this operation was carried out is not known: look before you "
                "do it again"
            )
        return [Answer(job.caller, error=told) for job in batch]

    def _connected(self) -> Session:
        if self._session is None:
            self._session = self._connect()
            self._desk = self._make_desk(self._session)
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.connection.close()
            self._session = None


def _is_loss(error: Exception) -> bool:
    import psycopg

    code = getattr(error, "sqlstate", None)
    if code is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
    return code.startswith(("08", "57P"))


def _reruns(error: Exception) -> int:
    return _RECONNECTS if _is_loss(error) else _RERUNS.get(getattr(error, "sqlstate", ""), 0)
