"""Records wait in memory; one thread writes them, a batch at a time.

caller ── record ──▶ waiting ──▶ thread: gather a moment, take all, write
                        └── full ─▶ costs money? the caller writes the batch : count and drop
"""

import asyncio
import atexit
import logging
import threading
from collections.abc import Callable

from vegakit.events import CallTraced

__all__ = ["BackgroundWriter"]

_log = logging.getLogger("vegakit")
_GATHER_S = 0.05
_CLOSE_WITHIN_S = 15


class BackgroundWriter:
    """`write` gets a batch and how many records were dropped since the last one; it is never
    called twice at once, and does not raise."""

    def __init__(
        self, write: Callable[[list[CallTraced], int], None], capacity: int = 10_000
    ) -> None:
        self._write = write
        self._capacity = capacity
        self._waiting: list[CallTraced] = []
        self._dropped = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._filled = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def record(self, call: CallTraced) -> None:
        with self._lock:
            first, full = not self._waiting, len(self._waiting) >= self._capacity
            if full and not call.cost:
                self._dropped += 1
                return
            self._waiting.append(call)
        if full or self._closed.is_set():
            self.flush()
        elif first:
            self._wake()

    def flush(self) -> None:
        with self._writing:
            with self._lock:
                batch, self._waiting = self._waiting, []
                dropped, self._dropped = self._dropped, 0
            if batch or dropped:
                self._write(batch, dropped)

    def close(self) -> None:
        """What is recorded later is written at once, by who records it."""
        self._closed.set()
        self._filled.set()
        if self._thread is not None:
            self._thread.join()
            atexit.unregister(self.close)
        self.flush()

    async def aclose(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await asyncio.to_thread(self.close)
        except TimeoutError:
            _log.warning("traces were not all written within %s s", _CLOSE_WITHIN_S)

    def _wake(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_on, name="vega traces", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
        self._filled.set()

    def _write_on(self) -> None:
        while not self._closed.is_set():
            self._filled.wait()
            self._closed.wait(_GATHER_S)
            self._filled.clear()
            self.flush()
