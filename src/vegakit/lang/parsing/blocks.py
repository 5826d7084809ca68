"""Blocks in braces, and what is said of a brace that is missing.

A `}` further left than the line of its `{` is remembered: when it turns out later that a brace is
missing, that block is named and not the last one in the file.
"""

from typing import NoReturn

from vegakit.lang.diagnostics import Edit
from vegakit.lang.parsing.cursor import FaultError
from vegakit.lang.parsing.expressions import ExpressionParser
from vegakit.lang.tree import Block, Stmt

__all__ = ["BlockParser", "UnclosedError"]


class UnclosedError(Exception):
    """A declaration begins inside a block: the blocks around it are taken as closed."""


class BlockParser(ExpressionParser):
    def block(self, where: str = "") -> Block:
        opener = self.i
        if self.kinds[opener] != "{":
            self.no_block(where)
        self.i = opener + 1
        self.deeper()
        self.open_blocks.append(opener)
        body = self.statements()
        self.depth -= 1
        if self.kinds[self.i] == "eof":
            self.never_closed(opener)
        self.open_blocks.pop()
        self.watch_indent(opener)
        self.i += 1
        return Block(self.starts[opener], self.ends[self.i - 1], body)

    def statements(self) -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        kinds = self.kinds
        while (kind := kinds[self.i]) not in {"}", "eof"}:
            if kind == ";":
                self.stray_semicolon()
                continue
            began, depth = self.i, self.depth
            try:
                body.append(self.statement(kind))
            except FaultError:
                self.depth = depth
                self.go_on(began)
        return tuple(body)

    def go_on(self, began: int) -> None:
        self.skip_statement()
        if self.i == began:
            self.i += 1

    def statement(self, kind: str) -> Stmt:
        raise NotImplementedError

    # Faults

    def no_block(self, where: str) -> NoReturn:
        if self.kinds[self.i] == "=":
            edit = Edit(self.starts[self.i], self.ends[self.i], "==")
            self.fail("expected", "`=` does not compare", "write `==`", edit)
        what = f"`{{` {where}" if where else "`{`"
        self.expected(what, "blocks stand in braces, also those of one statement")

    def watch_indent(self, opener: int) -> None:
        """A `}` further left than the line of its `{`: remembered, in case one is missing."""
        if self.suspect >= 0 or not self.begins_line(self.i):
            return
        if self.indent(self.starts[self.i]) < self.indent(self.starts[opener]):
            self.suspect = opener

    def never_closed(self, opener: int) -> NoReturn:
        opener = self.suspect if self.suspect >= 0 else opener
        at = self.starts[opener]
        found = "this `{` is never closed"
        self.report("unclosed", found, at, at + 1, "add `}` where its block ends")
        raise UnclosedError

    def declaration_inside(self) -> NoReturn:
        word = self.values[self.i]
        if self.suspect >= 0 or self.indent(self.starts[self.i]) == 0:
            self.missing_brace(word)
        found = f"`{word}` cannot stand inside a block"
        self.fail("misplaced", found, "move the declaration to top level")

    def missing_brace(self, word: str) -> NoReturn:
        opener = self.suspect if self.suspect >= 0 else self.open_blocks[-1]
        where = f"the `{{` at {self.place(self.starts[opener])}"
        at, end = self.starts[self.i], self.ends[self.i]
        found = f"`{word}` begins here, but {where} is not closed"
        self.report("unclosed", found, at, end, "add `}` before it")
        self.suspect = -1
        raise UnclosedError
