"""Format source: tokens and comments stay, blanks and some line breaks change (pure)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct, field

from vegakit.lang.diagnostics import DiagnosticCollector
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import GRANTS
from vegakit.lang.syntax.lexer import Tokens, tokenize
from vegakit.lang.syntax.parser import parse

# What a formatter moves about: tokens and comments, each string as one; and what the tree says of
# them.


class Atom(NamedTuple):
    """`lines` are the line breaks before it. Comments are of kind `comment` when they end with
    their line, else `note`."""

    kind: str
    text: str
    at: int
    end: int
    lines: int


class Landmarks(Struct):
    """Offsets at which things begin; of declarations also where they end."""

    statements: set[int] = field(default_factory=set)
    settings: set[int] = field(default_factory=set)
    declarations: dict[int, int] = field(default_factory=dict)
    maps: set[int] = field(default_factory=set)
    monitors: set[int] = field(default_factory=set)
    periods: dict[int, int] = field(default_factory=dict)
    supervisors: list[tuple[int, int]] = field(default_factory=list)

    def starts(self, at: int) -> bool:
        """Return whether a statement, a setting or a declaration begins at this offset."""
        return at in self.statements or at in self.settings or at in self.declarations


def landmarks_of(source: tree.Source) -> Landmarks:
    """Return where the things of a file begin that the layout depends on."""
    marks = Landmarks()
    for node in tree.below(source):
        _mark(node, marks)
    return marks


def _mark(node: tree.Node, marks: Landmarks) -> None:
    if isinstance(node, tree.Decl):
        marks.declarations[node.at] = node.end
    match node:
        case tree.Source(body=body):
            marks.statements.update(stmt.at for stmt in body)
        case tree.Block(at=at, body=body) if not _is_else_if(node):
            marks.statements.update(stmt.at for stmt in body)
        case tree.Monitor(body=tree.Block(at=at)):
            marks.monitors.add(at)
        case tree.MapLit(at=at) | tree.MapType(at=at):
            marks.maps.add(at)
        case tree.MoneyLit(at=at, end=end, period=period) if period:
            marks.periods[at] = end
        case tree.Field(at=at):
            marks.settings.add(at)
        case _:
            _mark_settings(node, marks)


def _is_else_if(block: tree.Block) -> bool:
    """The block that stands for what follows `else` has no braces."""
    return bool(block.body) and block.body[0].at == block.at


def _mark_settings(node: tree.Node, marks: Landmarks) -> None:
    settings: tuple[object, ...] = ()
    match node:
        case tree.AgentField(at=at, value=value):
            marks.settings.add(at)
            settings = value if isinstance(value, tuple) else ()
        case tree.Spawn(rules=rules):
            settings = rules or ()
        case tree.SupervisorDecl(settings=settings, at=at, end=end):
            marks.supervisors.append((at, end))
        case _:
            pass
    marks.settings.update(found.at for found in settings if isinstance(found, tree.Setting))


def atoms_of(text: str, tokens: Tokens, marks: Landmarks) -> list[Atom]:
    """Return the tokens and comments of a file in order."""
    spans = sorted(
        [*_token_spans(tokens, marks), *(("", *span) for span in tokens.comments)],
        key=lambda span: span[1],
    )
    atoms: list[Atom] = []
    last = 0
    for kind, at, end in spans:
        if at < last:
            continue  # a comment inside a string
        written = text[at:end]
        comment = "comment" if written.startswith("//") else "note"
        atoms.append(Atom(kind or comment, written.rstrip(), at, end, text.count("\n", last, at)))
        last = end
    return atoms


def _token_spans(tokens: Tokens, marks: Landmarks) -> Iterator[tuple[str, int, int]]:
    """Kind and place of each token; a string, and an amount with its period, are one."""
    i = 0
    while (kind := tokens.kinds[i]) != "eof":
        at, end = tokens.starts[i], tokens.ends[i]
        if kind == "open":
            i = _closing(tokens, i)
            kind, end = "text", tokens.ends[i]
        elif at in marks.periods:
            i += 2
            end = marks.periods[at]
        yield kind, at, end
        i += 1


def _closing(tokens: Tokens, i: int) -> int:
    depth = 0
    while True:
        depth += (tokens.kinds[i] == "open") - (tokens.kinds[i] == "close")
        if depth == 0:
            return i
        i += 1


# What stands between two atoms on one line: nothing, a blank, or two.


_CLAUSES = frozenset([*GRANTS, "budget", "idempotent"])
_OPTIONS = frozenset("timeout budget limit wallet named by confirm speculate".split())
_VALUES = frozenset("name text int float money duration true false null".split())
_NONE_BEFORE = frozenset([")", "]", ",", ";", ".", "::", ":", "?"])
_NONE_AFTER = frozenset(["(", "[", ".", "::"])
_NOTHING = Atom("", "", -1, -1, 0)


def gap(
    atoms: Sequence[Atom], i: int, marks: Landmarks, braces: Sequence[int], goes_on: bool
) -> str:
    """Before atom i, which is not the first of its line. `braces` gives the place of the `{` of a
    `}`; `goes_on` is true on a line that does not begin a statement."""
    before, atom = atoms[i - 1], atoms[i]
    if "note" in {before.kind, atom.kind}:
        return " "
    if before.text in _NONE_AFTER or atom.text in _NONE_BEFORE or _is_unary(atoms, i - 1, marks):
        return ""
    if before.text == "{" or atom.text == "}":
        brace = before.at if before.text == "{" else atoms[braces[i]].at
        return "" if brace in marks.maps or before.text + atom.text == "{}" else " "
    if atom.text in {"(", "["} and _is_value(atoms, i - 1, marks, braces):
        return "" if not _takes_list_or_value(atoms, i - 1, marks, atom.text) else " "
    return "  " if _stands_apart(atoms, i, marks, goes_on) else " "


def _is_value(atoms: Sequence[Atom], i: int, marks: Landmarks, braces: Sequence[int]) -> bool:
    """A value ends here, so that what follows may cling to it or go on from it."""
    if i < 0:
        return False
    atom = atoms[i]
    if atom.text == "}":
        return atoms[braces[i]].at in marks.maps
    return atom.kind in _VALUES or atom.text in {")", "]", "?"}


def _is_unary(atoms: Sequence[Atom], i: int, marks: Landmarks) -> bool:
    """Atom i is a minus with nothing before it that could be subtracted from."""
    if atoms[i].text != "-":
        return False
    before = atoms[i - 1] if i else _NOTHING
    ends_value = before.kind in _VALUES or before.text in {")", "]", "}"}
    return not ends_value or _is_word(atoms, i - 1, marks)


def _takes_list_or_value(atoms: Sequence[Atom], i: int, marks: Landmarks, opening: str) -> bool:
    """`tools [...]`, `may [...]`, `timeout (...)`: the word is not indexed or called."""
    atom = atoms[i]
    if atom.kind != "name":
        return False
    if opening == "[" and (atom.at in marks.settings or _is_clause(atoms, i, marks)):
        return True
    return _is_word(atoms, i, marks)


def _is_word(atoms: Sequence[Atom], i: int, marks: Landmarks) -> bool:
    """A soft keyword with its value behind it."""
    atom = atoms[i]
    if atom.kind != "name" or atom.at in marks.statements:
        return False
    if atom.at in marks.settings:
        return True
    before = atoms[i - 1] if i else _NOTHING
    behind = before.kind in _VALUES or before.text in {")", "]", "}", "session"}
    return atom.text in _OPTIONS and behind


def _is_clause(atoms: Sequence[Atom], i: int, marks: Landmarks) -> bool:
    atom = atoms[i]
    before = atoms[i - 1] if i else _NOTHING
    behind = before.kind in _VALUES or before.text in {")", "]", "}", "?"}
    return atom.text in _CLAUSES and behind and not marks.starts(atom.at)


def _stands_apart(atoms: Sequence[Atom], i: int, marks: Landmarks, goes_on: bool) -> bool:
    atom = atoms[i]
    if atom.at in marks.settings:
        return atom.text != "per" and atoms[i - 1].text != ","
    return goes_on and _is_clause(atoms, i, marks)


# Where lines break and how far they are indented.


_OPENING = frozenset(["(", "[", "{"])
_CLOSING = frozenset([")", "]", "}"])
_INDENT = 4
_COMMENTS = frozenset(["comment", "note"])


def format_source(text: str) -> str:
    """Return source laid out. A text with a fault in it is returned as it came."""
    parsed = parse(text)
    if parsed.diagnostics:
        return text
    marks = landmarks_of(parsed.source)
    atoms = atoms_of(text, tokenize(text, DiagnosticCollector("")), marks)
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
