"""Upper bounds of numbers, lengths and bytes, as far as a program tells them.

A size is the greatest of a number and of some symbols, each with something added: `max(3, x + 1)`.
A symbol is what a variable held when a round of a loop began, so one pass over the body says how
much it grows in a round. None is no bound.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from vegakit.lang.steps import took

__all__ = [
    "Size",
    "after_rounds",
    "exactly",
    "greater",
    "number",
    "product",
    "smaller",
    "symbol",
    "total",
]

_NOTHING = -(10**40)


class Size(Struct, frozen=True):
    number: int
    symbols: tuple[tuple[str, int], ...] = ()


def exactly(number: int) -> Size:
    return Size(number)


def symbol(name: str) -> Size:
    return Size(_NOTHING, ((name, 0),))


def number(size: Size | None) -> int | None:
    """None also where it depends on a symbol."""
    return None if size is None or size.symbols else size.number


def greater(one: Size | None, other: Size | None) -> Size | None:
    if one is None or other is None:
        return None
    if not one.symbols and not other.symbols:
        return one if one.number >= other.number else other
    took(1 + (len(one.symbols) + len(other.symbols)) // 4)
    symbols = dict(one.symbols)
    for name, more in other.symbols:
        symbols[name] = max(more, symbols.get(name, more))
    return Size(max(one.number, other.number), tuple(sorted(symbols.items())))


def smaller(one: Size | None, other: Size | None) -> Size | None:
    """Of two bounds of the same thing."""
    if one is None or other is None:
        return other if one is None else one
    if one.symbols or other.symbols:
        return one if not one.symbols else other
    return one if one.number <= other.number else other


def total(one: Size | None, other: Size | None) -> Size | None:
    if one is None or other is None or (one.symbols and other.symbols):
        return None
    if one.symbols:
        one, other = other, one
    by = one.number
    return Size(other.number + by, tuple((name, more + by) for name, more in other.symbols))


def product(one: Size | None, other: Size | None) -> Size | None:
    """Of two that are not negative."""
    if one is None or other is None or one.symbols or other.symbols:
        return None
    return Size(max(one.number, 0) * max(other.number, 0))


def after_rounds(
    before: Mapping[str, Size | None], grown: Mapping[str, Size | None], rounds: int | None
) -> dict[str, Size | None]:
    """What each may hold in any of the rounds or after them; `grown` is in symbols of one round.

    A round makes the greatest of those that feed each other greater by the most that is added
    anywhere among them, or brings in a number from outside.
    """
    return {name: _after(_feeding(name, grown), before, grown, rounds) for name in grown}


def _after(
    names: Iterable[str],
    before: Mapping[str, Size | None],
    grown: Mapping[str, Size | None],
    rounds: int | None,
) -> Size | None:
    reached: Size | None = Size(_NOTHING)
    most = 0
    for name in names:
        size = grown[name]
        if size is None:
            return None
        took(2 + len(size.symbols))
        own = tuple((other, more) for other, more in size.symbols if other in grown)
        outer = tuple((other, more) for other, more in size.symbols if other not in grown)
        reached = greater(greater(reached, before[name]), Size(size.number, outer))
        most = max([most, *(more for _, more in own)])
    if most and rounds is None:
        return None
    return total(reached, Size(most * (rounds or 0)))


def _feeding(name: str, grown: Mapping[str, Size | None]) -> set[str]:
    found, due = {name}, [name]
    while due:
        took()
        size = grown[due.pop()]
        for other, _ in () if size is None else size.symbols:
            if other in grown and other not in found:
                found.add(other)
                due.append(other)
    return found
