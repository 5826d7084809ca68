"""Counts that may only fall, and that each of them sees what it counts."""

import ast

import pytest

from tools import counts  # pyright: ignore[reportAttributeAccessIssue]

CLASS = "class A:\n  def __init__(self):\n    self.x = 1\n  def run(self):\n    self.{} = 2\n"
SEEN = {
    "statements": ("x = 1\n", ""),
    "late_attributes": (CLASS.format("y"), CLASS.format("x")),
    "long_calls": ("f(1, 2, 3, 4, 5, 6, 7)\n", "f(1, 2, 3, 4, 5, 6, g=7)\n"),
    "parallel_assignments": ("a, b = 1, 2\n", "a, b = b, a\n"),
    "odd_names": ("told = 1\n", "reply = 1\n"),
    "imports_for_effects": (
        "from vegakit.a import RULES\nRULES.update({})\n",
        "RULES = {}\nRULES.update({})\n",
    ),
    "phrases_in_code": ('"""What is told goes on."""\n', '"""Return the reply."""\n'),
}
TREES = counts.trees_of(counts.ROOT / "src" / "vegakit")


@pytest.mark.parametrize("name", counts.COUNTS)
def test_a_count_does_not_rise(name: str) -> None:
    """`just counts --places` shows where; `just counts --write` lowers the limits."""
    assert len(list(counts.COUNTS[name](TREES))) <= counts.limits()[name]


@pytest.mark.parametrize("name", SEEN)
def test_a_count_sees_what_it_counts(name: str) -> None:
    bad, good = ({"a.py": ast.parse(text)} for text in SEEN[name])
    assert len(list(counts.COUNTS[name](bad))) > len(list(counts.COUNTS[name](good)))


def test_every_count_has_a_limit() -> None:
    assert counts.limits().keys() == counts.COUNTS.keys()
