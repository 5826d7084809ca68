"""Proofs of nodes with effects: whatever the records are and the world answers."""

import pytest
from campaigns.proofs import (
    SAMPLES,
    STATE_PLANTED,
    STATE_PROVED,
    is_refuted,
    planted_node,
    survives,
)

from vegakit.vesper import ProofVerdict, load_node, parse_node, prove_node


@pytest.mark.parametrize("name", STATE_PROVED)
def test_a_sample_with_state_is_proved(name: str) -> None:
    """For all inputs, all records, those that are missing, and all states of them."""
    node = load_node(SAMPLES / f"{name}.vsp").program
    proof = prove_node(node)
    assert proof.verdict is ProofVerdict.PROVED, proof
    assert survives(node, 500)


@pytest.mark.parametrize(("name", "right", "wrong"), STATE_PLANTED)
def test_a_fault_is_shown_by_a_run(name: str, right: str, wrong: str) -> None:
    """The counterexample is inputs and a world, in which the interpreter goes wrong as it says."""
    node = planted_node(name, right, wrong)
    assert is_refuted(node)


def test_keys_that_may_be_the_same_are_told() -> None:
    """A transfer from an account to itself is another run than one between two."""
    node = planted_node("account_transfer", ", constraints: [target_id != source_id]", "")
    proof = prove_node(node)
    assert proof.verdict is ProofVerdict.NOT_PROVED
    reasons = [each.reason for each in proof.clauses if each.reason]
    assert "whether source and target look at the same record of accounts" in reasons[0]


ASKING = """\
node_id: asking_v1
type: test
intent: Ask a shop for a price.
inputs: {id: {type: string<20>}}
outputs:
  success: {price: integer}
  error: {error_code: "enum[shop_closed]"}
contracts: {postconditions: [price >= 0]}
flow:
  - step: price
    operation: http
    type: integer
    parameters: {method: GET, url: "https://shop.example.com/prices", item: id}
    error_handling: {failed: shop_closed}
  - step: checked
    operation: check
    guards: [price >= 0]
    error_handling: {guard: shop_closed}
security: {capabilities_required: [network.http_client.shop.example.com]}
"""


def test_the_world_may_answer_anything_of_its_type() -> None:
    """With a guard on the answer the contract is kept; without it a negative price breaks it."""
    assert prove_node(parse_node(ASKING.encode(), "a").program).verdict is ProofVerdict.PROVED
    node = parse_node(
        ASKING.replace("[price >= 0]\n    error", "[id != 'x']\n    error").encode(), "a"
    )
    [broken] = [each for each in prove_node(node.program).clauses if each.counterexample]
    assert broken.world is not None
    assert broken.world.answers["price"].value < 0


def test_an_answer_may_fail() -> None:
    """A failure without an error code is a trap, and shown."""
    text = ASKING.replace("    error_handling: {failed: shop_closed}\n", "")
    [trap] = [
        each for each in prove_node(parse_node(text.encode(), "a").program).clauses if each.world
    ]
    assert trap.world is not None
    assert trap.world.answers["price"].failure == "failed"
    assert "trap failed at step price" in trap.outcome


COUNTER = """\
node_id: counter_v1
type: test
intent: Count twice.
state:
  counters:
    key: id
    fields: {id: string<20>, count: integer, most: integer}
    constraints: [count >= 0, most <= 1000, LIMIT]
inputs: {id: {type: string<20>}}
outputs:
  success: {after: integer}
  error: {error_code: "enum[unknown, full]"}
contracts:
  postconditions:
    - after == SUM(counters.count)
    - SUM(counters.count) == old(SUM(counters.count)) + 2
flow:
  - step: once
    operation: read
    parameters: {from: counters, key: id}
    error_handling: {missing: unknown}
  - step: one
    operation: write
    parameters: {to: counters, key: id, set: "{count: once.count + 1}"}
  - {step: twice, operation: read, parameters: {from: counters, key: id}}
  - step: two
    operation: write
    guards: [twice.count < twice.most]
    error_handling: {guard: full}
    parameters: {to: counters, key: id, set: "{count: twice.count + 1}"}
  - {step: after, operation: compute, parameters: {value: two.count}}
security: {capabilities_required: [database.read.counters, database.write.counters]}
"""


def test_what_was_written_is_read_again() -> None:
    """And a record that was read is there to be written; its constraints bound what is computed."""
    node = parse_node(COUNTER.replace("LIMIT", "count <= most").encode(), "c").program
    assert prove_node(node).verdict is ProofVerdict.PROVED
    free = parse_node(
        COUNTER.replace("LIMIT", "count <= 9223372036854775807").encode(), "c"
    ).program
    wrong = [each for each in prove_node(free).clauses if each.counterexample]
    assert [each.what.split(":")[0] for each in wrong] == ["step one"]
    assert wrong[0].world is not None
    assert wrong[0].world.records["counters"][0]["count"] == 9223372036854775807


def test_of_records_that_cannot_be_nothing_is_proved() -> None:
    """Invariants that exclude each other would prove everything."""
    text = COUNTER.replace("LIMIT", "count <= most").replace(
        "contracts:\n", "contracts:\n  invariants: [SUM(counters.count) < 0]\n"
    )
    proof = prove_node(parse_node(text.encode(), "c").program)
    assert proof.verdict is ProofVerdict.NOT_PROVED
    assert proof.clauses[-1].what == "some records satisfy the invariants"
