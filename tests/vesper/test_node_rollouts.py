"""Nodes under rollouts: their paths, the contract that decides, and demotion over the wire."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.test_fallback import A, Records, run as over_the_wire
from vegakit.cli import main
from vegakit.contracts import NodeOutcome, NodeStatus, Rollout, StageChange
from vegakit.errors import ContractViolated
from vegakit.sdk import Runtime
from vegakit.store import MemoryStore
from vegakit.testing import Provider, ProviderReply, ProviderRequest
from vegakit.vesper import (
    NodeFailed,
    NodeRollout,
    PersonAction,
    RolloutMode,
    RolloutRule,
    load_node,
    node_agent,
    node_rollout,
    parse_node,
)

NODES = Path(__file__).parents[2] / "examples/nodes"
TRANSFER = load_node(NODES / "transfer.vsp")
GIVEN = {"source": 100, "target": 0, "fees": 0, "amount": 10}
PAID = NodeOutcome(NodeStatus.SUCCESS, {"source": 90, "target": 10, "fees": 0})
POOR = NodeOutcome(NodeStatus.ERROR, None, "insufficient_funds")
AT_ONCE = RolloutRule(calibration=0)
NOISY = RolloutRule(calibration=0, is_noisy=True)
LOOSE = parse_node(
    (NODES / "transfer.vsp").read_bytes().split(b"contracts:")[0]
    + b"flow:"
    + (NODES / "transfer.vsp").read_bytes().split(b"flow:")[1],
    "transfer.vsp",
)
"""The same node without rules on what it gives: only a comparison shows what is wrong."""


async def raised_to(rolled: NodeRollout, mode: RolloutMode) -> None:
    while rolled.status().mode is not mode:
        await rolled.rolled.decide(PersonAction.PROMOTE, "ada")


def within(work: Callable[[Runtime], Awaitable[Any]], **options: Any) -> Any:
    async def opened() -> Any:
        async with Runtime(observable=False, **options) as rt:
            return await work(rt)

    return asyncio.run(opened())


async def right(
    source: int, target: int, fees: int, amount: int, fee_points: int
) -> Mapping[str, Any]:
    fee = amount * fee_points // 10_000
    if source < amount + fee:
        raise NodeFailed("insufficient_funds")
    return {"source": source - amount - fee, "target": target + amount, "fees": fees + fee}


async def generous(**given: int) -> Mapping[str, Any]:
    return {**await right(**given), "target": given["target"] + 2 * given["amount"]}


async def unknown_code(**given: int) -> Mapping[str, Any]:
    raise NodeFailed("no_idea")


async def forgetful(**given: int) -> Mapping[str, Any]:
    return {"source": given["source"]}


@pytest.mark.parametrize("candidate", ["direct", right], ids=["direct", "function"])
def test_paths_that_agree_are_compared_and_stay(candidate: Any) -> None:
    """Errors of the node are answers, and no failures."""

    async def work(rt: Runtime) -> tuple[list[NodeOutcome], Rollout]:
        async with node_rollout(rt, TRANSFER, candidate=candidate, rule=AT_ONCE) as pay:
            await raised_to(pay, RolloutMode.DUAL_VERIFY)
            answers = [await pay(**GIVEN), await pay(**GIVEN | {"source": 1})]
        return answers, pay.status()

    answers, state = within(work)
    assert answers == [PAID, POOR]
    assert (state.evidence.production.runs, state.evidence.production.failures) == (2, 0)
    assert state.mode is RolloutMode.DUAL_VERIFY


@pytest.mark.parametrize("rule", [AT_ONCE, NOISY], ids=["exact", "noisy"])
@pytest.mark.parametrize("mode", [RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY])
@pytest.mark.parametrize("candidate", [generous, unknown_code, forgetful])
def test_a_breach_demotes_before_the_next_call(
    candidate: Any, mode: RolloutMode, rule: RolloutRule
) -> None:
    """Whatever the noise of the reference, and the caller has the reference's answer."""
    changes = list[StageChange]()

    async def work(rt: Runtime) -> tuple[NodeOutcome, Rollout]:
        async with node_rollout(
            rt, TRANSFER, candidate=candidate, rule=rule, on_change=changes.append
        ) as pay:
            await raised_to(pay, mode)
            answer = await pay(**GIVEN)
            return answer, pay.status()

    answer, state = within(work)
    assert answer == PAID
    assert (state.mode, state.held_because) == (RolloutMode.SHADOW, "it broke its contract")
    assert changes[-1].reason == "it broke its contract"


