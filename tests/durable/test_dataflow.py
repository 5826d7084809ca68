"""Random dataflow programs come to what a plain evaluation comes to, however often workers die."""

from typing import Any

import pytest
from campaigns.dataflow import run_killed
from campaigns.dataflow_programs import bodies, evaluate, flow, graph, hasty

from vegakit.durable.deployment import Activities
from vegakit.durable.messages import ActivityResult
from vegakit.effects import Effect
from vegakit.records import from_json
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger

pytestmark = pytest.mark.timeout(300)
PROGRAMS, UNCACHED, FAULTY = 20, 6, 8


async def test_killed_programs_come_to_the_same(temporal: str) -> None:
    """Several calls of each are in flight when the worker is killed, again and again."""
    flows = await run_killed(temporal, range(PROGRAMS))
    print(flows)
    assert flows.holds
    assert flows.met > PROGRAMS // 5
    assert flows.unknown > 0


async def test_without_a_cache_too(temporal: str) -> None:
    """Every step replays all that went before."""
    flows = await run_killed(temporal, range(1_000, 1_000 + UNCACHED), cache=0)
    print(flows)
    assert flows.holds
    assert flows.met > 0


def keyed_by_arrival() -> list[Any]:
    return bodies(hasty)


def answers_of_others() -> list[Any]:
    """A later attempt takes an answer that anybody kept."""

    async def known(self: Activities, effect: Effect) -> ActivityResult | int:
        assert self._answers is not None
        for key in await self._answers.keys("answer"):
            kept = await self._answers.get("answer", key)
            if kept and (read := from_json(ActivityResult, kept[0])):
                return ActivityResult(effect.digest, read.outcome)
        return 0

    Activities._known = known  # type: ignore[method-assign]
    return bodies()


@pytest.mark.parametrize("fault", [keyed_by_arrival, answers_of_others])
async def test_a_planted_fault_is_found(temporal: str, fault: Any) -> None:
    """In the program, and in what a worker does after another one died."""
    flows = await run_killed(temporal, range(FAULTY), fault=fault)
    assert not flows.holds


@pytest.mark.parametrize("seed", range(5))
async def test_the_local_host_comes_to_the_same(seed: int) -> None:
    """The plain evaluation and the machine are two readings of one graph."""
    async with Runtime("$10", ledger=MemoryLedger()) as rt:
        oracle, reducer = bodies(flow)
        rt.spawn(oracle)
        values: Any = await rt.spawn(reducer).ask({"seed": seed, "depth": 0, "path": "flow"})
    assert values == evaluate(seed)
    assert len(values) == len(graph(seed))
