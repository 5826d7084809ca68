"""Wrong bounds to plant: each forgets something that makes a program worse_of."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from vegakit.lang import CostBound
from vegakit.lang.analysis import (
    cost_bounds as pots,
    cost_bounds as spending,
    cost_expressions as calling,
    cost_expressions as expressions,
    cost_sends as sends,
    cost_statements as statements,
    cost_values as scopes,
    cost_walk as looping,
    cost_walk as walking,
    quotes as program,
)
from vegakit.lang.analysis.cost_bounds import NONE, CallCost, SpendingBound, times
from vegakit.lang.syntax.tree import Ask
from vegakit.program import paid_repeats

Patch = tuple[object, str, Any]

_calls_cost, _cost_bound, _round = sends._calls_cost, pots.cost_bound, looping._round
_branches, _within, _in_turn = walking.CostWalk.branches, pots.Repeats.within, sends._in_turn


def _one_short(spend: SpendingBound, count: float, at: Any) -> SpendingBound:
    return times(spend, count - 1, at)


def _called_once() -> Callable[..., Any]:
    called: set[str] = set()
    real = calling.call_function

    def call(w: Any, name: str, given: Any) -> Any:
        came = real(w, name, given)
        is_known = name in called
        called.add(name)
        return replace(came, spent=NONE) if is_known else came

    return call


def _first_for_all(sending: Any, known: Any, steps: int) -> Any:
    least, first, _ = _calls_cost(sending, known, steps)
    return least, first, (first,) * (steps - 1)


def _more_slack(
    amount: Any, slack: Any = 0, call_costs: Any = None, repeats: Any = None
) -> CostBound:
    return _cost_bound(amount, slack + 1_000_000, call_costs, repeats)


def _cheapest(self: pots.Repeats, count: Any) -> Any:
    return _within(pots.Repeats(self.once, self.more[-1:]), count)


def _without_last(again: pots.Repeats, laters: list[pots.Repeats], pool: Any) -> Any:
    return _in_turn(again, laters[:-1], pool)


def _whole_calls(self: CallCost, cap: Any) -> Any:
    return self.most * min(self.count, int(min(cap, 10**15)) // self.most)


def _no_breaks(w: Any, body: Any) -> Any:
    spent, left = _round(w, body)
    left.by_break.clear()
    return spent, left


def _no_growth(before: Any, grown: Any, rounds: Any) -> Any:
    return before


def _over_if_any_is(self: Any, *ways: Any) -> Any:
    ended: list[bool] = []

    def watched(way: Any) -> Callable[[], None]:
        def run() -> None:
            way()
            ended.append(self.over)

        return run

    spends = _branches(self, *map(watched, ways))
    self.over = any(ended)
    return spends


def _nothing(*_: Any) -> None:
    pass


ALWAYS_THE_MOST: Patch = (CallCost, "within", _whole_calls)
"""Calls of one send are mostly of one length."""

ONE_BRANCH_FOR_BOTH: Patch = (walking.CostWalk, "branches", _over_if_any_is)
"""No random program ends in one branch and sends behind both."""

FAULTS: dict[str, tuple[Patch, ...]] = {
    "retries forgotten": ((sends, "_attempts", lambda spec, known: 1),),
    "a repeat that is not taken from the pool": (
        (paid_repeats.RepeatPools, "draw", lambda self, pool, worst: True),
    ),
    "a pool that the quote does not count": ((program, "paid_repeats", lambda sends, percent: 0),),
    "the cheapest repeats for the costliest": ((pots.Repeats, "within", _cheapest),),
    "the last step of a send that is not reached": ((sends, "_in_turn", _without_last),),
    "answers that do not fit forgotten": ((sends, "RE_ASKS", 0),),
    "empty answers forgotten": ((sends, "_steps", lambda sending: 1),),
    "later calls as short as the first": ((sends, "_calls_cost", _first_for_all),),
    "a loop one round short": ((looping, "times", _one_short),),
    "the else branch forgotten": ((statements, "worse_of", lambda one, other: one),),
    "what tools send forgotten": ((calling, "_tools", lambda w, name, part: NONE),),
    "a wallet taken for the session's": ((program, "_has_own_wallet", lambda node: False),),
    "handlers forgotten": ((statements, "_handler", _nothing),),
    "sends that never fail": ((expressions, "_HARMLESS", expressions._HARMLESS | {Ask}),),
    "lists that do not grow": (
        (looping, "_UNROLLED", 0),
        (looping, "after_rounds", _no_growth),
    ),
    "what a break sees forgotten": ((looping, "_round", _no_breaks),),
    "what rounds leave behind forgotten": ((scopes.CostScopes, "meet", _nothing),),
    "a budget that is always the agent's": ((calling, "_part", lambda declared, budget: declared),),
    "a part that leaves more unused": (
        (sends, "cost_bound", _more_slack),
        (spending, "cost_bound", _more_slack),
    ),
    "functions that cost once for all calls": ((expressions, "call_function", None),),
}


def patches_of(fault: str) -> tuple[Patch, ...]:
    if fault.startswith("functions"):
        return ((expressions, "call_function", _called_once()),)
    return FAULTS[fault]
