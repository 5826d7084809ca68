"""Storms end, and ends are in order, on real processes."""

from math import prod
from random import Random

import pytest

from tests.runtime.processes.supervised import Troupe
from tests.runtime.processes.supervision_oracle import Branch, Leaf
from vegakit.host import Child, Supervisor
from vegakit.policy import ChildType, RestartRule
from vegakit.program import ProcessExited
from vegakit.sdk import Runtime
from vegakit.testing import VirtualClock, run_virtual

HOUR_S = 3_600.0


async def storm(limits: list[int]) -> tuple[int, str]:
    """How often the leaf was started, and how the root ended."""
    starts, ends = 0, list[ProcessExited]()

    async def leaf() -> None:
        nonlocal starts
        starts += 1
        raise ValueError("boom")

    tree: Child | Supervisor = Child(leaf)
    for limit in reversed(limits):
        tree = Supervisor("restart", [tree], max_restarts=limit, window=HOUR_S)
    clock = VirtualClock()
    async with Runtime(clock=clock) as rt:
        rt.on(ProcessExited, ends.append)
        rt.spawn(tree, name="root")
        await clock.wait_until(clock.now() + 1_000)
        assert rt.program.machine.state.processes == {}
    [root] = [end for end in ends if end.path == "root"]
    return starts, str(root.reason)


@pytest.mark.parametrize("limits", [[0, 0, 0], [1, 1, 1], [1, 2, 3], [3, 2, 1], [2, 0, 4]])
def test_a_storm_is_the_product_of_its_levels(limits: list[int]) -> None:
    """A leaf that always crashes starts (r1+1)(r2+1)(r3+1) times exactly, then the root is over."""
    expected = prod(limit + 1 for limit in limits), "escalated(crashed(ValueError: boom))"
    assert run_virtual(storm(limits)) == expected


def any_tree(chance: Random, depth: int) -> Branch:
    def child() -> Branch | Leaf:
        if depth > 0 and chance.random() < 0.4:
            return any_tree(chance, depth - 1)
        return Leaf(chance.choice(list(ChildType)), 5_000)

    return Branch(RestartRule(), {name: child() for name in "abcd"[: chance.randint(1, 4)]})


async def shut_down(seed: int) -> tuple[list[str], list[str]]:
    """Who was begun and who was told to end, in the order of it."""
    chance = Random(seed)
    clock = VirtualClock()
    async with Runtime(clock=clock) as rt:
        troupe = Troupe(rt, clock, lambda path, _: Random(f"{seed}{path}").choice([0, 3, 900]))
        for number in range(chance.randint(1, 3)):
            troupe.spawn(any_tree(chance, 3), f"root{number}")
        await clock.wait_until(clock.now() + 1)
        begun = [path for path, _ in troupe.begun]
    return begun, [path for path, _ in troupe.left]


def test_a_thousand_shutdowns_end_the_last_started_first() -> None:
    """In trees of any shape, whose bodies take their time to leave."""
    for seed in range(1_000):
        begun, left = run_virtual(shut_down(seed))
        assert begun
        assert left == begun[::-1], seed
