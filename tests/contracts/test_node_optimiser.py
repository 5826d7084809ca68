"""The optimiser changes no outcome: same outputs, same error, same trap in the same step."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random

import pytest
from campaigns.node_programs import NodeMaker
from msgspec.structs import replace

from vegakit.contracts import (
    RULES,
    Constant,
    NodeProgram,
    NodeStatus,
    Value,
    interpret,
    optimised,
    optimiser,
)
from vegakit.vesper import DirectPath, compare_paths, load_node, parse_node
from vegakit.vesper.node_inputs import InputGenerator

SAMPLES = sorted((Path(__file__).parents[2] / "examples/nodes").glob("*.vsp"))
CASES = 4
Case = tuple[NodeProgram, list[dict[str, Value]]]


@cache
def _case(seed: int) -> Case:
    random = Random(seed)
    node = NodeMaker(random, items=seed % 3 > 0).node()
    generator = InputGenerator(node, random)
    return node, [generator.draw() for _ in range(CASES)]


def _cases(nodes: int) -> Iterator[Case]:
    yield from map(_case, range(nodes))


def _differing(rules: Mapping[str, optimiser.Rule], nodes: int) -> Case | None:
    """Return the first node and inputs whose outcome some rules change."""
    for node, inputs in _cases(nodes):
        made = optimised(node, rules)
        for values in inputs:
            try:
                same = interpret(made, values) == interpret(node, values)
            except KeyError:  # a name that was moved to where it has no value yet
                same = False
            if not same:
                return node, [values]
    return None


@pytest.mark.parametrize("name", [*RULES, "all"])
def test_a_rule_changes_no_outcome(name: str) -> None:
    """Over random nodes that trap often, in steps that are often moved."""
    rules = RULES if name == "all" else {name: RULES[name]}
    assert _differing(rules, 250) is None


@pytest.mark.parametrize("name", [*RULES])
def test_a_rule_does_something(name: str) -> None:
    """Else the test above would say nothing."""
    changed = sum(RULES[name](node) != node for node, _ in _cases(120))
    assert changed >= 4


def _everything(_: object) -> bool:
    return True


def _forgetting(node: NodeProgram) -> NodeProgram:
    """Take a changed input for one that is not."""
    others = tuple(each for each in node.inputs if each.name not in node.changed)
    return replace(optimiser.share_common(replace(node, inputs=others)), inputs=node.inputs)


def _true_guards(node: NodeProgram) -> NodeProgram:
    """Leave out guards of steps that declare an error for overflow."""
    steps = (replace(s, guards=() if "overflow" in s.errors else s.guards) for s in node.steps)
    return replace(node, steps=(*steps,))


WRONG: dict[str, optimiser.Rule] = {
    "a trap is folded away": lambda node: optimiser.fold_constants(node, _everything),
    "a trap is shared": lambda node: optimiser.share_common(node, _everything),
    "an old value is shared": _forgetting,
    "a map that traps is filtered": lambda node: optimiser.filter_first(node, _everything),
    "a guard passes a trap": lambda node: optimiser.hoist_guards(node, _everything),
    "a step that traps is left out": lambda node: optimiser.drop_unused(node, _everything),
    "guards are left out": _true_guards,
    "the last step is left out": lambda node: replace(node, steps=node.steps[1:] or node.steps),
}


@pytest.mark.parametrize("name", [*WRONG])
def test_a_wrong_rule_is_found(name: str) -> None:
    """Each is found by the same search that the right ones pass."""
    assert _differing({name: WRONG[name]}, 1_500) is not None


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_keeps_its_outcomes(sample: Path) -> None:
    """With its own inputs, which are mostly within its contract; also what it asks of the world."""
    node = load_node(sample).program
    report = compare_paths(node, DirectPath(node, optimise=False), DirectPath(node), 40, 3)
    assert report.holds, report


NODE = """\
node_id: shown_v1
type: test
intent: Show each rule.
types:
  Line: {fields: {count: integer, price: decimal<2>}}
inputs:
  a: {type: integer}
  lines: {type: "array<Line, 9>"}
outputs:
  success: {most: integer, kept: "array<Line, 9>", double: integer}
  error: {error_code: "enum[refused]"}
contracts:
  postconditions: [double == a * (1 + 1), 1 < 2]
flow:
  - {step: unused, operation: compute, parameters: {value: "MIN(a, 5)"}}
  - {step: swapped, operation: map,
     parameters: {over: lines, as: line, value: "{count: MAX(line.count, a), price: line.price}"}}
  - {step: kept, operation: filter,
     parameters: {over: swapped, as: line, where: line.price > 0}}
  - {step: double, operation: compute, parameters: {value: a * 2}}
  - {step: most, operation: compute, guards: [a > 0], error_handling: {guard: refused},
     parameters: {value: "MAX(a + 0, 2 * 3)"}}
"""


def test_the_rules_as_they_are_read() -> None:
    """A clause that holds in any case is gone, a step is read twice, a filter comes first."""
    node = parse_node(NODE.encode(), "shown.vsp").program
    made = optimised(node)
    assert [step.name for step in made.steps] == ["swapped", "kept", "double", "most"]
    assert [str(step.expression.kind) for step in made.steps[:2]] == ["filter", "map"]  # type: ignore[union-attr]
    assert made.after == ()
    [_, six] = made.steps[3].expression.arguments  # type: ignore[union-attr]
    assert six == Constant(six.type, 6)
    # `double` may trap, so the guard stays behind it.
    assert made.steps[3].guards
    assert interpret(made, {"a": 2**62, "lines": ()}).status is NodeStatus.TRAP
    assert interpret(made, {"a": -1, "lines": ()}).reason == "refused"


def test_a_guard_is_checked_before_what_it_does_not_read() -> None:
    """The step before it cannot end the run, so nobody sees that it came second."""
    text = NODE.replace("value: a * 2", 'value: "MAX(a, a)"').replace("a * (1 + 1)", "a")
    made = optimised(parse_node(text.encode(), "shown.vsp").program)
    assert [bool(step.guards) for step in made.steps] == [True, False, False, False, False]
    assert interpret(made, {"a": -1, "lines": ()}).step == "most"


def test_a_node_that_does_more_than_evaluate_stays_as_it_is() -> None:
    """The order of effects is not the optimiser's to change."""
    node = parse_node(NODE.encode(), "shown.vsp").program
    steps = (replace(node.steps[0], operation="http"), *node.steps[1:])
    other = replace(node, steps=steps)
    assert optimised(other) is other
