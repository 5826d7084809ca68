"""Programs written in Python: a stated subset, lowered to the same tree (pure).

    text ── ast ── tree ── checked ── demands         lower, check_python
                                tree ── text           to_python

Where Python means something else than Vega, the line is refused with what to write instead; so a
program that is let through does what Python would do.
"""

from vegakit.lang.python.checker import check_python
from vegakit.lang.python.lowering import Lowered, lower
from vegakit.lang.python.printer_program import to_python

__all__ = [
    "Lowered",
    "check_python",
    "lower",
    "to_python",
]
