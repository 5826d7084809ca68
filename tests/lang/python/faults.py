"""Faults to plant in the lowering: each lets a line through that Python means otherwise."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from vegakit.lang import FLOAT, INT, Type
from vegakit.lang.check import operators as types_of_operators
from vegakit.lang.check.context import BodyCheck
from vegakit.lang.python import checker as demands, lowering as functions
from vegakit.lang.syntax.tree import Binary, Whole
from vegakit.vm import stdlib
from vegakit.vm.operators import cut

__all__ = ["FAULTS", "planted"]

FAULTS = {
    "floor": "`//` of negative ints cuts toward zero",
    "alias": "a list or record that others hold may be changed in place",
    "index": "an index below zero counts from the other end",
    "text": "a list is printed as Vega writes it",
    "divide": "`/` of two ints gives a whole number",
    "grown": "`xs += ys` is let through though others hold `xs`",
    "whole": "an int that is written out is made a float where one is wanted",
    "near": "an int that is written out is made a float where it is compared with one",
}

_LIBRARY: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "floor": ("math::floor_div", cut),
    "index": ("list::at", lambda items, index: items[abs(index) % len(items)]),
    "divide": ("math::ratio", lambda a, b: float(a // b)),
}


@contextmanager
def planted(fault: str) -> Generator[None]:
    rules, shared = dict(demands.RULES), functions.shared_changes
    library = dict(stdlib.PURE)
    check_program, beside = demands.check_program, types_of_operators._as_floats
    if fault == "alias":
        functions.shared_changes = lambda *_: {}
    elif fault == "whole":
        demands.check_program = lambda *args, **said: check_program(
            *args, **said | {"exact": False}
        )
    elif fault == "near":
        types_of_operators._as_floats = _as_floats
    elif fault in _LIBRARY:
        name, wrong = _LIBRARY[fault]
        stdlib.PURE[name] = stdlib.PURE[name]._replace(do=wrong)
    else:
        demands.RULES[fault] = lambda _asked: None
    try:
        yield
    finally:
        demands.RULES.clear()
        demands.RULES.update(rules)
        functions.shared_changes = shared
        demands.check_program, types_of_operators._as_floats = check_program, beside
        stdlib.PURE.update(library)


def _as_floats(body: BodyCheck, node: Binary, left: Type, right: Type) -> tuple[Type, Type]:
    """As for `.vega`, where a whole number beside a float is one."""
    for one, kind, other in ((node.left, left, right), (node.right, right, left)):
        if isinstance(one, Whole) and (kind, other) == (INT, FLOAT):
            body.program.types[id(one)] = FLOAT
            return FLOAT, FLOAT
    return left, right
