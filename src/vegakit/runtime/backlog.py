"""Writes that a store could not take, because it is away: tried again until it is back.

A reply that has arrived is paid for, so it goes to the program although a ledger or a journal
cannot be written at that moment. What had to be written waits here:

    reply ─▶ settle ── StoreError ──▶ backlog ─ … tried again, later each time … ─▶ settled
               └────────▶ program                └── at the end of the run: spool, lease

The backlog is bounded: when it is full, new calls are refused before they are sent. It is loud: one
warning when an outage begins and one when it is over. What is still here when the runtime closes is
tried for a few seconds more. What is lost then is found again: the reply is in the spool, and what
was reserved is charged in full when the lease ends.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from vegakit.errors import StoreError
from vegakit.ports import Clock

__all__ = ["Backlog", "patiently"]

T = TypeVar("T")
Write: TypeAlias = Callable[[], Awaitable[object]]
"""One that may be carried out twice: the first time may have gone through and not said so."""

_LOG = logging.getLogger("vegakit")
_MOST = 10_000
_AT_ONCE = 64
_FIRST_MS, _LONGEST_MS = 50, 2_000
_PATIENCE_MS = 5_000
"""How long a call waits for a store before it is refused: longer than a server takes to restart."""
_CLOSING_S = 10.0


class Backlog:
    def __init__(self, clock: Clock, most: int = _MOST, closing_s: float = _CLOSING_S) -> None:
        self._clock, self._most, self._closing_s = clock, most, closing_s
        self._writes: deque[Write] = deque()
        self._trying: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._writes)

    def put(self, write: Write, error: StoreError) -> None:
        """Carry it out when the store is back; `error` says why it was not now."""
        self._writes.append(write)
        if self._trying is None:
            _LOG.warning(
                "%s; replies go on to the program, and what they cost is written when it is back",
                error,
            )
            self._trying = asyncio.ensure_future(self._try())

    def check(self) -> None:
        """Before anything is sent: what came of it could not be kept, either."""
        if len(self._writes) >= self._most:
            raise StoreError(
                f"{len(self._writes):,} replies wait to be written, since their store is away, so "
                "nothing more is sent; start that store, or free its disk, and try again"
            )

    async def aclose(self) -> None:
        if self._trying is None:
            return
        _, late = await asyncio.wait([self._trying], timeout=self._closing_s)
        for task in late:
            task.cancel()
            await asyncio.wait([task])
            _LOG.warning(
                "%d writes were not taken before the runtime closed; replies are in the spool of "
                "the journal and are recorded when the run is resumed, and what was reserved for "
                "them is charged in full when its lease ends",
                len(self._writes),
            )
        self._trying = None

    async def _try(self) -> None:
        wait_ms, most, began = _FIRST_MS, 0, self._clock.now()
        while self._writes:
            most = max(most, len(self._writes))
            await self._clock.wait_until(self._clock.now() + wait_ms)
            wait_ms = min(2 * wait_ms, _LONGEST_MS)
            if await self._carried_out(1):
                # It is back. Many share one transaction, so a long outage is made up for quickly.
                while self._writes and await self._carried_out(_AT_ONCE):
                    most = max(most, len(self._writes))
                wait_ms = _FIRST_MS
        self._trying = None
        _LOG.warning(
            "the store is back after %.1f s; all %d writes that waited are made",
            (self._clock.now() - began) / 1000,
            most,
        )

    async def _carried_out(self, count: int) -> bool:
        """The first ones, at once. Those that fail go to the end: one that its store never takes
        must not stand in the way of the others."""
        writes = [self._writes.popleft() for _ in range(min(count, len(self._writes)))]
        try:
            done = await asyncio.gather(*(_awaited(write) for write in writes))
        except BaseException:
            self._writes.extend(writes)
            raise
        failed = [write for write, is_done in zip(writes, done, strict=True) if not is_done]
        self._writes.extend(failed)
        return not failed


async def patiently(clock: Clock, work: Callable[[], Awaitable[T]]) -> T:
    """Carry it out, again and again for a few seconds while its store is away; a short restart is
    not seen by who waits here. What may have been carried out is looked for by `work` itself."""
    gives_up, wait_ms = clock.now() + _PATIENCE_MS, _FIRST_MS
    while True:
        try:
            return await work()
        except StoreError:
            if clock.now() + wait_ms > gives_up:
                raise
        await clock.wait_until(clock.now() + wait_ms)
        wait_ms *= 2


async def _awaited(write: Write) -> bool:
    """Whether it was taken. What fails otherwise cannot be made good by trying again."""
    try:
        await write()
    except StoreError:
        return False
    except Exception:  # noqa: BLE001  (it must not end the task that carries out the others)
        _LOG.exception("a write that waited for its store failed")
    return True
