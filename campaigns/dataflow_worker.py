"""The worker of random dataflow programs, killed now and then.

Each life is forked from a process that has loaded what it needs, so that it begins at once.
"""

import asyncio
import multiprocessing
import random
from collections.abc import Callable
from ctypes import c_bool
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, TypeAlias

from vegakit.durable import Deployment, connect, serve
from vegakit.store import SqliteLedger, SqliteStore

__all__ = ["Fault", "Workers"]

SHORTEST_LIFE_S, LONGEST_LIFE_S = 0.5, 4.0
"""Once it is connected, which takes as long as it takes."""
QUIET_EACH, QUIET_S = 25, 12.0
"""A task whose worker dies is tried again after ten seconds, and later each time it happens: if
nobody ever lived that long, some programs would not come to their end for minutes."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["campaigns.dataflow_worker", "campaigns.dataflow_programs"])

Fault: TypeAlias = Callable[[], list[Any]]
"""Breaks something in the worker that it is called in, and gives the bodies it shall have."""


class Workers:
    """One at a time."""

    def __init__(self, queue: str, address: str, folder: Path, cache: int, fault: Fault) -> None:
        self._facts = (queue, address, folder, cache, fault)
        self._connected = _FORKS.RawValue(c_bool, False)  # a lock might die with its holder
        self._life = self._start()
        self.kills = 0

    async def kill_now_and_then(self, chance: random.Random) -> None:
        while True:
            is_quiet = self.kills % QUIET_EACH == QUIET_EACH - 1
            life_s = chance.uniform(SHORTEST_LIFE_S, LONGEST_LIFE_S)
            while not self._connected.value and self._life.exitcode is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await asyncio.sleep(QUIET_S if is_quiet else life_s)
            if self._life.exitcode is not None:
                raise RuntimeError("the worker ended by itself; see what it printed above")
            self.end()
            self.kills += 1
            self._life = self._start()

    def end(self) -> None:
        self._life.kill()
        self._life.join()

    def _start(self) -> ForkServerProcess:
        self._connected.value = False
        life = _FORKS.Process(target=_live, args=(self._connected, *self._facts), daemon=True)
        life.start()
        return life


def _live(
    connected: c_bool, queue: str, address: str, folder: Path, cache: int, fault: Fault
) -> None:
    asyncio.run(_serve(connected, queue, address, folder, cache, fault))


async def _serve(
    connected: c_bool, queue: str, address: str, folder: Path, cache: int, fault: Fault
) -> None:
    ledger, answers = SqliteLedger(folder / "ledger.db"), SqliteStore(folder / "answers.db")
    deployment = Deployment(fault(), ledger, answers, {"budget": "$1000"})
    connection = await connect(address, queue=queue)
    connected.value = True
    await serve(deployment, connection, max_cached_workflows=cache)
