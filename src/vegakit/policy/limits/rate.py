"""A rate limit: requests, model tokens and slots are given out together or not at all.

    rate_limit { requests 60 per 1m  burst 10  strategy queue }

A caller asks by name. It is admitted when what it needs *and* what all those ahead of it in the
queue need fits: so nobody is delayed by one who came later, a large call is not starved by small
ones, and it does not matter which of two callers wakes up first.

| ask                                    | answer    | and                                       |
|----------------------------------------|-----------|-------------------------------------------|
| it fits                                | Admitted  | 1 request, its tokens and a slot are used |
| admitted before, not released          | Admitted  | nothing is used twice                     |
| more tokens than the burst             | NeverFits | waiting would not help                    |
| does not fit; has or finds a place     | Queued    | ask again after wait_ms; the place stays  |
| no place left, `queue` or `reject`     | NotYet    | refused; a program sees `RateLimited`     |
| no place left, `backpressure`          | SlowDown  | keep the call, start no new ones          |

| strategy     | places       | a caller with more work than the limit lets through              |
|--------------|--------------|------------------------------------------------------------------|
| queue        | `queue_size` | waits its turn; when the places are taken, it fails              |
| reject       | none         | fails at once                                                    |
| backpressure | `queue_size` | waits its turn; when the places are taken, it is slowed down     |

The queue is by priority (0 is the most urgent), first come first served within one; a full queue
turns everybody away. Waiters use nothing until they are admitted, so a cancelled one costs nobody
anything. `wait_ms` is exact for the first in line; for the others it is the earliest possible.
Nobody can tell when a slot will be free: the queue is told to look as if all slots came free every
`SLOT_POLL_MS`, and a host that shares the limiter with nobody wakes `first_waiting` after a release
instead.

Processes may share a limiter through its JSON, and any of them may be killed: a waiter who does not
come back within `PATIENCE_MS` of its time loses its place, and a call that nobody releases is
forgotten after `slot_lease_ms`.

The limiter has its own time, which only goes forward. A `now` before the last one gives no credit:
up to `MAX_SKEW_MS` it is the clock of another process, which has to catch up; beyond that the clock
was set back, and time goes on from there. So a clock that is set back neither opens nor stalls it.
"""

from bisect import bisect_right
from enum import StrEnum
from itertools import islice
from typing import TypeAlias

from msgspec import Struct, field

from vegakit.errors import BugError, InvalidRuleError
from vegakit.policy.limits.meter import Meter, Rate, Remaining
from vegakit.policy.limits.verdicts import NotYet

__all__ = [
    "MAX_SKEW_MS",
    "PATIENCE_MS",
    "SLOT_POLL_MS",
    "Admitted",
    "Flight",
    "NeverFits",
    "Queued",
    "RateLimiter",
    "RateRule",
    "RateStrategy",
    "RateVerdict",
    "SlowDown",
    "Waiter",
]

MAX_SKEW_MS = 1_000
PATIENCE_MS = 10_000
SLOT_POLL_MS = 100


class RateStrategy(StrEnum):
    QUEUE = "queue"
    REJECT = "reject"
    BACKPRESSURE = "backpressure"


class RateRule(Struct, frozen=True):
    """Without `requests`, `tokens` or `slots` there is no limit of that kind but the server's."""

    requests: Rate | None = None
    tokens: Rate | None = None
    slots: int | None = None
    strategy: RateStrategy = RateStrategy.QUEUE
    queue_size: int = 1_000
    slot_lease_ms: int = 600_000

    def __post_init__(self) -> None:
        if min(self.queue_size, self.slot_lease_ms, 1 if self.slots is None else self.slots) < 1:
            raise InvalidRuleError(
                "a rate limit needs slots, queue_size and slot_lease of at least 1; "
                f"got {self}; for no queue at all write strategy reject"
            )

    @property
    def places(self) -> int:
        return 0 if self.strategy is RateStrategy.REJECT else self.queue_size


class Admitted(Struct, frozen=True, tag=True):
    """Send now, and `release` when it is over, however it ends."""


class Queued(Struct, frozen=True, tag=True):
    """Ask again after `wait_ms`, or `release` to leave the queue."""

    wait_ms: int


class SlowDown(Struct, frozen=True, tag=True):
    """There is more work than the limit lets through: start nothing new for `wait_ms`."""

    wait_ms: int


class NeverFits(Struct, frozen=True, tag=True):
    """The call alone is larger than the burst: make it smaller or the burst larger."""

    tokens: int
    burst: int


RateVerdict: TypeAlias = Admitted | Queued | NotYet | SlowDown | NeverFits


_ADMITTED = Admitted()


class Waiter(Struct):
    who: str
    priority: int
    tokens: int
    ask_by_ms: int = 0


class Flight(Struct, frozen=True):
    """An admitted call that was not released yet."""

    tokens: int
    lost_at_ms: int


