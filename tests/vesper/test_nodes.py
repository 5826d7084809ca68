"""Files of nodes: what is refused and where, what runs, and that both paths agree."""

import json
import re
from pathlib import Path
from time import process_time
from typing import Any, get_args

import pytest
from campaigns.admission import scale
from campaigns.nodes import PLANTED, SAMPLES, find_planted

from vegakit.contracts import (
    Expression,
    LoopKind,
    NodeProgram,
    NodeStatus,
    NodeValueError,
    node_python as generated,
)
from vegakit.errors import UserError
from vegakit.vesper import DirectPath, PythonPath, compare_paths, load_node, node_schema, parse_node

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs/reference/node.schema.json"

WITHDRAW = """\
node_id: withdraw_v1
type: payment
intent: Take money out of an account.
inputs:
  balance: {type: integer, constraints: [balance >= 0]}
  amount: {type: integer}
outputs:
  success:
    balance: integer
  error:
    error_code: enum[insufficient, too_much]
contracts:
  preconditions: [amount > 0]
  postconditions: [balance == old(balance) - amount]
  invariants: [balance >= 0]
flow:
  - step: balance
    operation: compute
    parameters: {value: balance - amount}
    guards: [amount <= balance]
    error_handling: {guard: insufficient}
"""


def _node(text: str) -> NodeProgram:
    return parse_node(text.encode(), "w.vsp").program


@pytest.mark.parametrize(
    ("inputs", "status", "rest"),
    [
        ({"balance": 10, "amount": 3}, "success", {"balance": 7}),
        ({"balance": 1, "amount": 3}, "error", ("insufficient", "balance")),
        ({"balance": 1, "amount": 0}, "broken", ("precondition: amount > 0", "")),
        ({"balance": -1, "amount": 1}, "broken", ("constraint of balance: balance >= 0", "")),
    ],
)
def test_a_node_runs_the_same_on_both_paths(inputs: dict[str, Any], status: str, rest: Any) -> None:
    """Outputs, errors and broken clauses are the same."""
    node = _node(WITHDRAW)
    outcome = DirectPath(node).run(inputs)
    assert outcome == PythonPath(node).run(inputs)
    assert outcome.status == status
    assert rest in (outcome.outputs, (outcome.reason, outcome.step))


def test_a_broken_postcondition_is_no_answer() -> None:
    """A flow that does not keep its contract gives nothing."""
    node = _node(WITHDRAW.replace("{value: balance - amount}", "{value: balance - amount + 1}"))
    for path in (DirectPath(node), PythonPath(node)):
        outcome = path.run({"balance": 10, "amount": 3})
        assert outcome.status is NodeStatus.BROKEN
        assert outcome.reason == "postcondition: balance == old(balance) - amount"
        assert outcome.outputs is None


def test_a_trap_is_named_with_its_step_or_is_the_declared_error() -> None:
    """Nothing wraps around."""
    text = WITHDRAW.replace("balance - amount}", "balance - amount * 9223372036854775807}")
    for handled, wanted in (
        ("", ("trap", "overflow")),
        (", overflow: too_much", ("error", "too_much")),
    ):
        node = _node(text.replace("guard: insufficient", f"guard: insufficient{handled}"))
        for path in (DirectPath(node), PythonPath(node)):
            outcome = path.run({"balance": 10, "amount": 3})
            assert (outcome.status, outcome.reason, outcome.step) == (*wanted, "balance")


