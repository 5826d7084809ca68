"""Calls that share a retry budget, against a model that only keeps what was sent and when."""

from fractions import Fraction
from math import floor

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from vegakit.errors import ErrorClass, Phase
from vegakit.policy import (
    Backoff,
    GiveUp,
    GiveUpReason,
    Retry,
    RetryAt,
    RetryBudget,
    RetryBudgetRule,
    RetryRule,
    start_retry,
)
from vegakit.records import from_json, to_json

FIRST_MS, MULTIPLIER, MAX_MS = 10, 3.0, 200
ON = (ErrorClass.SERVER, ErrorClass.TIMEOUT)
STOCK, SHARE = 3, 40


class Sent:
    """One call, as the provider sees it."""

    def __init__(self, retry: Retry, started: int, deadline: int | None) -> None:
        self.retry = retry
        self.started = started
        self.deadline = deadline
        self.times = [started]


class RetriesAgainstTheWire(RuleBasedStateMachine):
    calls = Bundle("calls")

    @initialize(attempts=st.integers(1, 5), total_ms=st.sampled_from([None, 50, 1000]))
    def set_up(self, attempts: int, total_ms: int | None) -> None:
        backoff = Backoff(FIRST_MS, MULTIPLIER, MAX_MS)
        self.rule = RetryRule(attempts, backoff, ON, total_ms)
        self.budget = RetryBudget(RetryBudgetRule(SHARE, STOCK))
        self.now = 0
        self.log: list[str] = []

    @rule(ms=st.sampled_from([0, 1, 49, 50, 1000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(target=calls, within_ms=st.sampled_from([None, 0, 60, 10_000]))
    def a_call_starts(self, within_ms: int | None) -> Sent:
        deadline = None if within_ms is None else self.now + within_ms
        retry = start_retry(self.rule, self.now, deadline_ms=deadline, budget=self.budget)
        self.log.append("first")
        return Sent(retry, self.now, deadline)

    @rule(
        call=calls,
        error_class=st.sampled_from([*ON, ErrorClass.TIMEOUT, ErrorClass.AUTH]),
        phase=st.sampled_from(Phase),
        draw=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
        retry_after_ms=st.sampled_from([None, 0, 30, 5000]),
    )
    def an_attempt_fails(self, call, error_class, phase, draw, retry_after_ms) -> None:
        verdict = call.retry.on_failure(
            len(call.times),
            error_class,
            self.now,
            draw,
            phase=phase,
            retry_after_ms=retry_after_ms,
            budget=self.budget,
        )
        at_ms = self.next_time(call, draw, retry_after_ms or 0)
        reason = self.reason_to_stop(call, error_class, at_ms)
        if reason is not None:
            assert verdict == GiveUp(GiveUpReason(reason))
            return
        call.times.append(at_ms)
        self.log.append("retry")
        assert verdict == RetryAt(at_ms, len(call.times), phase == "unknown")

    def next_time(self, call: Sent, draw: float, retry_after_ms: int) -> int:
        longest = Fraction(FIRST_MS)
        for _ in call.times[1:]:
            longest *= Fraction(MULTIPLIER)
        return self.now + retry_after_ms + floor(Fraction(draw) * min(longest, Fraction(MAX_MS)))

    def reason_to_stop(self, call: Sent, error_class: ErrorClass, at_ms: int) -> str | None:
        total_ms = self.rule.total_ms
        ends = [call.deadline] if call.deadline is not None else []
        ends += [call.started + total_ms] if total_ms else []
        stop = {
            "class": error_class == "auth",
            "attempts": len(call.times) == self.rule.max_attempts,
            "deadline": any(at_ms >= end for end in ends),
            "budget": self.in_stock() < 1,
        }
        return next((reason for reason, holds in stop.items() if holds), None)

    def in_stock(self) -> Fraction:
        stock = Fraction(STOCK)
        for entry in self.log:
            stock += Fraction(SHARE, 100) if entry == "first" else -1
            stock = min(stock, Fraction(STOCK))
        return stock

    @rule(call=calls)
    def it_is_stored_and_loaded(self, call: Sent) -> None:
        copies = from_json(Retry, to_json(call.retry)), from_json(RetryBudget, to_json(self.budget))
        assert copies == (call.retry, self.budget)
        call.retry, self.budget = copies

    @invariant()
    def retries_are_a_share_of_the_calls_and_the_stock(self) -> None:
        first, retries = self.log.count("first"), self.log.count("retry")
        assert retries <= STOCK + Fraction(SHARE, 100) * first


TestRetry = RetriesAgainstTheWire.TestCase
