"""Sage, the coding agent (edge, host): a session in a folder, with one budget, that goes on after a
kill.

async with SageAgent("project", budget="$1") as sage:
    async for event in sage.turn("Fix the failing test."):
        print(event)
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
