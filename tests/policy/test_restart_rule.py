"""Whom a rule restarts, how often, and after which delay."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import (
    Backoff,
    ChildRecord,
    ChildType,
    ExitKind,
    ExitReason,
    RestartRule,
    RestartStrategy,
)
from vegakit.records import from_json, to_json


@pytest.mark.parametrize(
    ("kind", "finished", "failed"),
    [
        (ChildType.PERMANENT, True, True),
        (ChildType.TRANSIENT, False, True),
        (ChildType.TEMPORARY, False, False),
    ],
)
def test_the_type_decides(kind: ChildType, finished: bool, failed: bool) -> None:
    """Finishing is a failure of permanent children only; a temporary one never comes back."""
    assert kind.needs_restart(ExitReason(ExitKind.SHUTDOWN, "term")) == finished
    assert kind.needs_restart(ExitReason(ExitKind.CRASHED)) == failed


@pytest.mark.parametrize(
    ("strategy", "allowed"),
    [("restart", 3), ("restart_all", 3), ("rest_for_one", 3), ("stop", 0), ("escalate", 0)],
)
def test_stop_and_escalate_never_restart(strategy: str, allowed: int) -> None:
    """The others restart three times in a minute, unless told otherwise."""
    rule = RestartRule(RestartStrategy(strategy))
    assert rule.allowed == allowed
    assert rule.window_ms == 60_000


def test_recent_includes_the_edge_of_the_window() -> None:
    """Exactly one window ago still counts, a millisecond more does not."""
    rule = RestartRule(window_ms=100)
    assert rule.recent((899, 900, 901, 1000), 1000) == (900, 901, 1000)


def test_the_delay_grows_with_the_restarts_in_the_window() -> None:
    """What has left the window no longer makes anybody wait."""
    rule = RestartRule(window_ms=100, backoff=Backoff(10, 2.0, 1000))
    assert rule.delay_ms((), 1000, 1.0) == 10
    assert rule.delay_ms((899, 900, 901), 1000, 1.0) == 40
    assert rule.delay_ms((899, 900, 901), 1000, 0.5) == 20
    assert RestartRule().delay_ms((1, 2, 3), 3, 1.0) == 0


@pytest.mark.parametrize(("max_restarts", "window_ms"), [(-1, 1), (0, 0)])
def test_a_rule_that_cannot_hold_is_refused(max_restarts: int, window_ms: int) -> None:
    """Less than nothing, or no time to count in."""
    with pytest.raises(InvalidRuleError, match=r"^a supervisor needs max_restarts of at least 0"):
        RestartRule(max_restarts=max_restarts, window_ms=window_ms)


@pytest.mark.parametrize(
    "idle",
    [
        RestartRule(RestartStrategy.STOP),
        RestartRule(RestartStrategy.ESCALATE),
        RestartRule(max_restarts=0),
    ],
)
def test_who_never_restarts_cannot_wait(idle: RestartRule) -> None:
    """A backoff would put off the end, to no use."""
    with pytest.raises(InvalidRuleError, match=r"^a supervisor that never .*\); leave out the b"):
        RestartRule(idle.strategy, idle.max_restarts, idle.window_ms, Backoff())


def test_the_smallest_rule() -> None:
    """No restart within one millisecond is a rule, and a default rule is stored as nothing."""
    assert RestartRule(max_restarts=0, window_ms=1).allowed == 0
    assert to_json(RestartRule()) == b"{}"


def test_its_words_are_stored() -> None:
    """They are the language's, and are read again by the next release."""
    strategies = ["restart", "restart_all", "rest_for_one", "stop", "escalate"]
    assert [strategy.value for strategy in RestartStrategy] == strategies
    assert [kind.value for kind in ChildType] == ["permanent", "transient", "temporary"]


def test_a_child_is_stored_as_it_differs() -> None:
    """A transient worker with five seconds to stop is the default."""
    assert ChildRecord() == ChildRecord(ChildType.TRANSIENT, 5_000)
    assert to_json(ChildRecord()) == b"{}"
    supervisor = ChildRecord(ChildType.PERMANENT, None)
    assert from_json(ChildRecord, to_json(supervisor)) == supervisor


def test_a_child_cannot_stop_before_it_is_asked() -> None:
    """Zero is at once, less is refused."""
    assert ChildRecord(stop_within_ms=0).stop_within_ms == 0
    with pytest.raises(InvalidRuleError, match=r"^a child has at least 0 ms to stop, or None"):
        ChildRecord(stop_within_ms=-1)