def test_a_difference_within_the_contract_is_one_of_many_where_the_reference_is_noisy() -> None:
    """So it is the breach that demotes, and not the difference."""

    async def work(rt: Runtime) -> Rollout:
        async with node_rollout(rt, LOOSE, candidate=generous, rule=NOISY) as pay:
            await raised_to(pay, RolloutMode.DUAL_VERIFY)
            await pay(**GIVEN)
            return pay.status()

    state = within(work)
    assert state.mode is RolloutMode.DUAL_VERIFY
    assert state.evidence.production.failures == 1


def test_who_calls_against_the_contract_is_told_and_no_path_is_asked() -> None:
    """It says nothing of the candidate."""

    async def work(rt: Runtime) -> Rollout:
        async with node_rollout(rt, TRANSFER, candidate=unknown_code, rule=AT_ONCE) as pay:
            await raised_to(pay, RolloutMode.DIRECT_ONLY)
            with pytest.raises(ContractViolated, match="amount > 0 does not hold"):
                await pay(**GIVEN | {"amount": 0})
            return pay.status()

    state = within(work)
    assert state.evidence.production.runs == 0
    assert state.mode is RolloutMode.DIRECT_ONLY


def test_a_reference_that_breaks_its_contract_says_nothing_of_the_candidate() -> None:
    """The contract decides who is wrong, and the candidate is right."""

    async def work(rt: Runtime) -> tuple[NodeOutcome, Rollout]:
        rule = RolloutRule(calibration=0, sample=1.0)
        async with node_rollout(
            rt, TRANSFER, reference=generous, candidate="direct", rule=rule
        ) as pay:
            await raised_to(pay, RolloutMode.DIRECT_ONLY)
            answer = await pay(**GIVEN)
            await pay.rolled.settle()
            return answer, pay.status()

    answer, state = within(work)
    assert answer == PAID
    assert state.evidence.production.runs == 0
    assert state.mode is RolloutMode.DIRECT_ONLY


def test_where_both_break_it_the_candidate_is_demoted_and_the_caller_told() -> None:
    """Nobody gets an answer that the contract does not allow."""

    async def work(rt: Runtime) -> Rollout:
        async with node_rollout(
            rt, TRANSFER, reference=generous, candidate=forgetful, rule=AT_ONCE
        ) as pay:
            await raised_to(pay, RolloutMode.DIRECT_ONLY)
            with pytest.raises(ContractViolated, match="target == old"):
                await pay(**GIVEN)
            return pay.status()

    assert within(work).held_because == "it broke its contract"


# An agent that stands for a node, over real sockets.


def answers(request: ProviderRequest, more: int = 0) -> ProviderReply:
    """What the model says: right, or with money that nobody has."""
    given = json.loads(request.text)
    fee = given["amount"] * given["fee_points"] // 10_000
    if given["source"] < given["amount"] + fee:
        return ProviderReply(output={"outputs": None, "error_code": "insufficient_funds"})
    outputs = {
        "source": given["source"] - given["amount"] - fee,
        "target": given["target"] + given["amount"] + more,
        "fees": given["fees"] + fee,
    }
    return ProviderReply(output={"outputs": outputs, "error_code": None})


def wrong(request: ProviderRequest) -> ProviderReply:
    return answers(request, more=1)


async def with_agent(rt: Runtime, node: Any, mode: RolloutMode) -> tuple[list[Any], Rollout]:
    clerk = node_agent(node, A, max_tokens=200)
    async with node_rollout(rt, node, candidate=clerk, rule=AT_ONCE, budget="$0.50") as pay:
        await raised_to(pay, mode)
        said = [await pay(**GIVEN), await pay(**GIVEN | {"source": 1})]
        await pay.rolled.settle()
        return said, pay.status()


