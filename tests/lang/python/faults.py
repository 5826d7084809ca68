"""Faults to plant in the lowering: each lets a line through that Python means otherwise."""

from collections.abc import Generator
from contextlib import contextmanager

from vegakit.lang.python import checker as demands, lowering as functions

__all__ = ["FAULTS", "planted"]

FAULTS = {
    "floor": "`//` and `%` of negative ints are let through, and cut toward zero",
    "alias": "a list or record that others hold may be changed in place",
    "index": "an index below zero is let through, and raises",
    "text": "a bool is printed as Vega writes it",
    "divide": "`/` of two ints is let through, and gives an int",
    "grown": "`xs += ys` is let through though others hold `xs`",
}


@contextmanager
def planted(fault: str) -> Generator[None]:
    rules, shared = dict(demands.RULES), functions.shared_changes
    if fault == "alias":
        functions.shared_changes = lambda _function, _makers: {}
    else:
        demands.RULES[fault] = lambda _asked: None
    try:
        yield
    finally:
        demands.RULES.clear()
        demands.RULES.update(rules)
        functions.shared_changes = shared
