"""Times a step by its fastest round, so that a busy machine does not count."""

import gc
import time
from collections.abc import Callable, Iterator

__all__ = ["ns_per_step"]

_ROUNDS = 400
"""Short rounds, many of them: some fall between two interruptions by other processes."""


def ns_per_step(steps: Callable[[], Iterator[object]], count: int) -> float:
    """`steps()` yields once per step."""
    best = float("inf")
    run = steps()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            next(run)
            started = time.perf_counter_ns()
            for _ in range(count):
                next(run)
            best = min(best, (time.perf_counter_ns() - started) / count)
    finally:
        gc.enable()
    return best
