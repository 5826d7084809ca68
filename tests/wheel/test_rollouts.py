"""Rollouts by the installed wheel: a program makes the calls, and `vega rollout` decides."""

from pathlib import Path

import pytest
from campaigns.contract.stage import Stage, stage

pytestmark = pytest.mark.timeout(600)

NODE = """\
node_id: price_v1
type: rule
intent: Price some boxes at three each.
inputs:
  count: {type: integer, constraints: [count >= 0, count <= 100000]}
outputs: {success: {total: integer}}
contracts: {postconditions: [total >= count]}
flow: [{step: total, operation: compute, parameters: {value: count * 3}}]
"""
CALLS = """\
import asyncio, sys
from pathlib import Path

from vegakit import Runtime
from vegakit.vesper import RolloutRule, load_node, node_rollout

last, wrong = int(sys.argv[1]), int(sys.argv[2])


async def candidate(count):
    return {"total": wrong if count % 500 == 7 else count * 3}


async def main():
    rule, node = RolloutRule(calibration=0), load_node(Path("price.vsp"))
    async with (
        Runtime.from_config() as rt,
        node_rollout(rt, node, reference="python", candidate=candidate, rule=rule) as price,
    ):
        for first in range(1, last + 1, 50):
            await asyncio.gather(*(price(count=n) for n in range(first, first + 50)))
            await price.rolled.settle()
        print(price.status().mode)


asyncio.run(main())
"""
BROKEN, WITHIN = "0", "100000"
"""What the candidate answers to one count in 500: below the count, which the contract forbids, or
far above it, which differs from the reference only."""


def mode_after(here: Stage, calls: int, wrong: str) -> str:
    here.write({"price.vsp": NODE, "calls.py": CALLS})
    return here.run_well("python", "calls.py", str(calls), wrong).out.strip()


def test_a_candidate_that_broke_its_contract_answers_nobody(wheel: Path) -> None:
    """Neither the evidence nor a person promotes it, though it agrees in 998 of 1,000 calls."""
    with stage(wheel, Stage) as here:
        assert mode_after(here, 1_000, BROKEN) == "shadow"
        promoted = here.run("vega", "rollout", "promote", "price_v1", "--yes")
        assert promoted.code == 1
        said = " ".join(promoted.err.split())
        assert "price_v1 stays at shadow: it broke its contract in 2 of 1,000 comparisons" in said
        assert "change the candidate" in said
        assert "try: vega rollout status price_v1" in said
        page = here.run_well("vega", "rollout", "status", "price_v1").out
        assert "Breaches     2;" in page


def test_a_candidate_that_only_differs_is_promoted_and_its_differences_are_told(
    wheel: Path,
) -> None:
    """By the evidence, as before; by a person in its shadow, who reads the count."""
    with stage(wheel, Stage) as here:
        assert mode_after(here, 1_000, WITHIN) == "canary"
    with stage(wheel, Stage) as here:
        assert mode_after(here, 50, WITHIN) == "shadow"
        promoted = here.run_well("vega", "rollout", "promote", "price_v1")
        said = " ".join(promoted.err.split())
        assert "price_v1 differed from an exact reference in 1 of 50 comparisons" in said
        assert "promoted to canary 1 %" in promoted.out
