"""Contracts: nodes under typed expressions, and whether a candidate may replace what is trusted
(pure).

`node_types`, `expressions`, `checker`, `typed` and `evaluation` are the contract language, from its
text to a verdict. `confidence` counts comparisons and tests them however often one looks; `rollout`
decides by them who answers a call. Nobody here waits or reads a clock.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
