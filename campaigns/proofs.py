"""Proofs of nodes at full size: the samples, random inputs, CrossHair, planted faults, encodings.

    python -m campaigns.proofs           500 random inputs for each node that is proved
    python -m campaigns.proofs full      100,000

What is proved has to survive random inputs and a second solver, which executes the generated Python
and shares no term with ours. Faults planted in contracts and flows have to be shown by inputs that
the interpreter breaks on. Random steps over known inputs have to have the same values in terms as
they have in the evaluator, and faults planted in the terms have to show there. It prints its
figures last and exits with 1 if one falls short.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from types import ModuleType
from typing import Any

from vegakit.contracts import (
    ArithmeticTrap,
    ArrayType,
    BooleanType,
    BytesType,
    DecimalType,
    EnumType,
    MapType,
    NamedValue,
    NameScope,
    NodeInput,
    NodeProgram,
    NodeStatus,
    NodeStep,
    NodeType,
    RecordType,
    SetType,
    TextType,
    TimestampType,
    Value,
    WrittenLine,
    evaluate,
    first_broken,
    interpret,
    parse_type,
    python_name,
    python_source,
    step_expression,
    walk,
)
from vegakit.errors import UserError
from vegakit.vesper import (
    DirectPath,
    NodeProof,
    ProofVerdict,
    PythonPath,
    compare_paths,
    load_node,
    parse_node,
    prove_node,
)
from vegakit.vesper.node_inputs import InputGenerator
from vegakit.vesper.proof_effects import GivenWorld

SAMPLES = Path(__file__).parents[1] / "examples" / "nodes"
_ROOM = "vegakit.vesper"
SIZES = {"": 500, "full": 100_000}
PROVED = [
    "allocate_stock",
    "best_discount",
    "convert_currency",
    "late_fee",
    "loan_eligibility",
    "loyalty_points",
    "price_order",
    "prorate",
    "reconcile",
    "refund",
    "sales_tax",
    "shipping_cost",
    "split_bill",
    "transfer",
]
"""The samples that are proved outright."""
STATE_PROVED = ["account_transfer", "pay_order", "refund_once", "reserve_stock"]
"""Those of them with state, whatever the records are."""
LEAST_PROVED = 12

PLANTED = [
    ("transfer", "target == old(target) + amount", "target == old(target) + amount + 1"),
    ("transfer", "old(source + target) - (fees - old(fees))", "old(source + target)"),
    ("transfer", "fee_points <= 500]", "fee_points <= 5000000000]"),
    ("split_bill", "one_cent_more < people", "one_cent_more < people - 1"),
    ("prorate", "(days - used) / days, 2)", "(days - used + 1) / days, 2)"),
    ("prorate", "[days >= 1,", "[days >= 0,"),
    ("late_fee", "fee <= ROUND(amount * 0.25, 2)", "fee <= ROUND(amount * 0.249, 2)"),
    ("shipping_cost", "cents >= 390", "cents > 390"),
    ("shipping_cost", "[grams >= 1]", "[grams >= -5000]"),
    ("refund", "refunded == old(refunded) + amount", "refunded == refunded + amount"),
    ("sales_tax", "tax <= net", "tax < net"),
    ("loyalty_points", "old(points) - used + paid_cents / 100", "old(points) - used + paid_cents"),
    ("loyalty_points", "points <= 1000000000", "points <= 9223372036854775807"),
    ("convert_currency", "fee >= 0.50", "fee * 100 >= converted"),
    ("best_discount", "final_price >= floor AND", "final_price > floor AND"),
    ("loan_eligibility", "at_most <= income * 60", "at_most <= income * 20"),
]
"""A sample, a part of its file, and what is planted in its place: off by one, wrong old, overflow,
division by zero, wrong sign, wrong rounding."""
STATE_PLANTED = [
    ("account_transfer", "target.balance + amount <= 1000000000000", "amount > 0"),
    ("account_transfer", "[amount <= source.balance]", "[amount <= source.balance + 1]"),
    ("account_transfer", "{balance: source_balance}", "{balance: source.balance}"),
    ("account_transfer", "source_balance + target_balance ==", "source_balance =="),
    ("pay_order", "status == 'paid'\n", "status == 'shipped'\n"),
    ("pay_order", ", wrong_state: not_pending}", "}"),
    ("pay_order", "{missing: no_wallet}", "{}"),
    ("pay_order", "spent: spent}", "spent: balance}"),
    ("reserve_stock", "[reserved <= article.on_hand]", "[reserved <= article.on_hand + 1]"),
    ("reserve_stock", "{exists: already_reserved}", "{}"),
    ("reserve_stock", "each.pieces == pieces", "each.pieces < pieces"),
    ("refund_once", "{refunded: rule.refunded}", "{refunded: rule.amount}"),
    ("refund_once", ", failed: not_refundable}", "}"),
    ("refund_once", "{missing: unknown_purchase, ", "{"),
]
"""The same in samples with state: a record too full or below zero, money
lost, a state, a record that is missing or there already, a call that fails."""


def planted_node(name: str, right: str, wrong: str) -> NodeProgram:
    """Return a sample with a fault in it."""
    text = (SAMPLES / f"{name}.vsp").read_text("utf-8")
    if right not in text:
        raise ValueError(f"{right!r} does not stand in {name}.vsp; plant another fault")
    changed = text.replace(right, wrong, 1).encode()
    return parse_node(changed, f"{name}.vsp", _called_sample).program


def _called_sample(node_id: str) -> NodeProgram:
    return load_node(SAMPLES / f"{node_id.removesuffix('_v1')}.vsp").program


def is_refuted(node: NodeProgram) -> bool:
    """Return whether a proof fails with inputs on which the interpreter breaks the contract."""
    proof = prove_node(node)
    ends = [
        (each.world or GivenWorld()).run(node, node.read_inputs(each.counterexample)).status
        for each in proof.clauses
        if each.counterexample is not None
    ]
    return bool(ends) and {*ends} <= {NodeStatus.BROKEN, NodeStatus.TRAP}


def survives(node: NodeProgram, cases: int) -> bool:
    """Return whether a node keeps its contract over so many random inputs that it allows; with
    effects, also by both paths and in worlds that are drawn with them."""
    if node.has_effects:
        report = compare_paths(node, PythonPath(node), DirectPath(node), cases, cases)
        return report.holds and not report.outcomes.get(NodeStatus.TRAP)
    generator = InputGenerator(node, Random(cases))
    for _ in range(cases):
        values = generator.draw()
        status = interpret(node, values).status
        if status is NodeStatus.TRAP or (
            status is NodeStatus.BROKEN and first_broken(node.before, values) is None
        ):
            return False
    return True


# Terms beside the evaluator.

_TYPES = {
    "a": "integer",
    "b": "integer",
    "x": "decimal<2>",
    "y": "decimal<4>",
    "p": "boolean",
    "w": "string<3>",
    "t": "timestamp",
    "u": "timestamp",
    "ns": "array<integer, 3>",
    "rs": "array<Row, 3>",
    "s": "set<integer, 3>",
    "m": "map<integer, decimal<2>, 3>",
}
_ROW = RecordType(
    tuple((name, parse_type(text, {})) for name, text in (("k", "integer"), ("v", "decimal<2>"))),
    "Row",
)
_WORDS = ("", "a", "ab", "b")


class _Writer:
    """Writes random expressions, and steps of all operations."""

    def __init__(self, random: Random) -> None:
        self.random, self._loops = random, 0
        self._whole, self._parts = ["a", "b"], ["x", "y"]

    def whole(self, depth: int) -> str:
        choice = self.random.choice
        if depth <= 0 or self.random.random() < 0.2:
            known = [*self._whole, str(choice([0, 1, 2, 7, -3, 9223372036854775807]))]
            return choice([*known, "LENGTH(ns)", "LENGTH(w)", "SECONDS(t, u)"])
        left, right = self.whole(depth - 1), self.whole(depth - 1)
        return choice(
            [
                f"({left} {choice('+-*/%')} {right})",
                f"({left} {choice('/%')} {right})",
                f"{choice(['MIN', 'MAX'])}({left}, {right})",
                f"ABS({left})",
                f"-({left})",
                f"(IF {self.test(depth - 1)} THEN {left} ELSE {right})",
                f"ns[{left}]",
                self._looped("SUM", "ns", depth, of_whole=True),
            ]
        )

    def part(self, depth: int) -> str:
        choice = self.random.choice
        if depth <= 0 or self.random.random() < 0.2:
            return choice([*self._parts, "0.5", "1.25", "-0.015"])
        left, right = self.part(depth - 1), self.part(depth - 1)
        return choice(
            [
                f"({left} {choice('+-*')} {right})",
                f"ROUND({left} {choice('*/')} {right}, {choice([0, 1, 2])})",
                f"ROUND({left}, {choice([0, 1, 2])})",
                f"ROUND({choice(self._parts)}, {choice([0, 1])})",
                f"({left} * {self.whole(depth - 1)})",
                f"(IF {self.test(depth - 1)} THEN {left} ELSE {right})",
                f"m[{self.whole(depth - 1)}]",
                f"rs[{self.whole(depth - 1)}].v",
            ]
        )

    def test(self, depth: int) -> str:
        choice = self.random.choice
        sign = choice(["==", "!=", "<", "<=", ">", ">="])
        if depth <= 0 or self.random.random() < 0.2:
            return choice(["p", f"w {sign} 'a'", f"t {sign} u", f"a {sign} b", f"x {sign} y"])
        left, right = self.test(depth - 1), self.test(depth - 1)
        return choice(
            [
                f"({left} {choice(['AND', 'OR'])} {right})",
                f"(NOT {left})",
                f"({self.whole(depth - 1)} {sign} {self.part(depth - 1)})",
                f"({self.whole(depth - 1)} IN {choice(['s', 'm', 'ns'])})",
                "(ns == [a, b])",
                self._looped(choice(["FORALL", "EXISTS"]), choice(["ns", "s", "m"]), depth),
            ]
        )

    def _looped(self, kind: str, over: str, depth: int, *, of_whole: bool = False) -> str:
        self._loops += 1
        name = f"i{self._loops}"
        self._whole.append(name)
        body = self.whole(depth - 1) if of_whole else self.test(depth - 1)
        self._whole.remove(name)
        return (
            f"SUM({name} IN {over}: {body})" if of_whole else f"({kind} {name} IN {over}: {body})"
        )

    def step(self) -> tuple[str, dict[str, str]]:
        """Return an operation and its parameters."""
        choice = self.random.choice
        over = choice(["ns", "s", "m", "rs"])
        names = ["each.k"] if over == "rs" else ["each"]
        wholes, parts = self._whole, self._parts
        self._whole = [*wholes, *names]
        self._parts = [*parts, "each.v"] if over == "rs" else parts
        one, test = self.whole(2), self.test(2)
        self._whole, self._parts = wholes, parts
        loop = {"over": over, "as": "each"}
        return choice(
            [
                ("compute", {"value": self.whole(3)}),
                ("compute", {"value": self.part(3)}),
                ("compute", {"value": self.test(3)}),
                ("map", {**loop, "value": one}),
                ("filter", {**loop, "where": test}),
                ("sort", {**loop, "by": one, "descending": choice(["true", "false"])}),
                ("sort", {"over": "rs", "as": "each", "by": "each.v"}),
                ("group", {**loop, "by": one}),
                ("group", {"over": "rs", "as": "each", "by": "each.k"}),
                ("sum", {**loop, "value": one}),
                ("reduce", {**loop, "total": "so", "start": "1", "value": f"MAX(so, {one})"}),
                ("reduce", {**loop, "total": "so", "start": "0", "value": f"so - {one}"}),
            ]
        )


_EDGES: list[list[tuple[str, dict[str, str]]]] = [
    *(
        [("compute", {"value": text})]
        for text in (
            "ROUND(x, 0)",
            "ROUND(x, 1) - ROUND(x, 0)",
            "ROUND(x * y, 1)",
            "ROUND(x / y, 1)",
            "x * y - y * a",
            "a / b",
            "a % b",
            "a * b",
            "-a - b",
            "ns[LENGTH(ns)]",
            "p AND a / b > 1",
            "p OR a / b > 1",
            "EXISTS i IN ns: i >= 0 OR 6 / (i - i) > 1",
            "FORALL i IN s: i > 1 AND 6 / i > 1",
        )
    ),
    [("sort", {"over": "rs", "as": "each", "by": "each.k"})],
    [
        ("filter", {"over": "ns", "as": "each", "where": "NOT each > 1"}),
        ("compute", {"value": "LENGTH(step0)"}),
    ],
]
"""Steps that each show one rule, where rules are easily wrong."""


def random_node(random: Random, *, is_edge: bool = False) -> tuple[NodeProgram, dict[str, Value]]:
    """Return random steps, one behind the other, or those of an edge; and inputs for them."""
    kinds = {name: parse_type(text, {"Row": _ROW}) for name, text in _TYPES.items()}
    writer, steps, scope = _Writer(random), list[NodeStep](), NameScope(kinds)
    written = [*random.choice(_EDGES)] if is_edge else []
    while written or (not is_edge and len(steps) < 2):
        operation, parameters = written.pop(0) if is_edge else writer.step()
        if not is_edge and steps and "over" in parameters and random.random() < 0.7:
            parameters = {**parameters, "over": "step0"}
        lines = {key: WrittenLine(text, 1) for key, text in parameters.items()}
        try:
            made = step_expression(WrittenLine(operation, 1), lines, scope, None)
        except UserError:
            continue  # it does not fit the types, or takes too long
        assert made is not None
        name = f"step{len(steps)}"
        scope = scope.having(name, made.type)
        steps.append(NodeStep(name, operation, 1, made))
    parts = [part for step in steps if step.expression for part in walk(step.expression)]
    used = {part.name for part in parts if isinstance(part, NamedValue)}
    inputs = tuple(NodeInput(name, kind) for name, kind in kinds.items() if name in used)
    node = NodeProgram("random_v1", "test", "Random.", inputs, (), (), (), (*steps,), ())
    return node, {each.name: _random_value(each.type, random) for each in inputs}


def _random_value(kind: NodeType, random: Random) -> Value:
    match kind:
        case ArrayType(item=item, max_items=most):
            return tuple(_random_value(item, random) for _ in range(random.randint(0, most)))
        case SetType(item=item, max_items=most):
            return frozenset(_random_value(item, random) for _ in range(random.randint(0, most)))
        case MapType(key=key, value=value):
            keys = [_random_value(key, random) for _ in range(random.randint(0, 3))]
            return {each: _random_value(value, random) for each in keys}
        case RecordType(fields=fields):
            return {name: _random_value(part, random) for name, part in fields}
        case TimestampType():
            return random.randint(-3_000_000, 3_000_000)
        case DecimalType():
            # Often where rounding has a tie.
            tie = random.choice([5, 50]) * (2 * random.randint(-9, 9) + 1)
            return random.choice([tie, tie, tie, random.randint(-(10**6), 10**6)])
        case TextType():
            return random.choice(_WORDS)
        case BooleanType():
            return random.random() < 0.5
        case _:
            small = random.randint(-4, 4)
            return random.choice([small, small, small, random.randint(-(10**4), 10**4), 2**63 - 1])


class _Encoding:
    """The modules that make terms, as they are or with a fault planted in one of them."""

    def __init__(self, fault: tuple[str, str, str] | None = None) -> None:
        names = ("proof_terms", "proof_values", "proof_expressions")
        if fault is None:
            modules = [importlib.import_module(f"{_ROOM}.{name}") for name in names]
        else:
            modules = [_planted_module(name, fault) for name in names]
        self.terms, self.values, self.expressions = modules


def _planted_module(name: str, fault: tuple[str, str, str]) -> ModuleType:
    spec = importlib.util.find_spec(f"{_ROOM}.{name}")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    if name == fault[0]:
        if fault[1] not in source:
            raise ValueError(f"{fault[1]!r} does not stand in {name}.py; plant another fault")
        source = source.replace(fault[1], fault[2], 1)
    module = ModuleType(f"planted_{name}")
    sys.modules[module.__name__] = module  # the modules behind it import it under this name
    source = source.replace(f"from {_ROOM}.proof_", "from planted_proof_")
    exec(compile(source, module.__name__, "exec"), module.__dict__)
    return module


def find_contradiction(
    node: NodeProgram, values: dict[str, Value], fault: tuple[str, str, str] | None = None
) -> str:
    """Return where terms and evaluator differ over known inputs, or nothing. The inputs are
    variables that are said to have these values, so that nothing is computed in advance."""
    made = _Encoding(fault)
    terms: Any = made.terms.Terms()
    texts = made.terms.Texts(terms, _WORDS)
    texts.measure()
    to: Any = made.expressions.Translator(terms, texts)
    inputs = made.values.InputTerms(node, to, {}, 50)
    names = {each.name: inputs.made(each.type, each.name) for each in node.inputs}
    given = [
        to.equal(each.type, names[each.name], to.constant(each.type, values[each.name]))
        for each in node.inputs
    ]
    known = {**values}
    for step in node.steps:
        assert step.expression is not None
        found = to.value(step.expression, names)
        try:
            known[step.name] = wanted = evaluate(step.expression, known)
            met = [condition for _, condition in to.traps]
            equal = to.equal(step.expression.type, found, to.constant(step.expression.type, wanted))
            wrong, ends = terms.any_of([terms.no(equal), *met]), False
        except ArithmeticTrap as trap:
            wrong, ends = terms.no(_first_is(terms, to.traps, trap.kind)), True
        to.traps.clear()
        if not _is_satisfiable(terms, given):
            return f"{step.operation} {step.name}: what is told of it is contradictory"
        if _is_satisfiable(terms, [*given, wrong]):
            return f"{step.operation} {step.name}: another value, or another trap"
        if ends:
            break
        names[step.name] = found
    return ""


def _first_is(terms: Any, traps: list[tuple[str, Any]], wanted: str) -> Any:
    earlier, met = list[Any](), list[Any]()
    for kind, condition in traps:
        if kind == wanted:
            met.append(terms.all_of([*earlier, condition]))
        earlier.append(terms.no(condition))
    return terms.any_of(met)


def _is_satisfiable(terms: Any, asked: list[Any]) -> bool:
    solver = terms.z3.Solver(ctx=terms.context)
    # All that is known, also of variables that nothing asks for: none of it may be contradictory.
    solver.add(*terms.with_known(asked, exact=True))
    for known in (*terms.facts.values(), *terms.definitions.values()):
        solver.add(*known)
    found = solver.check()
    assert found != terms.z3.unknown, solver.reason_unknown()
    return found == terms.z3.sat


ENCODING_FAULTS = [
    ("proof_terms", "tie, made.term == 2 * half.term)", "tie, made.term == 2 * half.term + 1)"),
    ("proof_terms", "            self.implied(left.term <= 0, rest.term <= 0),\n", ""),
    ("proof_terms", "(-size <= gap, gap <= size)", "(-size < gap, gap <= size)"),
    ("proof_terms", "else -1) for a, b in pairs", "else 1) for a, b in pairs"),
    ("proof_terms", "left.low * b + right.low * a -", "left.low * b + right.low * a +"),
    ("proof_terms", "made.term == left.term * right.term", "made.term >= left.term * right.term"),
    ("proof_values", "- self._one_if(", "+ self._one_if("),
    ("proof_expressions", "items.stands_before(one, other))", "items.stands_before(other, one))"),
    ("proof_expressions", 'left if part.operator == "AND"', 'left if part.operator == "OR"'),
    ("proof_expressions", 'terms.compared("<", key, count)', 'terms.compared("<=", key, count)'),
    ("proof_expressions", "guard = terms.all_of((guard, goes_on))", "pass"),
    ("proof_expressions", "self.terms.no(within), guard", "False, guard"),
]
"""A module of the terms, a part of it, and what is planted in its place; the last two show late."""


def finds_fault(fault: tuple[str, str, str], cases: int = 400) -> bool:
    """Return whether steps at an edge show a fault in the terms."""
    return any(
        find_contradiction(*random_node(Random(seed), is_edge=True), fault) for seed in range(cases)
    )


# CrossHair on the generated Python.

_CROSSHAIR_HEAD = """
from datetime import UTC as _utc, datetime as _datetime, timedelta as _timedelta
from decimal import Decimal as _decimal


