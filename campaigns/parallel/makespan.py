"""How near parallel runs of graphs come to the shortest time that there is."""

from collections.abc import Iterable
from concurrent.futures import Executor
from typing import NamedTuple

from campaigns.parallel.graphs import graph, list_schedule, longest_way, takes

__all__ = ["Span", "measure"]

WINDOW = 1_000
SLOTS = (2, 3, 4, 8)


class Span(NamedTuple):
    """Of one graph. `in_slots_ms` is with few slots, `scheduled_ms` by a list schedule that
    foresees how long calls take, `unforeseen_ms` by one that does not."""

    sequential_ms: int
    parallel_ms: int
    shortest_ms: int
    in_slots_ms: int
    scheduled_ms: int
    unforeseen_ms: int


def measure(seeds: Iterable[int], pool: Executor) -> list[Span]:
    return list(pool.map(_span, seeds, chunksize=10))


def _span(seed: int) -> Span:
    made, slots = graph(seed), SLOTS[seed % len(SLOTS)]
    return Span(
        sum(call.ms for call in made.calls),
        takes(made, WINDOW),
        longest_way(made.calls),
        takes(made, WINDOW, slots),
        list_schedule(made.calls, slots),
        list_schedule(made.calls, slots, foreseen=False),
    )
