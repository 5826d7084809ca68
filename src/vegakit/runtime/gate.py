"""The gate, do-half: the only caller of models.

    price ─▶ ┌ turn in every lane ─▶ breaker ─▶ reserve ─▶ send ─▶ answer ─▶ settle ┐
             └───────── next attempt, if the retry rule names the failure ◀─────────┘

Every attempt passes limits and breaker, is reserved anew and settled once, whatever happens to it.
Nothing is reserved while nothing can be sent. Retries live here and nowhere else.

| how an attempt ends                             | it is charged                                |
|-------------------------------------------------|----------------------------------------------|
| answered, usage reported                        | the bill, even above its reservation         |
| answered, usage missing or impossible           | its reservation                              |
| refused by the provider, or nothing was sent    | nothing                                      |
| cut off: cancelled, dropped, timed out, crashed | its reservation, since it may be billed      |
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest
from vegakit.errors import BugError, InvalidMoneyError, Phase, WorldError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.models import admitted
from vegakit.money import Money
from vegakit.policy import (
    GiveUp,
    Notice,
    Permit,
    Reserved,
    RetryRule,
    Short,
    start_retry,
)
from vegakit.ports import Clock, Ledger, Model
from vegakit.prices import PriceRow, bill, worst_case
from vegakit.runtime.cancelling import first_of, to_its_end
from vegakit.runtime.lanes import Lane, Outcome, health
from vegakit.runtime.refusals import price_of, refusal

__all__ = ["Account", "Gate", "ModelCall"]

_BUDGET_POLL_MS = 50
"""Another process may settle without telling us."""


class ModelCall(NamedTuple):
    model: Model
    request: ModelRequest
    key: EffectKey
    scope: ScopeId
    lanes: Sequence[Lane]
    """The model's own first."""
    retry: RetryRule
    stream: bool = False
    deadline_ms: int | None = None
    wait_for_budget: bool = False
    priority: int = 2
    earlier: int = 0
    """Attempts made before we died; their claims are in the ledger."""
    retry_billed: bool = True
    """False: what may have been billed is told to the caller, who reserves anew in its wallets."""


@dataclass(slots=True)
class Account:
    """What one call came to; filled in while it runs, right even when it ends by an exception."""

    reserved: int = 0
    charged: int = 0
    attempts: int = 0
    first_chunk_ms: int | None = None
    notices: list[Notice] = field(default_factory=list[Notice])


class _NoRoomError(Exception):
    """The reservation did not fit when its turn came, but may later."""

    def __init__(self, verdict: Short) -> None:
        super().__init__(verdict)
        self.verdict = verdict


