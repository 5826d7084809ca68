"""The rate limit against a model that counts in fractions and replays all admissions each time."""

from fractions import Fraction
from math import ceil
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vegakit.policy import (
    Admitted,
    NeverFits,
    NotYet,
    Queued,
    Rate,
    RateLimiter,
    RateRule,
    RateStrategy,
    Remaining,
    SlowDown,
)
from vegakit.policy.rate import MAX_SKEW_MS, PATIENCE_MS, SLOT_POLL_MS
from vegakit.records import from_json, to_json

LEASE_MS = 5_000
CALLERS = st.sampled_from("abcdefg")
TOKENS = st.sampled_from([0, 1, 7, 20])
STEPS_MS = st.sampled_from([0, 1, 10, 33, 34, 100, 333, LEASE_MS, PATIENCE_MS])


class Admission(NamedTuple):
    at: int
    requests: int
    tokens: int


class Word(NamedTuple):
    """What the server said is left of a kind, less what was in flight."""

    left: int
    until: int
    admissions_before: int


class Place(NamedTuple):
    priority: int
    arrival: int
    who: str
    tokens: int


class LimiterAgainstHistory(RuleBasedStateMachine):
    @initialize(
        strategy=st.sampled_from(RateStrategy),
        slots=st.sampled_from([None, 1, 3]),
        requests=st.sampled_from([None, Rate(3, per_ms=100, burst=4), Rate(2, 1, 1)]),
        tokens=st.sampled_from([None, Rate(7, per_ms=50, burst=20)]),
    )
    def set_up(self, strategy, slots, requests, tokens) -> None:
        self.rule = RateRule(requests, tokens, slots, strategy, 3, LEASE_MS)
        self.limiter = RateLimiter(self.rule)
        self.time = 0
        self.clock_ahead = 10**9
        self.admissions: list[Admission] = []
        self.flights: dict[str, tuple[int, int]] = {}
        self.line: dict[Place, int] = {}
        self.arrivals = 0
        self.blocks = [0]
        self.words = {"requests": Word(0, 0, 0), "tokens": Word(0, 0, 0)}

    @property
    def now(self) -> int:
        return self.time + self.clock_ahead

    @rule(ms=STEPS_MS)
    def time_passes(self, ms: int) -> None:
        self.time += ms
        self.flights = {w: f for w, f in self.flights.items() if self.time < f[1]}
        self.line = {place: by for place, by in self.line.items() if self.time <= by}

    @rule(ms=st.sampled_from([MAX_SKEW_MS + 1, 50_000]))
    def the_clock_is_set_back(self, ms: int) -> None:
        self.limiter.on_remaining(self.now)
        self.clock_ahead -= ms
        self.limiter.on_remaining(self.now)

    @rule(who=CALLERS, tokens=TOKENS, lag_ms=st.sampled_from([1, 99, MAX_SKEW_MS]))
    def a_process_with_a_clock_behind_asks(self, who: str, tokens: int, lag_ms: int) -> None:
        self.limiter.on_remaining(self.now)
        expected = self.expected(who, tokens, 2)
        assert self.limiter.ask(who, self.now - lag_ms, tokens=tokens) == expected

    @rule(who=CALLERS, tokens=st.just(21) | TOKENS, priority=st.sampled_from([0, 2, 2, 4]))
    def a_caller_asks(self, who: str, tokens: int, priority: int) -> None:
        expected = self.expected(who, tokens, priority)
        assert self.limiter.ask(who, self.now, tokens=tokens, priority=priority) == expected

    @rule()
    def the_first_in_line_asks(self) -> None:
        who = min(self.line).who if self.line else None
        self.limiter.on_remaining(self.now)
        assert self.limiter.first_waiting == who
        if who is not None:
            self.a_caller_asks(who, 0, 4)

    @rule(who=CALLERS)
    def a_caller_is_done_or_cancelled(self, who: str) -> None:
        self.limiter.release(who)
        if self.flights.pop(who, None) is None:
            self.line = {place: by for place, by in self.line.items() if place.who != who}

    @rule(ms=st.sampled_from([0, 50, 5_000]))
    def the_server_says_retry_after(self, ms: int) -> None:
        self.limiter.on_retry_after(ms, self.now)
        self.blocks.append(self.time + ms)

    @rule(
        kind=st.sampled_from(["requests", "tokens"]),
        left=st.sampled_from([0, 1, 4, 30]),
        reset_in_ms=st.sampled_from([0, 100, 3_000]),
    )
    def the_server_says_what_remains(self, kind: str, left: int, reset_in_ms: int) -> None:
        self.limiter.on_remaining(self.now, **{kind: Remaining(left, reset_in_ms)})
        flying = [1 if kind == "requests" else tokens for tokens, _ in self.flights.values()]
        until = self.time + reset_in_ms
        self.words[kind] = Word(max(0, left - sum(flying)), until, len(self.admissions))

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(RateLimiter, to_json(self.limiter))
        assert copy == self.limiter
        self.limiter = copy

    def expected(self, who: str, tokens: int, priority: int) -> object:
        if who in self.flights:
            return Admitted()
        if self.rule.tokens and tokens > self.rule.tokens.burst:
            return NeverFits(tokens, self.rule.tokens.burst)
        self.arrivals += 1
        newcomer = Place(priority, self.arrivals, who, tokens)
        mine = next((place for place in self.line if place.who == who), newcomer)
        wait_ms = self.wait_for([place for place in self.line if place < mine], mine.tokens)
        if wait_ms == 0:
            return self.admit(mine)
        if mine in self.line or len(self.line) < self.places:
            self.line[mine] = self.time + wait_ms + PATIENCE_MS
            return Queued(wait_ms)
        slow = self.rule.strategy is RateStrategy.BACKPRESSURE
        return SlowDown(wait_ms) if slow else NotYet(wait_ms)

    @property
    def places(self) -> int:
        return {"queue": 3, "reject": 0, "backpressure": 3}[self.rule.strategy]

    def admit(self, place: Place) -> Admitted:
        self.line.pop(place, None)
        self.flights[place.who] = (place.tokens, self.time + LEASE_MS)
        self.admissions.append(Admission(self.time, 1, place.tokens))
        for kind, rate in [("requests", self.rule.requests), ("tokens", self.rule.tokens)]:
            if rate is not None:
                self.check_every_window_that_ends_now(kind, rate)
        return Admitted()

    def wait_for(self, ahead: list[Place], tokens: int) -> int:
        requests = len(ahead) + 1
        tokens += sum(place.tokens for place in ahead)
        return max(
            0,
            max(self.blocks) - self.time,
            self.wait_for_slots(requests),
            self.wait_for_rate(self.rule.requests, "requests", requests),
            self.wait_for_rate(self.rule.tokens, "tokens", tokens),
            self.wait_for_server("requests", requests),
            self.wait_for_server("tokens", tokens),
        )

    def wait_for_slots(self, wanted: int) -> int:
        looks, free = 0, (self.rule.slots or 10**6) - len(self.flights)
        while free < wanted:
            looks, free = looks + 1, free + (self.rule.slots or 0)
        return looks * SLOT_POLL_MS

    def wait_for_rate(self, rate: Rate | None, kind: str, wanted: int) -> int:
        if rate is None:
            return 0
        a_ms = Fraction(rate.amount, rate.per_ms)
        credit, since = Fraction(rate.burst), 0
        for admission in [*self.admissions, Admission(self.time, 0, 0)]:
            credit = min(Fraction(rate.burst), credit + a_ms * (admission.at - since))
            credit, since = credit - getattr(admission, kind), admission.at
        return max(0, ceil((wanted - credit) / a_ms))

    def wait_for_server(self, kind: str, wanted: int) -> int:
        word = self.words[kind]
        used = sum(getattr(a, kind) for a in self.admissions[word.admissions_before :])
        return word.until - self.time if used + wanted > word.left else 0

    def check_every_window_that_ends_now(self, kind: str, rate: Rate) -> None:
        used = 0
        for admission in reversed(self.admissions):
            used += getattr(admission, kind)
            earned = Fraction(rate.amount, rate.per_ms) * (self.time - admission.at)
            assert used <= rate.burst + earned

    @invariant()
    def slots_and_places_are_never_exceeded(self) -> None:
        assert self.rule.slots is None or len(self.limiter.in_flight) <= self.rule.slots
        assert len(self.limiter.waiting) <= self.places

    @invariant()
    def it_is_never_stuck(self) -> None:
        later = from_json(RateLimiter, to_json(self.limiter))
        assert later.ask("new", self.now + 60_000, tokens=20) == Admitted()


TestRateLimiter = LimiterAgainstHistory.TestCase
