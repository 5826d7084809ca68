"""Types of nodes as they are written, and values that come from outside."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from vegakit.contracts import (
    DecimalType,
    NodeTypeError,
    NodeValueError,
    RecordType,
    parse_type,
    read_value,
    show_type,
    show_value,
)
from vegakit.contracts.node_types import INTEGER, TEXT, read_decimal, show_decimal

RECORDS = {"Line": RecordType((("sku", TEXT), ("price", DecimalType(2))), "Line")}


@pytest.mark.parametrize(
    "text",
    [
        "string",
        "string<40>",
        "integer",
        "decimal<18>",
        "boolean",
        "bytes",
        "timestamp",
        "enum[paid, open]",
        "array<Line, 50>",
        "set<string<3>>",
        "map<string, array<decimal<2>>, 9>",
    ],
)
def test_a_type_is_shown_as_it_is_written(text: str) -> None:
    """What is shown can be read again."""
    assert show_type(parse_type(text, RECORDS)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("integr", "did you mean integer?"),
        ("decimal<19>", "give a number from 0 to 18"),
        ("array<integer", "'>' is expected"),
        ("array<integer, 5000>", "from 1 to 1000"),
        ("set<Line>", "a set holds scalars"),
        ("map<decimal, integer>", "the keys of a map"),
        ("enum[a, a]", "different names"),
        ("array<" * 12 + "integer" + ">" * 12, "deeper than 8"),
        ("__import__('os')", "cannot be read|no type"),
    ],
)
def test_a_wrong_type_says_what_to_write(text: str, said: str) -> None:
    """The message names the fix."""
    with pytest.raises(NodeTypeError, match=said):
        parse_type(text, RECORDS)


@pytest.mark.parametrize(
    ("kind", "given_value", "inside", "shown"),
    [
        ("decimal<2>", "12.5", 1250, "12.50"),
        ("decimal<2>", "-0.05", -5, "-0.05"),
        ("decimal<0>", 7, 7, "7"),
        ("decimal<2>", Decimal("1.500"), 150, "1.50"),
        ("bytes", "AAE=", b"\0\1", "AAE="),
        ("timestamp", "1970-01-01T01:00:00.000001+01:00", 1, "1970-01-01T00:00:00.000001Z"),
        ("set<integer>", [3, 1], frozenset({1, 3}), [1, 3]),
        ("map<integer, boolean>", {"2": True}, {2: True}, {"2": True}),
        ("enum[a, b]", "b", "b", "b"),
        ("Line", {"price": "1", "sku": "x"}, {"sku": "x", "price": 100}, None),
    ],
)
def test_values_come_in_and_go_out(kind: str, given_value: Any, inside: Any, shown: Any) -> None:
    """A value has one form inside and one in JSON."""
    found = parse_type(kind, RECORDS)
    assert read_value(found, given_value) == inside
    assert shown is None or show_value(found, inside) == shown


@pytest.mark.parametrize(
    ("kind", "given_value", "said"),
    [
        ("decimal<2>", 0.1, "no exact decimal"),
        ("decimal<2>", "1.005", "no decimal of 2 places"),
        ("decimal<2>", "9" * 37, "no decimal"),
        ("decimal<2>", Decimal("1e1000000"), "no decimal"),
        ("decimal<2>", 10**4_000, "no decimal"),
        ("integer", True, "no whole number"),
        ("integer", 2**63, "does not fit 64 bits"),
        ("integer", 10**4_000, "does not fit 64 bits"),
        ("string<2>", "abc", "3 of at most 2"),
        ("string", "\ud800", "half of a character"),
        ("timestamp", "2026-01-01T00:00:00", "with its offset"),
        ("timestamp", "0001-01-01T00:00:00+14:00", "no instant"),
        ("set<integer>", [1, 1], "twice"),
        ("array<integer, 1>", [1, 2], "2 items of at most 1"),
        ("Line", {"sku": "x"}, "price is missing"),
        ("Line", {"sku": "x", "price": "1", "prise": "1"}, "did you mean price"),
        ("array<Line>", [{"sku": 1, "price": "1"}], r"value\[0\].sku"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(kind: str, given_value: Any, said: str) -> None:
    """Nothing is rounded, cut or guessed."""
    with pytest.raises(NodeValueError, match=said):
        read_value(parse_type(kind, RECORDS), given_value)


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 18))
def test_decimals_are_exact_there_and_back(units: int, scale: int) -> None:
    """The digits are those of fractions, which share no code with ours."""
    shown = show_decimal(units, scale)
    assert Fraction(shown) == Fraction(units, 10**scale)
    assert read_decimal(shown, scale) == units


def test_an_integer_has_one_type() -> None:
    """Types without a number are the same everywhere."""
    assert parse_type("integer", {}) == INTEGER
