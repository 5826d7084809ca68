"""Retry's table, row by row, and the budget under a total outage."""

import msgspec
import pytest

from vegakit.errors import ErrorClass, InvalidRuleError, Phase
from vegakit.policy import (
    Backoff,
    GiveUp,
    GiveUpReason,
    Resend,
    Retry,
    RetryAt,
    RetryBudget,
    RetryBudgetRule,
    RetryRule,
    may_resend,
    start_retry,
)
from vegakit.records import to_json

TIMEOUT = ErrorClass.TIMEOUT


def test_the_defaults_are_those_of_the_language() -> None:
    """Three attempts, exponential(100ms, 2.0, 5s), on rate limits, overload and timeouts."""
    rule = RetryRule()
    assert rule.max_attempts == 3
    assert rule.backoff == Backoff(100, 2.0, 5_000)
    assert rule.on == ("rate_limit", "overloaded", "timeout")
    assert rule.total_ms is None
    assert rule.resend_unknown is Resend.ALWAYS


def test_each_wait_may_be_twice_as_long_and_the_last_attempt_is_final() -> None:
    """The draw takes its part of 100 ms, then of 200 ms; the third failure ends it."""
    retry = start_retry(RetryRule(), 1000)
    assert retry.on_failure(1, TIMEOUT, 1000, 0.5) == RetryAt(1050, 2, reserve_again=True)
    assert retry.on_failure(2, TIMEOUT, 2000, 1.0) == RetryAt(2200, 3, reserve_again=True)
    assert retry.on_failure(3, TIMEOUT, 3000, 0.0) == GiveUp(GiveUpReason.ATTEMPTS)
    assert retry.on_failure(4, TIMEOUT, 3000, 0.0) == GiveUp(GiveUpReason.ATTEMPTS)


@pytest.mark.parametrize("error_class", ErrorClass)
def test_only_the_named_classes_are_tried_again(error_class: ErrorClass) -> None:
    """What the rule does not name fails at once and takes nothing from the budget."""
    budget = RetryBudget(RetryBudgetRule())
    verdict = start_retry(RetryRule(), 0).on_failure(1, error_class, 0, 0.0, budget=budget)
    if error_class in ("rate_limit", "overloaded", "timeout"):
        assert verdict == RetryAt(0, 2, reserve_again=True)
        assert budget.used == 100
    else:
        assert verdict == GiveUp(GiveUpReason.CLASS)
        assert budget.used == 0


@pytest.mark.parametrize(
    ("phase", "reserve_again"),
    [(Phase.NOTHING_SENT, False), (Phase.ANSWERED, False), (Phase.UNKNOWN, True)],
)
def test_what_may_have_been_billed_is_reserved_again(phase: Phase, reserve_again: bool) -> None:
    """The phase decides who pays for the next attempt, not whether there is one."""
    verdict = Retry(RetryRule()).on_failure(1, TIMEOUT, 7, 0.1, phase=phase)
    assert verdict == RetryAt(17, 2, reserve_again)


def test_nobody_is_earlier_than_the_server_asked() -> None:
    """The jitter comes on top of Retry-After; a negative one counts as none."""
    retry = start_retry(RetryRule(), 0)
    first = retry.on_failure(1, ErrorClass.RATE_LIMIT, 10, 0.0, retry_after_ms=3000)
    assert first == RetryAt(3010, 2, reserve_again=True)
    second = retry.on_failure(2, ErrorClass.RATE_LIMIT, 3010, 0.5, retry_after_ms=-500)
    assert second == RetryAt(3110, 3, reserve_again=True)


@pytest.mark.parametrize(
    ("rule", "deadline_ms"),
    [
        (RetryRule(), 5000),
        (RetryRule(total_ms=4000), None),
        (RetryRule(total_ms=4000), 9000),
        (RetryRule(total_ms=9000), 5000),
    ],
)
def test_a_retry_that_would_start_at_the_deadline_is_not_made(
    rule: RetryRule, deadline_ms: int | None
) -> None:
    """The earlier of the total time and the call's own deadline holds, to the millisecond."""
    retry = start_retry(rule, 1000, deadline_ms=deadline_ms)
    assert retry.deadline_ms == 5000
    late = retry.on_failure(1, TIMEOUT, 2000, 0.0, retry_after_ms=3000)
    assert late == GiveUp(GiveUpReason.DEADLINE)
    in_time = retry.on_failure(1, TIMEOUT, 2000, 0.0, retry_after_ms=2999)
    assert in_time == RetryAt(4999, 2, reserve_again=True)


