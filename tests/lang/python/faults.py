"""Faults to plant in the lowering: each lets a line through that Python means otherwise."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from vegakit.lang.python import checker as demands, lowering as functions
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
    if fault == "alias":
        functions.shared_changes = lambda *_: {}
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
        stdlib.PURE.update(library)
