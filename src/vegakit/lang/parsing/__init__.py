"""Tokens to a tree, going on after every fault.

    Cursor ── slips ── types ── settings ── sends ── expressions ── statements
                                                  ── declarations ── agents ── Parser

Each is a class that knows the ones before it; `Parser` at the end is the whole of it.
"""

from vegakit.lang.parsing.parser import Parsed, parse

__all__ = ["Parsed", "parse"]
