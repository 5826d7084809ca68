"""The local host: does what pure code decided, through one gate (host).

The gate, the limiter, the journal and its recovery, approvals, and the machine of one run. What is
here takes `HostServices` and never the `Runtime`, so that other hosts can use it.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
