"""The one thread that works on a SQLite file, so that the event loop never waits for a disk.

    callers ── jobs ──▶ queue ──▶ thread: BEGIN, all that wait, COMMIT ── answers ──▶ callers

What is queued when the thread comes back is one transaction: under load many callers share one
commit, and each is still answered only after it. A job is first worked out and then written. One
that fails while it is worked out fails alone, having written nothing; a file that fails, fails
everyone in the transaction, and none of it happened.

A job is queued when it is called and carried out from then on, also if its caller is cancelled.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from vegakit.errors import BugError, StoreError, VegaError
from vegakit.store.sqlite_file import Format, Synchronous, connect, explained

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteThread", "Work"]

T = TypeVar("T")
Desk = TypeVar("Desk")

Work: TypeAlias = Callable[[Desk], tuple[T, Callable[[], object]]]
"""Answers what the caller gets, and how to write it down."""

_MOST_WAITING = 10_000
_MOST_AT_ONCE = 64
_CALLERS_FAULTS = (VegaError, LookupError, TypeError, ValueError)


class _Job(NamedTuple):
    work: Work[Any, Any] | None
    """None: the last one."""
    caller: asyncio.Future[Any]


class _Answer(NamedTuple):
    caller: asyncio.Future[Any]
    result: object = None
    error: BaseException | None = None


class SqliteThread(Generic[Desk]):
    """A job works at a desk, which is made anew with the connection: after any error of the file
    nothing is kept of what it was thought to hold."""

    def __init__(
        self,
        path: str,
        layout: Format,
        synchronous: Synchronous,
        desk: "Callable[[sqlite3.Connection], Desk]",
    ) -> None:
        self._path, self._layout = path, layout
        self._connect = lambda: connect(path, layout, synchronous)
        self._make_desk = desk
        self._connection: sqlite3.Connection | None = None
        self._queue: SimpleQueue[_Job] = SimpleQueue()
        self._closed: asyncio.Future[None] | None = None
        name = f"vega {layout.subject}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def do(self, work: Work[Desk, T]) -> asyncio.Future[T]:
        if self._closed is not None:
            raise BugError(f"the {self._layout.subject} in {self._path} is closed")
        if self._queue.qsize() >= _MOST_WAITING:
            raise StoreError(
                f"{_MOST_WAITING} operations wait for {self._path}; "
                "its disk is too slow for this many callers at once"
            )
        return self._put(work)

    async def aclose(self) -> None:
        """Everything queued is carried out first."""
        if self._closed is None:
            self._closed = self._put(None)
        await asyncio.shield(self._closed)

    def _put(self, work: Work[Desk, T] | None) -> asyncio.Future[T]:
        caller: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(work, caller))
        return caller

    def _serve(self) -> None:
        batch: list[_Job] = []
        try:
            while not batch or batch[-1].work is not None:
                batch = self._take()
                _deliver(self._carry_out([job for job in batch if job.work is not None]))
        finally:
            self._disconnect()
            _tell(batch[-1].caller.get_loop(), self._end, batch)

    def _take(self) -> list[_Job]:
        batch = [self._queue.get()]
        while batch[-1].work is not None and len(batch) < _MOST_AT_ONCE and self._queue.qsize():
            batch.append(self._queue.get())
        return batch

    def _carry_out(self, batch: list[_Job]) -> list[_Answer]:
        import sqlite3

        try:
            return self._transact(batch) if batch else []
        except (sqlite3.Error, OSError, OverflowError) as error:
            told = explained(self._path, error)
        except VegaError as error:
            told = error
        self._disconnect()
        return [_Answer(job.caller, error=told) for job in batch]

    def _transact(self, batch: list[_Job]) -> list[_Answer]:
        """Takes the write lock at once: a lock taken later could find its reads outdated."""
        if self._connection is None:
            self._connection = self._connect()
            self._desk = self._make_desk(self._connection)
        self._connection.execute("BEGIN IMMEDIATE")
        answers = [_answer(self._desk, job) for job in batch]
        self._connection.execute("COMMIT")
        return answers

    def _disconnect(self) -> None:
        """Undoes what was not committed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _end(self, batch: list[_Job]) -> None:
        """Runs in the loop. After a bug in the thread, nobody may wait for it for ever."""
        if self._closed is None:
            self._closed = self._put(None)
        while self._queue.qsize():
            batch.append(self._queue.get())
        died = BugError(f"the thread of {self._path} has died; its traceback was printed")
        _settle([_Answer(caller, error=died if work else None) for work, caller in batch])


def _answer(desk: object, job: _Job) -> _Answer:
    assert job.work is not None
    try:
        result, write = job.work(desk)
    except _CALLERS_FAULTS as error:
        return _Answer(job.caller, error=error)
    write()
    return _Answer(job.caller, result)


def _deliver(answers: list[_Answer]) -> None:
    for loop, group in groupby(answers, lambda answer: answer.caller.get_loop()):
        _tell(loop, _settle, list(group))


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[Any], None], told: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(call, told)


def _settle(answers: list[_Answer]) -> None:
    for caller, result, error in answers:
        if caller.done():
            continue
        if error is None:
            caller.set_result(result)
        else:
            caller.set_exception(error)
