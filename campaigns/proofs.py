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
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult
from pathlib import Path
from random import Random
from time import process_time
from types import ModuleType
from typing import Any, NamedTuple

from campaigns.proofs_crosshair import crosshair_finding
from vegakit.contracts import (
    ArithmeticTrap,
    ArrayType,
    BooleanType,
    DecimalType,
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
    step_expression,
    walk,
)
from vegakit.errors import UserError
from vegakit.vesper import (
    DirectPath,
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
RANDOM_NODES = {"": 100, "full": 5_000}
_AT_ONCE = 25
_SEARCHED_PATHS = 20
"""Of samples: later paths of nodes with instants and decimals take minutes each."""
PROVED = [
    "allocate_stock",
    "best_discount",
    "commission",
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
LEAST_PROVED = 19

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
    [
        ("group", {"over": "rs", "as": "each", "by": "each.k"}),
        ("map", {"over": "step0", "as": "key", "value": "SUM(row IN step0[key]: row.v)"}),
        ("compute", {"value": "FORALL row IN rs: EXISTS key IN step0: key == row.k"}),
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
    solver.add(*terms.with_known(asked, 2))
    for known in (*terms.facts.values(), *terms.lemmas.values(), *terms.definitions.values()):
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
    ("proof_expressions", "fact = terms.implied(slot.present, terms.any_of(met))", "fact = False"),
    ("proof_expressions", "self._sum(self._items.slots, values))", "0)"),
    ("proof_expressions", "guard = terms.all_of((guard, goes_on))", "pass"),
    ("proof_expressions", "self.terms.no(within), guard", "False, guard"),
]
"""A module of the terms, a part of it, and what is planted in its place; the last two show late."""


def finds_fault(fault: tuple[str, str, str], cases: int = 400) -> bool:
    """Return whether steps at an edge show a fault in the terms."""
    return any(
        find_contradiction(*random_node(Random(seed), is_edge=True), fault) for seed in range(cases)
    )


CROSSHAIR_PLANTED = [
    PLANTED[0],
    PLANTED[1],
    PLANTED[3],
    ("shipping_cost", "cents >= 390", "cents > 390"),
    ("shipping_cost", "[grams >= 1]", "[grams >= -5000]"),
]
"""Faults that CrossHair has to see on its own."""
CROSSHAIR_SAMPLES = sorted({*PROVED, "rate_card"} - {"prorate"})
"""The samples that it searches. Not `prorate`, which divides a decimal by a decimal: with both
symbolic one path takes minutes. Not those with state: their Python is generators that ask for
records, and it executes functions of plain values."""


class _Finding(NamedTuple):
    """What one part of the campaign has found: a line to print, and what falls short."""

    told: str
    short: list[str]


def _sample(name: str, cases: int) -> _Finding:
    """Prove a sample. What is proved has to survive random inputs."""
    node = load_node(SAMPLES / f"{name}.vsp").program
    since = process_time()
    proof = prove_node(node)
    took, short = process_time() - since, list[str]()
    if proof.verdict is ProofVerdict.PROVED:
        if not survives(node, cases):
            short.append(f"{name} is proved, and a random input breaks it")
    elif name in (*PROVED, *STATE_PROVED):
        short.append(f"{name} was proved before: {proof.clauses}")
    verdict = f"{proof.verdict} {proof.most} items" if proof.most else str(proof.verdict)
    return _Finding(f"{name}: {verdict}, {took:.1f} s", short)


def _searched(name: str) -> _Finding:
    said = crosshair_finding(load_node(SAMPLES / f"{name}.vsp").program, _SEARCHED_PATHS)
    short = [f"CrossHair says of {name}, which is proved: {said}"] if said else []
    return _Finding(f"{name}: searched by CrossHair", short)


def _refuted(fault: tuple[str, str, str]) -> _Finding:
    is_found = is_refuted(planted_node(*fault))
    return _Finding("refuted", [] if is_found else [f"not refuted: {fault}"])


def _seen(fault: tuple[str, str, str]) -> _Finding:
    is_found = bool(crosshair_finding(planted_node(*fault)))
    return _Finding("seen by CrossHair", [] if is_found else [f"not seen by CrossHair: {fault}"])


def _equal(seeds: range) -> _Finding:
    differing = [seed for seed in seeds if find_contradiction(*random_node(Random(seed)))]
    return _Finding("equal", [f"random node {seed} differs" for seed in differing])


def _shown(fault: tuple[str, str, str]) -> _Finding:
    return _Finding("shown", [] if finds_fault(fault) else [f"no steps show {fault}"])


def main(arguments: list[str]) -> int:
    """Run the campaign on two processes, and return its status."""
    size = arguments[0] if arguments else ""
    cases, seeds = SIZES[size], RANDOM_NODES[size]
    samples = sorted(path.stem for path in SAMPLES.glob("*.vsp"))
    chunks = [range(at, at + _AT_ONCE) for at in range(0, seeds, _AT_ONCE)]
    parts: list[tuple[Callable[..., _Finding], list[tuple[Any, ...]]]] = [
        (_sample, [(name, cases) for name in samples]),
        (_searched, [(name,) for name in CROSSHAIR_SAMPLES]),
        (_refuted, [(fault,) for fault in (*PLANTED, *STATE_PLANTED)]),
        (_seen, [(fault,) for fault in CROSSHAIR_PLANTED]),
        (_equal, [(chunk,) for chunk in chunks]),
        (_shown, [(fault,) for fault in ENCODING_FAULTS]),
    ]
    # A new process for each: what CrossHair patches, and what a solver keeps, stays in it.
    with get_context("spawn").Pool(2, maxtasksperchild=4) as pool:
        running = [[pool.apply_async(part, given) for given in each] for part, each in parts]
        found = [[*_told(each)] for each in running]
    for short in (short for each in found for finding in each for short in finding.short):
        print(f"falls short: {short}")
    done = [sum(not finding.short for finding in each) for each in found]
    proved = sum(": PROVED, " in finding.told for finding in found[0])
    print(f"{proved} of {len(samples)} samples PROVED ({LEAST_PROVED}), {cases:,} inputs each")
    print(f"{done[1]} of {len(found[1])} samples that CrossHair says nothing against")
    print(f"{done[2]} of {len(found[2])} planted faults refuted, replayed")
    print(f"{done[3]} of {len(found[3])} planted faults seen by CrossHair")
    print(f"{seeds:,} random nodes, {len(chunks) - done[4]} chunks differ from the evaluator (0)")
    print(f"{done[5]} of {len(found[5])} wrong encodings found")
    all_of = all(number == len(each) for number, each in zip(done, found, strict=True))
    return 0 if all_of and proved >= LEAST_PROVED else 1


def _told(running: list[AsyncResult[_Finding]]) -> Iterator[_Finding]:
    for each in running:
        finding = each.get()
        print(finding.told, flush=True)
        yield finding


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