def test_an_input_that_does_not_fit_is_refused() -> None:
    """Before anything runs, with its name."""
    node = _node(WITHDRAW)
    for path in (DirectPath(node), PythonPath(node)):
        with pytest.raises(NodeValueError, match="amount: it is missing; give a integer"):
            path.run({"balance": 1})
        with pytest.raises(NodeValueError, match="did you mean amount"):
            path.run({"balance": 1, "amont": 1})


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("node_id: withdraw_v1", "node_id: withdraw", 1, "node_id"),
        ("intent:", "intend:", 3, "did you mean intent"),
        ("type: integer}", "type: integr}", 6, "did you mean integer"),
        ("type: integer}", "type: integer, default: 0.5}", 6, "default"),
        ("type: integer}", "type: integer, required: false}", 6, "has no default"),
        ("amount > 0", "amuont > 0", 13, "did you mean amount"),
        ("amount > 0", "old(amount) > 0", 13, "postconditions only"),
        ("balance: integer", "balance: decimal", 9, "keeps its type"),
        ("balance: integer", "rest: integer", 17, "is a name already"),
        ("operation: compute", "operation: exec", 18, "no operation"),
        ("{value: balance - amount}", "{valeu: balance - amount}", 19, "did you mean value"),
        ("{value: balance - amount}", "{value: balance > amount}", 19, "integer is needed"),
        ("{guard: insufficient}", "{guard: insuficient}", 21, "did you mean insufficient"),
        ("{guard: insufficient}", "{gaurd: insufficient}", 21, "did you mean guard"),
        ("    error_handling: {guard: insufficient}\n", "", 20, "say which error"),
        ("intent: Take", "intent: !!python/object Take", 3, "tags are not read"),
        ("intent: Take", "intent: &a Take", 3, "anchors are not read"),
        ("flow:", "security: {capabilities_required: [exec.shell]}\nflow:", 16, "needs no"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(
    old: str, new: str, line: int, said: str
) -> None:
    """The message names the file, the line and the fix."""
    with pytest.raises(UserError, match=said) as told:
        _node(WITHDRAW.replace(old, new, 1))
    assert str(told.value).startswith(f"w.vsp:{line}: ")


def _hostile() -> dict[str, str]:
    bomb = "a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(9))
    loops = "".join(f"FORALL x{n} IN items: " for n in range(8)) + "true"
    items = "  items: {type: 'array<array<integer>>'}\n"
    wide = WITHDRAW.replace("  amount:", items + "  amount:")
    return {
        "bomb": bomb,
        "deep": "a: " + "[" * 5_000,
        "long": "x" * 1_000_000,
        "huge decimal": WITHDRAW.replace("amount > 0", "amount > 0." + "1" * 3_000),
        "deep loops": wide.replace("amount > 0", f'"{loops}"'),
        "wide loops": wide.replace("amount > 0", '"all(SUM(items[0]) > 0)"'),
        "code": WITHDRAW.replace("amount > 0", "__import__('os').system('id')"),
        "lambda": WITHDRAW.replace("amount > 0", "(lambda: 0)()"),
        "attribute": WITHDRAW.replace("amount > 0", "amount.real > 0"),
        "newline in a name": WITHDRAW.replace("withdraw_v1", '"withdraw_v1\\nimport os"'),
        "nested": WITHDRAW.replace("amount > 0", "(" * 1_900),
        "capability": WITHDRAW + "security: {capabilities_required: [database.write.x]}\n",
        "unknown key": WITHDRAW + "exec: rm\n",
    }


@pytest.mark.parametrize("name", [*_hostile()])
def test_a_hostile_file_is_refused_at_once(name: str) -> None:
    """Size, depth and cost are bounded; nothing of it runs."""
    began = process_time()
    with pytest.raises(UserError, match=r"w\.vsp:"):
        _node(_hostile()[name])
    assert process_time() - began < 0.5 * scale()


@pytest.mark.parametrize(
    "value",
    [
        "(" * 36 + "balance" + " + 1)" * 36,
        "-(" * 19 + "balance" + ")" * 19,
        "MAX(1, " * 37 + "balance" + ")" * 37,
        "IF amount > 1 THEN 2 ELSE " * 36 + "balance - amount",
        " + ".join(["balance"] * 39),
    ],
)
def test_the_deepest_expressions_run_on_both_paths(value: str) -> None:
    """What is accepted can be compiled, too: Python has limits of its own."""
    node = _node(WITHDRAW.replace("{value: balance - amount}", f'{{value: "{value}"}}'))
    inputs = {"balance": 10, "amount": 3}
    assert PythonPath(node).run(inputs) == DirectPath(node).run(inputs)


def test_names_that_python_knows_are_names() -> None:
    """A node may call its inputs `class`, `len` and `sum`."""
    text = WITHDRAW.replace("amount", "class").replace("balance", "len")
    node = _node(text)
    assert PythonPath(node).run({"len": 5, "class": 2}) == DirectPath(node).run(
        {"len": 5, "class": 2}
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_both_paths_of_a_sample_agree(sample: Path) -> None:
    """Over random inputs with many edges, and no output breaks the contract."""
    node = load_node(sample).program
    report = compare_paths(node, PythonPath(node), DirectPath(node), 150, 7)
    assert report.holds, report
    assert report.outcomes.get("success", 0) >= 5


def test_there_are_samples() -> None:
    """Each has an intent and a contract with postconditions."""
    assert len(SAMPLES) >= 20
    for sample in SAMPLES:
        assert load_node(sample).table.contracts.postconditions, sample


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_generated_python_is_a_module_of_its_own(sample: Path) -> None:
    """It says that it is generated, has the intent, and needs nothing of ours."""
    node = load_node(sample).program
    source = generated.python_source(node, sample.name)
    assert source.startswith("# AUTO-GENERATED - DO NOT EDIT\n")
    assert f'"""{node.intent}"""' in source
    assert "vegakit" not in source


@pytest.mark.parametrize(("name", "right", "wrong"), PLANTED)
def test_a_planted_bug_is_found_and_shrunk(name: str, right: str, wrong: str) -> None:
    """Each miscompilation shows within 2,500 inputs."""
    assert find_planted(name, right, wrong, 2_500) is not None


EDGES = """\
node_id: edges_v1
type: test
intent: Use every operator once, where paths could differ.
inputs:
  a: {type: integer}
  b: {type: integer}
  x: {type: decimal<4>}
  w: {type: decimal<10>}
  z: {type: decimal<18>}
  s: {type: "set<integer, 5>"}
  m: {type: "map<integer, decimal<2>, 5>"}
  t: {type: timestamp}
  u: {type: timestamp}
outputs:
  success: {quotient: integer, rest: integer, product: decimal<18>, ratio: decimal<3>,
    least: decimal<10>, total: integer, values: "array<decimal<2>, 5>", seconds: integer,
    narrow: decimal<0>, negative: integer}
flow:
  - {step: quotient, operation: compute, parameters: {value: a / b}}
  - {step: rest, operation: compute, parameters: {value: a % b}}
  - {step: product, operation: compute, parameters: {value: x * w * z}}
  - {step: ratio, operation: compute, parameters: {value: "ROUND(x / w, 3)"}}
  - {step: least, operation: compute, parameters: {value: "MIN(x, ABS(w)) - MAX(a, 0.5)"}}
  - {step: total, operation: compute, parameters: {value: "SUM(s) + LENGTH(s)"}}
  - {step: values, operation: map, parameters: {over: m, as: key, value: "m[key]"}}
  - {step: seconds, operation: compute, parameters: {value: "SECONDS(t, u)"}}
  - {step: narrow, operation: compute, parameters: {value: "ROUND(x + w, 0)"}}
  - {step: negative, operation: compute, parameters: {value: "-a * (IF t < u THEN 1 ELSE b)"}}
"""


@pytest.mark.parametrize("step", [None, *range(10)])
def test_both_paths_agree_at_the_edges_of_arithmetic(step: int | None) -> None:
    """Each operator by itself, since the first that traps hides the others."""
    lines = EDGES.splitlines(keepends=True)
    if step is not None:
        flow = [n for n, line in enumerate(lines) if line.startswith("  - ")]
        name = re.search(r"step: (\w+)", lines[flow[step]])
        assert name
        kept = [line for n, line in enumerate(lines) if n not in flow or n == flow[step]]
        text = "".join(kept)
        kind = re.search(rf"{name[1]}: (\"[^\"]+\"|[\w<>]+)", text)
        assert kind
        outputs = f"  success: {{{name[1]}: {kind[1]}}}\nflow:"
        text = re.sub(r"  success: .*?\nflow:", outputs, text, flags=re.DOTALL)
    else:
        text = EDGES
    node = _node(text)
    report = compare_paths(node, PythonPath(node), DirectPath(node), 300, 11)
    assert report.holds, report


def test_the_schema_is_published() -> None:
    """Editors read it; it is made of the tables that files are read by."""
    assert json.loads(SCHEMA.read_text()) == node_schema()


def test_the_generator_covers_the_tree() -> None:
    """Every part of the typed tree has its Python."""
    assert {*generated._SOURCES} == {*get_args(Expression)}
    assert {*generated._LOOPS} == {*LoopKind}
