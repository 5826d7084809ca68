"""The contract language: what is refused and why, what expressions come to, and verdicts."""

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from time import process_time
from typing import Any, get_args

import pytest
from campaigns.admission import scale
from hypothesis import given, strategies as st

from vegakit.contracts import (
    ArithmeticTrap,
    Clause,
    DecimalType,
    Evaluator,
    Expression,
    ExpressionError,
    NamedValue,
    NameScope,
    RecordType,
    check_expression,
    cost_of,
    evaluate,
    evaluation,
    judge,
    parse_type,
    read_value,
    show_type,
    show_value,
    typed,
)

RECORDS = {"Item": RecordType((("price", DecimalType(2)), ("quantity", parse_type("integer", {}))))}
TYPES = {
    "items": "array<Item, 50>",
    "tags": "set<string<8>, 5>",
    "rates": "map<string, decimal<4>, 9>",
    "n": "integer",
    "m": "integer",
    "price": "decimal<2>",
    "rate": "decimal<4>",
    "status": "enum[paid, open]",
    "name": "string",
    "vip": "boolean",
    "at": "timestamp",
}
KINDS = {name: parse_type(text, RECORDS) for name, text in TYPES.items()}
GIVEN = {
    "items": [{"price": "1.50", "quantity": 2}, {"price": "0.25", "quantity": 4}],
    "tags": ["b", "a"],
    "rates": {"de": "0.1900"},
    "n": -7,
    "m": 2,
    "price": "10.05",
    "rate": "0.0825",
    "status": "paid",
    "name": "Ada",
    "vip": True,
    "at": "2026-03-01T00:00:00.5Z",
}
VALUES = {name: read_value(KINDS[name], given) for name, given in GIVEN.items()}
SCOPE = NameScope(KINDS)


def _result(text: str) -> tuple[str, Any]:
    found = check_expression(text, SCOPE)
    return show_type(found.type), show_value(found.type, evaluate(found, VALUES))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("n / m", "integer", -3),
        ("n % m", "integer", -1),
        ("-n - m * 2", "integer", 3),
        ("price + rate", "decimal<4>", "10.1325"),
        ("price * rate", "decimal<6>", "0.829125"),
        ("ROUND(price * rate, 2)", "decimal<2>", "0.83"),
        ("ROUND(0.125, 2)", "decimal<2>", "0.12"),
        ("ROUND(ROUND(price * rate, 0), 2)", "decimal<2>", "1.00"),
        ("ROUND(ROUND(2.0 / 3.0, 0), 2)", "decimal<2>", "1.00"),
        ("ROUND(-0.135, 2)", "decimal<2>", "-0.14"),
        # Rounded twice, over 18 places, this would be 0.02.
        ("ROUND(2500000000000000001.0 / 100000000000000000000.0, 2)", "decimal<2>", "0.03"),
        ("price / 3", "decimal<18>", "3.350000000000000000"),
        ("n * price", "decimal<2>", "-70.35"),
        ("SUM(items.price * items.quantity)", "decimal<2>", "4.00"),
        ("SUM(i IN items: i.quantity)", "integer", 6),
        ("all(items.price > 0)", "boolean", True),
        ("FORALL i IN items: i.quantity > 2", "boolean", False),
        ("EXISTS i IN items: i.quantity > 2 AND i.price < 1", "boolean", True),
        ("EXISTS t IN tags: t == 'a'", "boolean", True),
        ("FORALL key IN rates: rates[key] < 1", "boolean", True),
        ("items[1].price", "decimal<2>", "0.25"),
        ("status IN ['paid', 'open'] AND NOT (vip AND n > 0)", "boolean", True),
        ("status != 'open'", "boolean", True),
        ("'de' IN rates AND rates CONTAINS 'de' AND tags CONTAINS 'b'", "boolean", True),
        ("name CONTAINS 'd' AND 'Ad' IN name", "boolean", True),
        ("n NOT IN [1, 2]", "boolean", True),
        ("IF vip THEN 1 ELSE 0.5", "decimal<1>", "1.0"),
        ("MAX(n, price)", "decimal<2>", "10.05"),
        ("LENGTH(items) + LENGTH(name) + ABS(n)", "integer", 12),
        ("SECONDS(at, TIMESTAMP('2026-02-28T23:59:59Z'))", "integer", -1),
        ("vip OR 1 / 0 == 1", "boolean", True),
        ("{a: n, b: price}.b", "decimal<2>", "10.05"),
        ("price == 10.050", "boolean", True),
    ],
)
def test_an_expression_has_a_type_and_a_value(text: str, kind: str, value: object) -> None:
    """Types are known before, and values are exact."""
    assert _result(text) == (kind, value)


