"""Comparisons: exact, within a tolerance, as sets, by field."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from vegakit.errors import UserError
from vegakit.vesper import by_field, close, exact, ignored, same_set
from vegakit.vesper.comparisons import comparison_of


class Price(BaseModel):
    amount: float
    currency: str


@dataclass
class Cost:
    amount: float
    currency: str


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        ([1, 2], [2, 1], False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        (Price(amount=1, currency="€"), Cost(1, "€"), True),
        ("yes", "Yes", False),
    ],
)
def test_exact(one: object, two: object, same: bool) -> None:
    """Values count, not the types that hold them."""
    assert exact()(one, two) is same


def test_close() -> None:
    """Numbers may differ a little, wherever they stand; texts may not."""
    same = close(absolute=0.01)
    assert same({"a": [1.0, "x"]}, {"a": [1.005, "x"]})
    assert not same({"a": [1.0, "x"]}, {"a": [1.02, "x"]})
    assert not same({"a": [1.0, "x"]}, {"a": [1.0, "y"]})


def test_same_set() -> None:
    """Order and repetition do not count; what is no list is no set."""
    assert same_set()(["a", {"b": 1}], [{"b": 1}, "a", "a"])
    assert not same_set()(["a"], ["a", "b"])
    assert not same_set()(["a", "b"], ["a"])
    assert not same_set()("a", ["a"])


def test_by_field() -> None:
    """Each field as it is said, all others exactly."""
    same = by_field({"total.amount": close(absolute=0.5), "why": ignored(), "tags": same_set()})
    one = {"total": {"amount": 1.0, "in": "€"}, "why": "x", "tags": ["a", "b"], "id": 1}
    two = {"total": {"amount": 1.2, "in": "€"}, "why": "y", "tags": ["b", "a"], "id": 1}
    assert same(one, two)
    assert not same(one, two | {"id": 2})
    assert not same(one, two | {"total": {"amount": 1.2, "in": "$"}})
    assert not same(one, two | {"more": 1})


def test_a_misspelt_field_is_told() -> None:
    """It would be compared exactly, and nobody would notice."""
    with pytest.raises(UserError, match="did you mean total"):
        by_field({"totl": close()})({"total": 1}, {"total": 1})


def test_other_ways_to_compare_have_other_names() -> None:
    """Evidence is kept under them."""
    made = [
        exact(),
        close(),
        close(0.1),
        same_set(),
        by_field({"a": close()}),
        by_field({"b": exact()}),
    ]
    assert len({each.name for each in made}) == len(made)


def test_a_function_compares() -> None:
    """Under the name of its definition; what is none is refused."""

    def first_word(one: str, two: str) -> bool:
        return one.partition(" ")[0] == two.partition(" ")[0]

    assert not comparison_of(first_word)("yes sir", "no sir")
    assert comparison_of(first_word)("yes sir", "yes madam")
    assert comparison_of(first_word).name.endswith("first_word")
    with pytest.raises(UserError, match="give exact"):
        comparison_of("exact")  # pyright: ignore[reportArgumentType]
