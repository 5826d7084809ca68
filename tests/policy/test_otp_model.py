"""The facts of OTP at their edges, which the model has to show as well as the machine."""

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given, strategies as st

from tests.policy.otp_model import Model
from tests.policy.supervision_trees import Branch, Leaf, Tree, machine, model
from vegakit.policy import (
    ChildType,
    ExitKind,
    ExitReason,
    RestartRule,
    RestartStrategy,
    SupervisorMachine,
)

NORMAL = ExitReason(ExitKind.NORMAL)
PERMANENT, TRANSIENT, TEMPORARY = ChildType.PERMANENT, ChildType.TRANSIENT, ChildType.TEMPORARY
Make: TypeAlias = Callable[[Branch], SupervisorMachine | Model]

both = pytest.mark.parametrize("make", [machine, model])


def family(make: Make, rule: RestartRule, *types: ChildType, failing: str = "") -> Tree:
    """Children a, b, c …; of those in `failing` only the first life ever starts."""
    children = {name: Leaf(kind) for name, kind in zip("abcd", types, strict=False)}

    def fate(path: str, life: int) -> str:
        return "never starts" if life > 1 and path[-1] in failing else "stays"

    tree = Tree(Branch(rule, children), fate, make)
    tree.log.clear()
    return tree


@both
@pytest.mark.parametrize(("second_ms", "dead"), [(5_000, True), (5_001, False)])
def test_the_window_includes_its_edge(make: Make, second_ms: int, dead: bool) -> None:
    """One restart in 5 s: a failure exactly 5 s after the first is one too many."""
    tree = family(make, RestartRule(max_restarts=1, window_ms=5_000), PERMANENT)
    tree.crash("root/a")
    tree.now = second_ms
    tree.crash("root/a")
    assert (tree.exit_reason is not None) == dead


@both
def test_no_restart_allowed(make: Make) -> None:
    """With max_restarts 0 the first failure gives up."""
    tree = family(make, RestartRule(max_restarts=0), PERMANENT)
    tree.crash("root/a")
    assert tree.log == [("exit", "root")]


@both
def test_restart_all(make: Make) -> None:
    """All others stop, last first; all but the temporary start, first first; it counts one."""
    rule = RestartRule(RestartStrategy.RESTART_ALL, max_restarts=1)
    tree = family(make, rule, PERMANENT, TEMPORARY, TRANSIENT)
    tree.crash("root/a")
    assert tree.log == [
        ("stop", "root/c"),
        ("stop", "root/b"),
        ("ended", "root/b"),
        ("start", "root/a"),
        ("start", "root/c"),
    ]


@both
def test_rest_for_one(make: Make) -> None:
    """Only those started after the failed one are taken along."""
    rule = RestartRule(RestartStrategy.REST_FOR_ONE)
    tree = family(make, rule, PERMANENT, PERMANENT, PERMANENT)
    tree.crash("root/b")
    assert tree.log == [("stop", "root/c"), ("start", "root/b"), ("start", "root/c")]


@both
def test_failed_starts_burn_restarts(make: Make) -> None:
    """Two are allowed: the third attempt, in the same millisecond, gives up."""
    tree = family(make, RestartRule(max_restarts=2), PERMANENT, failing="a")
    tree.crash("root/a")
    assert tree.log == [("start", "root/a"), ("start", "root/a"), ("exit", "root")]
    assert tree.now == 0


@both
def test_a_permanent_child_that_ends_normally(make: Make) -> None:
    """It is restarted, and that counts."""
    tree = family(make, RestartRule(max_restarts=1), PERMANENT)
    tree.crash("root/a", NORMAL)
    assert tree.log == [("start", "root/a")]
    tree.crash("root/a", NORMAL)
    assert tree.exit_reason == ExitReason(ExitKind.ESCALATED, "normal")


@both
def test_a_finished_transient_child_keeps_its_place(make: Make) -> None:
    """It stays down, until a sibling's failure restarts all."""
    tree = family(make, RestartRule(RestartStrategy.RESTART_ALL), PERMANENT, TRANSIENT)
    tree.crash("root/b", NORMAL)
    assert tree.log == [("ended", "root/b")]
    tree.crash("root/a")
    assert tree.log[1:] == [("start", "root/a"), ("start", "root/b")]


@both
def test_a_start_that_fails_in_the_middle(make: Make) -> None:
    """Those before it stay up, and the next attempt takes the strategy from there."""
    rule = RestartRule(RestartStrategy.REST_FOR_ONE, max_restarts=2)
    tree = family(make, rule, PERMANENT, PERMANENT, PERMANENT, failing="b")
    tree.crash("root/a")
    assert tree.log == [
        ("stop", "root/c"),
        ("stop", "root/b"),
        ("start", "root/a"),
        ("start", "root/b"),
        ("start", "root/b"),
        ("stop", "root/a"),
        ("exit", "root"),
    ]


@both
def test_giving_up_stops_the_last_first(make: Make) -> None:
    """All that is up is stopped in reverse, then the supervisor exits."""
    tree = family(make, RestartRule(max_restarts=0), PERMANENT, TEMPORARY, PERMANENT)
    tree.crash("root/a")
    assert tree.log == [("stop", "root/c"), ("stop", "root/b"), ("exit", "root")]


@both
@given(steps=st.lists(st.integers(0, 12), max_size=30), limit=st.integers(0, 4))
def test_it_gives_up_by_the_definition(make: Make, steps: list[int], limit: int) -> None:
    """At the first failure with more than `limit` failures in the 10 ms before it, itself too."""
    tree = family(make, RestartRule(max_restarts=limit, window_ms=10), PERMANENT)
    times = [sum(steps[: n + 1]) for n in range(len(steps))]
    for n, at in enumerate(times):
        tree.now = at
        tree.crash("root/a")
        too_many = sum(at - 10 <= other for other in times[: n + 1]) > limit
        assert (tree.exit_reason is not None) == too_many
        if too_many:
            return
