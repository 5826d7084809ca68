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
_MOST_PRICES = 16
_MOST = 2**63 - 1
"""An amount above it is none: no wallet holds as much, and no number here grows any longer, in
however many loops and functions a program multiplies it."""

TOO_MUCH = "all that it may cost is more than can be counted"

Amount: TypeAlias = int | float


class Repeats(Struct, frozen=True):
    """Bounds what is spent by how many sends are repeated. `once` is without any; `more` are the
    prices of repeats, each with how many cost as much, the most expensive first."""

    once: Amount = 0
    more: tuple[tuple[Amount, Amount], ...] = ()

    def within(self, count: Amount) -> Amount:
        """Return the most that is spent with so many repeats."""
        total, left = self.once, count
        for price, there in self.more:
            taken = min(there, left)
            total = added(total, multiplied(price, taken))
            left = inf if left == inf else left - taken
        return total

    def without(self, count: Amount) -> "Repeats":
        """Return what is left when so many of the most expensive are taken out."""
        more, left = list[tuple[Amount, Amount]](), count
        for price, there in self.more:
            taken = min(there, left)
            more.append((price, there - taken))
            left -= taken
        return Repeats(self.once, tuple(each for each in more if each[1]))

    def plus(self, other: "Repeats") -> "Repeats":
        """Return both, one after the other."""
        return Repeats(added(self.once, other.once), _merged(self.more + other.more))

    def either(self, other: "Repeats") -> "Repeats":
        """Return one or the other, whichever runs: the first repeat of either, the second, and so
        on, at the higher price."""
        more: list[tuple[Amount, Amount]] = []
        mine, others = [*reversed(self.more)], [*reversed(other.more)]
        while mine and others:
            (price, count), (other_price, other_count) = mine.pop(), others.pop()
            taken = min(count, other_count)
            more.append((max(price, other_price), taken))
            if count > taken:
                mine.append((price, count - taken))
            if other_count > taken:
                others.append((other_price, other_count - taken))
        rest = [*reversed(mine), *reversed(others)]
        return Repeats(max(self.once, other.once), _merged((*more, *rest)))

    def times(self, by: Amount) -> "Repeats":
        """Return so many of it."""
        more = tuple((price, multiplied(count, by)) for price, count in self.more if by)
        return self if by == 1 else Repeats(multiplied(self.once, by), more)

    def at_most(self, cap: Amount) -> "Repeats":
        """Return it under a cap on all that is spent."""
        if self.once >= cap:
            return Repeats(cap)
        if cap == inf:
            return self
        left, more = cap - self.once, list[tuple[Amount, Amount]]()
        for price, count in self.more:
            fits = left // price if price != inf else 0
            if fits < count:
                more += [(price, fits), (left - multiplied(price, fits), 1)]
                break
            more.append((price, count))
            left -= price * count
        return Repeats(self.once, tuple((price, count) for price, count in more if price and count))


def _merged(more: tuple[tuple[Amount, Amount], ...]) -> tuple[tuple[Amount, Amount], ...]:
    """Return the prices in order, and few: the last of them stands for all that are lower."""
    counts: dict[Amount, Amount] = {}
    for price, count in more:
        if price:
            counts[price] = added(counts.get(price, 0), count)
    by_price = sorted(counts.items(), reverse=True)
    if len(by_price) <= _MOST_PRICES:
        return tuple(by_price)
    kept, cheap = by_price[: _MOST_PRICES - 1], by_price[_MOST_PRICES - 1 :]
    return (*kept, (cheap[0][0], _counted(sum((count for _, count in cheap), 0))))


ONCE = Repeats()


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
    """`parts` are amounts by the slack of those who spend them, the least slack first. `amount` is
    with all the repeats that each send may have; `repeats` says what fewer of them come to."""

    amount: Amount = 0
    parts: tuple[tuple[Amount, Amount], ...] = ()
    call_costs: tuple[CallCost, ...] | None = ()
    repeats: Repeats = ONCE

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
        repeats = self.repeats.plus(other.repeats)
        return CostBound(added(self.amount, other.amount), _few(parts), None, repeats)

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
        repeats = self.repeats.either(other.repeats)
        return CostBound(max(self.amount, other.amount), _few(parts), call_costs, repeats)

    def times(self, by: Amount) -> "CostBound":
        """Return the bound of so many of it."""
        if by == 0:
            return EMPTY
        parts = tuple((slack, multiplied(amount, by)) for slack, amount in self.parts)
        if by == 1:
            return self
        return CostBound(multiplied(self.amount, by), parts, None, self.repeats.times(by))

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
        return cost_bound(spent, cap - spent, repeats=self.repeats)


