"""Symbols of a program: its files, what they declare, what the checker found out about each name
and call, and the diagnostics it collects (pure).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import (
    MAX_DIAGNOSTICS,
    Diagnostic,
    Edit,
    TooManyDiagnosticsError,
    nearest,
)
from vegakit.lang.syntax.parser import Parsed, parse
from vegakit.lang.syntax.tree import (
    AgentDecl,
    AgentField,
    Decimal,
    Duration,
    Expr,
    FnDecl,
    ListLit,
    MoneyLit,
    Name,
    Node,
    Setting,
    Source,
    SupervisorDecl,
    Text,
    ToolDecl,
    ToolRef,
    TypeDecl,
    UseFile,
    Whole,
)
from vegakit.lang.types import NOTHING, Parameter, Signature, Type, type_label

# What the checker found out: the tree stays as it is, its meaning stands beside it.
#
# The tables are keyed by `id(node)`; the sources here keep the nodes alive.


class CalleeKind(StrEnum):
    """The kinds of things that can be called."""

    FUNCTION = "function"  # name: `unit::fn`, the unit empty for the main file
    TOOL = "tool"  # the same, of a tool declared in the program
    LIBRARY = "library"  # name: `str::trim`, `print`, `len`
    RECORD = "record"  # the type of the call says which
    MCP = "mcp"  # name: `server.tool`
    PYTHON = "python"  # name of a Python function passed in as a tool
    NODE = "node"  # the same, of one that only computes, as a node of Vesper


class NameKind(StrEnum):
    """The kinds of things that a bare name can stand for."""

    VARIABLE = "variable"
    AGENT = "agent"
    SUPERVISOR = "supervisor"


class Callee(Struct, frozen=True):
    """The function, tool or record that a call stands for."""

    kind: CalleeKind
    name: str


class Unit(Struct):
    """One file of the program. `uses` maps the names its `use` gives to the paths of files; `name`
    stands before `::` in full names: the file's stem, numbered where two are alike, and empty for
    the main file."""

    path: str
    text: str
    source: Source
    uses: dict[str, str]
    name: str = ""
    _line_ends: list[int] | None = None

    @property
    def line_ends(self) -> list[int]:
        """The offsets at which its lines end, found once: every function of the file asks."""
        if self._line_ends is None:
            self._line_ends = [at for at, char in enumerate(self.text) if char == "\n"]
        return self._line_ends


class Checked(Struct):
    """`units` maps paths to files, the main one first.

    - `types`: of every expression (of an `Ask`: of its answer when it is not `later` or a stream),
      and of every parameter, `let`, type declaration and type as written, keyed by the node. A
      whole number where a float is wanted (`let x: float = 1`, `x * 2`) has the type float
    - `callees`: of every Call; args are reordered and filled by `arguments` (for records in the
      order of fields, None where a field is left to null)
    - `names`: of every Name that is an expression
    - `full_names`: of Names of agents and supervisors, of their declarations, of functions, tools
      and `ToolRef`s: `unit::Name`, or `Name` in the main file; a tool inside an agent is
      `Agent.tool`
    - `kept`: what was made of it, by who made it, for the phases that need it again
    """

    main: str
    units: dict[str, Unit]
    types: dict[int, Type]
    callees: dict[int, Callee]
    arguments: dict[int, tuple[int | None, ...]]
    names: dict[int, NameKind]
    full_names: dict[int, str]
    kept: dict[str, Any] = field(default_factory=dict[str, Any])


# What the declarations of a program stand for: the names a file knows.


class RoutineSymbol(Struct, frozen=True):
    """A function or tool."""

    kind: CalleeKind
    full: str
    params: tuple[Parameter, ...]
    result: Type
    node: FnDecl | ToolDecl


class AgentSymbol(Struct, frozen=True):
    """A declared agent."""

    full: str
    node: AgentDecl


class SupervisorSymbol(Struct, frozen=True):
    """A declared supervisor."""

    full: str
    node: SupervisorDecl


class RecordSymbol(Struct, frozen=True):
    """A declared type, an alias too; without a node it is from Python."""

    type: Type
    node: TypeDecl | None


class ServerSymbol(Struct, frozen=True):
    """A declared MCP server."""

    server: str
    node: Node


class FileSymbol(Struct, frozen=True):
    """Another file; its names stand behind `name::`."""

    path: str
    node: Node


class NodeSymbol(Struct, frozen=True):
    """A node of Vesper, by its id, which is passed in as a tool."""

    id: str
    node: Node


Symbol: TypeAlias = (
    RoutineSymbol
    | AgentSymbol
    | SupervisorSymbol
    | RecordSymbol
    | ServerSymbol
    | FileSymbol
    | NodeSymbol
)

_WORDS = {
    AgentSymbol: "an agent",
    SupervisorSymbol: "a supervisor",
    RecordSymbol: "a type",
    ServerSymbol: "an MCP server",
    FileSymbol: "a file",
    NodeSymbol: "a node",
}


class Names(Struct):
    """The names of one file. `nested` are the tools inside agents, by the name of the agent;
    `others` are the files it uses; `top_level` are the variables of its statements at top level;
    `pending` are the types it declares."""

    unit: Unit
    own: dict[str, Symbol]
    nested: dict[str, dict[str, RoutineSymbol]]
    others: dict[str, "Names"]
    top_level: set[str]
    pending: dict[str, TypeDecl]

    def find(self, name: str) -> Symbol | None:
        """`Finder`, or `text::Finder` of a file that is used."""
        front, colons, last = name.rpartition("::")
        if not colons:
            return self.own.get(name)
        other = self.others.get(front)
        found = None if other is None else other.own.get(last)
        return None if isinstance(found, ServerSymbol | FileSymbol) else found

    def full(self, name: str) -> str:
        """Return the name with the file's name and `::` before it, or alone in the main file."""
        return f"{self.unit.name}::{name}" if self.unit.name else name