class RateLimiter(Struct):
    rule: RateRule
    own_ms: int = 0
    seen_ms: int = 0
    blocked_until_ms: int = 0
    requests: Meter = field(default_factory=Meter)
    tokens: Meter = field(default_factory=Meter)
    in_flight: dict[str, Flight] = field(default_factory=dict[str, Flight])
    """The oldest first."""
    waiting: list[Waiter] = field(default_factory=list[Waiter])
    """The next one first."""

    def ask(self, who: str, now: int, *, tokens: int = 0, priority: int = 2) -> RateVerdict:
        """Asking again keeps the place, the tokens and the priority of the first time."""
        if tokens < 0:
            raise BugError(f"a call takes 0 tokens or more; {who} asked for {tokens}")
        self._see(now)
        if who in self.in_flight:
            return _ADMITTED
        if self.rule.tokens is not None and tokens > self.rule.tokens.burst:
            return NeverFits(tokens, self.rule.tokens.burst)
        if not self.waiting and not self._wait_ms(0, tokens):  # nearly always, so kept short
            return self._admit(who, tokens)
        return self._decide(*self._step_out(who, priority, tokens))

    @property
    def first_waiting(self) -> str | None:
        return self.waiting[0].who if self.waiting else None

    def release(self, who: str) -> None:
        """It is over, or was cancelled, waiting or in flight; releasing twice is harmless."""
        if self.in_flight.pop(who, None) is None:
            self.waiting = [waiter for waiter in self.waiting if waiter.who != who]

    def on_retry_after(self, wait_ms: int, now: int) -> None:
        """The server wants no call at all for so long."""
        self._see(now)
        self.blocked_until_ms = max(self.blocked_until_ms, self.own_ms + wait_ms)

    def on_remaining(
        self, now: int, *, requests: Remaining | None = None, tokens: Remaining | None = None
    ) -> None:
        """Tell it after the release of the call whose answer said so."""
        self._see(now)
        if requests is not None:
            self.requests.on_remaining(requests, len(self.in_flight), self.own_ms)
        if tokens is not None:
            in_flight = sum(flight.tokens for flight in self.in_flight.values())
            self.tokens.on_remaining(tokens, in_flight, self.own_ms)

    def _decide(self, place: int, waiter: Waiter) -> RateVerdict:
        wait_ms = self._wait_ms(place, waiter.tokens)
        if not wait_ms:
            return self._admit(waiter.who, waiter.tokens)
        if len(self.waiting) < self.rule.places:
            waiter.ask_by_ms = self.own_ms + wait_ms + PATIENCE_MS
            self.waiting.insert(place, waiter)
            return Queued(wait_ms)
        if self.rule.strategy is RateStrategy.BACKPRESSURE:
            return SlowDown(wait_ms)
        return NotYet(wait_ms)

    def _wait_ms(self, ahead: int, tokens: int) -> int:
        """0 if this call fits together with the first `ahead` of the queue."""
        if ahead:
            tokens += sum(waiter.tokens for waiter in islice(self.waiting, ahead))
        at, rule, calls = self.own_ms, self.rule, ahead + 1
        wait_ms = max(
            self.requests.wait_ms(rule.requests, calls, at),
            self.tokens.wait_ms(rule.tokens, tokens, at),
        )
        if self.blocked_until_ms > at:
            wait_ms = max(wait_ms, self.blocked_until_ms - at)
        if rule.slots is not None and len(self.in_flight) + calls > rule.slots:
            turns = -(-(len(self.in_flight) + calls - rule.slots) // rule.slots)
            wait_ms = max(wait_ms, turns * SLOT_POLL_MS)
        return wait_ms

    def _admit(self, who: str, tokens: int) -> Admitted:
        self.requests.use(self.rule.requests, 1, self.own_ms)
        self.tokens.use(self.rule.tokens, tokens, self.own_ms)
        self.in_flight[who] = Flight(tokens, self.own_ms + self.rule.slot_lease_ms)
        return _ADMITTED

    def _step_out(self, who: str, priority: int, tokens: int) -> tuple[int, Waiter]:
        """Who waits leaves the queue until it is decided; a newcomer stands behind its equals."""
        for place, waiter in enumerate(self.waiting):
            if waiter.who == who:
                return place, self.waiting.pop(place)
        place = bisect_right(self.waiting, priority, key=lambda waiter: waiter.priority)
        return place, Waiter(who, priority, tokens)

    def _see(self, now: int) -> None:
        passed_ms = now - self.seen_ms
        if passed_ms > 0:
            self.seen_ms = now
            self._pass(passed_ms)
        elif passed_ms < -MAX_SKEW_MS:
            self.seen_ms = now

    def _pass(self, ms: int) -> None:
        own_ms = self.own_ms = self.own_ms + ms
        self.requests.recover(self.rule.requests, ms)
        self.tokens.recover(self.rule.tokens, ms)
        oldest = next(iter(self.in_flight.values()), None)
        if oldest is not None and oldest.lost_at_ms <= own_ms:
            self._forget_lost()
        if self.waiting:
            self.waiting = [waiter for waiter in self.waiting if waiter.ask_by_ms >= own_ms]

    def _forget_lost(self) -> None:
        lost = [who for who, flight in self.in_flight.items() if flight.lost_at_ms <= self.own_ms]
        for who in lost:
            del self.in_flight[who]
