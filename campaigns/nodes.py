"""Nodes at full size: both paths of every sample over random inputs, and planted bugs.

    python -m campaigns.nodes           2,000 inputs in all
    python -m campaigns.nodes full      100,000

The generated Python calculates with `decimal`, the interpreter with integers of its own; over every
input they have to agree to the digit, and no output may break its contract. Then bugs are planted
in the generated Python, one at a time, and each has to be found. It prints its figures last and
exits with 1 if one falls short.
"""

import sys
from collections import Counter
from pathlib import Path

from vegakit.contracts import python_source
from vegakit.vesper import DirectPath, Divergence, PythonPath, compare_paths, load_node

FOLDER = Path(__file__).parents[1] / "examples" / "nodes"
SAMPLES = sorted(FOLDER.glob("*.vsp"))
SIZES = {"": 2_000, "full": 100_000}
_AT_ONCE = 100

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


def find_planted(name: str, right: str, wrong: str, cases: int) -> Divergence | None:
    """Return the first inputs that show a planted bug, or None after so many."""
    node = load_node(FOLDER / f"{name}.vsp").program
    source = python_source(node, name)
    if right not in source:
        raise ValueError(f"{right!r} does not stand in the Python of {name}; plant another bug")
    faulty, direct = PythonPath(node, source.replace(right, wrong)), DirectPath(node)
    for seed in range(cases // _AT_ONCE):
        report = compare_paths(node, faulty, direct, _AT_ONCE, seed)
        if report.divergences:
            return report.divergences[0]
    return None


def main(arguments: list[str]) -> int:
    """Run the campaign, and return its status."""
    cases = SIZES[arguments[0] if arguments else ""] // len(SAMPLES) + 1
    outcomes, differing, broken = Counter[str](), 0, 0
    for sample in SAMPLES:
        node = load_node(sample).program
        report = compare_paths(node, PythonPath(node), DirectPath(node), cases, seed=cases)
        outcomes.update(report.outcomes)
        differing += report.differing
        broken += len(report.broken)
        print(f"{node.node_id}: {report.cases:,} inputs, {report.outcomes}", flush=True)
        for each in (*report.divergences, *report.broken):
            print(f"  {each}")
    missed = [each for each in PLANTED if find_planted(*each, cases=2_500) is None]
    for each in missed:
        print(f"not found: {each}")
    found = len(PLANTED) - len(missed)
    told = ", ".join(f"{number:,} {status}" for status, number in sorted(outcomes.items()))
    print(f"{sum(outcomes.values()):,} inputs over {len(SAMPLES)} nodes ({told})")
    print(f"{differing} differ (0), {broken} break a contract (0)")
    print(f"{found} of {len(PLANTED)} planted bugs found ({len(PLANTED)})")
    return 1 if differing or broken or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
