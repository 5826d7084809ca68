"""The Vega language: source, tokens, tree, checked tree, bytecode; formatter, diagnostics (pure).

text ── tokens ── tree ── checked ── module        parse, check_program, compile_program
             └─ format_source                      diagnostics come from every step

Who runs a compiled program needs neither parser nor checker, so each part is loaded when it is
first used.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
