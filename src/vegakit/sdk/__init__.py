"""Users import from here: `Runtime`, agents, processes, programs in Python and in Vega (host).

Each part is loaded when it is first used: a command that only checks a program needs no runtime.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
