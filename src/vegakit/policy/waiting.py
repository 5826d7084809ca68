"""Deadlocks between calls that wait for money, and the call that such a deadlock refuses (pure).

A model can ask other agents before it answers. Its own call keeps its reservation while they wait.
If several such calls wait for each other's money, none of them continues. The rule finds a deadlock
and refuses the call that began to wait last.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from vegakit.ids import HolderId
from vegakit.money import Money

# A deadlocked waiter does not fit even if all reservations end except those around deadlocked
# waiters:
#
#     settled + reservations around deadlocked waiters + wanted  >  cap
#
# | reservations around the waiter             | verdict                                     |
# |--------------------------------------------|---------------------------------------------|
# | none                                       | waits; no other call depends on it          |
# | too much for its own reservation           | refused, because it waits for itself        |
# | some, and a call that holds the rest ends  | waits                                       |
# | some, and the calls that hold the rest     | waits if one of them is younger, else       |
# | wait, too                                  | refused                                     |
#
# The rule starts with all waiters and removes each waiter that fits, until no remaining waiter
# fits. So it never refuses a call that another call could make room for. Each waiter runs the rule
# for itself, in its own process, each time it looks for room.


class Surrounding(Struct, frozen=True):
    """A reservation around a waiter, and the counters that include it."""

    holder: HolderId
    amount: Money
    counters: tuple[str, ...]


class BlockedCall(Struct, frozen=True):
    """A call inside other calls that waits for room under these caps, by counter. `number` is its
    place in the order of arrival."""

    number: int
    holder: HolderId
    wanted: Money
    caps: dict[str, Money]
    around: dict[str, Surrounding]


class Deadlock(Struct, frozen=True):
    """The money that a refused waiter needs: the sum that calls around it hold, and the sum that
    calls of each holder keep around other waiters."""

    around: Money
    others: dict[HolderId, Money]


def find_deadlock(
    waiters: Mapping[str, BlockedCall], settled_in: Callable[[str], int]
) -> tuple[str, Deadlock] | None:
    """Return the name of the waiter that a deadlock refuses, and the holders of the money."""
    short_in = _short_counters(waiters, settled_in)
    stuck = {name: waiters[name] for name in short_in}
    needed = {counter for counters in short_in.values() for counter in counters}
    numbers = {
        (waiter.number, name)
        for name, waiter in stuck.items()
        # The end of another waiter would free nothing that is needed.
        if any(needed.intersection(one.counters) for one in waiter.around.values())
    }
    if not numbers:
        return None
    _, youngest = max(numbers)
    around, others = 0, dict[HolderId, Money]()
    for call, one in _surroundings(stuck).items():
        if short_in[youngest][0] not in one.counters:
            continue
        if call in stuck[youngest].around:
            around += one.amount
        else:
            others[one.holder] = Money(others.get(one.holder, 0) + one.amount)
    return youngest, Deadlock(Money(around), others)


def _short_counters(
    waiters: Mapping[str, BlockedCall], settled_in: Callable[[str], int]
) -> dict[str, list[str]]:
    """Return the deadlocked waiters, and the counters in which each does not fit."""
    stuck = dict(waiters)
    while True:
        around = _surroundings(stuck).values()
        held = {
            counter: settled_in(counter) + sum(x.amount for x in around if counter in x.counters)
            for waiter in stuck.values()
            for counter in waiter.caps
        }
        short_in = {
            name: [c for c, cap in waiter.caps.items() if held[c] + waiter.wanted > cap]
            for name, waiter in stuck.items()
        }
        if all(short_in.values()):
            return short_in
        stuck = {name: stuck[name] for name, counters in short_in.items() if counters}


def _surroundings(waiters: Mapping[str, BlockedCall]) -> dict[str, Surrounding]:
    return {name: one for waiter in waiters.values() for name, one in waiter.around.items()}
