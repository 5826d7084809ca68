"""Loops: how much what the body assigns may grow in a round, then what all rounds spend."""

from collections.abc import Callable
from typing import TypeAlias

from vegakit.lang.quoting.scopes import Variable
from vegakit.lang.quoting.sizes import Size, after_rounds, smaller
from vegakit.lang.quoting.spending import Spend
from vegakit.lang.quoting.values import Value, as_symbol, of_type, sized
from vegakit.lang.quoting.walking import Walk
from vegakit.lang.tree import (
    For,
    While,
    assigned_in,
)

__all__ = ["loop"]

Names: TypeAlias = dict[str, tuple[int, Variable]]


def loop(w: Walk, node: For | While, body: Callable[[], None], rounds: int | None) -> Spend:
    """What one round spends at most, whichever it is."""
    names = {name: found for name in assigned_in(node) if (found := w.scopes.find(name))}
    w.facts.loops += 1
    marks = {name: f"{name}@{w.facts.loops}" for name in names}
    grown = _grown(w, names, marks, body)
    start = {marks[name]: variable.value.size for name, (_, variable) in names.items()}
    before_last = after_rounds(start, grown, None if rounds is None else max(rounds - 1, 0))
    _put(w, names, {name: _held(v, before_last[marks[name]]) for name, (_, v) in names.items()})
    with w.apart() as spent:
        body()
    sizes = after_rounds(start, grown, rounds)
    _put(w, names, {name: _held(v, sizes[marks[name]]) for name, (_, v) in names.items()})
    return spent[0]


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
            body()
        grown = {name: seen[depth, name].size for name, (depth, _) in names.items()}
        spoilt = {name for name, size in grown.items() if size is None} - boundless
        if not spoilt:
            return {marks[n]: None if n in boundless else grown[n] for n in names}
        boundless |= spoilt
    return {}


def _fresh(variable: Variable, mark: str, is_boundless: bool) -> Value:
    return of_type(variable.type) if is_boundless else as_symbol(mark, variable.type)
