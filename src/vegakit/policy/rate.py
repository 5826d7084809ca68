"""Limits on calls: rates and slots, and the circuit breaker (pure)."""

from bisect import bisect_right
from enum import StrEnum
from itertools import islice
from typing import TypeAlias

from msgspec import Struct, field

from vegakit.errors import BugError, ErrorClass, InvalidRuleError
from vegakit.policy.retry import format_wait

# Answers that several policies give, and what a person is told of a refusal.


class NotYet(Struct, frozen=True, tag=True):
    """No, but asking again after `wait_ms` may succeed."""

    wait_ms: int


def describe_rate_limit(who: str, wait_ms: int) -> str:
    """`who` is a model or an agent; the limit is its own."""
    return (
        f"{who} takes no more calls now, the next in {wait_ms} ms; "
        "slow down, or set strategy = 'queue' for it"
    )


def describe_long_wait(who: str, wait: "LimitWait", max_wait_ms: int) -> str:
    """Return the error text for a call that would wait longer than its caller does."""
    known = "" if wait.reason is WaitReason.SLOTS else f" {format_wait(wait.wait_ms)}"
    return (
        f"a call of {who} would wait{known} for its turn ({wait.reason}), and max_wait is "
        f"{format_wait(max_wait_ms)}; nothing was sent: ask later, or raise max_wait"
    )


def describe_oversized_call(who: str, tokens: int, burst: int) -> str:
    """Return the error text for a call that no wait would let through."""
    return (
        f"one call of {tokens:,} tokens is more than {who} ever lets through "
        f"at once ({burst:,}); send less, or raise its token limit"
    )


def describe_open_breaker(who: str, wait_ms: int, last: str = "") -> str:
    """Return the error text for a call that an open breaker refuses; `last` is the failure before,
    where it is known: without it nobody could tell what to fix."""
    cause = f"; the last failure: {last}" if last else ""
    return (
        f"{who} has failed too often and is left alone for {wait_ms} ms more{cause}; "
        "catch CircuitOpen, or use another model meanwhile"
    )


# A meter counts exactly how much of one thing was used lately.
#
# Sixty calls a minute give back a thousandth of a call every millisecond. To stay with whole
# numbers use is counted in parts of `1 / per_ms`:
#
# | event                   | parts spent                                               |
# |-------------------------|-----------------------------------------------------------|
# | n are used              | + n * per_ms                                              |
# | a millisecond goes by   | - amount, never below 0                                   |
# | n fit                   | as long as that makes at most burst * per_ms              |
#
# So ten thousand steps of a millisecond give back what one step of ten seconds does, to the last
# part. Beside our own rate stands the server's last word: so many are left until it resets. It
# counts down with every use and is forgotten at the reset.


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
        """Give back what the rate allows for the time that has passed."""
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
        """Count an amount that is used now."""
        if rate is not None:
            self.spent += amount * rate.per_ms
        if self.left_until_ms > at:
            self.left -= amount

    def on_remaining(self, told: Remaining, in_flight: int, at: int) -> None:
        """The latest word counts; calls in flight may be unknown to the server, so they go off."""
        self.left = max(0, told.left - in_flight)
        self.left_until_ms = at + told.reset_in_ms


