"""How much of one thing was used lately, counted exactly.

Sixty calls a minute give back a thousandth of a call every millisecond. To stay with whole numbers
use is counted in parts of `1 / per_ms`:

| event                   | parts spent                                               |
|-------------------------|-----------------------------------------------------------|
| n are used              | + n * per_ms                                              |
| a millisecond goes by   | - amount, never below 0                                   |
| n fit                   | as long as that makes at most burst * per_ms              |

So ten thousand steps of a millisecond give back what one step of ten seconds does, to the last
part. Beside our own rate stands the server's last word: so many are left until it resets. It counts
down with every use and is forgotten at the reset.
"""

from msgspec import Struct

from vegakit.errors import InvalidRuleError

__all__ = ["Meter", "Rate", "Remaining"]


class Rate(Struct, frozen=True):
    """`60 per 1m burst 10` is `Rate(60, per_ms=60_000, burst=10)`."""

    amount: int
    per_ms: int
    burst: int

    def __post_init__(self) -> None:
        if self.amount < 1 or self.per_ms < 1 or self.burst < 1:
            raise InvalidRuleError(
                f"a rate needs an amount, a time and a burst of at least 1; got {self}; "
                "to forbid calls altogether take the capability away"
            )


class Remaining(Struct, frozen=True):
    """The server's word, as providers send it in their headers."""

    left: int
    reset_in_ms: int


class Meter(Struct):
    """`at` never goes backwards; no `rate` means no limit of our own."""

    spent: int = 0
    left: int = 0
    left_until_ms: int = 0

    def recover(self, rate: Rate | None, passed_ms: int) -> None:
        if rate is not None:
            self.spent = max(0, self.spent - passed_ms * rate.amount)

    def wait_ms(self, rate: Rate | None, wanted: int, at: int) -> int:
        """0 if `wanted` fit now; otherwise they cannot fit earlier."""
        wait_ms = 0
        if rate is not None:
            missing = self.spent + (wanted - rate.burst) * rate.per_ms
            if missing > 0:
                wait_ms = -(-missing // rate.amount)
        if self.left_until_ms > at and wanted > self.left:
            wait_ms = max(wait_ms, self.left_until_ms - at)
        return wait_ms

    def use(self, rate: Rate | None, amount: int, at: int) -> None:
        if rate is not None:
            self.spent += amount * rate.per_ms
        if self.left_until_ms > at:
            self.left -= amount

    def on_remaining(self, told: Remaining, in_flight: int, at: int) -> None:
        """The latest word counts; calls in flight may be unknown to the server, so they go off."""
        self.left = max(0, told.left - in_flight)
        self.left_until_ms = at + told.reset_in_ms
