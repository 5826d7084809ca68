"""Where lines break and how far they are indented."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from vegakit.lang.diagnostics import Findings
from vegakit.lang.formatting.atoms import Atom, Landmarks, atoms_of, landmarks_of
from vegakit.lang.formatting.spacing import gap
from vegakit.lang.lexer import tokenize
from vegakit.lang.parsing import parse

__all__ = ["format_source"]

_OPENING = frozenset(["(", "[", "{"])
_CLOSING = frozenset([")", "]", "}"])
_INDENT = 4
_COMMENTS = frozenset(["comment", "note"])


def format_source(text: str) -> str:
    """A text with a fault in it is given back as it came."""
    parsed = parse(text)
    if parsed.diagnostics:
        return text
    marks = landmarks_of(parsed.source)
    atoms = atoms_of(text, tokenize(text, Findings("")), marks)
    marks.settings.update(_children(atoms, marks))
    if parsed.source.header is not None:
        first = next(atom for atom in atoms if atom.kind not in _COMMENTS)
        marks.declarations[first.at] = parsed.source.header.end  # its node begins behind `program`
    return _Layout(atoms, marks).text()


def _children(atoms: list[Atom], marks: Landmarks) -> Iterator[int]:
    """`children [...]` is a setting that has no node of its own."""
    for atom, follows in pairwise(atoms):
        if atom.text != "children" or follows.text != "[":
            continue
        if any(at < atom.at < end for at, end in marks.supervisors):
            yield atom.at


class _Row(NamedTuple):
    """One line: what stands on it, and a comment behind."""

    code: str
    comment: str


class _Open(NamedTuple):
    """A bracket that is open: its own indentation, and whether commas part what is in it."""

    indent: int
    inner: int
    commas: bool


class _Layout:
    def __init__(self, atoms: list[Atom], marks: Landmarks) -> None:
        self.atoms = atoms
        self.marks = marks
        self.partner = _partners(atoms)
        self.breaks = [False] * len(atoms)
        ends = marks.declarations
        self.begun = {ends[atom.at]: i for i, atom in enumerate(atoms) if atom.at in ends}
        self.decide()

    # Where lines break

    def decide(self) -> None:
        open_at: list[int] = []
        head = 0
        for i, atom in enumerate(self.atoms):
            if i and atom.text in _CLOSING:
                open_at.pop()
            starts = self.marks.starts(atom.at) or atom.text in {"else", "catch"}
            self.breaks[i] = i > 0 and self.breaks_before(i, open_at[-1] if open_at else -1, head)
            if starts or self.breaks[i]:
                head = i if starts else head
            if atom.text in _OPENING:
                open_at.append(i)

    def breaks_before(self, i: int, opened: int, head: int) -> bool:
        before, atom = self.atoms[i - 1], self.atoms[i]
        if before.kind == "comment":
            return True
        if atom.kind in _COMMENTS:
            return atom.lines > 0
        if before.text == "{" and atom.text == "}":
            return False
        if self.is_many(i - 1) and before.at not in self.marks.monitors:
            return True
        if atom.text == "}":
            return self.is_many(self.partner[i]) or atom.lines > 0
        if atom.at in self.marks.statements or atom.at in self.marks.declarations:
            return self.begins_row(i, opened)
        return atom.lines > 0 and not self.is_joined(i, opened, head)

    def begins_row(self, i: int, opened: int) -> bool:
        """A statement or declaration does, unless its block stands on one line."""
        before = self.atoms[i - 1]
        if before.kind == "note" and self.breaks[i - 1] and not self.atoms[i].lines:
            return False
        return opened < 0 or self.is_many(opened)

    def is_joined(self, i: int, opened: int, head: int) -> bool:
        """Line breaks that are taken out."""
        before, atom = self.atoms[i - 1], self.atoms[i]
        if before.kind == "note":
            return False
        if atom.text in {"else", "catch"}:
            return before.text == "}"
        if atom.text in {";", ","}:
            return True
        if opened >= 0 and self.atoms[opened].at in self.marks.monitors:
            return before.text == "{" or atom.text == "->"
        is_block = atom.text == "{" and atom.at not in self.marks.maps
        return is_block and not any(self.breaks[head + 1 : i])

    def is_many(self, i: int) -> bool:
        """Atom i opens a block that was written over several lines."""
        atom = self.atoms[i]
        if atom.text != "{" or atom.at in self.marks.maps:
            return False
        return any(self.atoms[j].lines for j in range(i + 1, self.partner[i] + 1))

    # Blank lines

    def has_blank(self, i: int) -> bool:
        """An empty line stands before the line that atom i begins."""
        before, atom = self.atoms[i - 1], self.atoms[i]
        if before.text in _OPENING or atom.text in _CLOSING or atom.text in {"else", "catch"}:
            return False
        if atom.lines > 1:
            return True
        if before.kind in _COMMENTS and (self.breaks[i - 1] or i == 1):
            return False  # the comment belongs to what follows
        return self.parts_declarations(i)

    def parts_declarations(self, i: int) -> bool:
        """A declaration of several lines ends before atom i or begins at it or its comment."""
        last = i - 1
        while last > 0 and self.atoms[last].kind in _COMMENTS:
            last -= 1
        first = i
        while first + 1 < len(self.atoms) and self.atoms[first].kind in _COMMENTS:
            first += 1
            if self.atoms[first].lines > 1:
                return self.ends_many(last) and self.marks.starts(self.atoms[first].at)
        starts = self.marks.starts(self.atoms[first].at)
        return starts and (self.ends_many(last) or self.starts_many(first))

    def starts_many(self, i: int) -> bool:
        end = self.marks.declarations.get(self.atoms[i].at)
        if end is None:
            return False
        while i + 1 < len(self.atoms) and self.atoms[i + 1].at < end:
            i += 1
            if self.breaks[i]:
                return True
        return False

    def ends_many(self, i: int) -> bool:
        first = self.begun.get(self.atoms[i].end)
        return first is not None and self.starts_many(first)

    # Lines

    def text(self) -> str:
        rows: list[_Row] = []
        stack: list[_Open] = []
        line = comment = ""
        indent = level = 0
        goes_on = False
        for i, atom in enumerate(self.atoms):
            closed = stack.pop() if atom.text in _CLOSING else None
            if i == 0 or self.breaks[i]:
                if i:
                    rows.append(_Row(line, comment))
                    rows += [_Row("", "")] if self.has_blank(i) else []
                level = stack[-1].inner if stack else 0
                goes_on = closed is None and self.goes_on(i, stack)
                indent = closed.indent if closed else level + goes_on
                level = closed.indent if closed else level
                line, comment = " " * (_INDENT * indent) + atom.text, ""
            elif atom.kind == "comment":
                comment = atom.text
            else:
                line += gap(self.atoms, i, self.marks, self.partner, goes_on) + atom.text
            if atom.text in _OPENING:
                is_block = atom.text == "{" and atom.at not in self.marks.maps
                around = stack[-1].inner if stack else 0
                own = min(level, around) if is_block else indent
                stack.append(_Open(own, own + 1, not is_block))
        rows.append(_Row(line, comment))
        return "\n".join(_aligned(rows)).strip("\n") + "\n" if self.atoms else ""

    def goes_on(self, i: int, stack: list[_Open]) -> bool:
        """The line that atom i begins continues what was begun on a line before."""
        atom = self.atoms[i]
        if i == 0 or atom.kind in _COMMENTS or self.marks.starts(atom.at):
            return False
        if atom.text in {"else", "catch"} or (atom.text == "{" and atom.at not in self.marks.maps):
            return False
        last = i - 1
        while last > 0 and self.atoms[last].kind in _COMMENTS:
            last -= 1
        parted = self.atoms[last].text in {"(", "[", "{", ","}
        return not (parted and stack and stack[-1].commas)


def _partners(atoms: list[Atom]) -> list[int]:
    """For each bracket the place of the one it belongs to."""
    partner = [-1] * len(atoms)
    opened: list[int] = []
    for i, atom in enumerate(atoms):
        if atom.text in _OPENING:
            opened.append(i)
        elif atom.text in _CLOSING:
            partner[i] = opened.pop()
            partner[partner[i]] = i
    return partner


def _aligned(rows: list[_Row]) -> list[str]:
    """Comments behind lines that follow each other stand in one column."""
    lines: list[str] = []
    for i, row in enumerate(rows):
        if not row.comment:
            lines.append(row.code)
            continue
        first = last = i
        while first > 0 and rows[first - 1].comment:
            first -= 1
        while last + 1 < len(rows) and rows[last + 1].comment:
            last += 1
        width = max(len(other.code) for other in rows[first : last + 1])
        lines.append(f"{row.code.ljust(width)}  {row.comment}")
    return lines