# A rate limit: requests, model tokens and slots are given out together or not at all.
#
#     rate_limit { requests 60 per 1m  burst 10  strategy queue }
#
# A caller asks by name. It is admitted when what it needs *and* what all those ahead of it in the
# queue need fits: so nobody is delayed by one who came later, a large call is not starved by small
# ones, and it does not matter which of two callers wakes up first.
#
# | ask                                    | answer    | and                                       |
# |----------------------------------------|-----------|-------------------------------------------|
# | it fits                                | Admitted  | 1 request, its tokens and a slot are used |
# | admitted before, not released          | Admitted  | nothing is used twice                     |
# | more tokens than the burst             | NeverFits | waiting would not help                    |
# | does not fit; has or finds a place     | Queued    | ask again after wait_ms; the place stays  |
# | no place left, `queue` or `reject`     | NotYet    | refused; a program sees `RateLimited`     |
# | no place left, `backpressure`          | SlowDown  | keep the call, start no new ones          |
#
# | strategy     | places       | a caller with more work than the limit lets through              |
# |--------------|--------------|------------------------------------------------------------------|
# | queue        | `queue_size` | waits its turn; when the places are taken, it fails              |
# | reject       | none         | fails at once                                                    |
# | backpressure | `queue_size` | waits its turn; when the places are taken, it is slowed down     |
#
# The queue is by priority (0 is the most urgent), first come first served within one; a full
# queue turns everybody away. Waiters use nothing until they are admitted, so a cancelled one
# costs nobody anything. `wait_ms` is exact for the first in line; for the others it is the
# earliest possible. Nobody can tell when a slot will be free: the queue is told to look as if all
# slots came free every `SLOT_POLL_MS`, and a host that shares the limiter with nobody wakes
# `first_waiting` after a release instead.
#
# Processes may share a limiter through its JSON, and any of them may be killed: a waiter who does
# not come back within `PATIENCE_MS` of its time loses its place, and a call that nobody releases
# is forgotten after `slot_lease_ms`.
#
# The limiter has its own time, which only goes forward. A `now` before the last one gives no
# credit: up to `MAX_SKEW_MS` it is the clock of another process, which has to catch up; beyond
# that the clock was set back, and time goes on from there. So a clock that is set back neither
# opens nor stalls it.


MAX_SKEW_MS = 1_000
PATIENCE_MS = 10_000
SLOT_POLL_MS = 100


class RateStrategy(StrEnum):
    """The ways to treat a call above the rate: let it wait, refuse it, or tell the caller to slow
    down."""

    QUEUE = "queue"
    REJECT = "reject"
    BACKPRESSURE = "backpressure"


class RateRule(Struct, frozen=True):
    """The limits of a model or agent. A limit of a kind that is not given is the server's alone."""

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
        """Return how many calls may wait."""
        return 0 if self.strategy is RateStrategy.REJECT else self.queue_size