class Gate:
    def __init__(self, ledger: Ledger, clock: Clock, holder: HolderId) -> None:
        self._ledger = ledger
        self._clock = clock
        self._holder = holder
        self._settled = asyncio.Event()
        self.chance: random.Random = random.SystemRandom()

    async def ask(self, call: ModelCall, account: Account) -> ModelReply:
        async with aclosing(self.chunks(call, account)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, ModelReply):
                    return chunk
        raise BugError(f"{call.model.name} ended its answer without a reply")

    async def chunks(self, call: ModelCall, account: Account) -> AsyncGenerator[ModelChunk]:
        """Closing it early closes the connection and settles. A stream that has begun to speak is
        never begun again: only its opening is retried."""
        price = price_of(call.model)
        tokens = call.model.bound_input(call.request)
        now, storms = self._clock.now(), call.lanes[0].retry_budget
        retry = start_retry(call.retry, now, deadline_ms=call.deadline_ms, budget=storms)
        while True:
            account.attempts = retry.attempts
            try:
                async with aclosing(self._attempt(call, price, tokens, account)) as answer:
                    async for chunk in answer:
                        yield chunk
                return  # noqa: TRY300
            except _NoRoomError as short:
                await self._wait_for_room(call, short.verdict)
            except WorldError as error:
                verdict = retry.on_failure(
                    error.error_class,
                    self._clock.now(),
                    self.chance.random(),
                    phase=error.phase,
                    retry_after_ms=error.retry_after_ms,
                    budget=storms,
                )
                again = call.retry_billed or error.phase is not Phase.UNKNOWN
                if isinstance(verdict, GiveUp) or account.first_chunk_ms is not None or not again:
                    raise
                await self._clock.wait_until(verdict.at_ms)

    async def _attempt(
        self, call: ModelCall, price: PriceRow, tokens: int, account: Account
    ) -> AsyncGenerator[ModelChunk]:
        attempt = call.earlier + account.attempts
        max_tokens = call.request.settings.max_tokens
        worst = worst_case(price, tokens, max_tokens)
        due: Money | None = None
        outcome, claimed = Outcome.NEITHER, False
        permits = await self._enter(call, attempt, tokens + max_tokens)
        try:
            claimed = await self._claim(call, attempt, worst, account)
            if not call.stream:
                with admitted():
                    chunk = await call.model.ask(call.request)
            else:
                async with aclosing(call.model.stream(call.request)) as answer:
                    with admitted():
                        chunk = await anext(answer)
                    while not isinstance(chunk, ModelReply):
                        if account.first_chunk_ms is None:
                            account.first_chunk_ms = self._clock.now()
                        yield chunk
                        chunk = await anext(answer)
            due, outcome = _due(price, worst, chunk), Outcome.SUCCESS
        except WorldError as error:
            outcome = health(error)
            due = None if error.phase is Phase.UNKNOWN else Money(0)
            for lane in call.lanes:
                lane.heed(error)
            raise
        finally:
            for lane, permit in permits:
                lane.leave(_who(call, attempt), permit, outcome)
            if claimed:
                await self._settle(call, attempt, due, account)
        yield chunk

    async def _enter(self, call: ModelCall, attempt: int, tokens: int) -> list[tuple[Lane, Permit]]:
        who, permits = _who(call, attempt), list[tuple[Lane, Permit]]()
        try:
            for lane in call.lanes:
                permits.append((lane, await lane.enter(who, tokens, call.priority)))
        except BaseException:
            for lane, permit in permits:
                lane.leave(who, permit, Outcome.NEITHER)
            raise
        return permits

    async def _claim(self, call: ModelCall, attempt: int, worst: Money, account: Account) -> bool:
        ledger, key, now = self._ledger, call.key, self._clock.now()
        try:
            verdict = await ledger.reserve(
                key, attempt, call.scope, worst, self._holder, now, sent=True
            )
        except asyncio.CancelledError:
            await to_its_end(self._let_go(call, attempt, account))
            raise
        if isinstance(verdict, Reserved):
            account.reserved += worst
            account.notices.extend(verdict.notices)
            return True
        if isinstance(verdict, Short) and call.wait_for_budget and not verdict.hopeless:
            raise _NoRoomError(verdict)
        raise refusal(call, worst, verdict)

    async def _let_go(self, call: ModelCall, attempt: int, account: Account) -> None:
        """Of what was reserved, if it was; nothing was sent."""
        if await self._ledger.claim(call.key, attempt) is not None:
            await self._settle(call, attempt, Money(0), account)

    async def _settle(
        self, call: ModelCall, attempt: int, due: Money | None, account: Account
    ) -> None:
        """`due` None: nobody knows, so all of it. Once asked for, the ledger carries it out even
        if we are cancelled here."""
        now = self._clock.now()
        if due is None:
            settling = self._ledger.cut_off(call.key, attempt, now)
        else:
            settling = self._ledger.answer(call.key, attempt, due, now)
        try:
            settled = await settling
        except asyncio.CancelledError:
            await to_its_end(self._look_up(call, attempt, account))
            raise
        account.charged += settled.changed
        account.notices.extend(settled.notices)
        self._settled.set()
        self._settled = asyncio.Event()

    async def _look_up(self, call: ModelCall, attempt: int, account: Account) -> None:
        """What a settlement came to whose answer was not waited for."""
        claim = await self._ledger.claim(call.key, attempt)
        account.charged += claim.charged if claim else 0

    async def _wait_for_room(self, call: ModelCall, short: Short) -> None:
        """Until somebody settles; a deadline that passes meanwhile is a refusal."""
        now = self._clock.now()
        if call.deadline_ms is not None and now >= call.deadline_ms:
            raise refusal(call, short.wanted, short)
        await first_of(self._settled.wait(), self._clock.wait_until(now + _BUDGET_POLL_MS))


def _who(call: ModelCall, attempt: int) -> str:
    return f"{call.key}#{attempt}"


def _due(price: PriceRow, worst: Money, reply: ModelReply) -> Money:
    if reply.usage is None:
        return worst
    try:
        return bill(price, reply.usage)
    except InvalidMoneyError:
        return worst