def cost_bound(
    amount: Amount,
    slack: Amount = 0,
    call_costs: tuple[CallCost, ...] | None = None,
    repeats: Repeats | None = None,
) -> CostBound:
    """Return the bound of one amount, empty if that is nothing. Without `repeats` all of it may be
    spent at once."""
    amount = _counted(amount)
    known = Repeats(amount) if repeats is None else repeats.at_most(amount)
    return CostBound(amount, ((slack, amount),), call_costs, known) if amount else EMPTY


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
    """The cost of one send in the source, with all the times it may run; `sends` and `repeats` are
    of it when each is made once."""

    calls: Amount
    inside: Amount
    rest: Amount
    sends: Amount = 0
    repeats: Repeats = ONCE


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
    nothing in it is refused. `calls` are with all the repeats that each send may have, and `sends`
    without: whether one of them fits its budgets does not matter for them. `apart_repeats` and
    `most_repeats` are of `apart` and `most`."""

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
    sends: Amount = 0
    apart_repeats: Repeats = ONCE
    most_repeats: Repeats = ONCE

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
    def repeats(self) -> Repeats:
        """Return the same as `total`, by how many repeats there are."""
        by_fund = self.inside.repeats.plus(self.apart_repeats)
        for site, fund in self.handles.items():
            by_fund = by_fund.plus(fund.repeats.at_most(self.of_process(site)))
        whole = self.total
        known = by_fund if by_fund.once < self.most_repeats.once else self.most_repeats
        return known.at_most(whole)

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
            repeats = self.handles[site].repeats
            fund = fund.plus(cost_bound(self.of_process(site), slack, repeats=repeats))
        return fund


NONE = SpendingBound()


def plus(one: SpendingBound, other: SpendingBound) -> SpendingBound:
    """Return the bound of both, one after the other."""
    if one is NONE or other is NONE:
        return other if one is NONE else one
    return _combined(one, other, CostBound.plus, added, Repeats.plus)


def worse_of(one: SpendingBound, other: SpendingBound) -> SpendingBound:
    """Return the bound of whichever of the two runs: in every respect the greater."""
    return _combined(one, other, CostBound.either, max, Repeats.either)


def _combined(
    one: SpendingBound,
    other: SpendingBound,
    funds: Callable[[CostBound, CostBound], CostBound],
    amounts: Callable[[Amount, Amount], Amount],
    repeats: Callable[[Repeats, Repeats], Repeats],
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
            amounts(mine.sends, share.sends),
            repeats(mine.repeats, share.repeats),
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
        amounts(one.sends, other.sends),
        repeats(one.apart_repeats, other.apart_repeats),
        repeats(one.repeats, other.repeats),
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
            place: LineCost(
                *(multiplied(part, by) for part in (s.calls, s.inside, s.rest, s.sends)),
                repeats=s.repeats.times(by),
            )
            for place, s in spend.shares.items()
        },
        _once(gaps),
        multiplied(spend.sends, by),
        spend.apart_repeats.times(by),
        spend.repeats.times(by),
    )


def capped(spend: SpendingBound, cap: int | None) -> SpendingBound:
    """Cap it by a session or the budget of a function, which is set aside as a whole."""
    if cap is None:
        return spend
    count_steps(2 + 2 * len(spend.shares))
    inside = spend.inside.in_scope(cap)
    most = min(spend.total, inside.amount + spend.apart + spend.of_processes)
    return replace(
        spend,
        asked=cap,
        inside=inside,
        most=most,
        most_repeats=spend.repeats.at_most(most),
        shares={
            place: replace(
                share,
                inside=min(share.inside, cap),
                repeats=share.repeats.at_most(min(share.inside, cap) + share.rest),
            )
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
        place: replace(share, inside=0, rest=added(share.inside, share.rest))
        for place, share in spend.shares.items()
    }
    gaps = tuple(replace(gap, fund=APART) if gap.cap is None else gap for gap in spend.gaps)
    return replace(
        spend,
        inside=EMPTY,
        handles={},
        apart=spend.total,
        apart_repeats=spend.repeats,
        shares=shares,
        gaps=gaps,
    )


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


def with_tools(one: SpendingBound, tools: SpendingBound) -> SpendingBound:
    """Add what tools do besides. What they spend is of the part of the send, and so in its cost
    already; what their monitors do is not."""
    return plus(
        one,
        SpendingBound(
            calls=tools.calls,
            apart=tools.apart,
            processes=tools.processes,
            most=tools.apart,
            shares=tools.shares,
            gaps=tools.gaps,
            sends=tools.sends,
            apart_repeats=tools.apart_repeats,
            most_repeats=tools.apart_repeats,
        ),
    )