def test_an_empty_budget_ends_it() -> None:
    """Two retries are in stock; a call that is over anyway takes none of them."""
    budget = RetryBudget(RetryBudgetRule(share_percent=0, stock=2))
    rule = RetryRule(max_attempts=2)
    over = start_retry(rule, 0, deadline_ms=0, budget=budget)
    assert over.on_failure(1, TIMEOUT, 0, 0.0, budget=budget) == GiveUp(GiveUpReason.DEADLINE)
    calls = [start_retry(rule, 0, budget=budget) for _ in range(3)]
    verdicts = [call.on_failure(1, TIMEOUT, 0, 0.0, budget=budget) for call in calls]
    assert verdicts == [RetryAt(0, 2, True), RetryAt(0, 2, True), GiveUp(GiveUpReason.BUDGET)]


def test_first_attempts_fill_the_budget_up_to_its_stock() -> None:
    """At 25 percent four calls earn one retry; more than the stock is never kept."""
    budget = RetryBudget(RetryBudgetRule(share_percent=25, stock=1))
    assert [budget.withdraw(), budget.withdraw()] == [True, False]
    for _ in range(3):
        budget.on_first_attempt()
    assert budget.withdraw() is False
    for _ in range(1000):
        budget.on_first_attempt()
    assert [budget.withdraw(), budget.withdraw()] == [True, False]


def wire_requests(calls: int, budget: RetryBudget | None) -> int:
    """What the provider sees when every attempt fails."""
    requests = 0
    for _ in range(calls):
        retry, verdict, attempts = start_retry(RetryRule(), 0, budget=budget), None, 0
        while not isinstance(verdict, GiveUp):
            requests += 1
            attempts += 1
            verdict = retry.on_failure(attempts, ErrorClass.OVERLOADED, 0, 0.0, budget=budget)
    return requests


def test_a_minute_of_total_outage_adds_a_fifth_at_most() -> None:
    """3,000 calls, 50 a second, make the stock and a tenth of requests more; else 6,000 more."""
    assert wire_requests(3000, RetryBudget(RetryBudgetRule())) == 3000 + 200 + 299 <= 3000 * 1.2
    assert wire_requests(3000, None) == 9000


def test_a_hundred_calls_get_all_their_attempts() -> None:
    """The stock covers a fan-out that fails as a whole."""
    assert wire_requests(100, RetryBudget(RetryBudgetRule())) == 300


def test_a_call_cut_off_by_our_death_is_resent_unless_the_rule_says_never() -> None:
    """Each time the run goes on, whatever `max_attempts` says."""
    assert may_resend(RetryRule(max_attempts=1))
    assert not may_resend(RetryRule(resend_unknown=Resend.NEVER))


def test_verdicts_are_values() -> None:
    """They can be stored, told apart when read back, and be members of a set."""
    verdicts = [RetryAt(1, 2, True), GiveUp(GiveUpReason.BUDGET)]
    stored = msgspec.json.decode(to_json(verdicts), type=list[RetryAt | GiveUp])
    assert stored == verdicts
    assert len({*verdicts, *stored, RetryRule(), RetryBudgetRule()}) == 4


@pytest.mark.parametrize("broken", [{"max_attempts": 0}, {"max_attempts": 101}, {"total_ms": 0}])
def test_a_rule_that_cannot_hold_is_refused(broken: dict[str, int]) -> None:
    """A call has at least one attempt, and some time for it."""
    with pytest.raises(InvalidRuleError, match=r"^retry needs max_attempts from 1 to 100.*; got R"):
        RetryRule(**broken)  # pyright: ignore[reportArgumentType]
    assert RetryRule(max_attempts=1, total_ms=1).total_ms == 1
    assert RetryRule(max_attempts=100).max_attempts == 100


def test_a_rule_that_cannot_help_is_refused() -> None:
    """A wrong key is wrong the second time too; the message says what may be named instead."""
    hopeless = (TIMEOUT, ErrorClass.AUTH, ErrorClass.QUOTA)
    with pytest.raises(InvalidRuleError, match=r"\[auth, quota\] cannot help.*name some of conn"):
        RetryRule(on=hopeless)
    transient = "rate_limit overloaded unavailable server timeout connection"
    assert len(RetryRule(on=tuple(map(ErrorClass, transient.split()))).on) == 6


@pytest.mark.parametrize("broken", [(-1, 1), (101, 1), (10, 0)])
def test_a_budget_that_cannot_hold_is_refused(broken: tuple[int, int]) -> None:
    """A share is a percentage, and one retry is the least stock."""
    with pytest.raises(InvalidRuleError, match=r"^a retry budget needs a share from 0.*; got R"):
        RetryBudgetRule(*broken)
    assert RetryBudgetRule(0, 1) != RetryBudgetRule(100, 1)
