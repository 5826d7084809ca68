"""What a part of a program may spend, and how that adds up: one after the other, either, n times.

Not every budget caps every send, so what is spent is kept in three pots:

| pot     | spent by                                   | capped by                               |
|---------|--------------------------------------------|-----------------------------------------|
| inside  | sends to the name of an agent              | sessions and functions' budgets around  |
| tools   | sends that tools of agents make            | budgets inside the tool                 |
| handles | sends to processes, and their tools        | the wallets of all that is spawned      |

The budget of the run caps all. Infinity is no bound.
"""

from math import inf
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

__all__ = [
    "NONE",
    "Amount",
    "Gap",
    "Place",
    "Pot",
    "Share",
    "Spend",
    "capped",
    "dearer",
    "moved",
    "plus",
    "times",
]

Amount: TypeAlias = int | float
Pot: TypeAlias = Literal["inside", "tools", "handles"]


class Place(Struct, frozen=True, order=True):
    file: str
    line: int
    what: str


class Share(Struct, frozen=True):
    """Of one send in the source."""

    calls: Amount
    inside: Amount
    rest: Amount


class Gap(Struct, frozen=True):
    place: Place
    pot: Pot
    cap: int | None = None


class Spend(Struct, frozen=True):
    """`purses` are the wallets of what is spawned, infinite if one of them has none."""

    calls: Amount = 0
    inside: Amount = 0
    tools: Amount = 0
    handles: Amount = 0
    purses: Amount = 0
    processes: Amount = 0
    shares: dict[Place, Share] = {}
    gaps: tuple[Gap, ...] = ()


NONE = Spend()


def plus(one: Spend, other: Spend) -> Spend:
    if one is NONE or other is NONE:
        return other if one is NONE else one
    shares = dict(one.shares)
    for place, share in other.shares.items():
        mine = shares.get(place, Share(0, 0, 0))
        shares[place] = Share(
            mine.calls + share.calls, mine.inside + share.inside, mine.rest + share.rest
        )
    return Spend(
        one.calls + other.calls,
        one.inside + other.inside,
        one.tools + other.tools,
        one.handles + other.handles,
        one.purses + other.purses,
        one.processes + other.processes,
        shares,
        _once(one.gaps + other.gaps),
    )


def dearer(one: Spend, other: Spend) -> Spend:
    """Whichever of the two runs: in every respect the greater."""
    shares = dict(one.shares)
    for place, share in other.shares.items():
        mine = shares.get(place, share)
        shares[place] = Share(
            max(mine.calls, share.calls), max(mine.inside, share.inside), max(mine.rest, share.rest)
        )
    return Spend(
        max(one.calls, other.calls),
        max(one.inside, other.inside),
        max(one.tools, other.tools),
        max(one.handles, other.handles),
        max(one.purses, other.purses),
        max(one.processes, other.processes),
        shares,
        _once(one.gaps + other.gaps),
    )


def times(spend: Spend, count: Amount, at: Place) -> Spend:
    """`at` is what is told when there is no bound."""
    by = max(count, 0)
    gaps: tuple[Gap, ...] = () if by == 0 else spend.gaps
    if by == inf:
        gaps += tuple(Gap(at, pot) for pot in _POTS if getattr(spend, pot))
    return Spend(
        _mul(spend.calls, by),
        _mul(spend.inside, by),
        _mul(spend.tools, by),
        _mul(spend.handles, by),
        _mul(spend.purses, by),
        _mul(spend.processes, by),
        {
            place: Share(_mul(s.calls, by), _mul(s.inside, by), _mul(s.rest, by))
            for place, s in spend.shares.items()
        },
        _once(gaps),
    )


def capped(spend: Spend, cap: int | None) -> Spend:
    """By a session or the budget of a function."""
    if cap is None:
        return spend
    return replace(
        spend,
        inside=min(spend.inside, cap),
        shares={
            place: replace(share, inside=min(share.inside, cap))
            for place, share in spend.shares.items()
        },
        gaps=tuple(
            replace(gap, cap=cap) if gap.pot == "inside" and gap.cap is None else gap
            for gap in spend.gaps
        ),
    )


def moved(spend: Spend, pot: Pot) -> Spend:
    """All of it into a pot that sessions do not cap."""
    everything = spend.inside + spend.tools + spend.handles
    pots = {each: everything if each == pot else 0 for each in _POTS}
    shares = {
        place: Share(share.calls, 0, share.inside + share.rest)
        for place, share in spend.shares.items()
    }
    gaps = tuple(replace(gap, pot=pot) if gap.cap is None else gap for gap in spend.gaps)
    return replace(spend, **pots, shares=shares, gaps=gaps)


_POTS: tuple[Pot, ...] = ("inside", "tools", "handles")


def _mul(amount: Amount, by: Amount) -> Amount:
    return 0 if not amount or not by else amount * by


def _once(gaps: tuple[Gap, ...]) -> tuple[Gap, ...]:
    return tuple(dict.fromkeys(gaps))