def _instant(n):
    return _datetime(1970, 1, 1, tzinfo=_utc) + _timedelta(microseconds=n)


"""
_MOST_PATHS = 40


def crosshair_source(node: NodeProgram) -> str:
    """Return the generated Python with a function that CrossHair searches: it takes plain values,
    numbers in units of their last place, and says whether the contract is kept. What has to hold
    before is told apart from what has to hold after by its number: both may have the same text."""
    names = [python_name(each.name) for each in node.inputs]
    kinds = [each.type for each in node.inputs]
    plain = ", ".join(
        f"{name}: {_plain_type(kind)}" for name, kind in zip(names, kinds, strict=True)
    )
    given = ", ".join(
        f"{name}={_converted(kind, name)}" for name, kind in zip(names, kinds, strict=True)
    )
    fits = " and ".join(f"({_fits(kind, name)})" for name, kind in zip(names, kinds, strict=True))
    source, made = python_source(node, node.node_id), 0
    lines = list[str]()
    for line in source.splitlines():
        is_check = line.startswith("    _check(")
        made += is_check
        is_before = is_check and made <= len(node.before)
        lines.append(line.replace("_check('", "_check('before ", 1) if is_before else line)
    return "\n".join(lines) + (
        f"\n{_CROSSHAIR_HEAD}def keeps_contract({plain}) -> bool:\n"
        '    """\n    post: __return__\n    """\n'
        f"    if not ({fits}):\n        return True\n"
        f"    try:\n        {node.node_id}({given})\n"
        "    except NodeError:\n        return True\n"
        "    except NodeStopped:\n        return False\n"
        "    except ContractBroken as error:\n"
        "        return error.args[0].startswith('before ')\n"
        "    return True\n"
    )


def _plain_type(kind: NodeType) -> str:
    match kind:
        case ArrayType(item=item) | SetType(item=item):
            return f"list[{_plain_type(item)}]"
        case MapType(key=key, value=value):
            return f"dict[{_plain_type(key)}, {_plain_type(value)}]"
        case RecordType(fields=fields):
            return f"tuple[{', '.join(_plain_type(part) for _, part in fields)}]"
        case _:
            plain: dict[type, str] = {BooleanType: "bool", TextType: "str", BytesType: "bytes"}
            return plain.get(type(kind), "int")


def _fits(kind: NodeType, name: str) -> str:
    """Return the code that says whether a plain value is one of a type."""
    match kind:
        case DecimalType():
            return f"abs({name}) < 10**38"
        case TimestampType():
            return f"-62_135_596_800_000_000 <= {name} <= 253_402_300_799_999_999"
        case ArrayType(item=item, max_items=most) | SetType(item=item, max_items=most):
            inner = f"all({_fits(item, 'each')} for each in {name})"
            different = f" and len({{*{name}}}) == len({name})" if isinstance(kind, SetType) else ""
            return f"len({name}) <= {most} and {inner}{different}"
        case MapType(key=key, value=value, max_items=most):
            inner = f"{_fits(key, 'key')} and {_fits(value, 'value')}"
            return f"len({name}) <= {most} and all({inner} for key, value in {name}.items())"
        case RecordType(fields=fields):
            return " and ".join(_fits(part, f"{name}[{n}]") for n, (_, part) in enumerate(fields))
        case TextType(max_length=most) | BytesType(max_length=most):
            return f"len({name}) <= {most}"
        case BooleanType():
            return "True"
        case _:
            return f"-(2**63) <= {name} < 2**63"


def _converted(kind: NodeType, name: str) -> str:
    match kind:
        case DecimalType(scale=scale):
            return f"_decimal({name}).scaleb(-{scale})"
        case TimestampType():
            return f"_instant({name})"
        case EnumType(choices=choices):
            return f"{choices!r}[{name} % {len(choices)}]"
        case ArrayType(item=item):
            return f"[{_converted(item, 'each')} for each in {name}]"
        case SetType(item=item):
            return f"frozenset({_converted(item, 'each')} for each in {name})"
        case MapType(key=key, value=value):
            pairs = f"{_converted(key, 'key')}: {_converted(value, 'value')}"
            return f"{{{pairs} for key, value in {name}.items()}}"
        case RecordType(fields=fields):
            parts = enumerate(fields)
            pairs = (f"{field!r}: {_converted(part, f'{name}[{n}]')}" for n, (field, part) in parts)
            return f"{{{', '.join(pairs)}}}"
        case _:
            return name


def crosshair_finding(node: NodeProgram, paths: int = _MOST_PATHS) -> str:
    """Return what CrossHair says against a node after so many paths, or nothing."""
    # By name: its package is only partly typed.
    crosshair: Any = importlib.import_module("crosshair.core_and_libs")
    settings: Any = importlib.import_module("crosshair.options")
    # The number of paths decides. A path that the solver cannot end in a minute is left out: that
    # may hide a finding, and never makes one.
    options = settings.AnalysisOptionSet(
        max_iterations=paths, per_condition_timeout=3_600.0, per_path_timeout=60.0
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"searched_{node.node_id}.py"
        file.write_text(crosshair_source(node), "utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        found = crosshair.run_checkables(crosshair.analyze_function(module.keeps_contract, options))
        del sys.modules[file.stem]
    bad = [crosshair.MessageType[each] for each in ("POST_FAIL", "EXEC_ERR", "POST_ERR")]
    return next((each.message for each in found if each.state in bad), "")


CROSSHAIR_PLANTED = [
    PLANTED[0],
    PLANTED[1],
    PLANTED[3],
    ("shipping_cost", "cents >= 390", "cents > 390"),
    ("shipping_cost", "[grams >= 1]", "[grams >= -5000]"),
]
"""Faults that CrossHair has to see on its own."""


def main(arguments: list[str]) -> int:
    """Run the campaign, and return its status."""
    cases = SIZES[arguments[0] if arguments else ""]
    began, proofs = process_time(), list[NodeProof]()
    short = list[str]()
    for path in sorted(SAMPLES.glob("*.vsp")):
        node = load_node(path).program
        since = process_time()
        proof = prove_node(node)
        proofs.append(proof)
        print(f"{node.node_id}: {proof.verdict}, {process_time() - since:.1f} s", flush=True)
        for each in proof.clauses:
            if each.verdict is ProofVerdict.NOT_PROVED:
                print(f"  {each.what}: {each.reason or each.counterexample}")
        if proof.verdict is ProofVerdict.PROVED:
            if not survives(node, cases):
                short.append(f"{node.node_id} is proved, and a random input breaks it")
            # It executes functions, and a node with effects is a generator.
            if not node.has_effects and (said := crosshair_finding(node)):
                short.append(f"{node.node_id} is proved, and CrossHair says: {said}")
        elif path.stem in (*PROVED, *STATE_PROVED):
            short.append(f"{node.node_id} was proved before")
    proved = [proof for proof in proofs if proof.verdict is ProofVerdict.PROVED]
    planted = [*PLANTED, *STATE_PLANTED]
    missed = [each for each in planted if not is_refuted(planted_node(*each))]
    unseen = [each for each in CROSSHAIR_PLANTED if not crosshair_finding(planted_node(*each))]
    differing = [seed for seed in range(cases // 5) if _differs(seed)]
    faults = [each for each in ENCODING_FAULTS if not finds_fault(each)]
    for told in (*short, *missed, *unseen, *differing, *faults):
        print(f"falls short: {told}")
    print(f"{len(proved)} of {len(proofs)} samples PROVED ({LEAST_PROVED}), {cases:,} inputs each")
    print(f"{len(planted) - len(missed)} of {len(planted)} planted faults refuted, replayed")
    print(f"{len(CROSSHAIR_PLANTED) - len(unseen)} of {len(CROSSHAIR_PLANTED)} seen by CrossHair")
    print(f"{len(differing)} of {cases // 5:,} random nodes differ from the evaluator (0)")
    print(f"{len(ENCODING_FAULTS) - len(faults)} of {len(ENCODING_FAULTS)} wrong encodings found")
    print(f"{process_time() - began:.0f} s CPU")
    all_of = not (short or missed or unseen or differing or faults)
    return 0 if all_of and len(proved) >= LEAST_PROVED else 1


def _differs(seed: int) -> bool:
    return bool(find_contradiction(*random_node(Random(seed))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
