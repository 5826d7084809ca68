"""Loops: round by round while that is short, else by how much a round makes variables grow."""

from collections.abc import Callable
from math import inf
from typing import TypeAlias

from msgspec import Struct

from vegakit.lang.quoting.scopes import Frames, Variable
from vegakit.lang.quoting.sizes import Size, after_rounds, smaller
from vegakit.lang.quoting.spending import NONE, Place, Spend, dearer, plus, times
from vegakit.lang.quoting.values import Value, as_symbol, of_type, sized
from vegakit.lang.quoting.walking import Left, Walk
from vegakit.lang.tree import (
    For,
    While,
    assigned_in,
)

__all__ = ["Rounds", "loop"]

_UNROLLED = 32

Names: TypeAlias = dict[str, tuple[int, Variable]]


class Rounds(Struct, frozen=True):
    """`goes_on`: a second round may follow the first; `breaks`: it may be left by a `break`;
    `once` is what one of them spends at most."""

    spent: Spend
    goes_on: bool = True
    breaks: bool = False
    once: Spend = NONE


def loop(
    w: Walk, node: For | While, body: Callable[[], None], rounds: int | None, place: Place
) -> Rounds:
    """What all rounds spend; `place` is told where they have no bound."""
    if rounds is not None and rounds <= 0:
        return Rounds(NONE)
    before = w.scopes.copy()
    came = _one_by_one(w, body, rounds, place)
    if came is None:
        w.scopes.restore(before)
        most = inf if rounds is None else rounds
        once = _in_symbols(w, node, body, rounds)
        came = Rounds(times(once, most, place), breaks=True, once=once)
    w.over = False
    return came


def _one_by_one(
    w: Walk, body: Callable[[], None], rounds: int | None, place: Place
) -> Rounds | None:
    """Until a round changes nothing any more: then all that follow are like it. None where that
    does not come soon."""
    total, exits, done, breaks, once = NONE, list[Frames](), 0, False, NONE
    while rounds is None or done < rounds:
        if done == _UNROLLED or w.facts.is_long:
            return None
        start = w.scopes.copy()
        exits.append(start)
        spent, left = _round(w, body)
        exits += left.by_break
        breaks |= bool(left.by_break)
        total, done, once = plus(total, spent), done + 1, dearer(once, spent)
        ends = left.by_continue if w.over else [*left.by_continue, w.scopes.copy()]
        w.scopes.restore(start)
        if not ends:
            w.scopes.meet(exits)
            return Rounds(total, done > 1, breaks, once)
        w.scopes.meet(ends)
        if w.scopes.copy() == start:
            rest = inf if rounds is None else rounds - done
            total = plus(total, times(spent, rest, place))
            break
    w.scopes.meet([*exits, w.scopes.copy()])
    return Rounds(total, breaks=breaks, once=once)


def _round(w: Walk, body: Callable[[], None]) -> tuple[Spend, Left]:
    left = Left([], [])
    w.left.append(left)
    w.over = False
    with w.apart() as spent:
        body()
    w.left.pop()
    return spent[0], left


def _in_symbols(w: Walk, node: For | While, body: Callable[[], None], rounds: int | None) -> Spend:
    """What one round spends at most, whichever it is."""
    names = {name: found for name in assigned_in(node) if (found := w.scopes.find(name))}
    w.facts.loops += 1
    marks = {name: f"{name}@{w.facts.loops}" for name in names}
    grown = _grown(w, names, marks, body)
    start = {marks[name]: variable.value.size for name, (_, variable) in names.items()}
    before_last = after_rounds(start, grown, None if rounds is None else max(rounds - 1, 0))
    _put(w, names, {name: _held(v, before_last[marks[name]]) for name, (_, v) in names.items()})
    spent, _ = _round(w, body)
    sizes = after_rounds(start, grown, rounds)
    _put(w, names, {name: _held(v, sizes[marks[name]]) for name, (_, v) in names.items()})
    return spent


def _held(variable: Variable, size: Size | None) -> Value:
    typed = of_type(variable.type)
    return sized(typed, smaller(typed.size, size))


def _put(w: Walk, names: Names, values: dict[str, Value]) -> None:
    for name, value in values.items():
        w.scopes.put(names[name][0], name, value)


def _grown(
    w: Walk, names: Names, marks: dict[str, str], body: Callable[[], None]
) -> dict[str, Size | None]:
    """After one round, in what was there before it; a variable without a bound spoils those that
    take from it, so the round is walked again until no other is spoilt."""
    boundless: set[str] = set()
    while names:
        with w.scopes.unwatched(), w.scopes.watch() as seen, w.apart():
            _put(w, names, {n: _fresh(v, marks[n], n in boundless) for n, (_, v) in names.items()})
            _round(w, body)
        grown = {name: seen[depth, name].size for name, (depth, _) in names.items()}
        spoilt = {name for name, size in grown.items() if size is None} - boundless
        if not spoilt:
            return {marks[n]: None if n in boundless else grown[n] for n in names}
        boundless |= spoilt
    return {}


def _fresh(variable: Variable, mark: str, is_boundless: bool) -> Value:
    return of_type(variable.type) if is_boundless else as_symbol(mark, variable.type)
