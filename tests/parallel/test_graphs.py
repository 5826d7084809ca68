"""The shortest times that graphs of calls are held against, by other ways to work them out."""

from itertools import permutations

import pytest
from campaigns.parallel.graphs import Call, graph, list_schedule, longest_way, takes

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_in_order_a_graph_takes_all_its_calls_one_after_the_other(seed: int) -> None:
    """So the graph is that of the program."""
    made = graph(seed)
    whole = sum(call.ms for call in made.calls)
    assert takes(made, 0) == list_schedule(made.calls, 1) == whole


@pytest.mark.parametrize("seed", SEEDS)
def test_with_slots_for_all_a_schedule_is_the_longest_way(seed: int) -> None:
    calls = graph(seed).calls
    assert list_schedule(calls, len(calls) + 1) == longest_way(calls)


def test_the_longest_way_is_the_best_of_all_orders() -> None:
    """Of a graph small enough to try them all."""
    calls = [
        Call(3, frozenset()),
        Call(2, frozenset()),
        Call(4, frozenset({1})),
        Call(1, frozenset({0, 2})),
        Call(6, frozenset({0})),
    ]
    assert longest_way(calls) == min(_in_this_order(calls, order) for order in _orders(calls)) == 9


def _orders(calls: list[Call]) -> list[tuple[int, ...]]:
    every = permutations(range(len(calls)))
    return [
        order
        for order in every
        if all(calls[at].after <= {*order[:n]} for n, at in enumerate(order))
    ]


def _in_this_order(calls: list[Call], order: tuple[int, ...]) -> int:
    ends: dict[int, int] = {}
    for at in order:
        ends[at] = calls[at].ms + max((ends[one] for one in calls[at].after), default=0)
    return max(ends.values())


def test_what_does_not_look_ahead_takes_longer() -> None:
    """Else the measured ratio would hold for anything."""
    assert any(takes(graph(seed), 1) > longest_way(graph(seed).calls) for seed in SEEDS)
