"""Programs written down again: as Python, and as Vega."""

from vegakit.lang.python.printing.vega import to_vega
from vegakit.lang.python.printing.whole import to_python

__all__ = ["to_python", "to_vega"]
