"""Supervisors of supervisors: storms are bounded, ends are in order, nobody is left behind."""

from collections.abc import Callable
from functools import partial
from math import prod
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.policy.otp_model import Model
from tests.policy.supervision_trees import Branch, Leaf, Tree, machine, model
from vegakit.policy import (
    Backoff,
    ChildType,
    ExitKind,
    ExitReason,
    RestartRule,
    RestartStrategy,
    SupervisorMachine,
)

ESCALATED = ExitReason(ExitKind.ESCALATED, "crashed(boom)")
LONG_MS = 3_600_000


def one_for_one(max_restarts: int) -> RestartRule:
    return RestartRule(max_restarts=max_restarts, window_ms=LONG_MS)


def chain(limits: list[int], type_: ChildType = ChildType.PERMANENT) -> Branch:
    """One supervisor below the other, a leaf below the last."""
    below = Branch(one_for_one(limits[-1]), {"leaf": Leaf()}, type_)
    for limit in reversed(limits[:-1]):
        below = Branch(one_for_one(limit), {"low": below}, type_)
    return below


def leaf_starts(tree: Tree) -> int:
    return sum(lives for path, lives in tree.lives.items() if path.endswith("leaf"))


def restarts(tree: Tree) -> tuple[int, ...]:
    assert isinstance(tree.root.supervisor, SupervisorMachine)
    return tree.root.supervisor.restarts


def always_crashes(path: str, life: int) -> str:
    return "crashes"


@pytest.mark.parametrize(
    "limits", [[0, 0, 0], [1, 1, 1], [1, 2, 3], [3, 2, 1], [2, 0, 4], [0, 5, 0], [4, 3, 5]]
)
def test_a_storm_is_the_product_of_its_levels(limits: list[int]) -> None:
    """A leaf that always crashes is started (r1+1)(r2+1)(r3+1) times, then the root stops."""
    tree = Tree(chain(limits), always_crashes)
    assert leaf_starts(tree) == prod(limit + 1 for limit in limits)
    assert tree.exit_reason == ESCALATED
    assert tree.alive() == []


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.sampled_from(ChildType))
def test_a_storm_is_the_product_at_any_depth(limits: list[int], type_: ChildType) -> None:
    """Also when supervisors are transient; a temporary one takes its storm with it."""
    tree = Tree(chain(limits, type_), always_crashes)
    climbs = type_ is not ChildType.TEMPORARY
    assert leaf_starts(tree) == (prod(r + 1 for r in limits) if climbs else limits[-1] + 1)
    assert (tree.exit_reason == ESCALATED) == (climbs or len(limits) == 1)


def test_a_failed_start_storms_no_further_than_a_crash() -> None:
    """A leaf that starts once and never again burns the same restarts, and no first start."""
    fate = lambda path, life: "crashes" if life == 1 else "never starts"  # noqa: E731
    tree = Tree(chain([2, 3]), fate)
    assert tree.lives["root/low/leaf"] == 1 + 3 + 2
    assert tree.lives["root/low"] == 1 + 2
    assert tree.exit_reason == ESCALATED


def test_a_private_supervisor_costs_its_parent_nothing() -> None:
    """As a temporary child it gives up alone; its parent reports it and counts nothing."""
    private = Branch(one_for_one(1), {"agent": Leaf()}, ChildType.TEMPORARY)
    tree = Tree(Branch(one_for_one(0), {"a": private, "b": Leaf()}))
    tree.crash("root/a/agent")
    tree.crash("root/a/agent")
    assert tree.log[-2:] == [("exit", "root/a"), ("ended", "root/a")]
    assert tree.alive() == ["root/b"]
    assert restarts(tree) == ()


def test_escalate_costs_its_parent_one() -> None:
    """The parent counts one failure and starts the supervisor anew."""
    rule = RestartRule(RestartStrategy.ESCALATE)
    tree = Tree(Branch(one_for_one(1), {"a": Branch(rule, {"agent": Leaf()})}))
    tree.crash("root/a/agent")
    assert tree.alive() == ["root/a/agent"]
    assert restarts(tree) == (0,)
    tree.crash("root/a/agent")
    assert tree.exit_reason == ESCALATED


