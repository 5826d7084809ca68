"""Nothing that is asked of verified nodes is missing: each row is ours and tested, or is another
thing for a reason.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.asked import DIFFERENT, Row, found, functions, rows_of
from tests.docs.test_pages import anchors
from tests.vesper.document import PARTS
from vegakit.cli import node as node_cli
from vegakit.contracts import (
    CAPABILITIES,
    EFFECTS,
    HANDLED,
    OPERATIONS,
    NodeStatus,
    PersonAction,
    RolloutMode,
    parse_type,
    python_source,
    tree_capability,
)
from vegakit.contracts.expressions import FUNCTIONS, KEYWORDS, parse_expression
from vegakit.contracts.node_types import TYPE_NAMES
from vegakit.errors import UserError
from vegakit.store import SqliteAudit, read_audit
from vegakit.telemetry import Redactor
from vegakit.vesper import (
    DirectPath,
    NodeHost,
    PythonPath,
    load_node,
    node_schema,
    parse_node,
)

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "reference" / "vesper-spec.md"
PLAYBOOK = ROOT / "docs" / "how-to" / "roll-out-a-node.md"
ROWS = [row for part in PARTS for row in rows_of(part)]


# What there is of each kind.


def _is_key(path: str) -> bool:
    """Whether the schema of a node has a key; `*` is any name."""
    schema = node_schema()
    here: Any = schema
    for part in ["", *path.split(".")]:
        if part:
            named = here.get("properties", {})
            here = named.get(part) if part != "*" else here.get("additionalProperties")
        if not here:
            return False
        here = here.get("items", here)
        while "$ref" in here or "anyOf" in here:
            here = here["anyOf"][0] if "anyOf" in here else _of(schema, here["$ref"])
    return True


def _of(schema: dict[str, Any], reference: str) -> Any:
    return schema["$defs"][reference.rpartition("/")[2]]


def _is_made(made: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether something can be made of a text."""

    def check(text: str) -> bool:
        try:
            made(text)
        except (UserError, KeyError, ValueError):
            return False
        return True

    return check


def actions() -> dict[str, argparse.ArgumentParser]:
    """The commands of `vega node`."""
    parser = node_cli._parser()
    [chosen] = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(chosen.choices)


def _is_said(name: str) -> bool:
    """Whether the code of nodes and rollouts has such a text."""
    folder = ROOT / "src" / "vegakit" / "vesper"
    return any(f'"{name}"' in each.read_text("utf-8") for each in sorted(folder.glob("*.py")))


def _is_heading(place: str) -> bool:
    path, _, anchor = place.partition("#")
    page = ROOT / path
    return page.is_file() and anchor in anchors(page.read_text("utf-8"))


KINDS: dict[str, Callable[[str], bool]] = {
    "key": _is_key,
    "type": _is_made(lambda text: parse_type(text, {})),
    "expression": _is_made(parse_expression),
    "operation": lambda name: name in OPERATIONS or name in EFFECTS,
    "mode": _is_made(RolloutMode),
    "capability": _is_made(tree_capability),
    "metric": _is_said,
    "span": _is_said,
    "node": lambda name: name in actions(),
    "rollout": _is_made(PersonAction),
    "page": _is_heading,
}


def fault(row: Row) -> str:
    """What is wrong with a row, if anything."""
    if row.ours.startswith(DIFFERENT):
        return "" if len(row.ours) > len(DIFFERENT) else "there is no reason"
    kind, _, name = row.ours.partition(" ")
    if not (KINDS[kind](name) if kind in KINDS else found(row.ours)):
        return f"there is no {row.ours}"
    file, _, test = row.test.partition("::")
    is_test = test.startswith("test_") and test in functions(file)
    return "" if is_test else f"there is no {row.test}"


def faults(rows: Iterable[Row]) -> list[str]:
    return [f"{row.name}: {wrong}" for row in rows if (wrong := fault(row))]


def test_every_row_is_ours_and_tested_or_says_why_not() -> None:
    assert faults(ROWS) == []


def test_no_row_is_missing_and_none_is_there_twice() -> None:
    assert {part.title: len(rows_of(part)) for part in PARTS} == {
        part.title: part.total for part in PARTS
    }
    places = [(row.part, row.name) for row in ROWS]
    assert len(places) == len({*places})


GOOD = "vesper/test_nodes.py::test_there_are_samples"


@pytest.mark.parametrize(
    ("ours", "test"),
    [
        ("key metadata.autor", GOOD),
        ("key flow.stepp", GOOD),
        ("type arry<integer>", GOOD),
        ("expression a <", GOOD),
        ("operation exec", GOOD),
        ("mode turbo", GOOD),
        ("capability disk.write", GOOD),
        ("metric sir_miracles", GOOD),
        ("node conquer", GOOD),
        ("page docs/reference/vesper-spec.md#miracles", GOOD),
        ("vesper.Miracle", GOOD),
        ("different, because ", ""),
        ("key node_id", "vesper/test_nodes.py::test_no_such"),
        ("key node_id", "vesper/test_none.py::test_there_are_samples"),
        ("", ""),
    ],
)
def test_a_fault_in_the_table_is_seen(ours: str, test: str) -> None:
    assert fault(Row("", "a", ours, test))


# What single rows say.

