"""The least that handing work to a thread and back can cost: what no store of ours can go below."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["BareThread"]


class BareThread:
    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], None], asyncio.Future[None]]] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def do(self, work: Callable[[], None]) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((work, done))
        return done

    def _serve(self) -> None:
        while True:
            work, done = self._queue.get()
            try:
                work()
            except Exception as error:  # noqa: BLE001  (whoever waits is told)
                done.get_loop().call_soon_threadsafe(done.set_exception, error)
            else:
                done.get_loop().call_soon_threadsafe(done.set_result, None)
