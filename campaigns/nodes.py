"""Nodes at full size: all paths of every sample over random inputs, random nodes, planted bugs.

    python -m campaigns.nodes           2,000 inputs in all
    python -m campaigns.nodes full      100,000

The generated Python calculates with `decimal`, the interpreter with integers of its own, native
code in 128 and 256 bits; over every input they have to agree to the digit, and no output may break
its contract. Then bugs are planted in the generated Python and in the LLVM assembly, one at a time,
and each has to be found. It prints its figures last and exits with 1 if one falls short.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from msgspec.structs import replace

from campaigns.node_programs import NodeMaker
from vegakit.contracts import (
    NodeProgram,
    llvm_source,
    native_obstacle,
    optimised,
    python_source,
)
from vegakit.vesper import (
    DirectPath,
    Divergence,
    NativePath,
    NodePath,
    NodeReport,
    PythonPath,
    compare_paths,
    load_node,
    parse_node,
)

FOLDER = Path(__file__).parents[1] / "examples" / "nodes"
SAMPLES = sorted(FOLDER.glob("*.vsp"))
SIZES = {"": 2_000, "full": 100_000}
RANDOM_NODES = {"": 12, "full": 200}
_INPUTS_A_NODE = 25
_AT_ONCE, _AT_ONCE_NATIVE = 100, 20
"""Inputs from one seed. Some bugs need a number to be drawn a second time, which in few draws is
rare; in nodes of one operator bugs show at once, and fewer inputs are fewer to be made simpler."""

PLANTED = [
    ("best_discount", "ROUND_HALF_EVEN", "ROUND_HALF_UP"),
    ("best_discount", "max(", "min("),
    ("best_discount", "<= price)", "< price)"),
    ("loan_eligibility", "age >= least_age", "age > least_age"),
    ("loan_eligibility", "21 if", "20 if"),
    ("loan_eligibility", 'Decimal("0.35")', 'Decimal("0.36")'),
    ("loyalty_points", "paid_cents, 100", "paid_cents, 101"),
    ("loyalty_points", "not (member in blocked)", "(member in blocked)"),
    ("loyalty_points", "_old_points = points", "_old_points = points + 1"),
    ("price_order", "subtotal >= discount_from", "subtotal > discount_from"),
    ("price_order", "ROUND_HALF_EVEN", "ROUND_HALF_DOWN"),
    ("price_order", "_sum((", "_sum((0 * "),
    ("rate_card", "sorted(tiers", "(lambda items, key: [*items])(tiers"),
    ("rate_card", 'so_far["previous"]', "Decimal(0)"),
    ("reconcile", "_group(payments", "_group(paid"),
    ("reconcile", "setdefault(key(item), []).append(item)", "__setitem__(key(item), [item])"),
    ("refund", "<= 2592000", "< 2592000"),
    ("refund", "_seconds(bought, returned)", "_seconds(returned, bought)"),
    ("refund", "due > refunded", "due >= refunded"),
    ("sales_tax", "missing='unknown_country'", "overflow='unknown_country'"),
    ("sales_tax", "ROUND_HALF_EVEN", "ROUND_DOWN"),
    ("shipping_cost", "_div(_int(grams + 999), 1000)", "_div(grams, 1000)"),
    ("shipping_cost", "grams <= 31500", "grams < 31500"),
    ("shipping_cost", "base * 2", "base + 2"),
    ("transfer", "amount + fee)", "amount)"),
    ("transfer", "'insufficient_funds', 'source'", "'insufficient_funds', 'target'"),
    ("transfer", "fees + fee", "fees"),
    ("split_bill", "-rest if left < 0 else rest", "-rest if left < 0 else rest + 1"),
    ("convert_currency", "converted > fee", "converted >= fee"),
    ("late_fee", "86400", "86401"),
    (
        "late_fee",
        "abs(end - start) // timedelta(seconds=1)",
        "round((end - start).total_seconds())",
    ),
    ("prorate", "days - used", "days - used + 1"),
    ("prorate", "ROUND_HALF_EVEN", "ROUND_UP"),
    ("commission", "> target)", ">= target + 1)"),
    ("commission", "for person in sorted(by_person)", "for person in by_person"),
    ("allocate_stock", ", reverse=True", ""),
    ("allocate_stock", "<= so_far", "< so_far"),
    ("account_transfer", "amount <= source", "amount < source"),
    ("account_transfer", "key=target_id, set=", "key=source_id, set="),
    ("account_transfer", '["accounts", source_id], ', ""),
    ("pay_order", 'wallets_["before"]', 'wallets_["after"]'),
    ("pay_order", "before='pending'", "before='paid'"),
    ("pay_order", "wrong_state='not_pending'", "wrong_state='unknown_order'"),
    ("reserve_stock", "\"status\": 'held'", "\"status\": 'released'"),
    ("refund_once", '"opened": opened', '"opened": not opened'),
]

"""A sample, a part of the Python that is made of it, and what is planted in its place: rounding,
overflow, off by one, wrong old, wrong order, wrong error, wrong effect."""

EDGE = """\
node_id: edge_v1
type: test
intent: One operator.
inputs:
  a: {type: integer}
  b: {type: integer}
  x: {type: decimal<4>}
  w: {type: decimal<10>}
  f: {type: boolean}
  e: {type: "enum[low, mid, high]"}
  t: {type: timestamp}
  u: {type: timestamp}