def test_an_agent_that_is_right_answers_in_place_of_the_code() -> None:
    """Its cost is counted, and its error codes are those of the node."""

    async def work(rt: Runtime, provider: Provider) -> tuple[list[Any], Rollout]:
        found = await with_agent(rt, TRANSFER, RolloutMode.DIRECT_ONLY)
        assert len(provider.requests) == 2
        assert await rt.spent() > 0
        return found

    said, state = over_the_wire(answers, work)
    assert said == [PAID, POOR]
    assert state.mode is RolloutMode.DIRECT_ONLY


@pytest.mark.parametrize(
    ("node", "reason"),
    [(TRANSFER, "it broke its contract"), (LOOSE, "it differed from an exact reference")],
    ids=["breach", "difference"],
)
def test_an_agent_that_is_wrong_is_demoted_by_its_first_answer(node: Any, reason: str) -> None:
    """The code answers the call, and all that follow."""
    sink = Records()

    async def work(rt: Runtime, provider: Provider) -> tuple[list[Any], Rollout]:
        return await with_agent(rt, node, RolloutMode.DUAL_VERIFY)

    said, state = over_the_wire(wrong, work, trace=sink)
    assert said == [PAID, POOR]
    assert (state.mode, state.held_because) == (RolloutMode.SHADOW, reason)
    event = next(call for call in sink.calls if call.name == "divergence_detected")
    assert event.attributes["sir.node_id"] == "transfer_v1"
    assert event.attributes["sir.divergence"] is True
    paths = {
        call.attributes["sir.execution_path"] for call in sink.calls if call.name == "sir.execute"
    }
    assert paths == {"reference", "candidate"}


def test_an_agent_is_told_the_rules_of_its_node() -> None:
    """What it takes and gives, and what has to hold."""
    told = node_agent(TRANSFER, "fast", instructions="Be exact.").instructions
    for line in (TRANSFER.program.intent, "- amount: integer", "- target == old(target) + amount"):
        assert line in told
    assert told.endswith("Be exact.")


def test_paths_have_versions_of_what_they_are() -> None:
    """Another prompt, another node or another path is another candidate."""

    def version(node: Any, candidate: Any) -> str:
        async def work(rt: Runtime) -> str:
            return node_rollout(rt, node, candidate=candidate).rolled.version

        return within(work)

    agents = [node_agent(TRANSFER, "fast", instructions=said) for said in ("a", "b")]
    candidates: list[tuple[Any, Any]] = [
        (TRANSFER, "direct"),
        (TRANSFER, "python"),
        (LOOSE, "direct"),
        (TRANSFER, right),
        *((TRANSFER, agent) for agent in agents),
    ]
    assert len({version(*each) for each in candidates}) == len(candidates)
    assert version(TRANSFER, "direct") == version(TRANSFER, "direct")


# From outside.


def test_a_person_sees_and_moves_the_rollout_of_a_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its file or its id, in the store where all rollouts are kept."""
    place = str(tmp_path / "kept.db")

    async def work() -> None:
        from vegakit.store import open_stores

        store, *others = open_stores(place)
        async with (
            Runtime(observable=False, store=store) as rt,
            node_rollout(rt, TRANSFER, candidate="direct", rule=AT_ONCE) as pay,
        ):
            await pay(**GIVEN)
        for each in (store, *others):
            await each.aclose()

    asyncio.run(work())
    file = str(NODES / "transfer.vsp")
    assert main(["rollout", "status", file, "--store", place, "--json"]) == 0
    [before] = json.loads(capsys.readouterr().out)
    assert (before["name"], before["mode"]) == ("transfer_v1", "shadow")
    assert before["subject"] == {
        "reference": "python",
        "candidate": "direct",
        "comparison": "exact",
    }
    assert main(["rollout", "promote", "transfer_v1", "--store", place, "--reason", "try it"]) == 0
    assert "promoted to canary 1 %" in capsys.readouterr().out
    assert main(["rollout", "demote", file, "--store", place]) == 0
    assert "demoted to shadow" in capsys.readouterr().out


def test_a_memory_store_is_enough() -> None:
    """Nothing of a node asks for more."""

    async def work(rt: Runtime) -> NodeOutcome:
        async with node_rollout(rt, TRANSFER, candidate="direct") as pay:
            checked = await pay.check(**GIVEN)
            assert checked.agrees
            return await pay(**GIVEN)

    assert within(work, store=MemoryStore()) == PAID
