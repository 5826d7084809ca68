"""Proofs of nodes: what is proved holds, what is wrong is shown, and the terms mean what the
evaluator computes."""

import sys
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from campaigns.proofs import (
    CROSSHAIR_PLANTED,
    ENCODING_FAULTS,
    PLANTED,
    PROVED,
    SAMPLES,
    find_contradiction,
    finds_fault,
    planted_node,
    random_node,
    survives,
)
from campaigns.proofs_crosshair import crosshair_finding

from vegakit.cli import main
from vegakit.contracts import Expression, LoopKind, NodeProgram
from vegakit.vesper import (
    DirectPath,
    ProofLimits,
    ProofVerdict,
    load_node,
    parse_node,
    proof_expressions,
    prove_node,
)

QUICK = [
    name
    for name in PROVED
    if name not in ("reconcile", "allocate_stock", "commission", "price_order")
]
"""Those that take well below a second; the campaign has all of them."""

NODE = """\
node_id: share_v1
type: test
intent: Share something.
inputs:
  total: {type: integer, constraints: [total >= 0, total <= 1000]}
  people: {type: integer, constraints: [people >= 0]}
  items: {type: "array<integer, 200>"}
outputs:
  success: {share: integer}
  error: {error_code: "enum[nobody]"}
contracts:
  postconditions: [share >= 0, share <= total]
flow:
  - step: share
    operation: compute
    parameters: {value: total / people}
    error_handling: {division_by_zero: nobody}
"""


def _node(text: str) -> NodeProgram:
    return parse_node(text.encode(), "n.vsp").program


def _changed(old: str, new: str) -> NodeProgram:
    assert old in NODE
    return _node(NODE.replace(old, new))


@pytest.mark.parametrize("name", QUICK)
def test_a_sample_is_proved_and_survives_random_inputs(name: str) -> None:
    """For all inputs that its contract allows; 500 of them are tried as well."""
    node = load_node(SAMPLES / f"{name}.vsp").program
    proof = prove_node(node)
    assert proof.verdict is ProofVerdict.PROVED, proof
    assert len(proof.clauses) == len(node.steps) + len(node.after)
    assert survives(node, 500)


@pytest.mark.parametrize(("name", "right", "wrong"), PLANTED)
def test_a_planted_fault_is_shown_with_inputs(name: str, right: str, wrong: str) -> None:
    """The interpreter breaks the contract, or traps, on the counterexample."""
    node = planted_node(name, right, wrong)
    proof = prove_node(node)
    assert proof.verdict is ProofVerdict.NOT_PROVED
    shown = [each.counterexample for each in proof.clauses if each.counterexample is not None]
    assert shown
    for inputs in shown:
        assert DirectPath(node).run(inputs).status in ("broken", "trap")


@pytest.mark.parametrize("seed", range(24))
def test_terms_mean_what_the_evaluator_computes(seed: int) -> None:
    """Of random steps over random inputs: the value, or the trap that comes first; and what is told
    to the solver of them has no contradiction in it."""
    assert find_contradiction(*random_node(Random(seed), is_edge=seed % 2 == 1)) == ""


@pytest.mark.parametrize("fault", ENCODING_FAULTS[:-2], ids=lambda fault: fault[1].strip())
def test_a_wrong_encoding_is_found(fault: tuple[str, str, str]) -> None:
    """Rounding, truncation, signs, bounds and order: each planted in the terms, each seen. Two that
    need more draws are left to the campaign."""
    assert finds_fault(fault)


@pytest.mark.parametrize("name", ["transfer", "split_bill"])
def test_a_second_solver_finds_nothing_against_a_proof(name: str) -> None:
    """CrossHair executes the generated Python, and shares no term with the proof."""
    assert crosshair_finding(load_node(SAMPLES / f"{name}.vsp").program) == ""


@pytest.mark.parametrize(("name", "right", "wrong"), CROSSHAIR_PLANTED[:2])
def test_the_second_solver_sees_a_wrong_contract(name: str, right: str, wrong: str) -> None:
    """On its own."""
    assert "false when calling" in crosshair_finding(planted_node(name, right, wrong))


