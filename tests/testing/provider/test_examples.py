"""Instances of schemas."""

from typing import Any

import pytest

from vegakit.testing.provider.script import example

TREE = {
    "$defs": {"Leaf": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "type": "object",
    "properties": {
        "leaf": {"$ref": "#/$defs/Leaf"},
        "leaves": {"type": "array", "items": {"type": "number"}, "minItems": 2},
        "kind": {"enum": ["oak", "elm"]},
        "other": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "fixed": {"const": 4},
        "green": {"type": ["boolean", "null"], "default": False},
        "more": {"type": "string"},
    },
    "required": ["leaf", "leaves", "kind", "other", "fixed", "green"],
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {}),
        ({"type": "string"}, "Paris"),
        ({"type": "integer"}, 21),
        ({"type": ["boolean", "null"]}, True),
        (
            TREE,
            {
                "leaf": {},
                "leaves": [21.5, 21.5],
                "kind": "oak",
                "other": None,
                "fixed": 4,
                "green": False,
            },
        ),
    ],
)
def test_an_example_is_the_least_that_fits(schema: dict[str, Any], expected: object) -> None:
    """Only what is required."""
    assert example(schema) == expected


def test_a_second_example_differs() -> None:
    """So that two calls can be told apart."""
    assert [example({"type": "string"}, nth) for nth in (0, 1)] == ["Paris", "London"]
