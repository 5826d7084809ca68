"""Effects and the journal: what is claimed before, kept after, and when it belongs to the program.

| the effect is       | its claim      | an answer       | any other outcome                    |
|---------------------|----------------|-----------------|--------------------------------------|
| committed           | is committed   | is recorded     | is recorded                          |
| speculative         | is speculative | is recorded     | is set aside, and its claim dropped  |
| … and then wanted   | becomes so     | stands          | is recorded now                      |
| … and then given up | stays          | stays for later | what it cost is recorded at the end  |

A refusal or a failure that was met ahead of its turn may not be met when its turn comes, in this
life or in the next, so nobody may find it in the journal before the program has come to it.
"""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress

from vegakit.effects import AskHuman, CallModel, CallTool, Effect, changed
from vegakit.errors import Paused, StoreError
from vegakit.events import Answered, Cancelled, EffectOutcome, Refused, Unknown, charged_for
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.ports import Claimed, Clock, Journal
from vegakit.runtime.backlog import Backlog, patiently
from vegakit.runtime.cancelling import to_its_end

__all__ = ["Recording"]

_LOG = logging.getLogger("vegakit")
_RECORDED = (AskHuman, CallModel, CallTool)
"""What costs money or a person's time, or touches the world; the rest is done again on resume."""


class Recording:
    """What one host keeps in the journal. `None` as a journal keeps nothing. With a backlog a
    journal that is away costs nobody an outcome: it is written later."""

    def __init__(
        self, journal: Journal | None, clock: Clock | None = None, backlog: Backlog | None = None
    ) -> None:
        self._journal = journal
        self._clock, self._backlog = clock, backlog
        self.replayed: set[EffectKey] = set()
        self._speculative: dict[EffectKey, Effect] = {}
        self._set_aside: dict[EffectKey, EffectOutcome] = {}
        self._changed: set[EffectKey] = set()
        self._unclaimed: set[EffectKey] = set()
        """New model calls: the gate claims them in the transaction that reserves for them."""
        self._abandoned: dict[EffectKey, tuple[Effect, Unknown]] = {}
        """Calls that were given up and cost something all the same."""

    def begin(self, effect: Effect, *, speculative: bool) -> None:
        """Before its claim, which may be made later, when it has become committed."""
        if self._keeps(effect):
            self.forget(effect.key)
            self._abandoned.pop(effect.key, None)
            if speculative:
                self._speculative[effect.key] = effect

    async def claim(self, effect: Effect, now: int) -> EffectOutcome | None:
        """What is recorded of it; None: it is to be carried out."""
        if self._journal is None or not self._keeps(effect):
            return None
        if isinstance(effect.request, CallModel) and self._journal.is_new(effect.key):
            self._unclaimed.add(effect.key)
            return None
        found = await self._claimed(self._journal, effect, now)
        if found.changed:
            if effect.key not in self._speculative:
                raise changed(effect)
            self._changed.add(effect.key)
        if found.outcome is not None:
            self.replayed.add(effect.key)
        return found.outcome

    async def _claimed(self, journal: Journal, effect: Effect, now: int) -> Claimed:
        speculative = effect.key in self._speculative
        if self._clock is None:
            return await journal.claim(effect, now, speculative=speculative)
        return await patiently(
            self._clock, lambda: journal.claim(effect, now, speculative=speculative)
        )

    def record_of(self, effect: Effect) -> "_Record | None":
        """Its row, for who records an answer together with what it cost."""
        return None if self._journal is None else _Record(self, self._journal, effect)

    def is_unclaimed(self, key: EffectKey) -> bool:
        return key in self._unclaimed

    def claim_now(self, journal: Journal, effect: Effect, now: int) -> Awaitable[Claimed]:
        """It may have been committed since it was begun."""
        return journal.claim(effect, now, speculative=effect.key in self._speculative)

    def on_claimed(self, key: EffectKey) -> None:
        self._unclaimed.discard(key)

    async def keep(self, effect: Effect, outcome: EffectOutcome) -> None:
        """Of what was claimed. What was cancelled stays claimed: if another life of this host wants
        it after all, the ledger knows whether it was sent. What was cancelled by a deadline is
        recorded: its asker was told, and may have lived on."""
        journal, key = self._journal, effect.key
        if journal is None or not self._keeps(effect):
            return
        if isinstance(outcome, Cancelled) and not outcome.late:
            self._abandon(effect, outcome)
            return
        if isinstance(outcome, Refused) and outcome.error == Paused.__name__:
            await _surely(journal.drop(key))
        elif key in self._speculative and not isinstance(outcome, Answered):
            self._set_aside[key] = outcome
            await _surely(journal.drop(key))
        else:
            if isinstance(effect.request, CallTool):
                _spool(journal, key, outcome)
            if key in self._unclaimed:  # it was refused before the gate came to claim it
                now = 0 if self._clock is None else self._clock.now()
                await _surely(self._claim_late(journal, effect, now))
            await self._record(journal, key, outcome)

    def is_speculative(self, key: EffectKey) -> bool:
        return key in self._speculative

    async def _claim_late(self, journal: Journal, effect: Effect, now: int) -> None:
        self._unclaimed.discard(effect.key)
        await self._claimed(journal, effect, now)

    def is_changed(self, key: EffectKey) -> Effect | None:
        """What must not be committed: other code asked something else there."""
        return self._speculative.get(key) if key in self._changed else None

    async def commit(self, key: EffectKey, now: int) -> None:
        """To be begun at once: what is claimed after this must find it done."""
        effect = self._speculative.pop(key, None)
        outcome = self._set_aside.pop(key, None)
        if self._journal is None:
            return
        if effect is None or outcome is None:
            await self._journal.commit(key)
            return
        # Both are queued at once: nothing that follows from it may be kept between them.
        await asyncio.gather(self._journal.claim(effect, now), self._journal.record(key, outcome))

    async def _record(self, journal: Journal, key: EffectKey, outcome: EffectOutcome) -> None:
        """Also if we are cancelled meanwhile: what it came to is known all the same. How the first
        writing went is not told then, so it is written once more, which changes nothing."""
        try:
            await journal.record(key, outcome)
        except StoreError as error:
            if self._backlog is None:
                raise
            self._backlog.put(lambda: journal.record(key, outcome), error)
        except asyncio.CancelledError:
            await _surely(self._record(journal, key, outcome))

    async def aclose(self) -> None:
        """Record what was spent on calls that were given up and not begun again: the account of the
        run must show it, and the program counts it in if it comes to them in another life."""
        abandoned, self._abandoned = self._abandoned, {}
        for effect, outcome in abandoned.values():
            assert self._journal is not None
            now = 0 if self._clock is None else self._clock.now()
            await self._journal.claim(effect, now, speculative=True)
            await self._record(self._journal, effect.key, outcome)

    def _abandon(self, effect: Effect, outcome: EffectOutcome) -> None:
        if (charged := charged_for(outcome)) and isinstance(effect.request, CallModel):
            lost = Unknown(charged, again=effect.key in self._speculative)
            self._abandoned[effect.key] = effect, lost

    def forget(self, key: EffectKey) -> None:
        """It is not wanted, and has landed."""
        outcome = self._set_aside.pop(key, None)
        if outcome is not None and key in self._speculative:
            self._abandon(self._speculative[key], outcome)
        self._speculative.pop(key, None)
        self._changed.discard(key)
        self._unclaimed.discard(key)

    def _keeps(self, effect: Effect) -> bool:
        return self._journal is not None and isinstance(effect.request, _RECORDED)