outputs: {success: {found: KIND}}
flow: [{step: found, operation: compute, parameters: {value: "VALUE"}}]
"""
EDGES = {
    "sum": ("integer", "a + b"),
    "difference": ("integer", "a - b"),
    "times": ("integer", "a * b"),
    "quotient": ("integer", "a / b"),
    "rest": ("integer", "a % b"),
    "negative": ("integer", "-a"),
    "absolute": ("integer", "ABS(a)"),
    "least": ("integer", "MIN(a, b)"),
    "chosen": ("integer", "IF f THEN a ELSE b"),
    "seconds": ("integer", "SECONDS(t, u)"),
    "decimal sum": ("decimal<4>", "x + x"),
    "wider": ("decimal<10>", "x + 0.0000000001"),
    "product": ("decimal<4>", "ROUND(x * w, 4)"),
    "long product": ("decimal<14>", "x * w"),
    "ratio": ("decimal<3>", "ROUND(x / w, 3)"),
    "narrow": ("decimal<2>", "ROUND(w, 2)"),
    "less": ("boolean", "x < w"),
    "guarded": ("boolean", "b != 0 AND a / b > 1"),
    "either": ("boolean", "b == 0 OR a / b > 1"),
    "listed": ("boolean", "e IN ['low', 'high']"),
    "named": ("boolean", "e == 'mid'"),
}
"""Nodes of one operator each, over inputs without bounds: in a sample, few runs come to an edge."""

PLANTED_NATIVE = [
    ("sum", "sadd", "uadd"),
    ("difference", "ssub", "usub"),
    ("times", "smul", "umul"),
    ("quotient", "sdiv i64", "udiv i64"),
    ("rest", "srem i64", "urem i64"),
    ("negative", "(i64 0, i64 %in0)", "(i64 -1, i64 %in0)"),
    ("absolute", "icmp eq i64 %in0, -9223372036854775808", "icmp eq i64 %in0, 1"),
    ("least", "icmp slt", "icmp sgt"),
    ("chosen", "phi i64 [%in0", "phi i64 [%in1"),
    ("seconds", ", 1000000", ", 1000001"),
    ("seconds", "sub i64 %in7, %in6", "sub i64 %in6, %in7"),
    ("decimal sum", "icmp uge i128", "icmp eq i128"),
    ("wider", "icmp uge i128", "icmp eq i128"),
    ("wider", "mul i128 %in2, 1000000", "mul i128 %in2, 100000"),
    ("product", "and i1 %l_small, %r_small", "or i1 %l_small, %r_small"),
    (
        "product",
        "@half_even(i256 %wide_exact, i256 10000000000)",
        "@half_even(i256 %wide_exact, i256 1000000000)",
    ),
    ("product", "%up_tie = and i1 %tie, %odd", "%up_tie = and i1 %tie, true"),
    ("long product", "%over = icmp uge i256", "%over = icmp eq i256"),
    ("ratio", "%sign = xor i1", "%sign = or i1"),
    ("ratio", "%twice = shl i256 %rest, 1", "%twice = shl i256 %rest, 0"),
    ("ratio", "i256 %l_wide, 1000000000", "i256 %l_wide, 100000000"),
    ("narrow", "%up_tie = and i1 %tie, %odd", "%up_tie = and i1 %tie, false"),
    ("narrow", "select i1 %low, i128 %opposite, i128 %rounded", "or i128 %rounded, 0 ;"),
    ("narrow", "shl i64 %r32, 32", "shl i64 %r32, 31"),
    ("less", "icmp slt i256", "icmp sle i256"),
    ("less", ", 1000000\n", ", 100000\n"),
    ("guarded", "phi i1 [false", "phi i1 [true"),
    ("guarded", "br i1 %v1, label", "br i1 true, label"),
    ("either", "phi i1 [true", "phi i1 [false"),
    ("listed", "or i1 false", "and i1 false"),
    ("named", "icmp eq i64 %in5, 2", "icmp eq i64 %in5, 1"),
    ("named", "ptr %inputs, i64 56", "ptr %inputs, i64 64"),
    ("transfer", "ret i32 3", "ret i32 2"),
]
"""A sample or a node of one operator, a part of its assembly, and what is planted in its place:
overflow, rounding, scale, sign, short circuit, branch, order of operands, place of an input."""


def edge_node(name: str) -> NodeProgram:
    """Return a node of one operator, or a sample."""
    if name not in EDGES:
        return load_node(FOLDER / f"{name}.vsp").program
    kind, value = EDGES[name]
    text = EDGE.replace("KIND", f'"{kind}"').replace("VALUE", value)
    return parse_node(text.encode(), name).program


def find_planted(name: str, right: str, wrong: str, cases: int) -> Divergence | None:
    """Return the first inputs that show a bug planted in Python, or None after so many."""
    node = load_node(FOLDER / f"{name}.vsp").program
    source = python_source(node, name)
    if right not in source:
        raise ValueError(f"{right!r} does not stand in the Python of {name}; plant another bug")
    faulty = PythonPath(node, source.replace(right, wrong))
    return _first_difference(node, faulty, DirectPath(node), cases, _AT_ONCE)


def find_native(name: str, right: str, wrong: str, cases: int) -> Divergence | None:
    """Return the first inputs that show a bug planted in LLVM assembly, or None after so many."""
    node = edge_node(name)
    source = llvm_source(optimised(node))
    if right not in source.text:
        raise ValueError(f"{right!r} does not stand in the assembly of {name}; plant another bug")
    faulty = NativePath(node, replace(source, text=source.text.replace(right, wrong)))
    return _first_difference(node, PythonPath(node), faulty, cases, _AT_ONCE_NATIVE)


def _first_difference(
    node: NodeProgram, reference: NodePath, candidate: NodePath, cases: int, at_once: int
) -> Divergence | None:
    for seed in range(cases // at_once):
        report = compare_paths(node, reference, candidate, at_once, seed)
        if report.divergences:
            return report.divergences[0]
    return None


def compare_legs(node: NodeProgram, cases: int, seed: int) -> NodeReport:
    """Run a node by Python, the interpreter, and native code where it can be."""
    native = [] if native_obstacle(node) else [NativePath(node)]
    return compare_paths(node, PythonPath(node), DirectPath(node), cases, seed, *native)


def random_reports(nodes: int) -> Iterator[NodeReport]:
    """Yield the reports of random nodes, of which every third has collections."""
    for seed in range(nodes):
        node = NodeMaker(Random(seed), items=seed % 3 == 0).node()
        yield compare_legs(node, _INPUTS_A_NODE, seed)


def main(arguments: list[str]) -> int:
    """Run the campaign, and return its status."""
    size = arguments[0] if arguments else ""
    cases = SIZES[size] // len(SAMPLES) + 1
    outcomes, differing, broken, native = Counter[str](), 0, 0, 0
    for sample in SAMPLES:
        node = load_node(sample).program
        report = compare_legs(node, cases, seed=cases)
        outcomes.update(report.outcomes)
        differing += report.differing
        broken += len(report.broken)
        obstacle = native_obstacle(node)
        native += not obstacle
        legs = f"2 paths ({obstacle})" if obstacle else "3 paths"
        print(f"{node.node_id}: {report.cases:,} inputs, {legs}, {report.outcomes}", flush=True)
        for each in (*report.divergences, *report.broken):
            print(f"  {each}")
    made = [*random_reports(RANDOM_NODES[size])]
    for report in made:
        differing += report.differing
        for each in report.divergences:
            print(f"  {each}")
    found = [*_found()]
    told = ", ".join(f"{number:,} {status}" for status, number in sorted(outcomes.items()))
    print(f"{sum(outcomes.values()):,} inputs over {len(SAMPLES)} nodes, {native} native ({told})")
    print(f"{sum(report.cases for report in made):,} inputs over {len(made)} random nodes")
    print(f"{differing} differ (0), {broken} break a contract (0)")
    print(f"{sum(found)} of {len(found)} planted bugs found ({len(found)})")
    return 1 if differing or broken or not all(found) else 0


def _found() -> Iterator[bool]:
    """Plant all bugs, print each with the inputs that show it, and yield whether it was found."""
    for leg, find, planted in (
        ("python", find_planted, PLANTED),
        ("native", find_native, PLANTED_NATIVE),
    ):
        for name, right, wrong in planted:
            shown = find(name, right, wrong, 2_500)
            what = f"{leg} {name}: {right.strip()!r} -> {wrong.strip()!r}"
            print(f"{what}: {shown.inputs if shown else 'NOT FOUND'}", flush=True)
            yield shown is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
