"""The gate's do-half, the only caller of models: every attempt is limited, reserved, sent, recorded
and settled once.

What may have been billed is charged. The reply is spooled before anything is awaited, so that
`kill -9` does not lose it.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from vegakit.concurrency import run_to_completion
from vegakit.conversation import Finish, ModelChunk, ModelReply, ModelRequest, TextDelta, Usage
from vegakit.errors import (
    BudgetExceeded,
    InvalidMoneyError,
    Phase,
    StoreError,
    WorldError,
)
from vegakit.events import Answered
from vegakit.host.budget_waits import BudgetWaits, Shortage
from vegakit.host.budgets import price_of, refusal
from vegakit.host.journal import CallRecord
from vegakit.host.limiter import (
    CallHealth,
    Limiter,
    OnQueued,
    OnWait,
    health,
    unheard,
    unqueued,
)
from vegakit.host.recovery import Backlog, claims_of, retry_store
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, format_money
from vegakit.policy import (
    LEASE_MS,
    NO_RULES,
    Admission,
    Deadlock,
    GiveUp,
    GiveUpReason,
    InsufficientBudget,
    NeedsHigherCap,
    Notice,
    Reserved,
    RetryAt,
    RetryRule,
    ScopeRules,
    Settlement,
    format_wait,
    start_retry,
)
from vegakit.ports import Clock, Ledger, Model
from vegakit.prices import PriceRow, bill, worst_case
from vegakit.providers import RequestAdmission, admitted

if TYPE_CHECKING:
    from vegakit.store import ReplyCache

# The gate, do-half: the only caller of models.
#
#     price ─▶ cached? ── yes ──▶ the reply, which costs nothing
#                │ no
#                ▼
#              ┌ turn in its lane ─▶ breaker ─▶ reserve ─▶ send ─▶ answer ─▶ keep ─▶ settle ┐
#              └────── next attempt, if the retry rule names it and it was not billed ◀─────┘
#
# Every attempt passes limits and breaker, is reserved anew and settled once, whatever happens to
# it. A reply is kept (`store.spool`) before anything is waited for, so that `kill -9` does not
# lose it. Nothing is reserved while nothing can be sent. A ledger that is away when the answer is
# there costs nobody the answer: it is settled later (`backlog`). What may have been billed is
# told to the program: it decides by the same rule, and reserves in its wallets before it asks
# again. The program counts attempts (`program.Attempts`); the gate reports each with its error.
#
# | how an attempt ends                             | it is charged                                |
# |-------------------------------------------------|----------------------------------------------|
# | answered, usage reported                        | the bill, even above its reservation         |
# | answered, usage missing or impossible           | its reservation                              |
# | ended by a word that nobody knows, usage told   | the bill                                     |
# | refused by the provider, or nothing was sent    | nothing                                      |
# | an ask that the model itself makes is refused   | nothing but what its asks cost               |
# | cut off: cancelled, dropped, timed out, crashed | its reservation, since it may be billed      |
# | cut off before the first byte was written       | nothing                                      |


T = TypeVar("T")

_LOG = logging.getLogger("vegakit")
_MOST_BELIEVED = 1 << 60
"""A billion dollars for one call is a usage that cannot be; no ledger could hold it, either."""
_FINAL = (GiveUpReason.BUDGET, GiveUpReason.DEADLINE)
"""Reasons that only the gate knows, so that the outcome has to say them."""
_WHOLE = (Finish.STOP, Finish.TOOL_CALLS)
"""How an answer ends that may be given again: not cut short, and not held back."""


class ModelCall(NamedTuple):
    """A model call on its way through the gate."""

    model: Model
    request: ModelRequest
    key: EffectKey
    scope: ScopeId
    limiter: Limiter
    retry: RetryRule
    stream: bool = False
    deadline_ms: int | None = None
    budget_wait_ms: int = 0
    """How long it waits for money that other calls hold, while nothing moves in the budget."""
    priority: int = 2
    attempts: int = 0
    """The attempts that the program has counted at this answer."""
    own_breaker: bool = False
    """The agent has a breaker of its own, which takes the place of its model's."""
    max_wait_ms: int | None = None
    """How long it may wait for its turn; None: as long as it takes."""
    on_queued: OnQueued = unqueued
    on_retry: Callable[[WorldError, RetryAt, int], object] = lambda _error, _at, _ms: None
    """Told why it is asked again, when, and in how many milliseconds that is."""
    bound: tuple[int, Money] | None = None
    """Tokens and cost that it can come to at most, where the program has counted with this model
    and its price."""
    rules: ScopeRules = NO_RULES
    """The caps of this runtime on the scope and on those around it."""
    inside: tuple[EffectKey, ...] = ()
    """The calls in flight that it is made inside of, such as by a model that asks others."""