class _Record:
    """Implements `gate.CallRecord`: the row of one effect."""

    __slots__ = ("_effect", "_journal", "_key", "_recording", "holds", "together")

    def __init__(self, recording: Recording, journal: Journal, effect: Effect) -> None:
        self._recording, self._journal, self._effect = recording, journal, effect
        self._key = effect.key
        self.together, self.holds = journal.together, journal.holds

    @property
    def is_unclaimed(self) -> bool:
        return self._recording.is_unclaimed(self._key)

    def claim(self, now: int) -> Awaitable[object]:
        return self._recording.claim_now(self._journal, self._effect, now)

    def on_claimed(self) -> None:
        self._recording.on_claimed(self._key)

    def keep(self, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        self._journal.keep(self._key, attempt, bill, outcome)

    def record(self, outcome: EffectOutcome) -> Awaitable[None]:
        return self._journal.record(self._key, outcome)


def _spool(journal: Journal, key: EffectKey, outcome: EffectOutcome) -> None:
    """Before anything is waited for: what a tool did must not be done again after `kill -9`."""
    try:
        journal.keep(key, 0, Money(0), outcome)
    except OSError as error:
        _LOG.warning("the outcome of a tool could not be spooled: %s", error)


async def _surely(work: Awaitable[None]) -> None:
    """Also if we are cancelled meanwhile: the outcome is known, and is told."""
    with suppress(asyncio.CancelledError):
        await to_its_end(work)
