"""Ways to break the promise, planted in a program that is then killed."""

from asyncio import Future, get_running_loop
from collections.abc import Awaitable, Sequence
from itertools import count

from vegakit.effects import Effect
from vegakit.events import EffectOutcome, Unknown
from vegakit.host import recovery
from vegakit.ids import EffectKey
from vegakit.policy import Claim
from vegakit.ports import ClaimResult, Ledger, UnfinishedEffect
from vegakit.store import SqliteJournal


def claims_after_the_answer() -> None:
    """What was sent before our side died is not known to have been begun."""
    claim, record = SqliteJournal.claim, SqliteJournal.record
    begun: dict[EffectKey, tuple[Effect, int]] = {}

    async def claim_later(
        self: SqliteJournal, effect: Effect, now: int, *, speculative: bool = False
    ) -> ClaimResult:
        begun[effect.key] = (effect, now)
        found = await self.find(effect.key)
        return ClaimResult(None if found is None else found[1])

    def record_both(self: SqliteJournal, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        if key in begun:
            claim(self, *begun[key])
        return record(self, key, outcome)

    SqliteJournal.claim, SqliteJournal.record = claim_later, record_both


def loses_a_record() -> None:
    """It is said to be kept, and is not, in the spool neither."""
    record, calls = SqliteJournal.record, count(1)

    def lose(self: SqliteJournal, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        if next(calls) != 2:
            return record(self, key, outcome)
        kept: Future[None] = get_running_loop().create_future()
        kept.set_result(None)
        return kept

    SqliteJournal.record = lose
    SqliteJournal.keep = lambda self, key, attempt, bill, outcome: None


def forgets_what_was_cut_off() -> None:
    """A call that was sent is begun anew as if it had not been."""
    outcome_of = recovery._outcome

    async def forget(
        ledger: Ledger, begun: UnfinishedEffect, claims: Sequence[Claim], now: int
    ) -> Unknown | None:
        await outcome_of(ledger, begun, claims, now)
        return None

    recovery._outcome = forget
