"""The table of conditions, both sides of each."""

import pytest

from vegakit.policy import Condition
from vegakit.policy.pipeline import condition_holds, is_number
from vegakit.records import Json

C = Condition
OUTPUT: Json = {"verdict": "ok", "score": 3, "tags": ["a", 1], "none": None, "deep": {"yes": True}}


@pytest.mark.parametrize(
    ("condition", "field", "value"),
    [
        (C.ALWAYS, "verdict", None),
        (C.ALWAYS, "missing", None),
        (C.EXISTS, "verdict", None),
        (C.EXISTS, "none", None),
        (C.EXISTS, "deep.yes", None),
        (C.EXISTS, "", None),
        (C.EQUALS, "verdict", "ok"),
        (C.EQUALS, "score", 3.0),
        (C.EQUALS, "deep.yes", True),
        (C.EQUALS, "none", None),
        (C.NOT_EQUALS, "verdict", "bad"),
        (C.NOT_EQUALS, "missing", "ok"),
        (C.NOT_EQUALS, "deep.yes", 1),
        (C.CONTAINS, "verdict", "k"),
        (C.CONTAINS, "tags", "a"),
        (C.CONTAINS, "tags", 1),
        (C.CONTAINS, "deep", "yes"),
        (C.GREATER, "score", 2.9),
        (C.LESS, "score", 4),
    ],
)
def test_it_holds(condition: Condition, field: str, value: Json) -> None:
    """What the table says holds does."""
    assert condition_holds(condition, OUTPUT, field, value)


@pytest.mark.parametrize(
    ("condition", "field", "value"),
    [
        (C.EXISTS, "missing", None),
        (C.EXISTS, "verdict.ok", None),
        (C.EXISTS, "deep.no", None),
        (C.EXISTS, "deep.yes.more", None),
        (C.EQUALS, "verdict", "bad"),
        (C.EQUALS, "missing", None),
        (C.EQUALS, "deep.yes", 1),
        (C.NOT_EQUALS, "verdict", "ok"),
        (C.CONTAINS, "verdict", "x"),
        (C.CONTAINS, "verdict", 1),
        (C.CONTAINS, "tags", "b"),
        (C.CONTAINS, "tags", True),
        (C.CONTAINS, "deep", "no"),
        (C.CONTAINS, "deep", 1),
        (C.CONTAINS, "score", "3"),
        (C.CONTAINS, "missing", "a"),
        (C.GREATER, "score", 3),
        (C.GREATER, "verdict", 1),
        (C.GREATER, "score", "1"),
        (C.GREATER, "deep.yes", 0),
        (C.LESS, "score", 3),
        (C.LESS, "missing", 9),
        (C.LESS, "deep.yes", 9),
    ],
)
def test_it_does_not_hold(condition: Condition, field: str, value: Json) -> None:
    """Other values, absent fields and other types do not, and raise nothing."""
    assert not condition_holds(condition, OUTPUT, field, value)


def test_the_whole_output_is_the_empty_field() -> None:
    """An output need not be a map."""
    assert condition_holds(C.EQUALS, "done", "", "done")
    assert condition_holds(C.GREATER, 5, "", 4)
    assert not condition_holds(C.EXISTS, "done", "verdict", None)


def test_not_a_number_is_neither_above_nor_below() -> None:
    """It takes the default route."""
    nan = float("nan")
    assert not condition_holds(C.GREATER, nan, "", 0)
    assert not condition_holds(C.LESS, nan, "", 0)


def test_truth_values_are_no_numbers() -> None:
    """Whole and broken numbers are."""
    assert [is_number(v) for v in (1, 1.5, True, "1", None)] == [True, True, False, False, False]