def test_a_start_that_fails_deep_down_takes_down_what_was_started() -> None:
    """The root never was ready; all before the failed leaf are stopped, the last one first."""
    inner = Branch(one_for_one(3), {"x": Leaf(), "y": Leaf(), "z": Leaf()})
    fate = lambda path, life: "never starts" if path.endswith("y") else "stays"  # noqa: E731
    tree = Tree(Branch(one_for_one(3), {"a": Leaf(), "b": inner, "c": Leaf()}), fate)
    assert not tree.ready
    assert tree.exit_reason == ESCALATED
    assert tree.log[4:] == [
        ("stop", "root/b/x"),
        ("exit", "root/b"),
        ("stop", "root/a"),
        ("exit", "root"),
    ]


def test_deadlines_follow_each_other() -> None:
    """Two leaves that ignore a stop are killed after 5,000 and 300 ms, one after the other."""
    inner = Branch(one_for_one(0), {"x": Leaf(stop_within_ms=300), "y": Leaf()})
    tree = Tree(Branch(one_for_one(0), {"a": inner}), lambda path, life: "ignores a stop")
    tree.stop()
    assert [entry for entry in tree.log if entry[0] == "kill"] == [
        ("kill", "root/a/y"),
        ("kill", "root/a/x"),
    ]
    assert tree.now == 5_300
    assert tree.exit_reason == ExitReason(ExitKind.SHUTDOWN)


def test_a_killed_supervisor_takes_all_below_with_it() -> None:
    """Given a deadline it cannot keep, its children are gone with it and start anew with it."""
    inner = Branch(one_for_one(0), {"x": Leaf()}, stop_within_ms=100)
    rule = RestartRule(RestartStrategy.RESTART_ALL)
    tree = Tree(Branch(rule, {"a": Leaf(), "b": inner}), lambda path, life: "ignores a stop")
    tree.crash("root/a")
    assert tree.log[3:] == [
        ("stop", "root/b"),
        ("stop", "root/b/x"),
        ("kill", "root/b"),
        ("start", "root/a"),
        ("start", "root/b"),
        ("start", "root/b/x"),
    ]
    assert tree.alive() == ["root/a", "root/b/x"]


def any_branch(chance: Random, depth: int, type_: ChildType) -> Branch:
    strategy = chance.choice(list(RestartStrategy))
    may_wait = strategy not in (RestartStrategy.STOP, RestartStrategy.ESCALATE)
    backoff = Backoff(10) if may_wait and chance.random() < 0.3 else None
    rule = RestartRule(strategy, chance.randint(1, 2), LONG_MS, backoff)
    names = "abc"[: chance.randint(1, 3)]
    return Branch(rule, {name: any_child(chance, depth - 1) for name in names}, type_)


def any_child(chance: Random, depth: int) -> Branch | Leaf:
    type_ = chance.choice(list(ChildType))
    if depth > 0 and chance.random() < 0.7:
        return any_branch(chance, depth, type_)
    return Leaf(type_, chance.choice([0, 100]))


def any_fate(seed: int, path: str, life: int) -> str:
    fates = ["stays", "stays", "stays", "ignores a stop", "crashes", "never starts"]
    return Random(f"{seed} {path} {life}").choice(fates)


def lived(seed: int, make: Callable[[Branch], SupervisorMachine | Model]) -> Tree:
    """Grown, hit by some crashes and stopped; all of it follows from the seed."""
    chance = Random(seed)
    root = any_branch(chance, 3, ChildType.PERMANENT)
    tree = Tree(root, partial(any_fate, seed), make)
    for _ in range(5):
        if living := tree.alive():
            tree.crash(chance.choice(living))
    tree.stop()
    return tree


@given(st.integers(0, 2**32))
def test_machine_and_model_live_the_same(seed: int) -> None:
    """Whole trees of the one and of the other do the same at the same time, and leave nobody."""
    one, other = lived(seed, machine), lived(seed, model)
    assert one.log == other.log
    assert one.now == other.now
    assert one.exit_reason == other.exit_reason
    assert one.alive() == other.alive() == []


@given(st.integers(0, 2**32))
def test_an_end_is_the_start_backwards(seed: int) -> None:
    """In a tree of any shape the leaf that was started last is stopped first."""
    tree = Tree(any_branch(Random(seed), 4, ChildType.PERMANENT))
    started = tree.alive()
    tree.stop()
    stopped = [path for what, path in tree.log if what == "stop"]
    assert [path for path in stopped if path in started] == started[::-1]