class WaitAsked(Struct, frozen=True):
    """A provider asked to wait before the next attempt, and it is waited for."""

    model: str
    wait_ms: int


@dataclass(slots=True)
class Account:
    """The account of one call; it is filled in while the call runs, and right even when it ends by
    an exception."""

    reserved: int = 0
    charged: int = 0
    claimed: int = 0
    """Claims that the ledger had of this call before, in an earlier life or of an earlier start."""
    failures: list[WorldError] = field(default_factory=list[WorldError])
    """The error of each attempt that failed."""
    first_chunk_ms: int | None = None
    gave_up: bool = False
    """All who call this model have used up the retries that they share, or no time is left."""
    notices: list[Notice | WaitAsked] = field(default_factory=list["Notice | WaitAsked"])
    pieces: list[str] = field(default_factory=list[str])
    """The text of a stream, as it came."""
    record: CallRecord | None = None
    request_id: str = ""
    """How the provider calls the last attempt."""
    is_recorded: bool = False
    """The answer is in the journal, or on its way there."""
    short: Shortage | None = None
    """Why the last reservation did not fit; the next attempt waits until it may."""
    ticket: int = 0
    """The place of the call in the line for money."""
    is_waiter: bool = False
    """The ledger knows that the call waits."""
    cached: bool = False
    """The answer is of an earlier call with the same request: nothing was sent."""


class _NoRoomError(Exception):
    """The reservation did not fit when its turn came, but may later."""


