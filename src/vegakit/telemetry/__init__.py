"""Records of what happened, for people and their tools (adapter, host), and where they go.

Every sink of this room hides keys by itself, and content unless its `Redactor` lets it pass. A sink
takes a record at once and writes it in the background. Spans are part of every call; files and
exporters are loaded when a sink is opened.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
