"""Lines of calls that wait for money.

A call reserves its worst case and usually costs less. So a call that does not fit now may fit after
other calls are settled. Each short budget has a line and serves its calls in order of arrival. Only
the first call of a line reads the ledger, so that a thousand waiting calls do not delay the calls
that settle.

A call inside another call in flight skips the line, because calls in the line may wait for the
money around it. It has a row in the ledger instead. The ledger finds calls that wait for each other
and refuses the youngest.

A wait ends with a refusal if nothing moves in the budget for as long as the call may wait.
"""

import asyncio
from bisect import insort
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TypeAlias

from msgspec.structs import replace

from vegakit.concurrency import wait_first
from vegakit.errors import StoreError
from vegakit.ids import ScopeId
from vegakit.money import Money, format_money
from vegakit.policy import Deadlock, InsufficientBudget, NeedsHigherCap, format_wait
from vegakit.ports import Clock, Ledger

_POLL_MS = 50
"""Another process may settle without telling us."""

Shortage: TypeAlias = InsufficientBudget | NeedsHigherCap
CheckDeadlock: TypeAlias = Callable[[], Awaitable[Deadlock | None]]


class _Line:
    """The calls that wait for money in one budget, by ticket, each with the event that it is the
    first. `figures` are those of the budget when the first call last looked, `moved_ms` when they
    last changed."""

    def __init__(self, short: Shortage) -> None:
        self.short = short
        self.turns: list[tuple[int, asyncio.Event]] = []
        self.figures: tuple[int, int] | None = None
        self.moved_ms = 0

    def call_first(self) -> None:
        self.turns[0][1].set()


class BudgetWaits:
    """The lines of one gate."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lines: dict[ScopeId, _Line] = {}
        self._tickets = count(1)
        self._settled = asyncio.Event()

    def on_settled(self) -> None:
        """Let the first of each line look again. A call that comes later waits for the next
        settlement."""
        self._settled.set()
        self._settled = asyncio.Event()

    def line_ahead(self, scopes: Iterable[ScopeId], amount: Money) -> Shortage | None:
        """Return what is short in one of these budgets, if calls wait there already and the amount
        could fit."""
        for scope in scopes:
            line = self._lines.get(scope)
            if line and line.figures and line.figures[0] + amount <= line.short.cap:
                return line.short
        return None

    async def wait(
        self,
        short: Shortage,
        amount: Money,
        ticket: int,
        *,
        limit_ms: int,
        deadline_ms: int | None,
        check_deadlock: CheckDeadlock | None,
    ) -> tuple[int, str, Shortage]:
        """Wait until the short budget may have room for an amount. Return the ticket by which the
        call keeps its place, the reason for a refusal (empty: try again), and the present shortage.
        A call inside others passes a check for a deadlock and skips the line."""
        ticket = ticket or next(self._tickets)
        line = _Line(short)
        if check_deadlock is None:
            line = self._lines.setdefault(short.scope, line)
        place = ticket, asyncio.Event()
        insort(line.turns, place)
        line.call_first()
        joined_ms = self._clock.now()
        try:
            while True:
                is_first = line.turns[0] is place
                if is_first and await self._may_fit(line, amount):
                    return ticket, "", line.short
                if check_deadlock is not None and (why := await _deadlock_text(check_deadlock)):
                    return ticket, why, replace(line.short, hopeless=True)
                now = self._clock.now()
                patient_until = max(joined_ms, line.moved_ms) + limit_ms
                if deadline_ms is not None and now >= deadline_ms:
                    return ticket, "its timeout passed before any of it came free", line.short
                if now >= patient_until:
                    why = f"none of it came free for {format_wait(limit_ms)}"
                    return ticket, why, line.short
                until = min(patient_until, deadline_ms or patient_until)
                if is_first:
                    next_look = min(until, now + _POLL_MS)
                    await wait_first(self._settled.wait(), self._clock.wait_until(next_look))
                else:
                    place[1].clear()
                    await wait_first(place[1].wait(), self._clock.wait_until(until))
        finally:
            line.turns.remove(place)
            if line.turns:
                line.call_first()
            elif self._lines.get(short.scope) is line:
                del self._lines[short.scope]

    async def _may_fit(self, line: _Line, amount: Money) -> bool:
        """Return whether it is worth asking the ledger for the amount: it fits, or never will."""
        now, short = self._clock.now(), line.short
        try:
            counter = await self._ledger.counter(short.scope, short.period, now)
        except StoreError:
            return False
        figures = Money(counter.settled), Money(counter.reserved)
        if isinstance(short, InsufficientBudget):
            line.short = replace(short, settled=figures[0], reserved=figures[1])
        if counter.used + amount <= short.cap or counter.settled + amount > short.cap:
            return True
        if figures != line.figures:
            line.figures = figures
            line.moved_ms = now
        return False


async def _deadlock_text(check: CheckDeadlock) -> str:
    """Return the sums that block a call, and who holds them, if a deadlock refuses it."""
    try:
        deadlock = await check()
    except StoreError:
        return ""
    if deadlock is None:
        return ""
    around = format_money(deadlock.around)
    text = f"{around} of it is held by calls around this one, which end after it"
    if not deadlock.others:
        return text
    sums = [f"{format_money(held)} by calls of {name}" for name, held in deadlock.others.items()]
    return (
        f"{text}, and {', '.join(sums)}, which wait for money, too; this call began to wait last, "
        "so it is refused and the others continue"
    )
