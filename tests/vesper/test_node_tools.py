"""Nodes as functions, as tools of agents, with results that are kept, spans and metrics."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.test_fallback import Records
from vegakit.contracts import NodeValueError
from vegakit.conversation import ToolMessage
from vegakit.errors import ContractViolated, ToolFailed, UserError
from vegakit.host import Agent
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.vesper import (
    NodeRepository,
    ResultCache,
    callable_node,
    load_node,
    parse_node,
    show_signature,
)

NODES = Path(__file__).parents[2] / "examples/nodes"
TRANSFER = load_node(NODES / "transfer.vsp")
GIVEN = {"source": 100, "target": 0, "fees": 0, "amount": 10}


def test_a_node_is_a_function() -> None:
    """Outputs come back by name, errors are raised with their code."""
    pay = callable_node(TRANSFER)
    assert pay(**GIVEN) == {"source": 90, "target": 10, "fees": 0}
    with pytest.raises(ToolFailed, match=r"^insufficient_funds: transfer_v1 .* at step source$"):
        pay(**GIVEN | {"source": 1})
    with pytest.raises(ContractViolated, match="amount > 0 does not hold"):
        pay(**GIVEN | {"amount": 0})
    with pytest.raises(NodeValueError, match="amount"):
        pay(**GIVEN | {"amount": "ten"})


def test_every_sample_has_a_schema_of_its_types() -> None:
    """Decimals are texts, records are objects, what has a default may be left out."""
    tools = [callable_node(load_node(path)).tool() for path in sorted(NODES.glob("*.vsp"))]
    assert len(tools) >= 16
    price = next(tool for tool in tools if tool.spec.name == "price_order_v1").spec.parameters
    assert price["required"] == ["items"]
    assert price["properties"]["items"]["maxItems"] == 50
    item = price["$defs"]["LineItem"]
    assert item["properties"]["unit_price"]["type"] == "string"
    assert item["additionalProperties"] is False


def answered(*calls: dict[str, Any]) -> list[tuple[str, bool]]:
    """What an agent is told that calls the node so."""
    model = ScriptedModel(
        [*(ScriptedReply(calls=(ScriptedCall("transfer_v1", each),)) for each in calls), "done"]
    )

    async def work() -> list[tuple[str, bool]]:
        async with Runtime(observable=False) as rt:
            clerk = Agent("clerk", model, tools=[callable_node(TRANSFER).tool()])
            reply = await rt.ask(clerk, "Pay.")
        said = [each for each in reply.messages if isinstance(each, ToolMessage)]
        return [(one.content, one.is_error) for each in said for one in each.results]

    return asyncio.run(work())


def test_an_agent_calls_a_node_and_is_told_its_errors() -> None:
    """As of any tool: it may go on with them."""
    good, poor, broken, unfit = answered(
        GIVEN, GIVEN | {"source": 1}, GIVEN | {"amount": 0}, GIVEN | {"amount": "ten"}
    )
    assert good == ('{"fees":0,"source":90,"target":10}', False)
    assert poor[0].startswith("ToolFailed: insufficient_funds:")
    assert poor[1]
    assert broken[0].startswith("ContractViolated: transfer_v1:")
    assert broken[1]
    assert "amount" in unfit[0]
    assert unfit[1]


def test_a_node_without_effects_needs_no_right() -> None:
    """It says so, instead of saying nothing: nobody is asked, and it may be called again."""
    tool = callable_node(TRANSFER).tool()
    assert tool.rights(GIVEN).wanted == ()
    assert tool.idempotent


def counting(cache: ResultCache, *nodes: Any) -> tuple[int, int]:
    for node in nodes:
        node(**GIVEN)
    return cache.hits, cache.misses


def test_results_are_kept_by_what_was_read() -> None:
    """An input that is left out is its default; another path is asked itself."""
    cache = ResultCache()
    pay, direct = (callable_node(TRANSFER, path=path, cache=cache) for path in ("python", "direct"))
    assert counting(cache, pay, pay, direct) == (1, 2)
    assert pay(**GIVEN, fee_points=25) == pay(**GIVEN)
    assert cache.hits == 3


def test_who_changes_a_result_does_not_change_what_is_kept() -> None:
    """Lists in it, too."""
    pay = callable_node(TRANSFER, cache=ResultCache())
    pay.outcome(GIVEN).outputs.clear()  # pyright: ignore[reportOptionalMemberAccess]
    assert pay(**GIVEN)["source"] == 90


def test_errors_are_kept_as_well() -> None:
    """The same inputs have the same error."""
    pay = callable_node(TRANSFER, cache=(cache := ResultCache()))
    for _ in range(2):
        with pytest.raises(ToolFailed):
            pay(**GIVEN | {"source": 1})
    assert (cache.hits, len(cache)) == (1, 1)


def test_the_result_that_was_not_used_for_longest_goes() -> None:
    """A cache has its size."""
    pay = callable_node(TRANSFER, cache=(cache := ResultCache(2)))
    for amount in (1, 2, 1, 3):
        pay(**GIVEN | {"amount": amount})
    pay(**GIVEN | {"amount": 1})
    assert (cache.hits, cache.misses, len(cache)) == (2, 3, 2)
    with pytest.raises(UserError, match="1 or more"):
        ResultCache(0)


def edited(old: str, new: str) -> Any:
    text = (NODES / "transfer.vsp").read_text()
    assert old in text
    return parse_node(text.replace(old, new).encode(), "transfer.vsp")


def test_a_changed_node_finds_nothing_of_what_was_kept() -> None:
    """Under the same id: people edit files."""
    cache = ResultCache()
    changed = edited("amount * fee_points / 10000", "amount * fee_points / 10000 + 1")
    assert counting(cache, callable_node(TRANSFER, cache=cache)) == (0, 1)
    assert callable_node(changed, cache=cache)(**GIVEN)["source"] == 89
    assert (cache.hits, cache.misses) == (0, 2)


def test_a_changed_dependency_finds_nothing_of_what_was_kept(tmp_path: Path) -> None:
    """Nor one of a dependency."""
    (tmp_path / "rates.vsp").write_text((NODES / "rate_card.vsp").read_text())
    cache = ResultCache()

    def pay() -> Any:
        text = (NODES / "transfer.vsp").read_text()
        needs = "metadata: {dependencies: [rate_card_v1]}\ninputs:"
        (tmp_path / "t.vsp").write_text(text.replace("inputs:", needs, 1))
        found = NodeRepository.at(tmp_path)
        return callable_node(found.find("transfer"), cache=cache, repository=found)

    assert counting(cache, pay(), pay()) == (1, 1)
    rates = tmp_path / "rates.vsp"
    rates.write_text(rates.read_text().replace("Bill usage", "Charge usage"))
    assert counting(cache, pay()) == (1, 2)


def test_a_call_is_a_span_and_is_counted() -> None:
    """By node, path and error, with the names that monitoring of nodes uses."""
    sink = Records()

    async def work() -> str:
        async with Runtime(observable=False, trace=sink) as rt:
            pay = callable_node(TRANSFER)
            calls = [GIVEN, GIVEN | {"source": 1}, GIVEN | {"amount": 0}]
            replies = [ScriptedReply(calls=(ScriptedCall("transfer_v1", one),)) for one in calls]
            clerk = Agent("clerk", ScriptedModel([*replies, "done"]), tools=[pay.tool()])
            await rt.ask(clerk, "Pay.")
            return rt.metrics_text()

    text = asyncio.run(work())
    spans = [call.attributes for call in sink.calls if call.name == "sir.execute"]
    assert [span["sir.node_id"] for span in spans] == ["transfer_v1"] * 3
    assert spans[0]["sir.execution_path"] == "python"
    assert spans[0]["sir.node_type"] == "payment"
    assert spans[0]["sir.intent"] == TRANSFER.program.intent
    assert spans[0]["sir.duration_ms"] >= 0
    assert [span.get("sir.error") for span in spans] == [None, "insufficient_funds", "broken"]
    labels = 'node="transfer_v1",path="python"'
    assert f"sir_executions_total{{{labels}}} 3" in text
    assert f'sir_executions_errors_total{{{labels},error="insufficient_funds"}} 1' in text
    assert f"sir_execution_duration_ms_count{{{labels}}} 3" in text
    assert text.count("# TYPE sir_executions_total ") == 1


def test_outside_of_a_run_nothing_is_recorded() -> None:
    """A node is a plain function there."""
    assert callable_node(TRANSFER, path="direct")(**GIVEN)["target"] == 10


def test_a_path_has_one_of_the_known_names() -> None:
    """The error says which there are."""
    with pytest.raises(UserError, match="no path 'fast'"):
        callable_node(TRANSFER, path="fast")


def test_a_signature_is_a_line() -> None:
    """With what may be left out."""
    said = show_signature(TRANSFER.program)
    assert said.startswith("transfer_v1(source: integer, ")
    assert "fee_points?: integer) -> {source: integer" in said