@pytest.mark.parametrize(
    ("text", "trap"),
    [
        ("9223372036854775807 + m", "overflow"),
        ("-(-9223372036854775808)", "overflow"),
        ("ABS(-9223372036854775808)", "overflow"),
        ("-9223372036854775808 / -1", "overflow"),
        ("n / (m - 2)", "division_by_zero"),
        ("price / (rate - rate)", "division_by_zero"),
        ("9999999999999999999999999999999999999.0 * 10", "overflow"),
        ("items[2].price", "missing"),
        ("items[n].price", "missing"),
        ("rates[name]", "missing"),
    ],
)
def test_what_has_no_value_traps(text: str, trap: str) -> None:
    """Nothing wraps, floors or defaults."""
    with pytest.raises(ArithmeticTrap, match=trap):
        evaluate(check_expression(text, SCOPE), VALUES)


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("n = 3", 3, "write =="),
        ("n > 1 && vip", 7, "write AND"),
        ("n > 1 and vip", 7, "write AND"),
        ("1 < n < 3", 7, "a < b AND b < c"),
        ("prise > 1", 1, "did you mean price"),
        ("status == 'payd'", 8, "did you mean paid"),
        ("name > 3", 6, "never equal"),
        ("vip > true", 5, "has no order"),
        ("n AND vip", 1, "a condition is needed"),
        ("name + 1", 1, "a number is needed"),
        ("price % 2", 7, "for integers"),
        ("items.price > 1", 6, "FORALL x IN"),
        ("items[0].prize", 9, "did you mean price"),
        ("all(n > 1)", 1, "there is none"),
        ("SUM(items.price + rates)", 1, "are items and rates"),
        ("FORALL n IN items: true", 1, "a name already"),
        ("old(n) == n", 1, "postconditions only"),
        ("ROUND(price, n)", 14, "from 0 to 18"),
        ("LEN(name)", 1, "no function"),
        ("MAX(1)", 1, "takes 2"),
        ("'a", 1, "close the quote"),
        ("1e5", 1, "a number is digits"),
        ("0." + "1" * 19, 1, "18 after the point"),
        ("9" * 40, 1, "64 bits"),
        ("n >", 4, "a value is expected"),
        ("[]", 1, "at least one item"),
        ("[1, 'a']", 5, "of one type"),
        ("IF vip THEN 1 ELSE 'a'", 1, "make them alike"),
        ("__import__('os')", 1, "names begin with a letter"),
        ("name.__class__", 6, "names begin with a letter"),
        ("eval('1')", 1, "no function"),
        ("lambda: 1", 7, "is expected"),
        ("n; n", 2, "take it out"),
    ],
)
def test_a_mistake_is_told_with_its_column_and_a_fix(text: str, column: int, said: str) -> None:
    """Nothing that is wrong runs, and nothing in the language can run code."""
    with pytest.raises(ExpressionError, match=said) as told:
        check_expression(text, SCOPE)
    assert told.value.column == column


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3_000,
        "NOT " * 900 + "vip",
        "- " * 1_900 + "n",
        "+".join(["n"] * 1_900),
        "n" * 100_000,
        "items" + "[0]" * 1_000,
        "IF vip THEN " * 300 + "n",
        "".join(f"FORALL x{i} IN items: " for i in range(38)) + "vip",
        "".join(f"FORALL x{i} IN items: " for i in range(5)) + "x0.quantity > x1.quantity",
        "[" * 1_900,
        "all(" * 900 + "vip",
    ],
)
def test_a_hostile_expression_is_refused_at_once(text: str) -> None:
    """Depth, size and cost are bounded before anything runs."""
    began = process_time()
    with pytest.raises(ExpressionError):
        check_expression(text, SCOPE)
    assert process_time() - began < 0.5 * scale()


