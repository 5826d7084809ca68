"""Waiting longer after each failure, with full jitter: exponential(100ms, 2.0, 5s).

    delay = draw × min(max, initial × factor ^ failures)        draw in 0..1 is handed in

Drawing the whole delay, not a part of it, spreads those who failed together the most.
"""

from msgspec import Struct

from vegakit.errors import InvalidRuleError

__all__ = ["Backoff"]


class Backoff(Struct, frozen=True):
    initial_ms: int = 100
    factor: float = 2.0
    max_ms: int = 5_000

    def __post_init__(self) -> None:
        if not (1 <= self.initial_ms <= self.max_ms and 1 <= self.factor < float("inf")):
            raise InvalidRuleError(
                "a backoff needs an initial delay from 1 ms up to its maximum and a finite factor"
                f" of at least 1; got {self}"
            )

    def delay_ms(self, failures: int, draw: float) -> int:
        try:
            longest = min(self.max_ms, self.initial_ms * self.factor**failures)
        except OverflowError:
            longest = self.max_ms
        return int(draw * longest)
