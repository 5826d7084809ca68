"""Budget scopes of a runtime, and the lease that keeps what it has reserved on the ledger."""

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import structs

from vegakit.errors import BudgetExceeded
from vegakit.ids import HolderId, ProgramId, ScopeId
from vegakit.money import Allowance, Money, dollars, format_money, parse_allowance
from vegakit.policy import LEASE_MS, LeaseWatch, OnExceed, ScopeRule, WindowRule
from vegakit.ports import Clock, Ledger

# The budget scopes of a runtime: its own cap, and the caps of blocks inside it.
#
# runtime:NAME shared by every runtime of this name on the same ledger; in the journal of a │ user
# one for each run, unless it has a period └── $1/day `with rt.budget("$1/day")`, opened when it
# is first needed
#
# What one ask may spend is a part of a wallet, which the program keeps.


def rule_of(
    allowance: str | float | ScopeRule | None, on_exceed: str = OnExceed.BLOCK
) -> ScopeRule:
    """Return the rule of `"$5"`, `5` or `"$5/day"`; None counts and limits nothing."""
    if isinstance(allowance, ScopeRule):
        return allowance
    if allowance is None:
        return ScopeRule(None)
    limit = (
        parse_allowance(allowance) if isinstance(allowance, str) else Allowance(dollars(allowance))
    )
    window = WindowRule(limit.period) if limit.period else None
    return ScopeRule(limit.amount, OnExceed(on_exceed), window)


class Budgets:
    """The budgets of a runtime: its cap, and the blocks inside it."""

    def __init__(self, ledger: Ledger, clock: Clock, root: ScopeId, rule: ScopeRule) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rules: dict[ScopeId, tuple[ScopeRule, ScopeId | None]] = {root: (rule, None)}
        self._opened: set[ScopeId] = set()
        self._left: set[ScopeId] = set()
        self._current: ContextVar[ScopeId] = ContextVar("vega_scope", default=root)
        self.root = root

    @property
    def current(self) -> ScopeId:
        """The scope of the innermost block."""
        return self._current.get()

    def begin_run(self, program: ProgramId) -> None:
        """Name the scope for one run, before it is opened. In the journal of a user, where all runs
        are, a cap of $10 is for each of them, also over its incarnations; one of $10 a day is for
        all together."""
        rule, outer = self._rules.pop(self.root)
        if rule.window is None:
            self.root = ScopeId(f"{self.root}/{program}")
            self._current = ContextVar("vega_scope", default=self.root)
        self._rules[self.root] = rule, outer

    def raise_root(self, amount: Money) -> None:
        """Raise the cap of the runtime, before it is opened."""
        rule, outer = self._rules[self.root]
        if rule.cap is not None:
            self._rules[self.root] = structs.replace(rule, cap=Money(rule.cap + amount)), outer

    @contextmanager
    def block(self, allowance: str | float, name: str | None) -> Generator[ScopeId]:
        """Opened by the first ask inside it and closed after the last; one with a period stays."""
        rule, outer = rule_of(allowance), self.current
        scope = ScopeId(f"{outer}/{name or allowance}")
        if name is None and rule.window is None:
            scope = ScopeId(f"{scope}#{len(self._rules)}")
        self._rules[scope] = (rule, outer)
        token = self._current.set(scope)
        try:
            yield scope
        finally:
            self._current.reset(token)
            if rule.window is None and name is None:
                self._left.add(scope)

    def across_incarnations(self, name: str, cap: Money) -> ScopeId:
        """A cap that the ledger keeps under this name, inside the current one. A wallet is counted
        anew when a run goes on, from what the program comes to again; what an earlier life spent
        and the program does not come to any more counts here only."""
        scope = ScopeId(f"{self.current}/{name}")
        self._rules[scope] = (ScopeRule(cap), self.current)
        return scope

    async def ready(self, scope: ScopeId) -> ScopeId:
        """Makes sure that it is open, outermost first, and closes what was left."""
        await self.close_left()
        if scope not in self._opened:
            rule, outer = self._rules[scope]
            if outer is not None:
                await self.ready(outer)
            await self._ledger.open(scope, rule, self._clock.now(), parent=outer)
            self._opened.add(scope)
        return scope

    async def close_left(self) -> None:
        """Close the scopes of blocks that were left."""
        while self._left:
            scope = self._left.pop()
            if scope in self._opened:
                await self._ledger.close(scope, self._clock.now())

    def check_part(self, scope: ScopeId, cap: Money) -> None:
        """An ask that may spend more than a budget around it holds altogether is refused before
        its first call."""
        around: ScopeId | None = scope
        while around is not None:
            rule, outer = self._rules[around]
            if rule.cap is not None and cap > rule.cap and rule.on_exceed is OnExceed.BLOCK:
                raise BudgetExceeded(
                    f"this ask may spend {format_money(cap)}, but budget {around!r} has only "
                    f"{format_money(rule.cap)}; raise that budget, or give the agent a smaller one"
                )
            around = outer