def test_a_declared_error_is_no_trap_and_an_undeclared_one_is() -> None:
    """Division by zero is a way to end, if the node says so."""
    assert prove_node(_node(NODE), ProofLimits(3)).verdict is ProofVerdict.PROVED_UP_TO
    handled = "    error_handling: {division_by_zero: nobody}\n"
    proof = prove_node(_changed(handled, ""))
    [step] = [each for each in proof.clauses if each.verdict is ProofVerdict.NOT_PROVED]
    assert step.what.startswith("step share: ")
    assert step.counterexample == {"total": 0, "people": 0, "items": []}
    assert step.outcome == "trap division_by_zero at step share"


def test_a_longer_collection_than_was_looked_at_is_no_proof() -> None:
    """Up to so many items, unless the types allow no more."""
    proof = prove_node(_node(NODE), ProofLimits(3))
    assert (proof.verdict, proof.most) == (ProofVerdict.PROVED_UP_TO, 3)
    assert {each.verdict for each in proof.clauses} == {ProofVerdict.PROVED_UP_TO}
    short = _changed("array<integer, 200>", "array<integer, 3>")
    assert prove_node(short, ProofLimits(3)).verdict is ProofVerdict.PROVED
    text = NODE.replace('200>"}', '200>", constraints: [LENGTH(items) <= 3]}')
    assert prove_node(_node(text), ProofLimits(3)).verdict is ProofVerdict.PROVED


GROUPED = """\
node_id: grouped_v1
type: test
intent: Add up by key.
types:
  Row: {fields: {key: integer, amount: integer}, constraints: [amount >= 0, amount <= 1000]}
inputs:
  rows: {type: "array<Row, 12>"}
outputs:
  success: {sums: "array<integer, 12>", keys: "array<integer, 12>"}
contracts:
  postconditions:
    - "SUM(each IN sums: each) == SUM(rows.amount)"
    - "FORALL row IN rows: row.key IN keys"
flow:
  - {step: by_key, operation: group, parameters: {over: rows, as: row, by: row.key}}
  - {step: keys, operation: map, parameters: {over: by_key, as: key, value: key}}
  - step: sums
    operation: map
    parameters: {over: by_key, as: key, value: "SUM(row IN by_key[key]: row.amount)"}
"""


def test_each_item_is_in_one_group_at_any_length() -> None:
    """So sums over groups add up to the whole. A sum that leaves something out is refuted."""
    assert prove_node(_node(GROUPED)).verdict is ProofVerdict.PROVED
    wrong = GROUPED.replace("by_key[key]: row.amount)", "by_key[key]: row.amount + 1)")
    assert any(each.counterexample for each in prove_node(_node(wrong)).clauses)


def test_what_is_not_proved_at_full_length_is_proved_up_to_a_shorter_one() -> None:
    """By an effort that is the same on every machine; what is proved of all lengths stays so."""
    text = (SAMPLES / "rate_card.vsp").read_text("utf-8")
    proof = prove_node(_node(text), ProofLimits(effort=300_000))
    assert (proof.verdict, proof.most) == (ProofVerdict.PROVED_UP_TO, 2)
    cut = [each.what for each in proof.clauses if each.verdict is not ProofVerdict.PROVED]
    assert cut == ["postcondition: charge >= 0", "postcondition: units > 0 OR charge == 0"]


def test_of_nothing_nothing_is_proved() -> None:
    """Where no inputs are allowed every clause would hold."""
    proof = prove_node(_changed("total <= 1000", "total < 0"))
    assert proof.verdict is ProofVerdict.NOT_PROVED
    assert [each.what for each in proof.clauses] == [
        "some inputs satisfy the constraints and preconditions"
    ]


