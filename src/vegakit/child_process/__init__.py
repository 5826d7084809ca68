"""OS children: one owner starts them, and they end as whole trees with it or before it (host).

    Children ── starts ──▶ ChildProcess    a command and everything it started
       └── asks ──▶ launcher ──▶ a supervisor for each child; see `launcher`

Python in the runtime neither forks nor runs `preexec_fn`; the launcher is small, so it forks fast.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
