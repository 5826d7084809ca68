"""Asyncio helpers that leave no task behind, and the steady clock (base, host).

This is the only module that reads the time. It lies below `child_process` and `host`, which both
need it.
"""

import asyncio
import gc
import os
import signal
import threading
import time
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import FrameType
from typing import Any, ClassVar, TypeVar

__all__ = [
    "AwaitedWork",
    "CollectorPace",
    "SteadyClock",
    "TurnGate",
    "cancel_all",
    "cancel_on_end",
    "cancel_on_sigint",
    "end_signals",
    "gather_all",
    "run_interruptibly",
    "run_to_completion",
    "wait_first",
]


class TurnGate:
    """Lets in, in each turn of the loop, as much as fits into some milliseconds, in the order of
    arrival. Thousands that begin at once would keep the loop from all others until the last has
    begun."""

    def __init__(self, now: Callable[[], int], most_ms: int) -> None:
        self._now, self._most_ms = now, most_ms
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ends_ms: int | None = None
        self._entered = 0

    async def enter(self) -> None:
        """Wait for a turn that has room; mostly that is this one, and nothing is waited for."""
        loop = asyncio.get_running_loop()
        if self._ends_ms is None:
            self._ends_ms = self._now() + self._most_ms
            loop.call_soon(self._next_turn)
        elif self._waiting or self._now() >= self._ends_ms:
            mine: asyncio.Future[None] = loop.create_future()
            self._waiting.append(mine)
            await mine
        self._entered += 1

    def _next_turn(self) -> None:
        """Let in about as many as had room in the last turn: what one of them takes is known only
        afterwards."""
        has_room = self._ends_ms is not None and self._now() < self._ends_ms
        several = max(1, self._entered * 2 if has_room else self._entered // 2)
        self._entered = 0
        let_in = 0
        while self._waiting and let_in < several:
            mine = self._waiting.popleft()
            if not mine.done():
                mine.set_result(None)
                let_in += 1
        self._ends_ms = None
        if let_in:  # they enter in the next turn, before whoever arrives there
            self._ends_ms = self._now() + self._most_ms
            asyncio.get_running_loop().call_soon(self._next_turn)


_FULL, _MOST_ASIDE = 2, 2_000_000
_OFTEN = 4
"""After so many collections of what is newest all that is new is gone through, once in each of the
two older generations: with the usual ten that takes up to 10 ms each. In all it is about as much,
since what was gone through is set aside."""
_MOST_CLOSED, _OF_A_USER = 20, 4_000
"""So many users that were closed stay, some 5 MB, or as many as are a quarter of all objects: each
leaves about 4,000 behind. One in twenty lives while what is new is set aside; the others go at
once."""


class CollectorPace:
    """Keeps full collections short while anybody uses it.

    Python's collector goes through everything that lives, again and again: with 100,000 processes,
    or thousands of asks in flight, that holds the loop for a tenth of a second each time. Here it
    looks more often, and what outlived a collection is set aside and not gone through again, so
    that each goes through what is new. Circles among that which become garbage later stay until
    all is gone through once more: when `_MOST_ASIDE` objects are there, or twice as many as the
    last time; when many users were closed that had been set aside, each of which is a circle; and
    when nobody uses it any more. Asks and programs leave no circles behind.
    Where somebody else tunes the collector nothing is done."""

    _users: ClassVar[dict[int, int]] = {}
    """How often what is new was set aside before each of them was opened."""
    _threshold = gc.get_threshold()
    _most = _aside = 0
    _most_closed, _closed, _times = _MOST_CLOSED, 0, 0

    @classmethod
    def open(cls, user: object) -> None:
        """Begin for a user. The first sets aside what is there already: modules, mostly."""
        if not cls._users:
            if not gc.isenabled() or gc.get_freeze_count():
                return
            cls._threshold, cls._most, cls._aside = gc.get_threshold(), _MOST_ASIDE, 0
            cls._most_closed, cls._closed = _MOST_CLOSED, 0
            gc.set_threshold(cls._threshold[0], _OFTEN, 0)
            gc.callbacks.append(cls._on_collection)
            gc.freeze()
        cls._users[id(user)] = cls._times

    @classmethod
    def close(cls, user: object) -> None:
        """End for a user. The last gives back what was set aside."""
        before = cls._users.pop(id(user), None)
        if before is not None and not cls._users:
            gc.callbacks.remove(cls._on_collection)
            gc.set_threshold(*cls._threshold)
            gc.unfreeze()
        elif before is not None and before != cls._times:
            cls._closed += 1

    @classmethod
    def _on_collection(cls, phase: str, of: dict[str, int]) -> None:
        if of["generation"] != _FULL or phase != "stop":
            return
        has_circles = cls._closed > cls._most_closed
        if has_circles or cls._aside > cls._most:
            # Most of what was set aside may be gone since, without circles. To count what is there
            # takes a tenth of going through it.
            if has_circles or gc.get_freeze_count() > cls._most:
                gc.unfreeze()
                cls._aside, cls._closed = -1, 0  # the next one goes through all
                return
            cls._aside = 0
        is_whole = cls._aside < 0
        gc.freeze()
        cls._times += 1
        if is_whole:
            count = gc.get_freeze_count()
            cls._aside, cls._most = 0, max(_MOST_ASIDE, 2 * count)
            cls._most_closed = max(_MOST_CLOSED, count // 4 // _OF_A_USER)
        cls._aside += cls._threshold[0] * _OFTEN


# Several works at once, none of which outlives the wait for them.


T = TypeVar("T")


class AwaitedWork(Coroutine[Any, Any, T]):
    """Work that begins when it is awaited. It is a coroutine to asyncio (`create_task`, `gather`,
    `wait_for`, `TaskGroup`); each `await` begins it anew. Python warns of a coroutine that nobody
    awaits, and so does this."""

    _begun: Coroutine[Any, Any, T] | None = None
    _is_forgotten = False

    def __init__(self) -> None:
        self._is_forgotten = True

    @property
    @abstractmethod
    def never_awaited(self) -> str:
        """The text of the warning."""
        ...

    @abstractmethod
    async def work(self) -> T:
        """Do the work."""
        ...

    def hand_over(self) -> None:
        """Leave the `await` to a coroutine. Python warns of that coroutine."""
        self._is_forgotten = False

    def begin(self) -> Coroutine[Any, Any, T]:
        """Return the work, to be awaited at once."""
        self.hand_over()
        return self.work()

    def __del__(self) -> None:
        """Warn where the last name of it is gone: that is the line on which `await` is missing."""
        if self._is_forgotten:
            warnings.warn(self.never_awaited, RuntimeWarning, stacklevel=2, source=self)

    def __await__(self) -> Generator[Any, Any, T]:
        return self.begin().__await__()

    def send(self, value: Any) -> Any:  # noqa: ANN401
        """Go on with the work, as the task that has it does."""
        if self._begun is None:
            self._begun = self.begin()
        return self._begun.send(value)

    def throw(self, *raised: Any) -> Any:  # noqa: ANN401
        """Raise an exception where the work stands."""
        if self._begun is None:
            self._begun = self.begin()
        return self._begun.throw(*raised)

    def close(self) -> None:
        """End the work, if it has begun."""
        self.hand_over()
        if self._begun is not None:
            self._begun.close()


async def wait_first(*works: Coroutine[Any, Any, object]) -> None:
    """Wait until the first of them is done, and cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(tasks)


async def gather_all(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs them at once and answers in their order. Nothing runs on when this returns or raises.

    `asyncio.gather` leaves the others running when one fails; `TaskGroup` hides which one failed.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        for task in tasks:
            await task
    finally:
        await cancel_all(tasks)
    return [task.result() for task in tasks]


async def run_to_completion(work: Awaitable[T]) -> T:
    """Waits for it even if we are cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def cancel_all(tasks: "Sequence[asyncio.Future[Any]]") -> None:
    """Also when cancelled again meanwhile: what it left running nobody would ever await."""
    for task in tasks:
        task.cancel()
    cancelled = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as again:
            cancelled = again
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen, so that asyncio does not report it as lost
    if cancelled is not None:
        raise cancelled


def end_signals() -> list[signal.Signals]:
    """Return the signals that stop a service or a container, or report a closed terminal. SIGHUP is
    left out where it is ignored, as under `nohup`."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]


def cancel_on_end(on_signal: Callable[[signal.Signals], object]) -> None:
    """Have SIGTERM and SIGHUP cancel the current task, so that who stops a service or closes a
    terminal ends it as by Ctrl-C, which is ignored behind `&` of a shell. A second SIGTERM ends it
    at once; a second SIGHUP does not, since a terminal sends several."""
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    assert running is not None

    def stop(number: signal.Signals) -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        on_signal(number)
        running.cancel()

    for number in end_signals():
        loop.add_signal_handler(number, stop, number)


def cancel_on_sigint(at_once: Callable[[], object]) -> None:
    """Have Ctrl-C cancel the current task, and a second one call `at_once` and end the process
    where it stands, as `kill -9` would. As an exception it would come up in whatever task runs at
    that moment, and be told as a fault of that task."""
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    assert running is not None
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return  # behind `&` of a shell

    def end(*_: object) -> None:
        at_once()
        os._exit(128 + signal.SIGINT)

    def stop() -> None:
        signal.signal(signal.SIGINT, end)
        running.cancel()

    loop.add_signal_handler(signal.SIGINT, stop)


_STUCK_S = 3.0


class _Interrupts:
    """Ctrl-C while a loop runs: the first cancels the task, each later one raises
    `KeyboardInterrupt`, and both between two steps of the loop. Only where the loop has not come
    round for seconds, as in a function that never returns, is it raised right there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Future[Any]") -> None:
        self._loop, self._task = loop, task
        self._since: float | None = None
        self._is_first = True
        self._before = signal.signal(signal.SIGINT, self._on_signal)

    def end(self) -> None:
        """Take no more of them."""
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._loop.is_closed():
            self.end()
            if callable(self._before):
                self._before(number, frame)
        elif self._since is None:
            self._since = time.monotonic()
            self._loop.call_soon_threadsafe(self._take)
        elif time.monotonic() - self._since > _STUCK_S:
            raise KeyboardInterrupt

    def _take(self) -> None:
        self._since = None
        is_first, self._is_first = self._is_first, False
        if not is_first:
            raise KeyboardInterrupt
        self._task.cancel()


class _Loop(asyncio.SelectorEventLoop):
    """The loop of asyncio. It closes the pipe that signals write to while signals still use it, and
    a Ctrl-C at that moment prints a traceback. This one first lets go of the pipe."""

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        super().close()


def run_interruptibly(work: Coroutine[Any, Any, T]) -> T:
    """Run as `asyncio.run` does, and take Ctrl-C between two steps of the loop. Raised or handled
    where it comes, as by `asyncio.run`, it would leave a step half done."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # behind `&` of a shell
        return asyncio.run(work)

    async def wait_for(task: "asyncio.Future[T]") -> T:
        return await task

    runner = asyncio.Runner(loop_factory=_Loop)
    task = runner.get_loop().create_task(work)
    interrupts = _Interrupts(runner.get_loop(), task)
    try:
        with runner:
            return runner.run(wait_for(task))
    finally:
        interrupts.end()


# The one place that reads the time.


class SteadyClock:
    """Steady milliseconds since 1970: the wall clock's, once, then only the monotonic clock's."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    async def wait_until(self, at_ms: int) -> None:
        await asyncio.sleep(max(0, at_ms - self.now()) / 1000)
