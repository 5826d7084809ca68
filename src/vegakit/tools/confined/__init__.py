"""Handles that a tool may hold: files below one root, and hosts by name (adapter, host).

A tool that has nothing else in its hands cannot do what its grant does not name, whatever text it
is given.
"""

from vegakit.tools.confined.files import Entry, Files, Listing, Stat
from vegakit.tools.confined.http import Http
from vegakit.tools.confined.messages import Answer
from vegakit.tools.confined.plain import Kind

__all__ = ["Answer", "Entry", "Files", "Http", "Kind", "Listing", "Stat"]
