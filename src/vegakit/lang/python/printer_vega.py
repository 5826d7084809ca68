"""A program in Python as Vega: the same tree in its other spelling (pure)."""

import tokenize
from collections.abc import Iterator

from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.python.context import SourceMap
from vegakit.lang.python.lowering import lower
from vegakit.lang.python.printer_expressions import NotExpressibleError
from vegakit.lang.syntax.printer import Comments, print_source


def to_vega(text: str, file: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """Return the text, or why there is none."""
    lowered = lower(text, file)
    if lowered.diagnostics:
        return "", lowered.diagnostics
    if lowered.tools:
        name = next(iter(lowered.tools))
        what = f"`{name}` is a function of Python"
        remedy = f'pass it in: load("x.vega", tools=[{name}])'
        return "", (NotExpressibleError(lowered.source, what, remedy).diagnostic(file),)
    return print_source(lowered.source, Comments(text, _comments(text))), ()


def _comments(text: str) -> Iterator[tuple[int, list[str]]]:
    source_map = SourceMap(text)
    lines = text.split("\n")
    readline = iter(text.splitlines(keepends=True)).__next__
    for token in tokenize.generate_tokens(readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            at = source_map.at(line, len(lines[line - 1][:column].encode()))
            yield at, [f"//{token.string[1:]}"]
