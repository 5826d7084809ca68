"""The breaker's table, row by row."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import Breaker, BreakerChange, BreakerRule, BreakerState, NotYet, Permit

RULE = BreakerRule(threshold=2, reset_after_ms=1000, probes=2)


def opened(at: int = 0, rule: BreakerRule = RULE) -> Breaker:
    breaker = Breaker(rule)
    for _ in range(rule.threshold):
        breaker.on_failure(Permit(0), at)
    return breaker


def test_it_opens_at_the_threshold_and_says_so() -> None:
    """Two failures in a row open a breaker of threshold two, and the second one reports it."""
    breaker = Breaker(RULE)
    assert breaker.on_failure(Permit(0), 5) is None
    assert breaker.on_failure(Permit(0), 6) is BreakerChange.OPENED
    assert breaker.admit(6) == NotYet(1000)
    assert breaker.admit(1005) == NotYet(1)


def test_a_success_clears_the_count() -> None:
    """Only failures in a row count."""
    breaker = Breaker(RULE)
    breaker.on_failure(Permit(0), 0)
    breaker.on_success(Permit(0), 1)
    assert breaker.on_failure(Permit(0), 2) is None
    assert breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize("callers", [2, 1000])
def test_half_open_lets_exactly_k_probes_through(callers: int) -> None:
    """A thousand callers at the instant of half-open send two probes."""
    breaker = opened()
    verdicts = [breaker.admit(1000) for _ in range(callers)]
    assert sum(isinstance(v, Permit) for v in verdicts) == RULE.probes


def test_all_probes_must_pass_to_close() -> None:
    """One success of two probes leaves it half-open; the second closes it."""
    breaker = opened()
    first, second = breaker.admit(1000), breaker.admit(1000)
    assert isinstance(first, Permit)
    assert isinstance(second, Permit)
    assert breaker.on_success(first, 1001) is None
    assert breaker.admit(1001) == NotYet(999)
    assert breaker.on_success(second, 1002) is BreakerChange.CLOSED
    assert isinstance(breaker.admit(1002), Permit)


def test_a_failed_probe_opens_again_for_the_whole_time() -> None:
    """The wait starts anew at the failed probe."""
    breaker = opened()
    probe = breaker.admit(1000)
    assert isinstance(probe, Permit)
    assert breaker.on_failure(probe, 1500) is BreakerChange.OPENED
    assert breaker.admit(2499) == NotYet(1)
    assert isinstance(breaker.admit(2500), Permit)


def test_a_cancelled_probe_gives_its_place_back() -> None:
    """Cancelling is neither success nor failure, and nobody waits for a call that is gone."""
    breaker = opened()
    probes = [breaker.admit(1000) for _ in range(2)]
    assert isinstance(probes[0], Permit)
    breaker.on_cancelled(probes[0])
    assert isinstance(breaker.admit(1000), Permit)
    assert isinstance(breaker.admit(1000), NotYet)


def test_probes_that_never_report_do_not_hold_it_half_open() -> None:
    """After reset_after a new generation of probes goes out; the lost ones report in vain."""
    breaker = opened()
    lost = [breaker.admit(1000) for _ in range(2)]
    fresh = breaker.admit(2000)
    assert isinstance(fresh, Permit)
    for permit in lost:
        assert isinstance(permit, Permit)
        assert breaker.on_failure(permit, 2001) is None
    assert breaker.state is BreakerState.HALF_OPEN


def test_a_stale_success_closes_nothing() -> None:
    """A call admitted before the breaker opened succeeds late: ignored."""
    breaker = opened()
    assert breaker.on_success(Permit(0), 1) is None
    assert breaker.state is BreakerState.OPEN
    breaker.admit(1000)
    assert breaker.on_success(Permit(0), 1001) is None
    assert breaker.state is BreakerState.HALF_OPEN


def test_a_probe_reports_once() -> None:
    """The same success twice is one success."""
    breaker = opened()
    probe = breaker.admit(1000)
    assert isinstance(probe, Permit)
    breaker.on_success(probe, 1001)
    assert breaker.on_success(probe, 1001) is None
    assert breaker.state is BreakerState.HALF_OPEN


@pytest.mark.parametrize("broken", [{"threshold": 0}, {"reset_after_ms": 0}, {"probes": 0}])
def test_a_rule_that_cannot_hold_is_refused(broken: dict[str, int]) -> None:
    """Zero of anything would never open, never wait or never close."""
    with pytest.raises(InvalidRuleError, match="at least 1"):
        BreakerRule(**broken)
