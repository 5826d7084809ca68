"""Cost bounds: what may be spent at most, in whole or under a cap, and how that adds up: in
sequence, in either branch, n times (pure).
"""

from collections.abc import Callable
from math import inf
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.lang.diagnostics import count_steps

# One pot of money: what may be taken from it at most, and how much of a cap that leaves unused.
#
# A send, or a session inside, is let in only while all that it holds still fits; so who is let in
# last may leave `slack` of what it held. A pot that holds one call, tried again and again, is
# spent in whole calls: `grains`, of which one or another is taken; None where what is spent can
# be any amount, as a success costs what it costs.


_MOST_PARTS = 8
_MOST = 2**63 - 1
"""An amount above it is none: no wallet holds as much, and no number here grows any longer, in
however many loops and functions a program multiplies it."""

TOO_MUCH = "all that it may cost is more than can be counted"

Amount: TypeAlias = int | float


class CallCost(Struct, frozen=True):
    """One call that costs from `least` to `most`, at most so many times."""

    least: int
    most: int
    count: int

    def within(self, cap: Amount) -> Amount:
        """Return the most that whole calls spend under a cap."""
        if cap == inf:
            return self.most * self.count
        fits = ((n, min(self.most, int(cap) // n)) for n in range(1, self.count + 1))
        return max((n * each for n, each in fits if each >= self.least), default=0)


class CostBound(Struct, frozen=True):
    """`parts` are amounts by the slack of those who spend them, the least slack first."""

    amount: Amount = 0
    parts: tuple[tuple[Amount, Amount], ...] = ()
    call_costs: tuple[CallCost, ...] | None = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is spent."""
        return self.amount == 0

    def plus(self, other: "CostBound") -> "CostBound":
        """Return the bound of both, one after the other."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        parts = dict(self.parts)
        for slack, amount in other.parts:
            parts[slack] = added(parts.get(slack, 0), amount)
        return CostBound(added(self.amount, other.amount), _few(parts), None)

    def either(self, other: "CostBound") -> "CostBound":
        """Return the bound of one or the other, whichever runs."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        call_costs = None
        if self.call_costs is not None and other.call_costs is not None:
            call_costs = tuple(dict.fromkeys(self.call_costs + other.call_costs))
        parts = dict(self.parts)
        for slack, amount in other.parts:
            parts[slack] = max(parts.get(slack, 0), amount)
        return CostBound(max(self.amount, other.amount), _few(parts), call_costs)

    def times(self, by: Amount) -> "CostBound":
        """Return the bound of so many of it."""
        if by == 0:
            return EMPTY
        parts = tuple((slack, multiplied(amount, by)) for slack, amount in self.parts)
        return self if by == 1 else CostBound(multiplied(self.amount, by), parts, None)

    def within(self, cap: Amount) -> Amount:
        """Return what is spent of it under a cap. Those with the same slack spend at most what
        the last of them leaves."""
        if self.is_empty:
            return 0
        if self.call_costs:
            return min(self.amount, max(call_cost.within(cap) for call_cost in self.call_costs))
        shares = (min(amount, max(cap - slack, 0)) for slack, amount in self.parts)
        return min(self.amount, max(cap - self.parts[0][0], 0), sum(shares, 0))

    def in_scope(self, cap: int) -> "CostBound":
        """Return how it looks from outside of a scope with this cap, which is held as a whole."""
        spent = self.within(cap)
        return cost_bound(spent, cap - spent)


def cost_bound(
    amount: Amount, slack: Amount = 0, call_costs: tuple[CallCost, ...] | None = None
) -> CostBound:
    """Return the bound of one amount, empty if that is nothing."""
    amount = _counted(amount)
    return CostBound(amount, ((slack, amount),), call_costs) if amount else EMPTY


def _few(parts: dict[Amount, Amount]) -> tuple[tuple[Amount, Amount], ...]:
    """Keep few parts. Where there are too many, all count as if they left nothing unused."""
    by_slack = sorted(parts.items())
    if len(by_slack) <= _MOST_PARTS:
        return tuple(by_slack)
    return ((by_slack[0][0], _counted(sum((amount for _, amount in by_slack), 0))),)


EMPTY = CostBound()


def multiplied(amount: Amount, by: Amount) -> Amount:
    """Return the product, infinity if it is more than can be counted."""
    return 0 if not amount or not by else _counted(amount * by)


def added(one: Amount, other: Amount) -> Amount:
    """Return the sum, infinity if it is more than can be counted."""
    return _counted(one + other)


def _counted(amount: Amount) -> Amount:
    return amount if amount <= _MOST else inf


# What a part of a program may spend, and how that adds up: one after the other, either, n times.
#
# Not every budget caps every send, so what is spent is counted by the fund that pays:
#
# | pot     | spent by                                       | capped by                           |
# |---------|------------------------------------------------|-------------------------------------|
# | inside  | sends to agents, their tools, and to processes | sessions and functions' budgets     |
# |         | that have no wallet                            | around them                         |
# | handles | sends to processes that have one, by the       | the wallets of those processes      |
# |         | `spawn` that made them                         |                                     |
# | apart   | sends whose payer is not known, and what       | nothing but the budget of the run   |
# |         | monitors do, perhaps after a session is over   |                                     |
#
# `most` bounds all of them together: of two branches one runs, so their funds are not added.
# Infinity is no bound.


INSIDE, APART = "inside", "apart"


class CostLocation(Struct, frozen=True, order=True):
    """A place in the source, with what stands there."""

    file: str
    line: int
    what: str


class LineCost(Struct, frozen=True):
    """The cost of one send in the source, with all the times it may run."""

    calls: Amount
    inside: Amount
    rest: Amount


class MissingBound(Struct, frozen=True):
    """A place where a bound is missing; `fund` is `inside`, `apart` or the place of a spawn."""

    place: CostLocation
    fund: str
    cap: int | None = None


class SpawnedWallets(Struct, frozen=True):
    """The processes that one `spawn` in the source makes: so many, each with so much."""

    wallet: int
    count: Amount = 1


class SpendingBound(Struct, frozen=True):
    """`asked` is all that is set aside at the same time at most: where a scope has that much,
    nothing in it is refused."""

    calls: Amount = 0
    inside: CostBound = EMPTY
    apart: Amount = 0
    handles: dict[str, CostBound] = {}
    spawned_wallets: dict[str, SpawnedWallets] = {}
    processes: Amount = 0
    most: Amount = 0
    asked: Amount = 0
    shares: dict[CostLocation, LineCost] = {}
    gaps: tuple[MissingBound, ...] = ()

    @property
    def of_processes(self) -> Amount:
        """Return what the processes of all `spawn`s together spend at most."""
        return sum((self.of_process(site) for site in self.handles), 0)

    def of_process(self, site: str) -> Amount:
        """Return what the processes of one `spawn` spend at most, by their wallets too."""
        count_steps(2)
        spawned_wallet, fund = self.spawned_wallets.get(site), self.handles[site]
        if spawned_wallet is None:
            return fund.amount
        return min(
            fund.amount, multiplied(self._of_each(site, spawned_wallet), spawned_wallet.count)
        )

    def _of_each(self, site: str, spawned_wallet: SpawnedWallets) -> Amount:
        fund = self.handles.get(site, EMPTY)
        return (
            fund.within(spawned_wallet.wallet)
            if spawned_wallet.count <= 1
            else min(fund.amount, spawned_wallet.wallet)
        )

    @property
    def total(self) -> Amount:
        """Return the most that is spent in the scope, apart from it and by processes, capped by
        `most`."""
        return min(self.most, self.inside.amount + self.apart + self.of_processes)

    @property
    def as_cost_bound(self) -> CostBound:
        """All that is spent from the scope it stands in. Wallets of what is spawned there are
        parts of it, held as a whole."""
        fund = self.inside
        for site in self.handles:
            spawned_wallet = self.spawned_wallets.get(site)
            slack = (
                0
                if spawned_wallet is None
                else spawned_wallet.wallet - self._of_each(site, spawned_wallet)
            )
            fund = fund.plus(cost_bound(self.of_process(site), slack))
        return fund


NONE = SpendingBound()


def plus(one: SpendingBound, other: SpendingBound) -> SpendingBound:
    """Return the bound of both, one after the other."""
    if one is NONE or other is NONE:
        return other if one is NONE else one
    return _combined(one, other, CostBound.plus, added)


def worse_of(one: SpendingBound, other: SpendingBound) -> SpendingBound:
    """Return the bound of whichever of the two runs: in every respect the greater."""
    return _combined(one, other, CostBound.either, max)


def _combined(
    one: SpendingBound,
    other: SpendingBound,
    funds: Callable[[CostBound, CostBound], CostBound],
    amounts: Callable[[Amount, Amount], Amount],
) -> SpendingBound:
    _count(one, other)
    handles, wallets, shares = {**one.handles}, {**one.spawned_wallets}, {**one.shares}
    for site, fund in other.handles.items():
        handles[site] = funds(handles.get(site, EMPTY), fund)
    for site, made in other.spawned_wallets.items():
        known = wallets.get(site, SpawnedWallets(0, 0))
        wallet, count = max(known.wallet, made.wallet), amounts(known.count, made.count)
        wallets[site] = SpawnedWallets(wallet, count)
    for place, share in other.shares.items():
        mine = shares.get(place, LineCost(0, 0, 0))
        shares[place] = LineCost(
            amounts(mine.calls, share.calls),
            amounts(mine.inside, share.inside),
            amounts(mine.rest, share.rest),
        )
    return SpendingBound(
        amounts(one.calls, other.calls),
        funds(one.inside, other.inside),
        amounts(one.apart, other.apart),
        handles,
        wallets,
        amounts(one.processes, other.processes),
        amounts(one.total, other.total),
        amounts(one.asked, other.asked),
        shares,
        _once(one.gaps + other.gaps),
    )


def times(spend: SpendingBound, count: Amount, at: CostLocation) -> SpendingBound:
    """`at` is what is told when there is no bound."""
    count_steps(2 + 2 * len(spend.shares))
    by = max(count, 0)
    gaps: tuple[MissingBound, ...] = () if by == 0 else spend.gaps
    if by == inf:
        gaps += tuple(MissingBound(at, fund) for fund in _spent_from(spend))
    elif at.file and multiplied(spend.total, by) == inf > spend.total:
        place = replace(at, what=TOO_MUCH)
        gaps += tuple(MissingBound(place, fund) for fund in _spent_from(spend))
    return SpendingBound(
        multiplied(spend.calls, by),
        spend.inside.times(by),
        multiplied(spend.apart, by),
        {site: fund.times(by) for site, fund in spend.handles.items()},
        {
            site: SpawnedWallets(one.wallet, multiplied(one.count, by))
            for site, one in spend.spawned_wallets.items()
        },
        multiplied(spend.processes, by),
        multiplied(spend.total, by),
        multiplied(spend.asked, by),
        {
            place: LineCost(*(multiplied(part, by) for part in (s.calls, s.inside, s.rest)))
            for place, s in spend.shares.items()
        },
        _once(gaps),
    )


def capped(spend: SpendingBound, cap: int | None) -> SpendingBound:
    """Cap it by a session or the budget of a function, which is set aside as a whole."""
    if cap is None:
        return spend
    count_steps(2 + 2 * len(spend.shares))
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
            replace(gap, cap=cap) if gap.fund == INSIDE and gap.cap is None else gap
            for gap in spend.gaps
        ),
    )


def moved(spend: SpendingBound) -> SpendingBound:
    """Move all of it into the fund that no session caps."""
    shares = {
        place: LineCost(share.calls, 0, added(share.inside, share.rest))
        for place, share in spend.shares.items()
    }
    gaps = tuple(replace(gap, fund=APART) if gap.cap is None else gap for gap in spend.gaps)
    return replace(spend, inside=EMPTY, handles={}, apart=spend.total, shares=shares, gaps=gaps)


def _count(one: SpendingBound, other: SpendingBound) -> None:
    """The first is copied, which is quick, and the second gone through."""
    count_steps(
        4 + (len(one.shares) + len(one.gaps)) // 64 + 2 * (len(other.shares) + len(other.gaps))
    )


def _spent_from(spend: SpendingBound) -> list[str]:
    funds = [INSIDE] if spend.inside.amount else []
    funds += [APART] if spend.apart else []
    return funds + [site for site, fund in spend.handles.items() if fund.amount]


def _once(gaps: tuple[MissingBound, ...]) -> tuple[MissingBound, ...]:
    return tuple(dict.fromkeys(gaps))
