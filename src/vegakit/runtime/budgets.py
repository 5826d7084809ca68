"""The budget scopes of a runtime: its own cap, and the caps of blocks inside it.

runtime:NAME            shared by every runtime of this name on the same ledger
└── $1/day              `with rt.budget("$1/day")`, opened when it is first needed

What one ask may spend is a part of a wallet, which the program keeps.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import structs

from vegakit.errors import BudgetExceeded
from vegakit.ids import ScopeId
from vegakit.money import Allowance, Money, dollars, parse_allowance, show
from vegakit.policy import OnExceed, ScopeRule, WindowRule
from vegakit.ports import Clock, Ledger

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

    def over_lives(self, name: str, cap: Money) -> ScopeId:
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
                    f"this ask may spend {show(cap)}, but budget {around!r} has only "
                    f"{show(rule.cap)}; raise that budget, or give the agent a smaller one"
                )
            around = outer
