"""The kit that stands in for the world in tests of programs (kit, host).

Public: our own tests use it, and so do yours. It may import what it stands in for; of the package
only `vega test` and `vega demo crash` import it. Every pytest run loads it on the way to the
plugin, so names are loaded when they are first used.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