def test_what_is_unknown_is_never_a_proof() -> None:
    """With too few steps the solver gives up, and says so."""
    node = load_node(SAMPLES / "best_discount.vsp").program
    proof = prove_node(node, ProofLimits(effort=10))
    assert proof.verdict is ProofVerdict.NOT_PROVED
    assert any(each.reason.startswith("unknown: ") for each in proof.clauses)
    assert all(each.counterexample is None for each in proof.clauses)


def test_a_proof_is_the_same_again() -> None:
    """Verdicts, and the steps that the solver took for them."""
    node = load_node(SAMPLES / "prorate.vsp").program
    assert prove_node(node) == prove_node(node)


@pytest.mark.parametrize(
    ("constraint", "claim"),
    [
        ("total > 0.5", "total >= 1"),
        ("total * 2 >= 1", "total >= 1"),
        ("NOT total == 0", "total >= 1"),
    ],
)
def test_bounds_are_those_of_the_clause(constraint: str, claim: str) -> None:
    """No integer is lost between a bound and the next number."""
    text = NODE.replace("total >= 0", f"total >= 0, {constraint}")
    node = _node(text.replace("share >= 0, ", f"{claim}, "))
    assert prove_node(node, ProofLimits(2)).verdict is ProofVerdict.PROVED_UP_TO
    node = _node(text.replace("share >= 0, ", "total >= 2, "))
    proof = prove_node(node, ProofLimits(2))
    assert [each.counterexample for each in proof.clauses if each.counterexample] == [
        {"total": 1, "people": 1, "items": []}
    ]


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        ("NOT (name CONTAINS 'ab') OR LENGTH(name) >= 2", True),
        ("NOT (name CONTAINS 'ab') OR LENGTH(name) >= 3", False),
        ("name == 'x' OR name != 'x'", True),
        ("LENGTH(name) > 0 OR name == ''", True),
        ("name != 'b' OR name > 'a'", True),
        ("LENGTH(name) <= 4", False),
        ("kind != 'open' OR NOT kind == 'shut'", True),
        ("kind == 'open'", False),
    ],
)
def test_texts_are_known_to_the_solver(claim: str, holds: bool) -> None:
    """Parts, lengths, order and choices."""
    text = NODE.replace(
        "items:", 'name: {type: string<5>}\n  kind: {type: "enum[open, shut]"}\n  i:'
    )
    node = _node(text.replace("share >= 0, ", f"{claim}, ").replace("200>", "2>"))
    proof = prove_node(node)
    assert (proof.verdict is ProofVerdict.PROVED) == holds
    assert holds or any(each.counterexample for each in proof.clauses)


def test_the_translation_covers_the_tree() -> None:
    """Every part of the typed tree has its terms."""
    assert {*proof_expressions._TRANSLATIONS} == {*get_args(Expression)}
    assert {*proof_expressions._LOOPS} | {LoopKind.REDUCE} == {*LoopKind}


def _prove(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["node", "prove", *map(str, arguments)])
    told = capsys.readouterr()
    return status, " ".join((told.out + told.err).split())


def test_the_command_says_what_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 0 for a proof only; one up to some items has to be asked for."""
    file = tmp_path / "share.vsp"
    file.write_text(NODE)
    assert _prove([file, "--most", 2], capsys) == (
        0,
        "✓ share_v1: PROVED up to 2 items a collection, 3 of 3 obligations",
    )
    file.write_text(NODE.replace("share <= total", "share < total").replace("200>", "2>"))
    status, told = _prove([file], capsys)
    assert status == 1
    assert "NOT PROVED, 2 of 3 obligations line 12: postcondition: share < total" in told
    assert 'inputs: {"total": 0, "people": 1, "items": []} gives: broken postcondition' in told
    status, told = _prove([file, "--json"], capsys)
    assert (status, '"verdict": "NOT PROVED"' in told) == (1, True)
    assert _prove([file, "--most", 0], capsys)[0] == 1


def test_without_the_solver_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extra is needed for proofs only."""
    monkeypatch.setitem(sys.modules, "z3", None)
    status, told = _prove([SAMPLES / "transfer.vsp"], capsys)
    assert (status, "pip install 'vegakit[prove]'" in told) == (1, True)