class Gate:
    """The gate that every model call passes: rate and slot, breaker, reservation and claim, send,
    settlement."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        holder: HolderId,
        backlog: Backlog | None = None,
        lease_ms: int = LEASE_MS,
        cache: "ReplyCache | None" = None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self.holder = holder
        self._backlog = Backlog(clock) if backlog is None else backlog
        self._lease_ms = lease_ms
        self._cache = cache
        self._waits = BudgetWaits(ledger, clock)
        self.reserved = 0
        """Nano-dollars that are held for attempts of this runtime which have not ended."""
        self.overbilled = Money(0)  # what providers billed above what a call could cost at most
        self.on_wait: OnWait = unheard
        self.chance: random.Random = random.SystemRandom()

    async def count_claims(self, key: EffectKey, account: Account) -> None:
        """Note how many claims the ledger has of a call; the next one has the next number."""
        account.claimed = len(await claims_of(self._ledger, key))

    async def chunks(self, call: ModelCall, account: Account) -> AsyncGenerator[ModelChunk]:
        """Yield the pieces of an answer. Closing it early closes the connection and settles. A
        stream that has begun to speak is never begun again: only its opening is retried."""
        price = price_of(call.model)
        for chunk in await self._cached(call, account):
            yield chunk
        if account.cached:
            return
        bound = call.bound or _bound(call, price)
        now, storms = self._clock.now(), call.limiter.retry_budget
        # Only the first attempt at an answer feeds the budget of retries that all callers share.
        first = None if call.attempts else storms
        retry = start_retry(call.retry, now, deadline_ms=call.deadline_ms, budget=first)
        while True:
            try:
                attempt = self._attempt(call, price, bound, account)
                async with self._attempting(call, account), aclosing(attempt) as answer:
                    async for chunk in answer:
                        yield chunk
                return  # noqa: TRY300
            except _NoRoomError:
                continue
            except WorldError as error:
                account.failures.append(error)
                verdict = retry.on_failure(
                    call.attempts + len(account.failures),
                    error.error_class,
                    self._clock.now(),
                    self.chance.random(),
                    phase=error.phase,
                    retry_after_ms=error.retry_after_ms,
                    budget=storms,
                )
                if isinstance(verdict, GiveUp):
                    account.gave_up = verdict.reason in _FINAL
                    raise _last_error(error, retry.rule, verdict.reason) from None
                # It may have been billed, or its beginning was seen: to ask again is then for the
                # program to decide, which reserves for it in its own wallets.
                if error.phase is Phase.UNKNOWN or account.first_chunk_ms is not None:
                    raise
                if error.retry_after_ms is not None:
                    account.notices.append(WaitAsked(call.model.name, error.retry_after_ms))
                call.on_retry(error, verdict, max(0, verdict.at_ms - self._clock.now()))
                await self._clock.wait_until(verdict.at_ms)

    async def _attempt(
        self, call: ModelCall, price: PriceRow, bound: tuple[int, Money], account: Account
    ) -> AsyncGenerator[ModelChunk]:
        attempt = account.claimed + len(account.failures) + 1
        tokens, worst = bound
        await self._wait_for_room(call, worst, account)
        due: Money | None = None
        outcome, claimed = CallHealth.NEITHER, False
        answered: Answered | None = None
        admission: RequestAdmission | None = None
        who = f"{call.key}#{attempt}"
        # Its turn comes before its reservation: money that is held by calls in a line would be
        # missing for calls that could be sent now.
        permit = await call.limiter.enter(
            who,
            tokens,
            call.priority,
            own_breaker=call.own_breaker,
            max_wait_ms=call.max_wait_ms,
            on_queued=call.on_queued,
        )
        try:
            entered = self._clock.now()
            claimed = await self._claim(call, attempt, worst, account)
            self.on_wait("reserve", self._clock.now() - entered)
            if not call.stream:
                with admitted() as admission:
                    chunk = await call.model.ask(call.request)
            else:
                async with aclosing(call.model.stream(call.request)) as answer:
                    with admitted() as admission:
                        chunk = await anext(answer)
                    while not isinstance(chunk, ModelReply):
                        if account.first_chunk_ms is None:
                            account.first_chunk_ms = self._clock.now()
                        if isinstance(chunk, TextDelta):
                            account.pieces.append(chunk.text)
                        yield chunk
                        chunk = await anext(answer)
            due, outcome = _due(call, price, worst, chunk.usage), CallHealth.SUCCESS
            self.overbilled = Money(self.overbilled + max(0, due - worst))
            answered = Answered(chunk, Money(account.charged + due), tuple(account.pieces))
            _keep(call, attempt, due, answered, account)
        except (WorldError, BudgetExceeded) as error:
            due, outcome = _failed_attempt(call, error)
            raise
        finally:
            # The slot is free before the ledger is waited for: a slow disk must not slow the model.
            call.limiter.leave(who, permit, outcome)
            if admission is not None:
                account.request_id = admission.request_id
                due = _due_for_none(call, price, worst, admission) if due is None else due
            if claimed:
                self.reserved -= worst
                await self._settle(call, attempt, worst, due, answered, account)
        if self._cache is not None and chunk.finish in _WHOLE:
            await self._cache.put(_named(call), chunk, self._clock.now())
        # Only now, when it is settled: whoever has an answer may rely on its being charged.
        yield chunk

    async def _cached(self, call: ModelCall, account: Account) -> tuple[ModelChunk, ...]:
        """Return the reply to the same request as one that took no tokens, its text in one piece.
        Nothing is reserved for it, so there is nothing to settle."""
        now = self._clock.now()
        found = None if self._cache is None else await self._cache.get(_named(call), now)
        if found is None:
            return ()
        account.cached, text = True, found.message.text
        reply = replace(found, usage=Usage())
        if not call.stream or not text:
            return (reply,)
        account.first_chunk_ms = self._clock.now()
        account.pieces.append(text)
        return TextDelta(text), reply

    async def _claim(self, call: ModelCall, attempt: int, worst: Money, account: Account) -> bool:
        self._backlog.check()
        if account.record is not None:
            words = _TOKEN_BYTES * call.request.settings.max_tokens
            account.record.make_place(_ANSWER_BYTES + words)
        try:
            verdict = await self._reserve(call, attempt, worst, account.record)
            if isinstance(verdict, Reserved):
                await self._end_wait(call, account)
        except asyncio.CancelledError:
            # The ledger may have reserved before we were cancelled, and nobody else would free it
            # before the lease ends.
            await run_to_completion(self._let_go(call, attempt))
            raise
        except StoreError as error:
            # The ledger may have reserved before it went away, and our lease would keep that.
            self._backlog.put(self._release(call, attempt), error)
            raise
        if isinstance(verdict, Reserved):
            account.reserved += worst
            self.reserved += worst
            account.notices.extend(verdict.notices)
            return True
        is_short = isinstance(verdict, InsufficientBudget | NeedsHigherCap)
        if is_short and not verdict.hopeless and call.budget_wait_ms:
            account.short = verdict
            raise _NoRoomError
        raise self._refusal(call, worst, verdict, account)

    def _refusal(
        self, call: ModelCall, worst: Money, verdict: Admission, account: Account, waited: str = ""
    ) -> BudgetExceeded:
        return refusal(
            call,
            worst,
            verdict,
            may_go_on=account.record is not None,
            overbilled=self.overbilled,
            waited=waited,
        )

    async def _reserve(
        self, call: ModelCall, attempt: int, worst: Money, record: CallRecord | None
    ) -> Admission:
        """Reserve the most that an attempt may cost. Nothing was sent, so a ledger that is away may
        be waited for, though not for long. It may have reserved before it went away; nobody else
        claims this attempt."""

        def reserve() -> Awaitable[Admission]:
            return self._ledger.reserve(
                call.key,
                attempt,
                call.scope,
                worst,
                self.holder,
                self._clock.now(),
                lease_ms=self._lease_ms,
                rules=call.rules,
            )

        try:
            if record is None or not record.is_unclaimed:
                return await reserve()
            return await self._claim_and_reserve(record, reserve)
        except StoreError:
            pass

        async def once_more() -> Admission:
            if record is not None and record.is_unclaimed:
                await record.claim(self._clock.now())
                record.on_claimed()
            if await self._is_claimed(call, attempt):
                return Reserved()
            return await reserve()

        return await retry_store(self._clock, once_more)

    async def _claim_and_reserve(
        self, record: CallRecord, reserve: Callable[[], Awaitable[Admission]]
    ) -> Admission:
        """Claim the call and reserve for it, in one transaction where journal and ledger are in one
        place. Elsewhere the claim comes first: what is reserved and not claimed would be charged,
        since nobody knows what it was. If the reservation is refused the claim is given up by who
        records the refusal."""
        now = self._clock.now()
        if not record.holds(self._ledger):
            await record.claim(now)
            record.on_claimed()
            return await reserve()
        # Both are begun before either is awaited: that is what puts them into one transaction.
        with record.atomically():
            claiming, reserving = _begun(lambda: record.claim(now)), _begun(reserve)
        try:
            await claiming
            record.on_claimed()
        finally:  # who is cancelled meanwhile must know what was reserved
            verdict = await reserving
        return verdict

    async def _is_claimed(self, call: ModelCall, attempt: int) -> bool:
        return len(await claims_of(self._ledger, call.key)) >= attempt

    async def _let_go(self, call: ModelCall, attempt: int) -> None:
        """Free the reservation of a call that was not sent, if there is one."""
        await self._carry_out(self._release(call, attempt))

    async def _carry_out(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write now, or when the ledger is back."""
        try:
            await write()
        except StoreError as error:
            self._backlog.put(write, error)

    def _release(self, call: ModelCall, attempt: int) -> Callable[[], Awaitable[None]]:
        """Return the write that frees the reservation of an attempt, if there is one."""

        async def release() -> None:
            if await self._is_claimed(call, attempt):
                await self._ledger.answer(call.key, attempt, Money(0), self._clock.now())

        return release

    async def _settle(
        self,
        call: ModelCall,
        attempt: int,
        worst: Money,
        due: Money | None,
        answered: Answered | None,
        account: Account,
    ) -> None:
        """Charge what is due; None means that nobody knows, so all of the reservation. An answer is
        recorded in the same transaction, where journal and ledger are in one place. What is charged
        is known before the ledger has taken it: it is carried out even if we are cancelled here or
        the ledger is away."""
        # Counted before anything is awaited: who is cancelled below still tells what was charged.
        account.charged += worst if due is None else due
        now, record = self._clock.now(), account.record

        def settle() -> Awaitable[Settlement]:
            if due is None:
                return self._ledger.cut_off(call.key, attempt, now, rules=call.rules)
            return self._ledger.answer(call.key, attempt, due, now, rules=call.rules)

        if record is None or answered is None:
            await self._written(settle, account)
        else:
            outcome, account.is_recorded = answered, True

            def note() -> Awaitable[None]:
                return record.record(outcome)

            with record.atomically():
                noting, settling = _begun(note), _begun(settle)
            try:
                await self._written(note, account, noting)
            finally:  # who is cancelled in the first settles all the same
                await self._written(settle, account, settling)
        self.on_wait("settle", self._clock.now() - now)
        self._waits.on_settled()

    async def _written(
        self,
        write: Callable[[], Awaitable[Settlement | None]],
        account: Account,
        begun: Awaitable[Settlement | None] | None = None,
    ) -> None:
        """Wait for what was begun, or begin it. A store that is away takes it later."""
        try:
            settled = await (write() if begun is None else begun)
        except StoreError as error:
            self._backlog.put(write, error)
        except asyncio.CancelledError:
            # How the first time went is not told any more; the second changes nothing if it went.
            await run_to_completion(self._written(write, account))
            raise
        else:
            if settled is not None:
                account.notices.extend(settled.notices)

    @asynccontextmanager
    async def _attempting(self, call: ModelCall, account: Account) -> AsyncGenerator[None]:
        """Give up the place of a reply when its attempt has ended, and the place among the waiters
        unless the call waits again."""
        try:
            yield
        finally:
            if account.record is not None:
                account.record.leave_place()
            if account.short is None:
                await self._end_wait(call, account)

    async def _end_wait(self, call: ModelCall, account: Account) -> None:
        if account.is_waiter:
            account.is_waiter = False
            await run_to_completion(self._carry_out(partial(self._ledger.end_wait, call.key)))

    async def _wait_for_room(self, call: ModelCall, worst: Money, account: Account) -> None:
        """Wait until there may be room, behind the calls that came before; refuse the call if it
        has waited long enough, or would wait for ever."""
        short, account.short = account.short, None
        if short is None and call.budget_wait_ms and not (account.ticket or call.inside):
            short = self._waits.line_ahead((call.scope, *call.rules), worst)
        if short is None:
            return

        def check_deadlock() -> Awaitable[Deadlock | None]:
            return self._ledger.wait(
                call.key,
                call.scope,
                worst,
                call.inside,
                holder=self.holder,
                now=self._clock.now(),
                rules=call.rules,
            )

        account.is_waiter = bool(call.inside)
        account.ticket, why, short = await self._waits.wait(
            short,
            worst,
            account.ticket,
            limit_ms=call.budget_wait_ms,
            deadline_ms=call.deadline_ms,
            check_deadlock=check_deadlock if call.inside else None,
        )
        if why:
            raise self._refusal(call, worst, short, account, why)


