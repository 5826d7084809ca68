"""What work costs, as a ratio to other work in the same run: no verdict hangs on how fast the
machine is, or on who else uses it. How long things take is measured in benchmarks."""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

Thing = TypeVar("Thing")

_ROUNDS = 5
_TOO_LITTLE_S = 0.02
"""Less is as much noise as work; of the work that is compared the larger takes more."""


def ratio(one: Callable[[], object], other: Callable[[], object], most: float) -> float:
    """Return how often the CPU time of the second goes into that of the first: the least of each in
    some rounds, no more than are needed to see that it is at most so much."""
    least = [float("inf")] * 2
    for _ in range(_ROUNDS):
        for place, work in enumerate((one, other)):
            began = time.process_time()
            work()
            least[place] = min(least[place], time.process_time() - began)
        if least[0] <= most * max(least[1], _TOO_LITTLE_S):
            break
    return least[0] / max(least[1], _TOO_LITTLE_S)


def growth(
    work: Callable[[Thing], object], make: Callable[[int], Thing], size: int, most: float = 24.0
) -> float:
    """Return how much more it costs than for an eighth of the size. In proportion would be 8 times
    as much, by the square 64 times."""
    return ratio(partial(work, make(size)), partial(work, make(size // 8)), most)


def is_even(
    work: Callable[[Thing], object], make: Callable[[int], Thing], size: int, most: float = 24.0
) -> bool:
    """Whether its cost grows about in proportion to its size."""
    return growth(work, make, size, most) <= most
