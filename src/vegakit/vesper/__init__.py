"""Rollouts: change the model, the prompt or the code with evidence; and nodes, small functions
under a contract with two independent paths (host).

`rollout(…)` runs what is trusted and what shall replace it, compares them as you say, and moves
traffic by `vegakit.contracts`; the evidence is kept in the store of the runtime. `load_node(…)`
reads a node, which `PythonPath` and `DirectPath` run; `NodeHost` runs one with effects.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
