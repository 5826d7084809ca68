"""Limits of a user, case by case and against a list of all that was ever taken."""

import pytest
from hypothesis import given, strategies as st

from vegakit.errors import InvalidRuleError
from vegakit.policy import RateDecision, RateSpan, SpanUsage, UserRate, UserRateRule
from vegakit.records import from_json, to_json

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
LENGTH = {RateSpan.MINUTE: MINUTE, RateSpan.HOUR: HOUR, RateSpan.DAY: DAY}

STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 400, 1_000, 20_000, MINUTE, 7 * MINUTE, HOUR, 5 * HOUR, DAY]),
        st.integers(1, 4),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_span_ever_has_more_than_its_limit(steps: list[tuple[int, int]]) -> None:
    """In any minute, hour or day whatsoever; and what fits by a wide margin is never refused."""
    rule = UserRateRule(minute=5, hour=9, day=20, burst=None)
    rate, now = UserRate(), DAY
    taken: list[tuple[int, int]] = []
    for passed, wanted in steps:
        now += passed
        rate = from_json(UserRate, to_json(rate))
        decision = rate.take(rule, wanted, now)
        # The longest time that a request may count: its span, and a sixtieth for rounding.
        used = {
            span: sum(n for at, n in taken if now - at < length * 61 // 60)
            for span, length in LENGTH.items()
        }
        if all(used[span] + wanted <= getattr(rule, span) for span in LENGTH):
            assert decision.allowed
        if decision.allowed:
            taken.append((now, wanted))
        elif decision.wait_ms is not None:
            again = from_json(UserRate, to_json(rate))
            assert not again.check(rule, wanted, now + decision.wait_ms - 1).allowed
        for span, length in LENGTH.items():
            assert sum(n for at, n in taken if now - at < length) <= getattr(rule, span)


def test_a_burst_comes_back_evenly() -> None:
    rule, rate = UserRateRule(minute=60, hour=None, day=None, burst=2), UserRate()
    assert [rate.take(rule, 1, HOUR).allowed for _ in range(3)] == [True, True, False]
    assert rate.check(rule, 1, HOUR) == RateDecision(False, RateSpan.BURST, 1_000)
    assert not rate.take(rule, 1, HOUR + 999).allowed
    assert rate.take(rule, 1, HOUR + 1_000).allowed


def test_more_than_a_limit_never_fits() -> None:
    rule, rate = UserRateRule(minute=5, hour=None, day=None, burst=None), UserRate()
    assert rate.take(rule, 6, 0) == RateDecision(False, RateSpan.MINUTE)
    assert rate.take(rule, 5, 0) == RateDecision(True)


def test_a_clock_set_back_gives_nothing_back() -> None:
    rule, rate = UserRateRule(minute=1, hour=None, day=None, burst=None), UserRate()
    assert rate.take(rule, 1, DAY).allowed
    assert not rate.take(rule, 1, DAY - HOUR).allowed
    assert rate.take(rule, 1, DAY + MINUTE + 1_000).allowed


def test_what_is_refused_takes_nothing_and_usage_says_what_counts() -> None:
    rule, rate = UserRateRule(minute=2, hour=3, day=None, burst=2), UserRate()
    assert rate.take(rule, 2, DAY).allowed
    before = to_json(rate)
    assert not rate.take(rule, 1, DAY).allowed
    assert to_json(rate) == before
    assert rate.usage(rule, DAY) == {
        RateSpan.BURST: SpanUsage(2, 2),
        RateSpan.MINUTE: SpanUsage(2, 2),
        RateSpan.HOUR: SpanUsage(2, 3),
        RateSpan.DAY: SpanUsage(2, None),
    }
    over = rate.over_ms
    assert [one.used for one in rate.usage(rule, over).values()] == [0, 0, 0, 0]


@pytest.mark.parametrize("span", RateSpan)
def test_a_limit_of_nothing_is_refused(span: RateSpan) -> None:
    with pytest.raises(InvalidRuleError, match="at least 1 request"):
        UserRateRule(**{span.value: 0})
