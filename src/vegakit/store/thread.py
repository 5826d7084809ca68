"""The one thread that works on a file or a server, so that the event loop never waits for it.

    callers ── jobs ──▶ queue ──▶ thread: BEGIN, all that wait, COMMIT ── results ──▶ callers

Jobs that are queued when the thread comes back share one transaction, and each caller gets its
result only after the commit. A job first computes and then writes: if it fails while computing,
it fails alone and has written nothing; if the file or server fails, every job of the transaction
fails and none of it happened.

A job runs even if its caller is cancelled. Calls made inside `atomically` are never split between
two transactions.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from vegakit.errors import BugError, InvalidRecordError, StoreError, VegaError

T = TypeVar("T")
HandleT = TypeVar("HandleT")

Work: TypeAlias = Callable[[HandleT], tuple[T, Callable[[], object]]]
"""Answers what the caller gets, and how to write it down."""

_MOST_WAITING = 10_000
_MOST_AT_ONCE = 64
_CALLERS_FAULTS = (
    VegaError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    RecursionError,
    MemoryError,
)
"""Raised by a job itself, and not by the place it works on: a bug in one decision, or a value that
is too deep or too large, must not end the thread for everybody."""


class Job(NamedTuple):
    """One call that waits for the thread, with what it will look at and who waits for it."""

    work: Work[Any, Any] | None
    """None: the last one."""
    lock_set: Any
    """What it will look at, for a place where that is locked first."""
    caller: asyncio.Future[Any]


class JobResult(NamedTuple):
    """The result of a job, or the error that it ended with."""

    caller: asyncio.Future[Any]
    result: object = None
    error: BaseException | None = None


class StoreThread(ABC, Generic[HandleT]):
    """The thread of one place. A job works on a handle, which is made anew with the connection:
    after any error of the place nothing is kept of what it was thought to hold."""

    def __init__(self, place: str, subject: str) -> None:
        self._place, self._subject = place, subject
        self._queue: SimpleQueue[Sequence[Job]] = SimpleQueue()
        self._group: tuple[int, list[Job]] | None = None
        """The thread that calls together now, and what it has called."""
        self._closed: asyncio.Future[None] | None = None
        threading.Thread(target=self._serve, name=f"vega {subject}", daemon=True).start()

    @abstractmethod
    def _carry_out(self, batch: list[Job]) -> list[JobResult]:
        """All of it in one transaction."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Undoes what was not committed."""

    def do(self, work: Work[HandleT, T], lock_set: object = None) -> asyncio.Future[T]:
        """Queue a piece of work. It is carried out in the order of the calls, and its result comes
        after the commit."""
        if self._closed is not None:
            raise BugError(f"the {self._subject} in {self._place} is closed")
        if self._queue.qsize() >= _MOST_WAITING:
            raise StoreError(
                f"{_MOST_WAITING} operations wait for {self._place}; "
                "it is too slow for this many callers at once"
            )
        return self._put(work, lock_set)

    @contextmanager
    def atomically(self) -> Generator[None]:
        """Make one transaction of what is called in the block. The block does not wait: what it
        calls is queued when it is left."""
        if self._group is not None:
            yield
            return
        _, jobs = self._group = threading.get_ident(), []
        try:
            yield
        finally:
            self._group = None
            if jobs:
                self._queue.put(jobs)

    async def aclose(self) -> None:
        """Everything queued is carried out first."""
        if self._closed is None:
            self._closed = self._put(None)
        await asyncio.shield(self._closed)

    def _put(self, work: Work[HandleT, T] | None, lock_set: object = None) -> asyncio.Future[T]:
        caller: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job, group = Job(work, lock_set, caller), self._group
        # Another thread that calls meanwhile has nothing to do with the block of this one.
        if group is not None and group[0] == threading.get_ident():
            group[1].append(job)
        else:
            self._queue.put((job,))
        return caller

    def _serve(self) -> None:
        batch: list[Job] = []
        try:
            while not batch or batch[-1].work is not None:
                batch = self._take()
                work = [job for job in batch if job.work is not None]
                _deliver(self._carry_out(work) if work else [])
        finally:
            self._disconnect()
            _tell(batch[-1].caller.get_loop(), self._end, batch)

    def _take(self) -> list[Job]:
        batch = list(self._queue.get())
        while batch[-1].work is not None and len(batch) < _MOST_AT_ONCE and self._queue.qsize():
            batch.extend(self._queue.get())
        return batch

    def _end(self, batch: list[Job]) -> None:
        """Runs in the loop. After a bug in the thread, nobody may wait for it for ever."""
        if self._closed is None:
            self._closed = self._put(None)
        while self._queue.qsize():
            batch.extend(self._queue.get())
        died = BugError(f"the thread of {self._place} has died; its traceback was printed")
        _settle([JobResult(job.caller, error=died if job.work else None) for job in batch])


def run_job(handle: object, job: Job) -> JobResult:
    """Compute a job and write it down. A fault of its caller fails it alone, since it has written
    nothing yet."""
    assert job.work is not None
    try:
        result, write = job.work(handle)
    except _CALLERS_FAULTS as error:
        return JobResult(job.caller, error=error)
    write()
    return JobResult(job.caller, result)


def _deliver(answers: list[JobResult]) -> None:
    for loop, group in groupby(answers, lambda answer: answer.caller.get_loop()):
        _tell(loop, _settle, list(group))


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[Any], None], told: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(call, told)


def _settle(answers: list[JobResult]) -> None:
    for caller, result, error in answers:
        if caller.done():
            continue
        if error is None:
            caller.set_result(result)
        else:
            caller.set_exception(error)


# The tables of a subject, and the format in which they are kept.


class Format(NamedTuple):
    """The tables of a subject, and the number of their format."""

    subject: str
    version: int
    tables: tuple[str, ...]


def create_tables(execute: Callable[..., Any], place: str, layout: Format) -> None:
    """Make the tables of a subject that are not there yet, or refuse those of another format. To be
    called in a transaction beside which nobody else makes them."""
    execute(
        "CREATE TABLE IF NOT EXISTS format_versions"
        " (subject TEXT PRIMARY KEY, format_version INTEGER NOT NULL)"
    )
    found = execute(
        "SELECT format_version FROM format_versions WHERE subject = ?", (layout.subject,)
    ).fetchone()
    if found is None:
        for step in layout.tables:
            execute(step)
        execute("INSERT INTO format_versions VALUES (?, ?)", (layout.subject, layout.version))
        return
    version = int(found[0])
    if version != layout.version:
        remedy = "update vegakit" if version > layout.version else "use the vegakit that wrote it"
        raise InvalidRecordError(
            f"{place} holds the {layout.subject} in format {version}, but this vegakit reads "
            f"format {layout.version}; {remedy}, or name another place"
        )
