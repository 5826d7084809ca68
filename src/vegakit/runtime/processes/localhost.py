"""The local host: effects as asyncio tasks, their outcomes as events.

    start ──▶ recorded in the journal? ── yes ──▶ that outcome
                        │ no
                        ▼
              a task, which nobody but this host owns ── outcome ──▶ journal ──▶ next()

A journal that cannot be read or written, or that holds the answer to another request, ends the
program: `next()` raises it, since neither an answer nor a failure of the effect would be true.

It owns its tasks itself instead of using `asyncio.TaskGroup`, which would cancel the siblings of
whatever fails. Whatever a task raises is an outcome like another, told to the program.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from vegakit.effects import AskHuman, CallModel, CallTool, Effect, Request, check_same_request
from vegakit.errors import Paused
from vegakit.events import (
    Cancelled,
    Crashed,
    EffectOutcome,
    HostEvent,
    OutcomeArrived,
    Refused,
    in_program_order,
)
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.ports import Clock, Journal
from vegakit.runtime.cancelling import to_its_end
from vegakit.runtime.gate import Account

__all__ = ["LocalHost", "Perform"]

Perform: TypeAlias = Callable[[Effect, Account], Coroutine[Any, Any, EffectOutcome]]
"""The account says what was charged, however it ends."""

_LOG = logging.getLogger("vegakit")
_PATIENCE_S = 5.0

_RECORDED = (AskHuman, CallModel, CallTool)
"""What costs money or a person's time, or touches the world; the rest is done again on resume."""


class LocalHost:
    """Implements `ports.Host`."""

    def __init__(
        self,
        performers: Mapping[type[Request], Perform],
        clock: Clock,
        journal: Journal | None = None,
    ) -> None:
        self._performers = performers
        self._clock = clock
        self._journal = journal
        self._tasks: dict[EffectKey, asyncio.Task[None]] = {}
        self._effects: dict[EffectKey, Effect] = {}
        self._arrived: list[HostEvent] = []
        self._waiter: asyncio.Future[None] | None = None
        self._broken: Exception | None = None

    @property
    def now(self) -> int:
        return self._clock.now()

    @property
    def busy(self) -> int:
        return len(self._tasks)

    def start(self, effect: Effect) -> None:
        run = self._run if self._journal is None else self._run_recorded
        self._tasks[effect.key] = asyncio.ensure_future(run(effect))
        self._effects[effect.key] = effect

    def cancel(self, key: EffectKey) -> None:
        task = self._tasks.get(key)
        if task is not None and not task.cancelling():
            task.cancel()
            task.add_done_callback(lambda _: self._sweep(key))

    async def next(self) -> Sequence[HostEvent]:
        if not self._arrived and self._broken is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._broken is not None:
            raise self._broken
        events, self._arrived = self._arrived, []
        return events if len(events) == 1 else in_program_order(events)

    def tell(self, event: HostEvent) -> None:
        self._arrived.append(event)
        self._wake()

    async def aclose(self) -> None:
        """Nothing that was started goes on, unless it refuses to be cancelled."""
        for key in list(self._tasks):
            self.cancel(key)
        if self._tasks:
            _, left = await asyncio.wait(self._tasks.values(), timeout=_PATIENCE_S)
            for task in left:
                _LOG.warning("a task does not let itself be cancelled: %r", task)

    async def _run_recorded(self, effect: Effect) -> None:
        journal = self._journal
        if journal is None or not isinstance(effect.request, _RECORDED):
            await self._run(effect)
            return
        try:
            found = await journal.claim(effect, self.now)
            digest, outcome = found or (effect.digest, None)
            check_same_request(effect, digest)
            if outcome is None:
                outcome = await self._perform_claimed(journal, effect)
        except Exception as error:  # noqa: BLE001
            self._break(effect, error)
        else:
            self._end(effect, outcome)

    async def _perform_claimed(self, journal: Journal, effect: Effect) -> EffectOutcome:
        """Claimed before, recorded after, and only then told. What was cancelled stays claimed: if
        another life of this host wants it after all, the ledger knows whether it was sent."""
        outcome = await self._outcome(effect)
        if isinstance(outcome, Refused) and outcome.error == Paused.__name__:
            await to_its_end(journal.drop(effect.key))
        elif not isinstance(outcome, Cancelled):
            await _record(journal, effect.key, outcome)
        return outcome

    async def _run(self, effect: Effect) -> None:
        self._end(effect, await self._outcome(effect))

    async def _outcome(self, effect: Effect) -> EffectOutcome:
        account = Account()
        try:
            return await self._performers[type(effect.request)](effect, account)
        except asyncio.CancelledError:
            return Cancelled(Money(account.charged))
        except Exception as error:  # noqa: BLE001
            return Crashed(f"{type(error).__name__}: {error}", Money(account.charged))

    def _sweep(self, key: EffectKey) -> None:
        """A task cancelled before it began never ran a line of its own."""
        if key in self._tasks:
            self._end(self._effects[key], Cancelled())

    def _break(self, effect: Effect, error: Exception) -> None:
        del self._tasks[effect.key], self._effects[effect.key]
        self._broken = self._broken or error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _end(self, effect: Effect, outcome: EffectOutcome) -> None:
        del self._tasks[effect.key], self._effects[effect.key]
        self.tell(OutcomeArrived(effect.key, effect.path, outcome))


async def _record(journal: Journal, key: EffectKey, outcome: EffectOutcome) -> None:
    """Also if we are cancelled meanwhile: what it came to is known all the same. How the first
    writing went is not told then, so it is written once more, which changes nothing."""
    try:
        await journal.record(key, outcome)
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError):
            await to_its_end(journal.record(key, outcome))
