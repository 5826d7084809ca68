"""Where nodes of Python stand, in characters of the text: Python itself counts lines and bytes."""

import ast
import re

from vegakit.lang.tree import Node

__all__ = ["Places"]

_LINE_END = re.compile(r"\r\n|\r|\n")


class Places:
    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._is_ascii = text.isascii()

    def at(self, line: int, column: int) -> int:
        """`column` counts bytes of UTF-8."""
        start = self._starts[min(max(line, 1), len(self._starts)) - 1]
        if self._is_ascii:
            return min(start + column, len(self.text))
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        head = self.text[start:end].encode()[:column]
        return start + len(head.decode(errors="ignore"))

    def span(self, node: ast.AST) -> Node:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None)
        at = self.at(line, column)
        end = at + 1 if end_column is None else self.at(end_line, end_column)
        return Node(at, max(at, end))

    def source(self, node: ast.AST) -> str:
        span = self.span(node)
        return self.text[span.at : span.end]
