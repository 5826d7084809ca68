"""What a formatter moves about: tokens and comments, each string as one; and what the tree says of
them."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, field

from vegakit.lang.lexer import Tokens
from vegakit.lang.tree import (
    AgentField,
    Block,
    Decl,
    Field,
    MapLit,
    MapType,
    MoneyLit,
    Monitor,
    Node,
    Setting,
    Source,
    Spawn,
    SupervisorDecl,
    below,
)

__all__ = ["Atom", "Landmarks", "atoms_of", "landmarks_of"]


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
        return at in self.statements or at in self.settings or at in self.declarations


def landmarks_of(source: Source) -> Landmarks:
    marks = Landmarks()
    for node in below(source):
        _mark(node, marks)
    return marks


def _mark(node: Node, marks: Landmarks) -> None:
    if isinstance(node, Decl):
        marks.declarations[node.at] = node.end
    match node:
        case Source(body=body):
            marks.statements.update(stmt.at for stmt in body)
        case Block(at=at, body=body) if not _is_else_if(node):
            marks.statements.update(stmt.at for stmt in body)
        case Monitor(body=Block(at=at)):
            marks.monitors.add(at)
        case MapLit(at=at) | MapType(at=at):
            marks.maps.add(at)
        case MoneyLit(at=at, end=end, period=period) if period:
            marks.periods[at] = end
        case Field(at=at):
            marks.settings.add(at)
        case _:
            _mark_settings(node, marks)


def _is_else_if(block: Block) -> bool:
    """The block that stands for what follows `else` has no braces."""
    return bool(block.body) and block.body[0].at == block.at


def _mark_settings(node: Node, marks: Landmarks) -> None:
    settings: tuple[object, ...] = ()
    match node:
        case AgentField(at=at, value=value):
            marks.settings.add(at)
            settings = value if isinstance(value, tuple) else ()
        case Spawn(rules=rules):
            settings = rules or ()
        case SupervisorDecl(settings=settings, at=at, end=end):
            marks.supervisors.append((at, end))
        case _:
            pass
    marks.settings.update(found.at for found in settings if isinstance(found, Setting))


def atoms_of(text: str, tokens: Tokens, marks: Landmarks) -> list[Atom]:
    spans = sorted(
        [*_token_spans(tokens, marks), *(("", *span) for span in tokens.comments)], key=_at
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


def _at(span: tuple[str, int, int]) -> int:
    return span[1]


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
