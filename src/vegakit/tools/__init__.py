"""The things agents can do: functions with declared rights, handles, commands in a sandbox
(adapter, host).

Most agents need few of these, so each is loaded when it is first used.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