class WaitReason(StrEnum):
    """The limits that a call may wait for; `provider` is a wait that the provider asked for."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    SLOTS = "slots"
    PROVIDER = "provider"


class LimitWait(Struct, frozen=True):
    """Says when a call that waits for its turn asks again, and which limit it waits for."""

    wait_ms: int
    reason: WaitReason
    too_long: bool = False


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
    """A call that waits for its turn."""

    who: str
    priority: int
    tokens: int
    ask_by_ms: int = 0


class AdmittedCall(Struct, frozen=True):
    """An admitted call that was not released yet."""

    tokens: int
    lost_at_ms: int


class RateLimiter(Struct):
    """A limiter admits calls by requests, tokens and slots, in order of priority and arrival."""

    rule: RateRule
    own_ms: int = 0
    seen_ms: int = 0
    blocked_until_ms: int = 0
    requests: Meter = field(default_factory=Meter)
    tokens: Meter = field(default_factory=Meter)
    in_flight: dict[str, AdmittedCall] = field(default_factory=dict[str, AdmittedCall])
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
        """Return the call that is next."""
        return self.waiting[0].who if self.waiting else None

    def wait_of(self, who: str, tokens: int, wait_ms: int, left_ms: int | None) -> "LimitWait":
        """Return how a call that is not admitted waits. It may take `left_ms` at most: a wait that
        is known to be longer is too long at once, one for a slot when they have passed, since
        nobody knows when a slot will be free."""
        place = next((n for n, waiter in enumerate(self.waiting) if waiter.who == who), None)
        waits = self._waits(len(self.waiting) if place is None else place, tokens)
        reason = [*WaitReason][waits.index(max(waits))]
        if left_ms is None:
            return LimitWait(wait_ms, reason)
        is_unknown = reason is WaitReason.SLOTS
        if left_ms <= 0 or (wait_ms > left_ms and not is_unknown):
            return LimitWait(wait_ms, reason, too_long=True)
        return LimitWait(min(wait_ms, left_ms), reason)

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
            in_flight = sum(call.tokens for call in self.in_flight.values())
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
        return max(self._waits(ahead, tokens))

    def _waits(self, ahead: int, tokens: int) -> tuple[int, int, int, int]:
        """Return how long each limit has the call wait, in the order of `WaitReason`."""
        if ahead:
            tokens += sum(waiter.tokens for waiter in islice(self.waiting, ahead))
        at, rule, calls = self.own_ms, self.rule, ahead + 1
        turns = 0
        if rule.slots is not None and len(self.in_flight) + calls > rule.slots:
            turns = -(-(len(self.in_flight) + calls - rule.slots) // rule.slots)
        return (
            self.requests.wait_ms(rule.requests, calls, at),
            self.tokens.wait_ms(rule.tokens, tokens, at),
            turns * SLOT_POLL_MS,
            max(0, self.blocked_until_ms - at),
        )

    def _admit(self, who: str, tokens: int) -> Admitted:
        self.requests.use(self.rule.requests, 1, self.own_ms)
        self.tokens.use(self.rule.tokens, tokens, self.own_ms)
        self.in_flight[who] = AdmittedCall(tokens, self.own_ms + self.rule.slot_lease_ms)
        return _ADMITTED

    def _step_out(self, who: str, priority: int, tokens: int) -> tuple[int, Waiter]:
        """Take a waiting call out of the queue until it is decided; a new one stands behind its
        equals."""
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
        lost = [who for who, call in self.in_flight.items() if call.lost_at_ms <= self.own_ms]
        for who in lost:
            del self.in_flight[who]


# A circuit breaker: stop asking a failing world, then try it with a few probes.
#
# | state     | event                          | next      | and                               |
# |-----------|--------------------------------|-----------|-----------------------------------|
# | closed    | success                        | closed    | the count of failures is cleared  |
# | closed    | failure, count < threshold     | closed    | count + 1                         |
# | closed    | failure, count = threshold     | open      | next generation                   |
# | open      | admit before reset_after       | open      | NotYet                            |
# | open      | admit after reset_after        | half_open | next generation, first probe out  |
# | half_open | admit, a probe is left         | half_open | one more probe out                |
# | half_open | admit, none left               | half_open | NotYet                            |
# | half_open | admit, probes out too long     | half_open | next generation, first probe out  |
# | half_open | a probe is cancelled           | half_open | its place is free again           |
# | half_open | the last of k probes succeeds  | closed    | next generation                   |
# | half_open | a probe fails                  | open      | next generation                   |
#
# A permit carries the generation it was given in. A result of another generation, or of a probe
# that already reported, changes nothing: so an old success cannot close a breaker, and a stuck or
# cancelled probe cannot keep it half-open for ever.


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
    """The states of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerChange(StrEnum):
    """A breaker opened or closed."""

    OPENED = "opened"
    CLOSED = "closed"


class BreakerRule(Struct, frozen=True):
    """A breaker opens after `threshold` failures in a row, for `reset_after_ms`, and closes after
    `probes` calls went well."""

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
    """A breaker stops calls to a service that keeps failing."""

    rule: BreakerRule
    state: BreakerState = BreakerState.CLOSED
    generation: int = 0
    failures: int = 0
    since_ms: int = 0
    probes_sent: int = 0
    probes_out: list[int] = field(default_factory=list)
    probes_passed: int = 0

    def admit(self, now: int) -> Permit | NotYet:
        """Permit a call, or say how long to wait. After the pause a few probes are let through."""
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
        """Count a call that went well. One permitted before the last change counts for nothing."""
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
        """Count a call that failed. One permitted before the last change counts for nothing."""
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