def _named(call: ModelCall) -> ModelRequest:
    """Return the request by the name of its model, where the program has an alias for it."""
    return replace(call.request, model=call.model.name)


_ANSWER_BYTES = 4_096
_TOKEN_BYTES = 8
"""How long a reply may be as JSON: without its words, and for each token."""


def _bound(call: ModelCall, price: PriceRow) -> tuple[int, Money]:
    tokens, most = call.model.bound_input(call.request), call.request.settings.max_tokens
    return tokens + most, worst_case(price, tokens, most)


def _begun(write: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    """Begin a write. A store may refuse at once, too, as one whose queue is full does."""
    try:
        return write()
    except StoreError as error:
        return _failed(error)


async def _failed(error: StoreError) -> NoReturn:
    raise error


def _keep(call: ModelCall, attempt: int, due: Money, answered: Answered, account: Account) -> None:
    """Keep a reply before limiters are left and anything is waited for: in a burst of answers the
    loop comes back to this call late, and whatever was not kept by then would be bought again after
    a kill. If the disk takes no more the reply still goes on its way to the journal and to the
    program."""
    if account.record is None:
        return
    try:
        account.record.keep(attempt, due, answered)
    except OSError as error:
        _LOG.warning("a reply of %s could not be spooled: %s", call.model.name, error)


_TOO_LONG = {GiveUpReason.WAIT, GiveUpReason.DEADLINE}


def _last_error(error: WorldError, rule: RetryRule, reason: GiveUpReason) -> WorldError:
    """Return the error that a call ends by; of a provider that asks to wait for longer than anybody
    would, with the wait and what to do."""
    wait_ms = error.retry_after_ms
    if wait_ms is None or reason not in _TOO_LONG:
        return error
    if reason is GiveUpReason.WAIT:
        why = (
            f"longer than max_wait, {format_wait(rule.max_wait_ms)}; try later, or raise it in "
            'vega.toml: [limits.default.retry] max_wait = "10m", or by Agent(max_wait="10m")'
        )
    else:
        why = "which is after the deadline of the call; try later, or give it a longer timeout"
    text = f"{error}; it asks to wait {format_wait(wait_ms)}, {why}"
    return WorldError(text, error.error_class, phase=error.phase, retry_after_ms=wait_ms)


def _failed_attempt(
    call: ModelCall, error: WorldError | BudgetExceeded
) -> tuple[Money | None, CallHealth]:
    """Return what an attempt costs that failed so, None if nobody knows, and tell the limiter. A
    budget refuses what the model itself asks before it sends anything."""
    if isinstance(error, BudgetExceeded):
        return Money(0), CallHealth.NEITHER
    call.limiter.note_failure(error)
    call.limiter.note_retry_after(error, call.retry.max_wait_ms)
    return None if error.phase is Phase.UNKNOWN else Money(0), health(error)


def _due_for_none(
    call: ModelCall, price: PriceRow, worst: Money, admission: RequestAdmission
) -> Money | None:
    """Return what is charged though there is no answer; None if nobody knows."""
    if admission.unsent:
        return Money(0)  # cancelled or out of time before there was a connection
    return None if admission.usage is None else _due(call, price, worst, admission.usage)


def _due(call: ModelCall, price: PriceRow, worst: Money, usage: Usage | None) -> Money:
    """Return what is charged for an answer: the bill, also one above all that was reserved, since
    it is what the provider asks for; without one, or with one that cannot be, the reservation."""
    if usage is None:
        return worst
    try:
        due = bill(price, usage)
    except InvalidMoneyError:
        return worst
    if due > _MOST_BELIEVED:
        return worst
    if due > worst:
        _LOG.warning(
            "%s billed %s for a call that could cost %s at most: it keeps to no limit (max_tokens "
            "was %s), or counts what was not sent; no budget can hold it, so check the server",
            call.model.name,
            format_money(due),
            format_money(worst),
            call.request.settings.max_tokens,
        )
    return due