def described(declared: Symbol) -> str:
    """Return what a name stands for, in words."""
    if isinstance(declared, RoutineSymbol):
        return "a tool" if declared.kind is CalleeKind.TOOL else "a function"
    return _WORDS[type(declared)]


# Diagnostics as they are found, and the name that was perhaps meant.


_COMPARED = 60


class Reports:
    """The diagnostics of one program; `file` is the one being checked. With enough errors the
    check ends."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Diagnostic] = []
        self.errors = 0

    def error(
        self,
        code: str,
        where: Node,
        message: str,
        help: str = "",  # noqa: A002  (the field's name)
        edit: Edit | None = None,
    ) -> None:
        """Report an error. Raises `TooManyDiagnosticsError` when it is the last that is
        reported."""
        self.errors += 1
        self._add(Diagnostic(code, message, self.file, where.at, where.end, help, edit))
        if self.errors >= MAX_DIAGNOSTICS:
            raise TooManyDiagnosticsError

    def warn(
        self,
        code: str,
        where: Node,
        message: str,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
    ) -> None:
        """Report a warning, which is dropped when there are too many diagnostics already."""
        self._add(Diagnostic(code, message, self.file, where.at, where.end, help, edit, "warning"))

    def take(self, found: Iterable[Diagnostic]) -> None:
        """Add diagnostics that were made elsewhere; many errors among them do not end the check."""
        for one in found:
            self.errors += one.severity == "error"
            self._add(one)

    def _add(self, found: Diagnostic) -> None:
        if found.severity == "error" or len(self.found) < MAX_DIAGNOSTICS:
            self.found.append(found)

    def in_order(self) -> tuple[Diagnostic, ...]:
        """Return them by file and place, errors kept before warnings."""
        kept = sorted(self.found, key=lambda found: found.severity)[:MAX_DIAGNOSTICS]
        return tuple(sorted(kept, key=lambda found: (found.file, found.at)))


def closest_name(name: str, names: Iterable[str]) -> str:
    """The name that was meant, or ''; of very many names only the likeliest are compared."""
    wanted, characters = name.lower(), set(name.lower())
    alike = [other for other in names if abs(len(other) - len(name)) <= max(2, len(name) // 3)]
    if wanted in (lowered := {other.lower(): other for other in alike}):
        return lowered[wanted]
    if len(alike) > _COMPARED:
        alike.sort(key=lambda other: len(characters.symmetric_difference(other.lower())))
    return nearest(name, alike[:_COMPARED])


def replacement(where: Node, close: str) -> tuple[str, Edit | None]:
    """The help and the edit that put `close` there; neither when it is empty."""
    if not close:
        return "", None
    return f"did you mean `{close}`?", Edit(where.at, where.end, close)


# Agents that whoever runs a program declares: to the program they are its own.
#
# They stand in a file of their own that nobody can read or name, and are not checked: their names
# and settings come from outside. What they may cost and touch is known from their specs as of any
# agent.


GIVEN = "agents given"


def given_unit(agents: Sequence[AgentSpec]) -> Unit:
    """Return the unit of agents that the caller gives to the program."""
    return Unit(GIVEN, "", Source(0, 0, None, tuple(map(_decl, agents)), ()), {})


def signature_text(of: Signature) -> str:
    """`look(path: str, most?: int) -> [Finding]`, as a program would declare it."""
    params = (
        f"{one.name}{'?' if one.optional else ''}: {type_label(one.type)}" for one in of.params
    )
    result = "" if of.result == NOTHING else f" -> {type_label(of.result)}"
    return f"{of.name}({', '.join(params)}){result}"


def _models(spec: AgentSpec) -> Expr:
    names = tuple(Text(0, 0, (name,)) for name in spec.models)
    return ListLit(0, 0, names) if spec.fallbacks else names[0]


def _decl(spec: AgentSpec) -> AgentDecl:
    """Of the settings that a quote and a manifest need; who runs the agent has the others."""
    values: dict[str, Expr | None] = {
        "model": _models(spec),
        "system": Text(0, 0, (spec.system,)) if spec.system else None,
        "temperature": None if spec.temperature is None else Decimal(0, 0, spec.temperature),
        "max_tokens": None if spec.max_tokens is None else Whole(0, 0, spec.max_tokens),
        "max_steps": None if spec.max_steps is None else Whole(0, 0, spec.max_steps),
        "budget": None if spec.budget is None else MoneyLit(0, 0, spec.budget),
        "on_exceed": Name(0, 0, spec.on_exceed) if spec.on_exceed else None,
        "timeout": None if spec.timeout_ms is None else Duration(0, 0, spec.timeout_ms),
        "memory": Name(0, 0, "conversation") if spec.memory else None,
    }
    fields = [AgentField(0, 0, name, value) for name, value in values.items() if value is not None]
    if spec.retry is not None:
        attempts = Whole(0, 0, spec.retry["max_attempts"])
        fields.append(AgentField(0, 0, "retry", (Setting(0, 0, "max_attempts", attempts),)))
    refs = (
        *(ToolRef(0, 0, name) for name in spec.tools),
        *(ToolRef(0, 0, name, "yaml") for name in spec.yaml),
    )
    if refs:
        fields.append(AgentField(0, 0, "tools", refs))
    return AgentDecl(0, 0, spec.name, tuple(fields), ())


# The files of a program: the main one, and all that its `use` lines name.
#
# A path is read from the folder of the file that names it, and may only lead downwards; so nothing
# outside the project can be named. Reading itself is done by who asks for the check.


ReadSource: TypeAlias = Callable[[str], str | None]

MOST_FILES = 100
_PART = re.compile(r"[\w.\- ]*[\w\-]")


def read_units(
    text: str,
    file: str,
    read: ReadSource,
    reports: Reports,
    parse: Callable[[str, str], Parsed] = parse,
) -> dict[str, Unit]:
    """The main file first. What cannot be read is reported and left out."""
    reader = _Reader(read, reports, parse)
    reader.take(text, file)
    return reader.units


class _Reader:
    def __init__(
        self, read: ReadSource, reports: Reports, parse: Callable[[str, str], Parsed]
    ) -> None:
        self._read, self._reports, self._parse = read, reports, parse
        self.units: dict[str, Unit] = {}
        self._names: set[str] = set()
        self._open: list[str] = []

    def take(self, text: str, path: str) -> None:
        parsed = self._parse(text, path)
        self._reports.take(parsed.diagnostics)
        unit = Unit(path, text, parsed.source, {}, self._name(path) if self.units else "")
        self.units[path] = unit
        self._open.append(path)
        for decl in unit.source.decls:
            if isinstance(decl, UseFile):
                self._reports.file = path
                self._use(unit, decl)
        self._open.pop()

    def _use(self, unit: Unit, use: UseFile) -> None:
        path = self._path(unit.path, use)
        if path is None:
            return
        if path in self._open:
            circle = " -> ".join([*self._open[self._open.index(path) :], path])
            self._reports.error(
                "import-cycle",
                use,
                f"these files use each other in a circle: {circle}",
                "move what both need into a third file",
            )
            return
        if path in self.units or self._load(path, use):
            unit.uses[use.name] = path

    def _load(self, path: str, use: UseFile) -> bool:
        if len(self.units) >= MOST_FILES:
            self._reports.error(
                "too-many-files", use, f"a program has at most {MOST_FILES} files", "join some"
            )
            return False
        text = self._read(path)
        if text is None:
            self._reports.error(
                "file-not-found",
                use,
                f"there is no file `{path}` in the project",
                "a path is read from the folder of the file that names it",
            )
            return False
        self.take(text, path)
        return True

    def _path(self, here: str, use: UseFile) -> str | None:
        parts = [part for part in use.path.split("/") if part != "."]
        if not use.path.endswith(".vega"):
            self._refuse(use, "does not end in .vega", "only Vega files can be used")
        elif use.path.startswith("/") or ".." in parts or not all(map(_PART.fullmatch, parts)):
            self._refuse(
                use,
                "does not lead downwards from this file",
                'write a path such as "lib/text.vega", without `..`, a leading `/`, `\\` or `:`',
            )
        else:
            return "/".join([*here.split("/")[:-1], *parts])
        return None

    def _refuse(self, use: UseFile, why: str, advice: str) -> None:
        self._reports.error("bad-import", use, f'the path "{use.path}" {why}', advice)

    def _name(self, path: str) -> str:
        stem = re.sub(r"\W", "_", path.rpartition("/")[2].removesuffix(".vega"))
        name, count = stem, 1
        while name in self._names:
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name
