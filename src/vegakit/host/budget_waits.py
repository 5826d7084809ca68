"""The line in which calls wait for money that other calls hold.

A call reserves the most that it may cost, and usually costs less. So a call that does not fit now
may fit when others have been settled. The calls wait in the order in which they came, a line for
each budget that is short, and only the first of a line looks at the ledger: a thousand calls that
all look would keep it from the calls that are paid for.

A wait ends when the budget has not moved for as long as the call is willing to wait. Then nobody is
left who would free money, and waiting on would be for ever.
"""

import asyncio
from collections import deque
from typing import NamedTuple

from vegakit.concurrency import wait_first
from vegakit.errors import StoreError
from vegakit.ids import ScopeId
from vegakit.money import Money
from vegakit.policy import ScopeRules, format_wait
from vegakit.ports import Clock, Ledger

_POLL_MS = 50
"""Another process may settle without telling us."""


class _Line:
    """The calls that wait for money in one budget, each by the event that its turn has come.
    `figures` are those of the budget when the first call last looked, `moved_ms` when they last
    changed."""

    def __init__(self) -> None:
        self.turns: deque[asyncio.Event] = deque()
        self.figures: tuple[int, int] | None = None
        self.moved_ms = 0


class _Wanted(NamedTuple):
    """What a call waits for: an amount in a budget, by the rules that it is held against."""

    scope: ScopeId
    amount: Money
    rules: ScopeRules


class BudgetWaits:
    """The lines of one gate."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lines: dict[ScopeId, _Line] = {}
        self._settled = asyncio.Event()

    def on_settled(self) -> None:
        """Let the first of each line look again. A call that comes later waits for the next
        settlement."""
        self._settled.set()
        self._settled = asyncio.Event()

    async def wait(
        self,
        scope: ScopeId,
        amount: Money,
        *,
        rules: ScopeRules,
        limit_ms: int,
        deadline_ms: int | None,
    ) -> str:
        """Wait until a budget may have room for an amount by the rules of the call, and return
        nothing. Return why the call
        has waited long enough if its deadline comes first, or nothing moves for `limit_ms`."""
        line = self._lines.setdefault(scope, _Line())
        turn = asyncio.Event()
        line.turns.append(turn)
        line.turns[0].set()
        try:
            wanted = _Wanted(scope, amount, rules)
            return await self._in_line(line, turn, wanted, limit_ms, deadline_ms)
        finally:
            line.turns.remove(turn)
            if line.turns:
                line.turns[0].set()
            else:
                del self._lines[scope]

    async def _in_line(
        self,
        line: _Line,
        turn: asyncio.Event,
        wanted: _Wanted,
        limit_ms: int,
        deadline_ms: int | None,
    ) -> str:
        joined_ms = self._clock.now()
        while True:
            if turn.is_set() and await self._may_fit(line, wanted):
                return ""
            now = self._clock.now()
            patient_until = max(joined_ms, line.moved_ms) + limit_ms
            if deadline_ms is not None and now >= deadline_ms:
                return "its timeout passed before any of it came free"
            if now >= patient_until:
                return f"none of it came free for {format_wait(limit_ms)}"
            until = patient_until if deadline_ms is None else min(patient_until, deadline_ms)
            if turn.is_set():
                next_look = min(until, now + _POLL_MS)
                await wait_first(self._settled.wait(), self._clock.wait_until(next_look))
            else:
                await wait_first(turn.wait(), self._clock.wait_until(until))

    async def _may_fit(self, line: _Line, wanted: _Wanted) -> bool:
        """Return whether it is worth asking the ledger for the amount: it fits, or never will."""
        now = self._clock.now()
        try:
            scope = await self._ledger.scope(wanted.scope, now)
        except StoreError:
            return False
        if scope is None:
            return True
        rule = scope.rule_for(wanted.rules.get(wanted.scope))
        if scope.fits(wanted.amount, now, rule):
            return True
        figures = scope.settled, scope.reserved
        if figures != line.figures:
            line.figures = figures
            line.moved_ms = now
        short = scope.short(wanted.scope, wanted.amount, rule)
        return short is None or short.hopeless
