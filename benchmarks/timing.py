"""Times work so that a slow or busy machine does not decide: a step by its fastest round, and a
fixed loop beside the work, by which the work's limits are scaled."""

import gc
import time
from collections.abc import Callable, Iterator

__all__ = ["CALIBRATED_MS", "calibration", "calibration_loop", "cpu_ms", "ns_per_step", "slowness"]

CALIBRATED_MS = 20.0
"""What the fixed loop takes on the machine that absolute limits were set on."""

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


def calibration() -> float:
    """CPU milliseconds of a fixed loop: the best of a few."""
    return min(cpu_ms(calibration_loop) for _ in range(5))


def slowness() -> float:
    """How many times as long as there the fixed loop takes now; a quicker machine counts as 1."""
    return max(1.0, calibration() / CALIBRATED_MS)


def calibration_loop() -> None:
    """Run the loop that others are measured by."""
    total = 0
    for number in range(300_000):
        total += number & 7


def cpu_ms(what: Callable[[], object]) -> float:
    """CPU milliseconds of this process for what is called."""
    began = time.process_time_ns()
    what()
    return (time.process_time_ns() - began) / 1e6