# The lease of a runtime on its ledger: while it is kept, what is reserved under it stays so.
#
#     take ─▶ keep: renew ─▶ settle what dead holders left ─▶ forget old claims ─▶ wait ─┐
#               ▲      └─ the ledger fails: wait a little, longer each time ─────────────┤
#               └────────────────────────────────────────────────────────────────────────┘
#
# A ledger that is away for a while (a server that restarts, a file that is locked) must not end
# the renewing: nobody would notice until the first reservation is refused. Reservations renew the
# lease too, see `policy.budget.leases`; this loop is for a runtime that waits for answers.


_LOG = logging.getLogger("vegakit")
_RENEWALS = 4
"""How often it is renewed in its length, so that three in a row may fail."""
_FIRST_RETRY_MS = 100
_PRUNE_MS = 60_000
_REMEMBER_MS = 86_400_000
"""How long a late bill still finds its claim."""
_REMEMBER_IN_MEMORY_MS = 900_000
"""Longer than any call waits for its answer."""


class Lease:
    """The lease of a runtime on its ledger, without which its reservations would be settled for it.
    `lasting` says that the ledger outlives this runtime."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        holder: HolderId,
        *,
        lasting: bool,
        length_ms: int = LEASE_MS,
    ) -> None:
        self._ledger, self._clock, self._holder = ledger, clock, holder
        self._length_ms = length_ms
        self._others = LeaseWatch(length_ms)
        self._remember_ms = _REMEMBER_MS if lasting else _REMEMBER_IN_MEMORY_MS
        self._prune_at = 0
        self._keeping: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """Take the lease, and settle what holders left behind who died. A ledger that cannot be
        used is told."""
        await self._renew()

    def keep(self) -> None:
        """Renew the lease from now on, until `aclose`."""
        self._keeping = asyncio.ensure_future(self._renew_for_ever())
        self._keeping.set_name(f"vega lease of {self._holder}")
        self._keeping.add_done_callback(self._on_ended)

    async def aclose(self) -> None:
        """Stop renewing. What is still reserved is settled by others when the lease ends."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])

    def _on_ended(self, ended: "asyncio.Task[None]") -> None:
        """Begin to renew again, and tell it. Only `aclose` should end the renewal; in a loop that
        is being closed this fails, and nothing is left to be renewed."""
        if ended is not self._keeping or asyncio.get_running_loop().is_closed():
            return
        failure = None if ended.cancelled() else ended.exception()
        _LOG.error(
            "renewing the lease of %s ended and begins again", self._holder, exc_info=failure
        )
        self.keep()

    async def _renew_for_ever(self) -> None:
        failures = 0
        while True:
            now = self._clock.now()
            due = now + self._length_ms // _RENEWALS
            try:
                await self._renew()
                await self._prune()
            except Exception as error:  # noqa: BLE001  (whatever it is, it may pass)
                due = min(due, now + _FIRST_RETRY_MS * 2**failures)
                if not failures:  # a long outage is told once
                    _LOG.warning(
                        "the lease of %s is not renewed: %s; trying again until it is",
                        self._holder,
                        error,
                    )
                failures += 1
            else:
                if failures:
                    _LOG.warning("the lease of %s is renewed again", self._holder)
                failures = 0
            await self._clock.wait_until(due)

    async def _renew(self) -> None:
        """Renew the lease before looking at others: nothing that goes wrong there may cost the
        lease."""
        now = self._clock.now()
        await self._ledger.renew(self._holder, now + self._length_ms)
        leases = dict(await self._ledger.leases())
        leases.pop(self._holder, None)
        now = self._clock.now()
        ended = self._others.ended(leases, now)
        if ended:
            await self._ledger.expire(ended, now)

    async def _prune(self) -> None:
        """Forget old claims now and then, so that a long-lived ledger stays small."""
        now = self._clock.now()
        if now >= self._prune_at:
            await self._ledger.prune(now - self._remember_ms)
            self._prune_at = now + _PRUNE_MS
