"""Names and types: a tree of source becomes a checked program, or diagnostics.

    files ── declarations ── bodies ── tables          importing, collecting, statements, `Checked`

One mistake gives one diagnostic: what is already reported has the type `UNKNOWN`, which fits
everywhere.
"""

from vegakit.lang.catching import CATCHABLE
from vegakit.lang.checking.program import check

__all__ = ["CATCHABLE", "check"]
