"""A circuit breaker: stop asking a failing world, then try it with a few probes.

| state     | event                          | next      | and                               |
|-----------|--------------------------------|-----------|-----------------------------------|
| closed    | success                        | closed    | the count of failures is cleared  |
| closed    | failure, count < threshold     | closed    | count + 1                         |
| closed    | failure, count = threshold     | open      | next generation                   |
| open      | admit before reset_after       | open      | NotYet                            |
| open      | admit after reset_after        | half_open | next generation, first probe out  |
| half_open | admit, a probe is left         | half_open | one more probe out                |
| half_open | admit, none left               | half_open | NotYet                            |
| half_open | admit, probes out too long     | half_open | next generation, first probe out  |
| half_open | a probe is cancelled           | half_open | its place is free again           |
| half_open | the last of k probes succeeds  | closed    | next generation                   |
| half_open | a probe fails                  | open      | next generation                   |

A permit carries the generation it was given in. A result of another generation, or of a probe that
already reported, changes nothing: so an old success cannot close a breaker, and a stuck or
cancelled probe cannot keep it half-open for ever.
"""

from enum import StrEnum

from msgspec import Struct, field

from vegakit.errors import ErrorClass, InvalidRuleError
from vegakit.policy.limits.verdicts import NotYet

__all__ = ["UNHEALTHY", "Breaker", "BreakerChange", "BreakerRule", "BreakerState", "Permit"]

UNHEALTHY = frozenset(
    {
        ErrorClass.OVERLOADED,
        ErrorClass.UNAVAILABLE,
        ErrorClass.SERVER,
        ErrorClass.TIMEOUT,
        ErrorClass.CONNECTION,
    }
)
"""What says that the world is not well. A request that was refused for what it is says nothing."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerChange(StrEnum):
    OPENED = "opened"
    CLOSED = "closed"


class BreakerRule(Struct, frozen=True):
    threshold: int = 5
    reset_after_ms: int = 30_000
    probes: int = 1

    def __post_init__(self) -> None:
        if self.threshold < 1 or self.reset_after_ms < 1 or self.probes < 1:
            raise InvalidRuleError(
                f"a breaker needs threshold, reset_after and probes of at least 1; got {self}"
            )


class Permit(Struct, frozen=True):
    """Leave to call once; hand it back with the result. `probe` is 0 outside half-open."""

    generation: int
    probe: int = 0


class Breaker(Struct):
    rule: BreakerRule
    state: BreakerState = BreakerState.CLOSED
    generation: int = 0
    failures: int = 0
    since_ms: int = 0
    probes_sent: int = 0
    probes_out: list[int] = field(default_factory=list)
    probes_passed: int = 0

    def admit(self, now: int) -> Permit | NotYet:
        if self.state is BreakerState.CLOSED:
            return Permit(self.generation)
        wait_ms = self.since_ms + self.rule.reset_after_ms - now
        if self.state is BreakerState.HALF_OPEN and self._has_probe_left():
            return self._send_probe()
        if wait_ms > 0:
            return NotYet(wait_ms)
        self._enter(BreakerState.HALF_OPEN, now)
        return self._send_probe()

    def on_success(self, permit: Permit, now: int) -> BreakerChange | None:
        if permit.generation != self.generation:
            return None
        if self.state is BreakerState.CLOSED:
            self.failures = 0
            return None
        if not self._take_back(permit):
            return None
        self.probes_passed += 1
        if self.probes_passed < self.rule.probes:
            return None
        self._enter(BreakerState.CLOSED, now)
        return BreakerChange.CLOSED

    def on_failure(self, permit: Permit, now: int) -> BreakerChange | None:
        if permit.generation != self.generation:
            return None
        if self.state is BreakerState.CLOSED:
            self.failures += 1
            if self.failures < self.rule.threshold:
                return None
        elif not self._take_back(permit):
            return None
        self._enter(BreakerState.OPEN, now)
        return BreakerChange.OPENED

    def on_cancelled(self, permit: Permit) -> None:
        """The call was given up before its result was known: neither success nor failure."""
        if permit.generation == self.generation:
            self._take_back(permit)

    def _has_probe_left(self) -> bool:
        return len(self.probes_out) + self.probes_passed < self.rule.probes

    def _send_probe(self) -> Permit:
        self.probes_sent += 1
        self.probes_out.append(self.probes_sent)
        return Permit(self.generation, self.probes_sent)

    def _take_back(self, permit: Permit) -> bool:
        if permit.probe not in self.probes_out:
            return False
        self.probes_out.remove(permit.probe)
        return True

    def _enter(self, state: BreakerState, now: int) -> None:
        self.state = state
        self.generation += 1
        self.since_ms = now
        self.failures = self.probes_sent = self.probes_passed = 0
        self.probes_out = []
