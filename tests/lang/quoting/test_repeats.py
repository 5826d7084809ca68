"""What the repeats of sends cost at most, beside every way that a run could take them."""

from functools import cache
from itertools import product
from math import floor, inf
from random import Random

import pytest

from vegakit.lang.analysis import cost_sends
from vegakit.lang.analysis.cost_bounds import Repeats

Costs = list[tuple[int, tuple[int, ...]]]


def bound(costs: Costs, attempts: list[int], pool: float = inf) -> Repeats:
    return cost_sends._repeats([*costs], attempts, 1, pool)


def taken_by(costs: Costs, attempts: list[int], repeats: int) -> int:
    """The costliest of all runs of one send with so many repeats: it comes to a step after all
    before it, and asks a model no more often than it may."""
    steps = [
        [
            cost
            for (first, later), count in zip(costs, attempts, strict=True)
            for cost in (first, *later)[at : at + 1] * count
        ]
        for at in range(1 + max(len(later) for _, later in costs))
    ]
    best = 0
    for reached in range(1, len(steps) + 1):
        for counts in product(*(range(1, len(step) + 1) for step in steps[:reached])):
            if sum(counts) <= repeats + 1:
                made = zip(steps, counts, strict=False)
                best = max(best, sum(sum(sorted(step)[-count:]) for step, count in made))
    return best


def costliest(sends: list[tuple[Costs, list[int]]], repeats: int) -> int:
    """The costliest of all ways to share so many repeats among sends."""
    best = [0] * (repeats + 1)
    for costs, attempts in sends:
        alone = [taken_by(costs, attempts, count) for count in range(repeats + 1)]
        best = [
            max(best[count - mine] + alone[mine] for mine in range(count + 1))
            for count in range(repeats + 1)
        ]
    return best[repeats]


def some_send(chance: Random) -> tuple[Costs, list[int]]:
    """With one model or two, and steps that mostly grow."""
    steps, costs = chance.randrange(4), Costs()
    for _ in range(chance.choice([1, 1, 2])):
        made = [chance.randrange(1, 60) for _ in range(1 + steps)]
        first, *later = sorted(made) if chance.random() < 0.8 else made
        costs.append((first, tuple(later)))
    return costs, [chance.randrange(1, 4) for _ in costs]


@cache
def cases() -> list[tuple[int, int, int]]:
    """Of random sends, each with how many repeats: the costliest way, and the most that one repeat
    costs."""
    found = list[tuple[int, int, int]]()
    for seed in range(150):
        sends = _sends(seed)
        most = max(max(first, *later, 0) for costs, _ in sends for first, later in costs)
        found += [(costliest(sends, count), count, most) for count in range(9)]
    return found


def _sends(seed: int) -> list[tuple[Costs, list[int]]]:
    chance = Random(seed)
    return [some_send(chance) for _ in range(chance.randrange(1, 4))]


def quoted() -> list[float]:
    """Of a pool that is known, and of all repeats that the sends allow."""
    return [min(_whole(seed, pool).within(n) for pool in (n, inf)) for seed, n in _each()]


def _each() -> list[tuple[int, int]]:
    return [(seed, count) for seed in range(150) for count in range(9)]


def _whole(seed: int, pool: float) -> Repeats:
    whole = Repeats()
    for send in _sends(seed):
        whole = whole.plus(bound(*send, pool))
    return whole


def test_no_way_to_take_repeats_costs_more_than_is_quoted() -> None:
    """Nor is the quote far above: by the steps of one send, which come after cheaper ones."""
    above = 0
    for told, (spent, count, most) in zip(quoted(), cases(), strict=True):
        assert spent <= told <= spent + 2 * most + count
        above += told > 1.25 * spent
    assert above < 0.05 * len(cases())


def test_one_send_that_takes_the_whole_pool_is_quoted_as_it_costs() -> None:
    """In the middle of it the pool may end. Prices are rounded up to one of them each."""
    for seed in range(150):
        costs, attempts = _sends(seed)[0]
        for pool in range(9):
            told = bound(costs, attempts, pool).within(pool)
            spent = taken_by(costs, attempts, pool)
            assert spent <= told <= spent + pool, seed


def test_a_small_pool_never_counts_more_than_all_repeats_do() -> None:
    for seed, count in _each():
        assert _whole(seed, count).within(count) <= _whole(seed, inf).within(count) + count


def test_a_later_step_is_paid_only_after_those_before_it() -> None:
    """The first repeat of one send is its first step, however costly the second would be. Of many
    sends, a repeat counts as the mean of the steps of one."""
    costs: Costs = [(10, (20, 100))]
    assert [taken_by(costs, [1], count) for count in range(4)] == [10, 30, 130, 130]
    assert [bound(costs, [1]).within(count) for count in range(4)] == [10, 70, 130, 130]
    assert bound(costs, [1]).times(5).within(5) == 50 + 5 * 60


def test_a_send_is_repeated_no_more_often_than_its_rules_allow() -> None:
    assert bound([(10, ())], [1]).within(5) == 10
    assert bound([(10, (20,))], [2]).within(5) == 10 + 10 + 20 + 20


@pytest.mark.parametrize("name", ["all alike", "last step forgotten", "rounded down"])
def test_a_curve_that_is_too_low_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: all repeats at their mean, a step that is not reached, and prices rounded down."""
    real = cost_sends._in_turn

    def alike(
        again: Repeats, laters: list[Repeats], pool: float
    ) -> tuple[tuple[float, float], ...]:
        more = real(again, laters, pool)
        count = sum(count for _, count in more)
        return ((sum(price * count for price, count in more) // max(count, 1), count),)

    patches = {
        "all alike": ("_in_turn", alike),
        "last step forgotten": (
            "_in_turn",
            lambda again, laters, pool: real(again, laters[:-1], pool),
        ),
        "rounded down": ("ceil", floor),
    }
    monkeypatch.setattr(cost_sends, *patches[name])
    assert any(told < spent for told, (spent, _, _) in zip(quoted(), cases(), strict=True))
