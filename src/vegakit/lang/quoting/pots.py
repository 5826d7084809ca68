"""One pot of money: what may be taken from it at most, and how much of a cap that leaves unused.

A send, or a session inside, is let in only while all that it holds still fits; so who is let in
last may leave `slack` of what it held. A pot that holds one call, tried again and again, is spent
in whole calls: `grains`, of which one or another is taken; None where what is spent can be any
amount, as a success costs what it costs.
"""

from math import inf
from typing import TypeAlias

from msgspec import Struct

__all__ = ["EMPTY", "Amount", "Grain", "Pot", "multiplied", "pot_of"]

_MOST_PARTS = 8

Amount: TypeAlias = int | float


class Grain(Struct, frozen=True):
    """One call that costs from `least` to `most`, at most so many times."""

    least: int
    most: int
    count: int

    def within(self, cap: Amount) -> Amount:
        if cap == inf:
            return self.most * self.count
        fits = ((n, min(self.most, int(cap) // n)) for n in range(1, self.count + 1))
        return max((n * each for n, each in fits if each >= self.least), default=0)


class Pot(Struct, frozen=True):
    """`parts` are amounts by the slack of those who spend them, the least slack first."""

    amount: Amount = 0
    parts: tuple[tuple[Amount, Amount], ...] = ()
    grains: tuple[Grain, ...] | None = ()

    @property
    def is_empty(self) -> bool:
        return self.amount == 0

    def plus(self, other: "Pot") -> "Pot":
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        parts = dict(self.parts)
        for slack, amount in other.parts:
            parts[slack] = parts.get(slack, 0) + amount
        return Pot(self.amount + other.amount, _few(parts), None)

    def either(self, other: "Pot") -> "Pot":
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        grains = None
        if self.grains is not None and other.grains is not None:
            grains = tuple(dict.fromkeys(self.grains + other.grains))
        parts = dict(self.parts)
        for slack, amount in other.parts:
            parts[slack] = max(parts.get(slack, 0), amount)
        return Pot(max(self.amount, other.amount), _few(parts), grains)

    def times(self, by: Amount) -> "Pot":
        if by == 0:
            return EMPTY
        parts = tuple((slack, multiplied(amount, by)) for slack, amount in self.parts)
        return self if by == 1 else Pot(multiplied(self.amount, by), parts, None)

    def within(self, cap: Amount) -> Amount:
        """What is spent of it under a cap. Those with the same slack spend at most what the last
        of them leaves."""
        if self.is_empty:
            return 0
        if self.grains:
            return min(self.amount, max(grain.within(cap) for grain in self.grains))
        shares = (min(amount, max(cap - slack, 0)) for slack, amount in self.parts)
        return min(self.amount, max(cap - self.parts[0][0], 0), sum(shares, 0))

    def in_scope(self, cap: int) -> "Pot":
        """As it looks from outside of a scope with this cap, which is held as a whole."""
        spent = self.within(cap)
        return pot_of(spent, cap - spent)


def pot_of(amount: Amount, slack: Amount = 0, grains: tuple[Grain, ...] | None = None) -> Pot:
    return Pot(amount, ((slack, amount),), grains) if amount else EMPTY


def _few(parts: dict[Amount, Amount]) -> tuple[tuple[Amount, Amount], ...]:
    """What is too much to be told apart counts as if it left nothing unused."""
    rows = sorted(parts.items())
    if len(rows) <= _MOST_PARTS:
        return tuple(rows)
    return ((rows[0][0], sum((amount for _, amount in rows), 0)),)


EMPTY = Pot()


def multiplied(amount: Amount, by: Amount) -> Amount:
    return 0 if not amount or not by else amount * by
