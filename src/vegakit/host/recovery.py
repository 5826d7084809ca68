"""Recovery: calls that a crash cut off, and writes that a store could not take because it was away.

A reply that has arrived is paid for, so it goes to the program although a ledger or a journal
cannot be written at that moment.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct

from vegakit.effects import CallModel, CallTool
from vegakit.errors import StoreError
from vegakit.events import Answered, Unknown, charged_for
from vegakit.host.budgets import Budgets
from vegakit.ids import EffectKey, HolderId
from vegakit.money import Money, format_money
from vegakit.policy import Claim, ClaimState, Reserved, ScopeRule
from vegakit.ports import (
    Clock,
    Journal,
    KeptOutcome,
    Ledger,
    PastCall,
    RunRecord,
    UnfinishedEffect,
)

if TYPE_CHECKING:
    from vegakit.config import CutOffTools

# Writes that a store could not take, because it is away: tried again until it is back.
#
# A reply that has arrived is paid for, so it goes to the program although a ledger or a journal
# cannot be written at that moment. What had to be written waits here:
#
#     reply ─▶ settle ── StoreError ──▶ backlog ─ … tried again, later each time … ─▶ settled
#                └────────▶ program                └── at the end of the run: spool, lease
#
# The backlog is bounded: when it is full, new calls are refused before they are sent. It is loud:
# one warning when an outage begins and one when it is over. What is still here when the runtime
# closes is tried for a few seconds more. What is lost then is found again: the reply is in the
# spool, and what was reserved is charged in full when the lease ends.


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
    """Writes to a store that is away, which are carried out when it is back."""

    def __init__(self, clock: Clock, most: int = _MOST, closing_s: float = _CLOSING_S) -> None:
        self._clock, self._most, self._closing_s = clock, most, closing_s
        self._writes: deque[Write] = deque()
        self._trying: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._writes)

    def put(self, write: Write, error: StoreError) -> None:
        """Carry out a write when the store is back; `error` says why it was not now."""
        self._writes.append(write)
        if self._trying is None:
            _LOG.warning(
                "%s; replies go on to the program, and what they cost is written when it is back",
                error,
            )
            self._trying = asyncio.ensure_future(self._try())

    def check(self) -> None:
        """Refuse to send anything when too many writes wait: what came of it could not be kept,
        either."""
        if len(self._writes) >= self._most:
            raise StoreError(
                f"{len(self._writes):,} replies wait to be written, since their store is away, so "
                "nothing more is sent; start that store, or free its disk, and try again"
            )

    async def aclose(self) -> None:
        """Wait for the writes that are left, though not for ever, and say what is lost."""
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
            # One alone asks whether the store is back, so that an outage costs one failure a try.
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
        """Carry out the first writes at once. Those that fail go to the end: one that its store
        never takes must not stand in the way of the others."""
        writes = [self._writes.popleft() for _ in range(min(count, len(self._writes)))]
        try:
            done = await asyncio.gather(*(_awaited(write) for write in writes))
        except BaseException:
            self._writes.extend(writes)
            raise
        failed = [write for write, is_done in zip(writes, done, strict=True) if not is_done]
        self._writes.extend(failed)
        return not failed


async def retry_store(clock: Clock, work: Callable[[], Awaitable[T]]) -> T:
    """Carry out a write, again and again for a few seconds while its store is away; a short restart
    is not seen by who waits here. What may have been carried out is looked for by `work` itself."""
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
    """Return whether a write was taken. What fails otherwise cannot be made good by trying
    again."""
    try:
        await write()
    except StoreError:
        return False
    except Exception:  # noqa: BLE001  (it must not end the task that carries out the others)
        _LOG.exception("a write that waited for its store failed")
    return True


# After a death: what the journal and the ledger know of calls that were cut off is joined.
#
# What was kept and not recorded is recorded first; only what is then without an outcome was cut
# off.
#
# the journal says | the ledger says           | then
# -----------------|---------------------------|-------------------------------------------------
# kept             | sent, or charged in full  | recorded, and the ledger settled by its bill
# recorded         | sent, or charged in full  | the ledger is settled by the recorded charge
# claimed, and     | sent, or charged          | Unknown is recorded, with what is charged, to be
# speculative      |                           | asked again whatever the rule: the program had
#                  |                           | not come to it
# claimed, a model | sent, or charged          | Unknown is recorded, with what is charged
# claimed, a model | anything else             | nothing is under way: it goes on where it was
# claimed, a tool  | –                         | if it may be repeated, or waited for leave and
#                  |                           | so was not begun, it is called; else as a person
#                  |                           | has decided: it is called, Unknown is recorded,
#                  |                           | or the run stops when it comes to it
# claimed, a       | –                         | it is asked again: the same question
# question         |                           |


_OPEN = (ClaimState.SENT, ClaimState.UNKNOWN)


class CutOffCalls(Struct, frozen=True):
    """The model calls of a run that our own death cut off. `unsent` is the number of those not sent
    again yet, `due` their charges, and `total` the charges of all, in every life."""

    unsent: int = 0
    due: Money = Money(0)
    total: Money = Money(0)


class Recovered(Struct, frozen=True):
    """The state of a run that was cut off. `lost` are the calls whose answers are lost, `undecided`
    the tool calls that were cut off and wait for a person's decision. `charged` is the cost of all
    model calls of the run, and `replies` the number of answers. `answered` are the calls that the
    program had come to and that were answered."""

    lost: frozenset[EffectKey] = frozenset()
    undecided: frozenset[EffectKey] = frozenset()
    cut: CutOffCalls = CutOffCalls()
    charged: Money = Money(0)
    replies: int = 0
    answered: frozenset[EffectKey] = frozenset()


async def recover(
    journal: Journal,
    ledger: Ledger,
    now: int,
    not_started: Container[EffectKey] = (),
    tools: "CutOffTools | None" = None,
) -> Recovered:
    """Bring journal and ledger of a run together after it was cut off. `tools` is what a person has
    decided about tool calls that may not be repeated."""
    from vegakit.config import CutOffTools  # the settings are not part of every runtime

    # Replies in the spool come first: they are paid for, and their calls were not cut off.
    bills = await _record_spooled(journal)
    # Only now is a claim without an outcome a call that was cut off.
    calls = [*await journal.calls()]
    unfinished = await journal.cut_off()
    keys = [call.key for call in calls]
    keys += [effect.key for effect in unfinished if effect.kind == CallModel.__name__]
    claims = await ledger.claims(keys)
    # The bills: where journal and ledger are two files, a kill between the two writes has left the
    # ledger behind.
    for call in calls:
        await _settle(ledger, call, bills.get(call.key), claims.get(call.key, ()), now)
    lost, undecided = set[EffectKey](), set[EffectKey]()
    for begun in unfinished:
        if (
            begun.key not in not_started
            and _needs_decision(begun)
            and tools is not CutOffTools.RESEND
        ):
            if tools is CutOffTools.SKIP:
                lost.add(begun.key)
                await journal.record(begun.key, Unknown(Money(0)))
            else:
                undecided.add(begun.key)
            continue
        outcome = None
        if begun.key not in not_started:
            outcome = await _outcome(ledger, begun, claims.get(begun.key, ()), now)
        if outcome is None:
            await journal.drop(begun.key)
        else:
            lost.add(begun.key)
            calls.append(PastCall(begun.key, begun.path, outcome))
            await journal.record(begun.key, outcome)
    return Recovered(
        frozenset(lost),
        frozenset(undecided),
        _cut_off(calls),
        Money(sum(charged_for(call.outcome) for call in calls)),
        sum(isinstance(call.outcome, Answered) for call in calls),
        frozenset(
            call.key for call in calls if call.committed and isinstance(call.outcome, Answered)
        ),
    )


async def _record_spooled(journal: Journal) -> dict[EffectKey, KeptOutcome]:
    """Record the outcomes of the spool, and return them."""
    recorded: dict[EffectKey, KeptOutcome] = {}
    for kept in await journal.kept():
        # SQLite drops the end of a damaged log, and with it what that call asked: without its
        # digest nobody could tell whether this reply belongs to the call that is made next.
        if await journal.find(kept.key) is not None:
            await journal.record(kept.key, kept.outcome)
            recorded[kept.key] = kept
    return recorded


async def _settle(
    ledger: Ledger, call: PastCall, kept: KeptOutcome | None, claims: Sequence[Claim], now: int
) -> None:
    """Settle a call by the bill of its spooled reply, or by its recorded charge."""
    if kept is None:
        await _settle_recorded(ledger, call, claims, now)
    elif len(claims) >= kept.attempt and claims[kept.attempt - 1].state in _OPEN:
        await ledger.answer(kept.key, kept.attempt, kept.bill, now)


def _cut_off(calls: Sequence[PastCall]) -> CutOffCalls:
    """Return a summary of the calls that our own death cut off. A call that was sent again has a
    next occurrence at the same place."""
    paths = {call.path for call in calls}
    charges = {
        call.path: call.outcome.charged
        for call in calls
        if isinstance(call.outcome, Unknown) and call.outcome.cut
    }
    due = [charged for path, charged in charges.items() if _next_occurrence(path) not in paths]
    return CutOffCalls(len(due), Money(sum(due)), Money(sum(charges.values())))


def _next_occurrence(path: str) -> str:
    site, _, occurrence = path.rpartition("@")
    return f"{site}@{int(occurrence) + 1}"


async def charge_missing(
    recorded: Money, ledger: Ledger, run: RunRecord, budgets: Budgets, holder: HolderId, now: int
) -> Money:
    """Charge what the journal knows to be spent by a run and the ledger does not: its file was
    deleted, or another one is named now. `settled` of a scope never shrinks, whatever is pruned."""
    missing = recorded
    for root in budgets.roots_of(run.program):
        counted = await ledger.scope(root) if missing > 0 else None
        missing = Money(missing - (counted.settled if counted else 0))
    if missing > 0:
        key = EffectKey(f"rebuilt.{run.program}")
        attempt = len(await claims_of(ledger, key)) + 1
        # Nothing is reserved and all of it billed: a cap must not refuse what was spent already.
        scope = await budgets.ready(budgets.root)
        rules = dict.fromkeys(budgets.rules_around(scope), ScopeRule(None))
        reserved = await ledger.reserve(key, attempt, scope, Money(0), holder, now, rules=rules)
        if isinstance(reserved, Reserved):
            await ledger.answer(key, attempt, missing, now)
        _LOG.warning(
            "the ledger did not know of %s that the journal says this run has spent, so it is "
            "charged now; was the ledger deleted, or another one named?",
            format_money(missing),
        )
    return Money(max(0, missing))


def _needs_decision(begun: UnfinishedEffect) -> bool:
    is_tool = begun.kind == CallTool.__name__
    return is_tool and not begun.idempotent and not begun.speculative


async def _settle_recorded(
    ledger: Ledger, call: PastCall, claims: Sequence[Claim], now: int
) -> None:
    """Bring the last attempt to what is recorded. A call that was cut off is recorded with what all
    its attempts were charged, which the ledger knows already: the sum must not be put on the last
    one, nor an attempt that is unknown be taken for answered."""
    if not claims or claims[-1].state not in _OPEN:
        return
    charged = charged_for(call.outcome)
    earlier = sum(claim.charged for claim in claims[:-1])
    if earlier + claims[-1].charged != charged:
        bill = charged - earlier if charged > claims[-1].amount else charged
        await ledger.answer(call.key, len(claims), Money(bill), now)


async def _outcome(
    ledger: Ledger, begun: UnfinishedEffect, claims: Sequence[Claim], now: int
) -> Unknown | None:
    """Return the outcome of a call, or None if it is not known to be in flight."""
    was_sent = False
    charged = 0
    for attempt, claim in enumerate(claims, 1):
        charged += claim.charged
        if claim.state is ClaimState.SENT:
            was_sent = True
            charged += (await ledger.cut_off(begun.key, attempt, now)).changed
    if not (was_sent or charged):
        return None
    return Unknown(Money(charged), again=begun.speculative, cut=True)


async def claims_of(ledger: Ledger, key: EffectKey) -> Sequence[Claim]:
    """Return the claims of each attempt, the first first."""
    return (await ledger.claims([key])).get(key, ())
