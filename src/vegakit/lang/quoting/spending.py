"""What a part of a program may spend, and how that adds up: one after the other, either, n times.

Not every budget caps every send, so what is spent is kept in pots:

| pot     | spent by                                       | capped by                           |
|---------|------------------------------------------------|-------------------------------------|
| inside  | sends to agents, their tools, and to processes | sessions and functions' budgets     |
|         | that have no wallet                            | around them                         |
| handles | sends to processes that have one, by the       | the wallets of those processes      |
|         | `spawn` that made them                         |                                     |
| apart   | sends whose payer is not known, and what       | nothing but the budget of the run   |
|         | monitors do, perhaps after a session is over   |                                     |

`most` bounds all of them together: of two branches one runs, so their pots are not added. Infinity
is no bound.
"""

from math import inf

from msgspec import Struct
from msgspec.structs import replace

from vegakit.lang.quoting.pots import EMPTY, Amount, Pot, multiplied, pot_of
from vegakit.lang.steps import took

__all__ = [
    "APART",
    "INSIDE",
    "NONE",
    "Gap",
    "Place",
    "Purse",
    "Share",
    "Spend",
    "capped",
    "dearer",
    "moved",
    "plus",
    "times",
]

INSIDE, APART = "inside", "apart"


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
    """Where a bound is missing; `pot` is `inside`, `apart` or the place of a spawn."""

    place: Place
    pot: str
    cap: int | None = None


class Purse(Struct, frozen=True):
    """What one `spawn` in the source makes: so many processes, each with so much."""

    wallet: int
    count: Amount = 1


class Spend(Struct, frozen=True):
    """`asked` is all that is set aside at the same time at most: where a scope has that much,
    nothing in it is refused."""

    calls: Amount = 0
    inside: Pot = EMPTY
    apart: Amount = 0
    handles: dict[str, Pot] = {}
    purses: dict[str, Purse] = {}
    processes: Amount = 0
    most: Amount = 0
    asked: Amount = 0
    shares: dict[Place, Share] = {}
    gaps: tuple[Gap, ...] = ()

    @property
    def of_processes(self) -> Amount:
        return sum((self.of_process(site) for site in self.handles), 0)

    def of_process(self, site: str) -> Amount:
        took(2)
        purse, pot = self.purses.get(site), self.handles[site]
        if purse is None:
            return pot.amount
        return min(pot.amount, multiplied(self._of_each(site, purse), purse.count))

    def _of_each(self, site: str, purse: Purse) -> Amount:
        pot = self.handles.get(site, EMPTY)
        return pot.within(purse.wallet) if purse.count <= 1 else min(pot.amount, purse.wallet)

    @property
    def total(self) -> Amount:
        return min(self.most, self.inside.amount + self.apart + self.of_processes)

    @property
    def as_pot(self) -> Pot:
        """All that is spent from the scope it stands in: wallets of what is spawned there are
        parts of it, held as a whole."""
        pot = self.inside
        for site in self.handles:
            purse = self.purses.get(site)
            slack = 0 if purse is None else purse.wallet - self._of_each(site, purse)
            pot = pot.plus(pot_of(self.of_process(site), slack))
        return pot


NONE = Spend()


def plus(one: Spend, other: Spend) -> Spend:
    if one is NONE or other is NONE:
        return other if one is NONE else one
    _count(one, other)
    handles, purses, shares = dict(one.handles), dict(one.purses), dict(one.shares)
    for site, pot in other.handles.items():
        handles[site] = handles.get(site, EMPTY).plus(pot)
    for site, purse in other.purses.items():
        known = purses.get(site, Purse(0, 0))
        purses[site] = Purse(max(known.wallet, purse.wallet), known.count + purse.count)
    for place, share in other.shares.items():
        mine = shares.get(place, Share(0, 0, 0))
        shares[place] = Share(
            mine.calls + share.calls, mine.inside + share.inside, mine.rest + share.rest
        )
    return Spend(
        one.calls + other.calls,
        one.inside.plus(other.inside),
        one.apart + other.apart,
        handles,
        purses,
        one.processes + other.processes,
        one.total + other.total,
        one.asked + other.asked,
        shares,
        _once(one.gaps + other.gaps),
    )


