"""Times a step by its fastest round, so that a busy machine does not count."""

import gc
import time
from collections.abc import Callable, Iterator

__all__ = ["ns_per_step"]

_ROUNDS = 15


def ns_per_step(steps: Callable[[], Iterator[object]], count: int) -> float:
    """`steps()` yields once per step; every round starts it anew, untimed."""
    best = float("inf")
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            run = steps()
            next(run)
            started = time.perf_counter_ns()
            for _ in range(count):
                next(run)
            best = min(best, (time.perf_counter_ns() - started) / count)
            gc.collect()
    finally:
        gc.enable()
    return best
