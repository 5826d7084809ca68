"""One file of source to its tree."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from vegakit.lang.diagnostics import Diagnostic, Edit, EnoughFoundError, Findings
from vegakit.lang.lexer import tokenize
from vegakit.lang.parsing.agents import AgentParser
from vegakit.lang.parsing.blocks import UnclosedError
from vegakit.lang.parsing.cursor import FaultError
from vegakit.lang.steps import took
from vegakit.lang.tree import Decl, Source, Stmt

__all__ = ["Parsed", "parse"]

_T = TypeVar("_T")
_AFTER_KEYWORDS = frozenset(["name", "text", "open", "{"])
_AFTER_VALUES = frozenset(
    "<- <~ . = ( [ ; :: ?? or and == != < <= > >= in + - * / % as && || += -= *= /= %= eof".split()
)
"""Behind a word that could begin a declaration these show that it is a name."""


class Parsed(Struct, frozen=True):
    """With diagnostics, the tree holds only what could be read."""

    source: Source
    diagnostics: tuple[Diagnostic, ...]


def parse(text: str, file: str = "main.vega") -> Parsed:
    findings = Findings(file)
    source = Source(0, len(text), None, (), ())
    took(1 + len(text) // 20)
    with suppress(EnoughFoundError):
        parser = _Parser(text, tokenize(text, findings), findings)
        took(len(parser.kinds))
        source = parser.file()
    return Parsed(source, findings.in_order())


class _Parser(AgentParser):
    def file(self) -> Source:
        """200 levels fit on a fresh stack; whoever calls may have used some of it already."""
        try:
            return self.program()
        except RecursionError:
            self.too_deep()

    def program(self) -> Source:
        decls: list[Decl] = []
        body: list[Stmt] = []
        header = self.recovered(self.header) if self.has_header() else None
        while (kind := self.kinds[self.i]) != "eof":
            if kind in {";", "}"}:
                self.stray(kind)
                continue
            found = self.recovered(self.item)
            if isinstance(found, Decl):
                decls.append(found)
            elif found is not None:
                body.append(found)
        return Source(0, len(self.source), header, tuple(decls), tuple(body))

    def has_header(self) -> bool:
        return self.is_word("program") and self.kinds[1] == "name"

    def item(self) -> Decl | Stmt:
        kind, word, follows = self.kinds[self.i], self.values[self.i], self.kinds[self.i + 1]
        if kind != "name":
            return self.function() if kind == "fn" else self.statement(kind)
        if word not in _DECLARATIONS and follows in _AFTER_KEYWORDS:
            word = self.meant_word(outside=True)
            if word and word not in _DECLARATIONS:
                return self.meant_statement(word)
        parse = _DECLARATIONS.get(word)
        return parse(self) if parse and follows not in _AFTER_VALUES else self.statement(kind)

    def stray(self, kind: str) -> None:
        if kind == ";":
            self.stray_semicolon()
            return
        at, end = self.starts[self.i], self.ends[self.i]
        self.report("unopened", "this `}` closes nothing", at, end, "remove it", Edit(at, end, ""))
        self.i += 1

    def late_header(self) -> Decl:
        if self.i == 0:
            self.i = 1
            self.expected("`may [...]` after `program`")
        found = "`program` begins a file; it cannot stand further down"
        self.fail("misplaced", found, "move the line to the top of the file")

    def recovered(self, parse: Callable[[], _T]) -> _T | None:
        """After a fault the rest of what was parsed is skipped."""
        began, self.depth = self.i, 0
        self.open_blocks.clear()
        try:
            return parse()
        except FaultError:
            self.go_on(began)
            if self.kinds[self.i] == "}":
                self.i += 1
        except UnclosedError:
            self.i = max(self.i, began + 1)
        return None


_DECLARATIONS: dict[str, Callable[[_Parser], Decl]] = {
    "fn": _Parser.function,
    "agent": _Parser.agent,
    "tool": _Parser.tool,
    "type": _Parser.type_decl,
    "use": _Parser.use,
    "supervisor": _Parser.supervisor,
    "program": _Parser.late_header,
}