NODE = """\
node_id: gross_v1
type: rule
intent: Add the tax to a price.
types:
  Price:
    fields: {net: integer, tax: integer}
    constraints: [tax <= net]
inputs:
  price: {type: Price}
  more: {type: integer, default: 7}
outputs:
  success: {gross: integer}
  error: {error_code: "enum[too_much]"}
contracts:
  preconditions: [more >= 0]
  postconditions: [gross >= more]
flow:
  - step: gross
    operation: compute
    parameters: {value: price.net + price.tax + more}
    error_handling: {overflow: too_much}
"""


@pytest.mark.parametrize("path", [DirectPath, PythonPath])
def test_a_record_keeps_its_constraints(path: Any) -> None:
    """Wherever a value of it comes in."""
    made = path(parse_node(NODE.encode(), "n.vsp").program)
    assert made.run({"price": {"net": 5, "tax": 5}}).status is NodeStatus.SUCCESS
    broken = made.run({"price": {"net": 5, "tax": 6}})
    assert broken.reason == "constraint of Price: tax <= net"


@pytest.mark.parametrize("path", [DirectPath, PythonPath])
def test_an_input_with_a_default_may_be_left_out(path: Any) -> None:
    """Others may not."""
    made = path(parse_node(NODE.encode(), "n.vsp").program)
    price = {"net": 5, "tax": 1}
    assert made.run({"price": price}).outputs == {"gross": 13}
    assert made.run({"price": price, "more": 0}).outputs == {"gross": 6}
    with pytest.raises(UserError, match="price: it is missing"):
        made.run({"more": 1})


@pytest.mark.parametrize("level", ["none", "basic", "detailed"])
def test_the_audit_has_three_levels(level: str, tmp_path: Path) -> None:
    """Nothing, who did what, or also with what and what came of it."""
    node = parse_node(f"{NODE}security: {{audit_level: {level}}}\n".encode(), "n.vsp").program
    inputs = {"price": {"net": 1, "tax": 1}, "more": 7}

    async def work() -> None:
        audit = SqliteAudit(tmp_path / "audit.db", Redactor(content=True).redact_json)
        host = NodeHost(audit=audit, user="eve")
        assert (await host.run(node, inputs)).outputs == {"gross": 9}
        await audit.aclose()

    asyncio.run(work())
    file = tmp_path / "audit.db"
    links = read_audit(file, 9) if file.exists() else []  # it is made with the first entry
    kept = [json.loads(link.text) for link in links]
    assert [(each["actor"], each["user"]) for each in kept] == [("gross_v1", "eve")] * (
        level != "none"
    )
    assert [each.get("inputs") for each in kept if "inputs" in each] == [inputs] * (
        level == "detailed"
    )


def test_a_test_takes_ten_thousand_inputs() -> None:
    """Unless it is told otherwise."""
    for name in ("test", "diff"):
        assert actions()[name].get_default("cases") == 10_000


def test_generated_python_has_all_its_parts() -> None:
    """Types, the intent, the contract before and after, and errors by name."""
    made = python_source(load_node(ROOT / "examples/nodes/transfer.vsp").program, "transfer.vsp")
    for part in (
        "amount: int,",
        ") -> TransferV1Outputs:",
        '    """Move money between two accounts',
        "_check('constraint of amount', 'amount > 0'",
        "_check('invariant', ",
        "_check('postcondition', 'fees >= old(fees)'",
        "raise NodeError('insufficient_funds', 'source')",
    ):
        assert made.count(part) >= 1, part


@pytest.mark.parametrize("name", ["network.http_server", "exec.shell_command", "filesystem.*"])
def test_a_capability_that_nothing_uses_is_only_denied(name: str) -> None:
    """A node that asks for it is given a right for nothing, and is refused."""
    denied = f"{NODE}security: {{denied_capabilities: [{name}]}}\n"
    assert parse_node(denied.encode(), "n.vsp").program.rules.denied == (name,)
    with pytest.raises(UserError, match="none of its steps uses it"):
        parse_node(
            denied.replace("denied_cap", "cap").replace("ties:", "ties_required:").encode(), "n"
        )


def test_the_specification_names_every_key_word_and_operation() -> None:
    """A word of the language that the page lacks is one that nobody else implements."""
    text = SPEC.read_text("utf-8")
    quoted = {word for part in re.findall(r"`([^`\n]+)`|\"([^\"\n]+)\"", text) for word in part}
    words = {each for one in quoted for each in re.findall(r"[A-Za-z_.]+", one)}
    keys = {key for table in node_schema()["$defs"].values() for key in table["properties"]}
    asked = {*keys, *KEYWORDS, *FUNCTIONS, *OPERATIONS, *EFFECTS, *HANDLED, *CAPABILITIES}
    asked |= {*TYPE_NAMES, *NodeStatus, *RolloutMode}
    taken = {
        key for row in (*OPERATIONS.values(), *EFFECTS.values()) for key in row.needs + row.takes
    }
    assert {*map(str, asked | taken)} - words == set()


def test_alerts_and_queries_name_metrics_that_there_are() -> None:
    """Also in the rules for Prometheus."""
    text = PLAYBOOK.read_text("utf-8")
    named = {name.removesuffix("_bucket") for name in re.findall(r"\bsir_[a-z_]+", text)}
    assert len(named) == 6
    assert {name for name in named if not _is_said(name)} == set()