def dearer(one: Spend, other: Spend) -> Spend:
    """Whichever of the two runs: in every respect the greater."""
    _count(one, other)
    handles, purses, shares = dict(one.handles), dict(one.purses), dict(one.shares)
    for site, pot in other.handles.items():
        handles[site] = handles.get(site, EMPTY).either(pot)
    for site, purse in other.purses.items():
        known = purses.get(site, purse)
        purses[site] = Purse(max(known.wallet, purse.wallet), max(known.count, purse.count))
    for place, share in other.shares.items():
        mine = shares.get(place, share)
        shares[place] = Share(
            max(mine.calls, share.calls), max(mine.inside, share.inside), max(mine.rest, share.rest)
        )
    return Spend(
        max(one.calls, other.calls),
        one.inside.either(other.inside),
        max(one.apart, other.apart),
        handles,
        purses,
        max(one.processes, other.processes),
        max(one.total, other.total),
        max(one.asked, other.asked),
        shares,
        _once(one.gaps + other.gaps),
    )


def times(spend: Spend, count: Amount, at: Place) -> Spend:
    """`at` is what is told when there is no bound."""
    took(2 + 2 * len(spend.shares))
    by = max(count, 0)
    gaps: tuple[Gap, ...] = () if by == 0 else spend.gaps
    if by == inf:
        gaps += tuple(Gap(at, pot) for pot in _spent_from(spend))
    return Spend(
        multiplied(spend.calls, by),
        spend.inside.times(by),
        multiplied(spend.apart, by),
        {site: pot.times(by) for site, pot in spend.handles.items()},
        {site: Purse(one.wallet, multiplied(one.count, by)) for site, one in spend.purses.items()},
        multiplied(spend.processes, by),
        multiplied(spend.total, by),
        multiplied(spend.asked, by),
        {
            place: Share(*(multiplied(part, by) for part in (s.calls, s.inside, s.rest)))
            for place, s in spend.shares.items()
        },
        _once(gaps),
    )


def capped(spend: Spend, cap: int | None) -> Spend:
    """By a session or the budget of a function, which is set aside as a whole."""
    if cap is None:
        return spend
    took(2 + 2 * len(spend.shares))
    inside = spend.inside.in_scope(cap)
    return replace(
        spend,
        asked=cap,
        inside=inside,
        most=min(spend.total, inside.amount + spend.apart + spend.of_processes),
        shares={
            place: replace(share, inside=min(share.inside, cap))
            for place, share in spend.shares.items()
        },
        gaps=tuple(
            replace(gap, cap=cap) if gap.pot == INSIDE and gap.cap is None else gap
            for gap in spend.gaps
        ),
    )


def moved(spend: Spend) -> Spend:
    """All of it into the pot that no session caps."""
    shares = {
        place: Share(share.calls, 0, share.inside + share.rest)
        for place, share in spend.shares.items()
    }
    gaps = tuple(replace(gap, pot=APART) if gap.cap is None else gap for gap in spend.gaps)
    return replace(spend, inside=EMPTY, handles={}, apart=spend.total, shares=shares, gaps=gaps)


def _count(one: Spend, other: Spend) -> None:
    """The first is copied, which is quick, and the second gone through."""
    took(4 + (len(one.shares) + len(one.gaps)) // 64 + 2 * (len(other.shares) + len(other.gaps)))


def _spent_from(spend: Spend) -> list[str]:
    pots = [INSIDE] if spend.inside.amount else []
    pots += [APART] if spend.apart else []
    return pots + [site for site, pot in spend.handles.items() if pot.amount]


def _once(gaps: tuple[Gap, ...]) -> tuple[Gap, ...]:
    return tuple(dict.fromkeys(gaps))
