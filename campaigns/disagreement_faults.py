"""Faults that are planted in processes, so that `campaigns.disagreement` is seen to find them.

| fault                                 | takes out                                              |
|---------------------------------------|--------------------------------------------------------|
| the last opener's cap wins            | that each call brings the caps of its own client       |
| windows share one counter             | that each window has a counter of its own              |
| a run without a period ignores limits | that a limit holds for all runs, whatever they declare |
| a lowered limit is ignored            | that a lowered limit holds at once                     |
"""

from collections.abc import Callable
from typing import Any

from vegakit.policy import scopes

__all__ = ["FAULTS"]

_SCOPE: Any = scopes.Scope
_TREE: Any = scopes.ScopeTree
_MODULE: Any = scopes


def _last_opener() -> None:
    def rule_for(self: Any, _brought: Any) -> Any:
        return self.rule

    _SCOPE.rule_for = rule_for


def _one_counter() -> None:
    numbers: Any = _MODULE._numbers_at(490_000)  # noqa: SLF001

    def numbers_at(_hour: int) -> Any:
        return numbers

    _MODULE._numbers_at = numbers_at  # noqa: SLF001


def _without_period() -> None:
    bounds: Any = _TREE._bounds  # noqa: SLF001

    def without(self: Any, scope_id: Any, now: int, rules: Any) -> Any:
        found = bounds(self, scope_id, now, rules)
        has_period = any(one.rule.period for one in found if one.owner != "user")
        return found if has_period else [one for one in found if one.owner != "user"]

    _TREE._bounds = without  # noqa: SLF001


def _limit_only_rises() -> None:
    set_limits: Any = _TREE.set_limits

    def only_up(self: Any, owner: Any, rules: Any) -> None:
        known: Any = self.limits.get(owner)
        old: int = max((rule.cap or 0 for rule in known.rules), default=0) if known else 0
        if any((rule.cap or 0) > old for rule in rules):
            set_limits(self, owner, rules)

    _TREE.set_limits = only_up


FAULTS: dict[str, Callable[[], None]] = {
    "the last opener's cap wins": _last_opener,
    "windows share one counter": _one_counter,
    "a run without a period ignores limits": _without_period,
    "a lowered limit is ignored": _limit_only_rises,
}
