"""The budget scopes of a runtime: its own cap, the caps of blocks inside it, a part for each ask.

runtime:NAME            shared by every runtime of this name on the same ledger
└── $1/day              `with rt.budget("$1/day")`, opened when it is first needed
    └── 0196c1…         a part: what one ask of an agent with tools or a budget may spend
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar

from msgspec import structs

from vegakit.errors import BudgetExceeded, Paused
from vegakit.ids import HolderId, ProgramId, ScopeId
from vegakit.money import Allowance, Money, dollars, parse_allowance, show
from vegakit.policy import (
    MustAsk,
    OnExceed,
    Reserved,
    ScopeAdmission,
    ScopeClosed,
    ScopeRule,
    Short,
    WindowRule,
)
from vegakit.ports import Clock, Ledger
from vegakit.prices import DEFAULT_PART
from vegakit.runtime.cancelling import to_its_end

__all__ = ["Budgets", "rule_of"]


def rule_of(
    allowance: str | float | ScopeRule | None, on_exceed: str = OnExceed.BLOCK
) -> ScopeRule:
    """`"$5"`, `5`, `"$5/day"`; None counts and limits nothing."""
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
    def __init__(self, ledger: Ledger, clock: Clock, root: ScopeId, rule: ScopeRule) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rules: dict[ScopeId, tuple[ScopeRule, ScopeId | None]] = {root: (rule, None)}
        self._opened: set[ScopeId] = set()
        self._left: set[ScopeId] = set()
        self._current: ContextVar[ScopeId] = ContextVar("vega_scope", default=root)
        self.root = root
        self.holder: HolderId | None = None

    @property
    def current(self) -> ScopeId:
        return self._current.get()

    def raise_root(self, amount: Money) -> None:
        """Before it is opened."""
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
        while self._left:
            scope = self._left.pop()
            if scope in self._opened:
                await self._ledger.close(scope, self._clock.now())

    @asynccontextmanager
    async def part(
        self, scope: ScopeId, program: ProgramId, cap: Money | None
    ) -> AsyncGenerator[ScopeId]:
        """`cap` None: fifty cents, or what remains if that is less."""
        now = self._clock.now()
        if cap is None:
            room = await self._ledger.room(scope, now)
            cap = DEFAULT_PART if room is None else min(DEFAULT_PART, room)
        part = ScopeId(program)
        try:
            verdict = await self._ledger.open(
                part, ScopeRule(cap), now, parent=scope, part=True, holder=self.holder
            )
        except asyncio.CancelledError:
            with suppress(KeyError):  # it was refused
                await to_its_end(self._ledger.close(part, now))
            raise
        if not isinstance(verdict, Reserved):
            raise _no_part(cap, verdict)
        try:
            yield part
        finally:
            await self._ledger.close(part, self._clock.now())


def _no_part(cap: Money, verdict: ScopeAdmission) -> BudgetExceeded:
    may = f"this ask may spend {show(cap)}"
    match verdict:
        case Short(scope, limit, settled, reserved):
            left = Money(max(0, limit - settled - reserved))
            return BudgetExceeded(
                f"{may}, but budget {scope!r} has only {show(left)} left of {show(limit)}; "
                "raise that budget, or give the agent a smaller one"
            )
        case MustAsk(scope, limit, missing):
            return Paused(
                f"{may}: {show(missing)} more than budget {scope!r} of {show(limit)} holds, "
                "and it is set to ask; raise it to go on, or give the agent a smaller one"
            )
        case ScopeClosed(scope):
            return BudgetExceeded(
                f"{may}, but budget {scope!r} is closed; make the call inside its `with` block"
            )
        case Reserved():
            raise AssertionError("a part that was reserved is not refused")