def test_no_accepted_expression_runs_out_of_fuel() -> None:
    """The bound on cost is at least what the evaluator counts, with full collections."""
    full = VALUES | {"items": VALUES["items"][:1] * 50}
    for text in (
        "FORALL a IN items: FORALL b IN items: a.price == b.price",
        "SUM(items.price * items.quantity) > 0 AND vip",
        "EXISTS t IN tags: t IN ['x', 'y', 'z']",
    ):
        found = check_expression(text, SCOPE)
        evaluator = Evaluator(cost_of(found))
        evaluator.value(found, full)
        assert 0 < evaluator.used <= cost_of(found)


def test_too_little_fuel_ends_an_evaluation() -> None:
    """A loop cannot run on."""
    with pytest.raises(ArithmeticTrap, match="fuel"):
        evaluate(check_expression("SUM(items.quantity)", SCOPE), VALUES, fuel=4)


decimals = st.integers(-(10**20), 10**20)
places = st.integers(0, 18)


@given(decimals, places, decimals, places, st.sampled_from("+-*/"), places)
def test_decimals_are_rounded_as_decimal_rounds(
    left: int, left_scale: int, right: int, right_scale: int, operator: str, to: int
) -> None:
    """Against Python's `decimal`, and for quotients against fractions: equal to the last digit."""
    kinds = {"a": DecimalType(left_scale), "b": DecimalType(right_scale)}
    found = check_expression(f"ROUND(a {operator} b, {to})", NameScope(kinds))
    try:
        ours = Decimal(show_value(found.type, evaluate(found, {"a": left, "b": right})))
    except ArithmeticTrap:
        return
    one, other = Fraction(left, 10**left_scale), Fraction(right, 10**right_scale)
    exact = {"+": one + other, "-": one - other, "*": one * other}
    result = one / other if operator == "/" else exact[operator]
    with localcontext(Context(prec=200, rounding=ROUND_HALF_EVEN)):
        wanted = Decimal(result.numerator) / Decimal(result.denominator)
        assert ours == wanted.quantize(Decimal(1).scaleb(-to))


def test_the_tables_cover_the_tree() -> None:
    """Every part of the typed tree can be evaluated."""
    assert {*evaluation._EVALUATIONS} == {*get_args(Expression)}
    assert {*evaluation._LOOPS} == {*typed.LoopKind}


def _clause(text: str, scope: NameScope = SCOPE) -> Clause:
    return Clause("postcondition", text, 7, check_expression(text, scope))


def test_a_verdict_names_the_clause_and_its_values() -> None:
    """All that is broken is named, with what it looked at."""
    clauses = [_clause("n > 0"), _clause("vip"), _clause("price * m < rate AND n < 0")]
    verdict = judge(clauses, VALUES)
    assert [broken.text for broken in verdict.broken] == ["n > 0", "price * m < rate AND n < 0"]
    assert verdict.broken[0].values == {"n": -7}
    assert str(verdict.broken[0]) == "postcondition 'n > 0' does not hold: n = -7"
    assert verdict.broken[1].values == {"price": "10.05", "m": 2, "rate": "0.0825", "n": -7}


def test_a_verdict_shows_the_first_item_that_breaks_it() -> None:
    """Of a long collection the culprit is what one wants to see."""
    [broken] = judge([_clause("FORALL i IN items: i.price > 1")], VALUES).broken
    assert broken.values["i"] == {"price": "0.25", "quantity": 4}


def test_what_cannot_be_evaluated_does_not_hold() -> None:
    """A trap breaks the clause instead of passing it."""
    [broken] = judge([_clause("NOT (n / (m - 2) == 1)")], VALUES).broken
    assert broken.trap == "division_by_zero"


def test_old_names_are_variables_of_their_own() -> None:
    """`old(e)` reads all names in e as they were before."""
    scope = NameScope(KINDS, {"n": NamedValue(KINDS["n"], "old(n)")})
    clause = _clause("n == old(n + 1)", scope)
    assert judge([clause], VALUES | {"old(n)": -8}).holds
    [broken] = judge([clause], VALUES | {"old(n)": -7}).broken
    assert broken.values == {"n": -7, "old(n)": -7}
