"""Settings from files, environment and flags, for SDK and command line alike (edge, host).

One frozen `Settings`, made once by `load` and passed down; `explain` says where each value came
from. Only this room reads the environment. Keys are read when a call needs them, never kept. What a
project file may not decide for its user stands in `trust`.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
