"""Programs that are typed piece by piece: each piece becomes a program of its own (pure).

    what is typed        what becomes of it
    ─────────────────    ──────────────────────────────────────────────────────────
    agent, fn, type, …   is kept, in place of an earlier one of that name
    statements           the main of a program with all that is kept
    an expression        the same, and its value is called `it`

Variables go from one such program to the next: they are arguments of its `main`, and fields of what
that returns. So every rule of a program holds for a piece, whoever runs it, and nothing is done
twice. What lives only while a program runs, such as a process, ends with its piece.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from vegakit.lang.check.symbols import Checked, ReadSource
from vegakit.lang.diagnostics import Diagnostic, DiagnosticCollector, TooManyDiagnosticsError
from vegakit.lang.frontends import check_program
from vegakit.lang.syntax.lexer import tokenize
from vegakit.lang.syntax.parser import parse
from vegakit.lang.syntax.tree import Decl, ExprStmt, FnDecl, Let, Source
from vegakit.lang.types import (
    NOTHING,
    NULL,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    RecordOf,
    Type,
    type_label,
)

IT = "it"
"""The variable that has the value of an expression that was typed."""
PIECE_FILE = "repl.vega"
"""Where a piece stands by name; no such file is written or read."""
_SCOPE, _HELD = "ReplScope", "it_now"
_ENDS = (";", "}")
_NOTHING_STAYS: Mapping[str, Type] = MappingProxyType({})
_OPENS, _CLOSES = ("(", "[", "{"), (")", "]", "}")


class TypedVariable(NamedTuple):
    """A variable and its value, as programs take and return it."""

    kind: Type
    value: Any


class Piece(NamedTuple):
    """A piece says what became of what was typed: `told` is wrong with it, and stands in `text`.
    Without `checked` there is nothing to run; else it runs with the arguments `given`, and returns
    the variables that `stay`. Those that are `gone` end with it."""

    told: tuple[Diagnostic, ...] = ()
    text: str = ""
    checked: Checked | None = None
    given: tuple[Any, ...] = ()
    stay: Mapping[str, Type] = _NOTHING_STAYS
    gone: tuple[str, ...] = ()
    shows: bool = False


class _Done(NamedTuple):
    """A piece that came to its end: its statements, and the expression that was its last, with the
    type of its value."""

    text: str
    shown: str = ""
    kind: Type | None = None


class _Program(NamedTuple):
    """A piece as a program, and where in it the piece itself stands."""

    text: str
    at: int


def is_open(text: str) -> bool:
    """Return whether a bracket in it is not closed yet, so that more of the piece will be typed."""
    try:
        kinds = tokenize(text, DiagnosticCollector(PIECE_FILE)).kinds
    except TooManyDiagnosticsError:
        return False
    return sum(kind in _OPENS for kind in kinds) > sum(kind in _CLOSES for kind in kinds)


def _read(text: str) -> tuple[Source, tuple[Diagnostic, ...]]:
    """Return the tree of a piece. The semicolon behind its last statement may be left out."""
    parsed = parse(text, PIECE_FILE)
    if parsed.diagnostics:
        closed = parse(_with_semicolon(text), PIECE_FILE)
        parsed = parsed if closed.diagnostics else closed
    return parsed.source, parsed.diagnostics


class PieceByPiece:
    """It knows what was declared, and which variables there are, after the pieces so far."""

    def __init__(self, read: ReadSource) -> None:
        self._read_source = read
        self._header = ""
        self._declared: dict[str, str] = {}
        self._done: list[_Done] = []
        self.variables: dict[str, TypedVariable] = {}

    def take(self, typed: str) -> Piece:
        """Keep a declaration, or make a program of statements."""
        tree, wrong = _read(typed)
        if wrong:
            return Piece(wrong, typed)
        if tree.body and not tree.decls and tree.header is None:
            return self._statements(typed, tree)
        if tree.body:
            what = "declarations and statements are typed one after the other, not in one piece"
            remedy, first = "type the declarations first", tree.body[0]
            found = Diagnostic("misplaced", what, PIECE_FILE, first.at, first.end, remedy)
            return Piece((found,), typed)
        return self._declare(typed, tree)

    def done(self, typed: str, piece: Piece, values: dict[str, Any]) -> None:
        """Take the values that a piece has returned."""
        self._done.append(self._as_done(typed, piece))
        self.variables = {
            name: TypedVariable(kind, values[name]) for name, kind in piece.stay.items()
        }

    def as_program(self) -> str:
        """Return all that was typed and came to its end, as one program that prints what was
        shown."""
        is_held, is_used = list[bool](), False
        for one in reversed(self._done):
            is_held.append(is_used and bool(one.shown))
            is_used = _uses_it(one.text) or _uses_it(one.shown) or (is_used and not one.shown)
        lines, kind = list[str](), None
        for one, held in zip(self._done, reversed(is_held), strict=True):
            lines += one.text.splitlines()
            if held:
                # Of another type it is another variable, as one that was declared anew.
                let = "" if kind == one.kind else "let "
                lines += [f"{let}{IT} = {one.shown};", f"print({IT});"]
                kind = one.kind
            elif one.shown:
                lines.append(f"print({one.shown});")
        body = "\n".join(f"    {line}" for line in lines)
        return "\n\n".join([*self._kept(), f"fn main() {{\n{body}\n}}"]) + "\n"

    def _as_done(self, typed: str, piece: Piece) -> _Done:
        """Return a piece as it stands in one program with those before: a variable that it declares
        anew, with the type that it had, is given a new value."""
        tree, _ = _read(typed)
        text, shown, end = typed, "", len(typed)
        if piece.shows and isinstance(last := tree.body[-1], ExprStmt):
            text, shown, end = typed[: last.at], typed[last.value.at : last.value.end], last.at
        for one in reversed(tree.body):
            known = self.variables.get(one.name) if isinstance(one, Let) else None
            if (
                isinstance(one, Let)
                and known is not None
                and known.kind == piece.stay.get(one.name)
            ):
                text = f"{text[: one.at]}{one.name} = {text[one.value.at :]}"
        text = text.strip()
        return _Done(_ended(text) if text and end else text, shown, piece.stay.get(IT))

    # Declarations are checked with all others, and kept if nothing is wrong with them.

    def _declare(self, typed: str, tree: Source) -> Piece:
        before = self._header, self._declared
        names = [_name_of(one) for one in tree.decls]
        self._declared = {name: text for name, text in before[1].items() if name not in names}
        for name, one in zip(names, tree.decls, strict=True):
            self._declared[name] = typed[one.at : one.end]
        if tree.header is not None:
            self._header = f"program {typed[tree.header.at : tree.header.end]}"
        text = "\n\n".join([*self._kept(), *([] if "main" in names else ["fn main() {}"])])
        # What was spread over several declarations is shown where it stands among all of them.
        at = text.find(typed) if typed in text else len(text) + 1
        checked, piece = self._checked(_Program(text, at), typed)
        if "main" in names:
            [main] = [one for one in tree.decls if _name_of(one) == "main"]
            what, remedy = "there is no `main` here: what is typed is run", "give it another name"
            found = Diagnostic("misplaced", what, PIECE_FILE, main.at, main.end, remedy)
            checked, piece = None, Piece((found,), typed)
        if checked is None:
            self._header, self._declared = before
        else:
            self._forget_old({*names})
        return piece

    def _kept(self) -> list[str]:
        return [*([self._header] if self._header else []), *self._declared.values()]

    def _forget_old(self, names: set[str]) -> None:
        """Forget what is of a type that was declared anew: it may not be one of that any more."""
        for name, variable in [*self.variables.items()]:
            if names & {*_records(variable.kind)}:
                del self.variables[name]

    # Statements are the main of a program.

    def _statements(self, typed: str, tree: Source) -> Piece:
        anew = {one.name for one in tree.body if isinstance(one, Let)}
        program = self._program(_ended(typed), anew)
        checked, piece = self._checked(program, typed)
        if checked is None:
            return piece
        text, shows = _ended(typed), False
        if isinstance(last := tree.body[-1], ExprStmt):
            # Sound as it was typed; a value that cannot stay, or none, is not shown.
            held = f"{typed[: last.at]}let {_HELD} = {typed[last.value.at : last.value.end]};"
            program = self._program(held, anew)
            found, _ = self._check(program)
            if found is not None and _can_stay(_declared_in(found, program.at)[_HELD]):
                text, shows, checked = held, True, found
        kinds = {name: one.kind for name, one in self.variables.items()}
        kinds |= _declared_in(checked, self._program(text, anew).at)
        if shows:
            kinds[IT] = kinds.pop(_HELD)
        stay = {name: kind for name, kind in kinds.items() if _can_stay(kind)}
        checked, last_found = self._checked(self._program(text, anew, stay, shows=shows), typed)
        if checked is None:
            return last_found
        given = tuple(one.value for name, one in self.variables.items() if name not in anew)
        gone = tuple(name for name in kinds if name not in stay)
        return Piece(piece.told, typed, checked, given, stay, gone, shows)

    def _program(
        self,
        text: str,
        anew: set[str],
        stay: Mapping[str, Type] = _NOTHING_STAYS,
        *,
        shows: bool = False,
    ) -> _Program:
        """Return a program whose main is this text; it returns the variables that stay, `it` with
        the value that it `shows`. Those that the text declares `anew` are not there before."""
        given = {
            name: type_label(one.kind) for name, one in self.variables.items() if name not in anew
        }
        params = ", ".join(f"before_{name}: {label}" for name, label in given.items())
        known = " ".join(f"let {name}: {label} = before_{name};" for name, label in given.items())
        declared, result, end = [*self._declared.values()], "", ""
        if stay:
            fields = ", ".join(f"{name}: {type_label(kind)}" for name, kind in stay.items())
            declared = [*declared, f"type {_SCOPE} {{ {fields} }}"]
            held = {IT: _HELD} if shows else {}
            values = ", ".join(f"{name}: {held.get(name, name)}" for name in stay)
            result, end = f" -> {_SCOPE}", f"\nreturn {_SCOPE}({values});"
        # On the first line, so that an error of the run names the lines of the piece.
        before = f"{self._header} fn main({params}){result} {{ {known} ".lstrip()
        return _Program("\n\n".join([f"{before}{text}{end}\n}}", *declared]), len(before))

    def _check(self, program: _Program) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
        checked, found = check_program(program.text, PIECE_FILE, self._read_source)
        is_sound = all(one.severity != "error" for one in found)
        return (checked if is_sound else None), found

    def _checked(self, program: _Program, typed: str) -> tuple[Checked | None, Piece]:
        """Return the program if it is sound, and what is wrong with what was typed."""
        checked, found = self._check(program)
        # What is not used now may be used by the next piece.
        found = tuple(one for one in found if one.code not in _FOR_WHOLE)
        end = program.at + len(typed)
        ours = tuple(
            replace(one, at=one.at - program.at, end=one.end - program.at, edit=None)
            for one in found
            if program.at <= one.at <= end
        )
        if ours or checked is not None:
            return checked, Piece(ours, typed)
        return None, Piece(found, program.text)


_FOR_WHOLE = ("unused-variable", "no-effect")
"""Warnings of what is no fault in a piece: its value is shown, or used by the next one."""


def _uses_it(text: str) -> bool:
    return re.search(rf"\b{IT}\b", text) is not None


def _ended(typed: str) -> str:
    return typed if typed.endswith(_ENDS) else _with_semicolon(typed)


def _with_semicolon(typed: str) -> str:
    """Add it on a line of its own behind what may be a comment."""
    return f"{typed}\n;" if "//" in typed.rpartition("\n")[2] else f"{typed};"


def _name_of(decl: Decl) -> str:
    """Return the name by which a declaration takes the place of an earlier one."""
    return str(getattr(decl, "name", "") or f"{decl.at}:{decl.end}")


def _declared_in(checked: Checked, at: int) -> dict[str, Type]:
    """Return the variables that a piece declares, with their types."""
    source = checked.units[checked.main].source
    [main] = [one for one in source.decls if isinstance(one, FnDecl) and one.name == "main"]
    lets = [one for one in main.body.body if isinstance(one, Let) and one.at >= at]
    return {one.name: checked.types[id(one)] for one in lets}


def _can_stay(kind: Type) -> bool:
    """Return whether the type can be written in a program, as all can whose values last."""
    match kind:
        case Plain(name=name):
            return name[0] not in "?!" and kind not in {NULL, NOTHING}
        case OptionalOf(inner=inner) | ListOf(inner=inner) | MapOf(inner=inner):
            return _can_stay(inner)
        case RecordOf() | ChoiceOf():
            return True
        case _:
            return False


def _records(kind: Type) -> Iterator[str]:
    match kind:
        case RecordOf(name=name):
            yield name
        case ListOf(inner=inner) | MapOf(inner=inner) | OptionalOf(inner=inner):
            yield from _records(inner)
        case _:
            pass
