"""Write one function (registers, labels, call sites, handlers), the pools of its module, and the
declared agents, tools and supervisors as records (pure).
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.bytecode import (
    AgentSpec,
    CallSite,
    CompiledTool,
    Function,
    Handler,
    Op,
    Rights,
    SupervisorSpec,
)
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.library import CONFIRM
from vegakit.lang.syntax import tree
from vegakit.lang.types import Type
from vegakit.records import canonical

# Constants, types and rights of a module, each stored once.


T = TypeVar("T")


class Pool(Generic[T]):
    """Rows of a module that are stored once each and named by their index."""

    def __init__(self) -> None:
        self.rows: list[T] = []
        self._places: dict[Hashable, int] = {}

    def place(self, row: T, key: Hashable) -> int:
        """Return the index of a row, which is added if no row has this key yet."""
        place = self._places.setdefault(key, len(self.rows))
        if place == len(self.rows):
            self.rows.append(row)
        return place


class Pools:
    """The constants, types and rights of a module."""

    def __init__(self) -> None:
        self.constants = Pool[Any]()
        self.types = Pool[Type]()
        self.rights = Pool[Rights]()

    def constant(self, value: object) -> int:
        """`1`, `1.0` and `true` are equal in Python and not here."""
        return self.constants.place(value, (type(value), canonical(value)))

    def type(self, of: Type) -> int:
        """Return the index of a type."""
        return self.types.place(of, of)

    def right(self, rights: Rights) -> int:
        """Return the index of rights."""
        return self.rights.place(rights, rights)


def rights_of(grants: tree.Grants | None) -> Rights | None:
    """Return the rights that are written, or None where no capabilities are."""
    if grants is None or grants.capabilities is None:
        return None
    return Rights(
        tuple(capability.name for capability in grants.capabilities),
        _texts(grants.paths),
        _texts(grants.commands),
        _texts(grants.hosts),
    )


def _texts(texts: tuple[tree.Text, ...] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(literal(text) for text in texts)


def literal(text: tree.Text | None) -> str:
    """Return the fixed text of a literal, empty for None."""
    return "" if text is None else "".join(part for part in text.parts if isinstance(part, str))


# Settings as written in blocks, as plain values: names as strings, money and time as numbers.


def settings_of(settings: tuple[tree.Setting, ...]) -> dict[str, Any]:
    """Return a block of settings by name, with plain values."""
    return {setting.name: plain(setting.value) for setting in settings}


def plain(node: tree.Expr) -> Any:  # noqa: ANN401
    """Return a setting as a plain value: `exponential(100ms, 2.0, 5s)` is `["exponential", 100,
    2.0, 5000]`."""
    match node:
        case tree.Whole() | tree.Decimal() | tree.Word():
            return node.value
        case tree.MoneyLit():
            return node.nanos
        case tree.Duration():
            return node.ms
        case tree.Text():
            return literal(node)
        case tree.Name():
            return node.name
        case tree.ListLit():
            return [plain(item) for item in node.items]
        case tree.Call():
            return [plain(node.callee), *map(plain, node.args)]
        case _:
            return None


# Agents, tools and supervisors as declared: plain records for whoever starts them.


DEFAULT_MODEL = "smart"
_WINDOW_MS, _MAX_RESTARTS = 60_000, 3


def tool_decls(checked: Checked, unit: Unit) -> Iterator[tuple[str, tree.ToolDecl]]:
    """Yield the tools of a file with their full names; a tool inside an agent is `Agent.tool`."""
    for decl in unit.source.decls:
        if isinstance(decl, tree.ToolDecl):
            yield checked.full_names[id(decl)], decl
        elif isinstance(decl, tree.AgentDecl):
            for tool in decl.tools:
                yield f"{checked.full_names[id(decl)]}.{tool.name}", tool


def bodies_of(checked: Checked) -> Iterator[tuple[str, tuple[Unit, tree.FnDecl | tree.ToolDecl]]]:
    """Yield functions and tools by their full names."""
    for unit in checked.units.values():
        for decl in unit.source.decls:
            if isinstance(decl, tree.FnDecl):
                yield checked.full_names[id(decl)], (unit, decl)
        for name, tool in tool_decls(checked, unit):
            yield name, (unit, tool)


def tool_of(name: str, decl: tree.ToolDecl, place: int, function: Function) -> CompiledTool:
    """Return the record of a declared tool."""
    names = (param.name for param in decl.params)
    return CompiledTool(
        name,
        place,
        literal(decl.description),
        tuple(zip(names, function.params, strict=True)),
        function.result,
        function.rights,
        any(setting.name == "idempotent" for setting in decl.settings),
    )


def agent_of(decl: tree.AgentDecl, checked: Checked) -> AgentSpec:
    """Return the record of a declared agent, its own tools first."""
    full = checked.full_names[id(decl)]
    spec: dict[str, Any] = {"name": full, "model": DEFAULT_MODEL}
    for field in decl.fields:
        spec |= _field(field, checked)
    own = tuple(f"{full}.{tool.name}" for tool in decl.tools)
    return msgspec.convert(spec | {"tools": (*own, *spec.get("tools", ()))}, AgentSpec)


def _field(field: tree.AgentField, checked: Checked) -> dict[str, Any]:
    match field.name, field.value:
        case "tools", tuple() as refs:
            return _tool_refs([ref for ref in refs if isinstance(ref, tree.ToolRef)], checked)
        case name, tuple() as rows:
            return {name: settings_of(tuple(row for row in rows if isinstance(row, tree.Setting)))}
        case "budget", tree.MoneyLit(nanos=nanos, period=period):
            return {"budget": nanos, "period": period}
        case "memory", _:
            return {"memory": True}
        case "timeout", value:
            return {"timeout_ms": plain(value)}
        case "model", tree.ListLit(items=items):
            first, *others = map(plain, items)
            return {"model": first, "fallbacks": others}
        case "temperature", value:
            return {"temperature": float(plain(value))}
        case name, value:
            return {name: plain(value)}


def _tool_refs(refs: list[tree.ToolRef], checked: Checked) -> dict[str, Any]:
    kinds: dict[str, list[str]] = {"tools": [], "mcp": [], "yaml": []}
    for ref in refs:
        kinds[ref.kind or "tools"].append(checked.full_names.get(id(ref), ref.name))
    return kinds


def supervisor_of(decl: tree.SupervisorDecl, checked: Checked) -> SupervisorSpec:
    """Return the record of a declared supervisor."""
    settings = settings_of(decl.settings)
    return SupervisorSpec(
        checked.full_names[id(decl)],
        settings.get("strategy", "restart"),
        settings.get("max_restarts", _MAX_RESTARTS),
        settings.get("window", _WINDOW_MS),
        tuple(checked.full_names[id(child)] for child in decl.children),
        settings.get("backoff"),
    )


# One function being written: registers, labels, sites and handlers.
#
# Registers of variables live as long as their block; those above them are scratch, free again
# after each statement. Tasks of `parallel` and `monitor` are written behind the function's own
# code, so that no handler around them covers them: their errors belong to whoever joins them.


class ModuleContext(NamedTuple):
    """All functions of the module share this. `functions` are their places by full name; `rounds`
    are the costs of a round of each loop that asks before it begins."""

    checked: Checked
    pools: Pools
    functions: dict[str, int]
    rounds: Mapping[int, list[Any]] = MappingProxyType({})


class Label:
    """A place in the code that is jumped to before it is known."""

    def __init__(self) -> None:
        self.place = -1


class Loop(NamedTuple):
    """A loop around the current statement: where `continue` and `break` jump to, and how many
    budget scopes were open outside."""

    again: Label
    after: Label
    scopes: int


class Writer:
    """Writes one function. `variables` maps names to registers, `rounds` are the counters of the
    loops around, `scopes` counts open budget scopes."""

    def __init__(self, program: ModuleContext, unit: Unit) -> None:
        self.program = program
        self.unit = unit
        self.variables: dict[str, int] = {}
        self.loops: list[Loop] = []
        self.rounds: list[int] = []
        self.scopes = 0
        self._free = 0
        self._most = 0
        self._bound = 0
        """The first register above those of the variables declared in the innermost scratch."""
        self._code: list[list[int | list[int] | Label]] = []
        self._lines: list[int] = []
        self._sites: list[CallSite] = []
        self._handlers: list[tuple[int, int, Label, tuple[str, ...], int, int]] = []
        self._behind: list[Callable[[], None]] = []
        self._newlines = unit.line_ends
        self.line = 1

    # Registers

    def register(self) -> int:
        """Return a free register."""
        self._free += 1
        self._most = max(self._most, self._free)
        return self._free - 1

    def declare(self, name: str) -> int:
        """Return the register of a new variable."""
        return self.bind(name, self.register())

    def bind(self, name: str, register: int) -> int:
        """Let a register be that of a new variable, and return it."""
        self.variables[name] = register
        self._bound = max(self._bound, register + 1)
        return register

    @contextmanager
    def block(self) -> Generator[None]:
        """Open a block. Its variables and their registers are gone after it."""
        variables, free, bound = self.variables, self._free, self._bound
        self.variables = dict(variables)
        yield
        self.variables, self._free, self._bound = variables, free, bound

    @contextmanager
    def scratch(self) -> Generator[None]:
        """Free the registers that are taken inside, except those of variables declared there."""
        count_steps()
        free, bound = self._free, self._bound
        self._bound = 0
        yield
        self._free, self._bound = max(free, self._bound), max(bound, self._bound)

    # Code

    def emit(self, op: Op, *operands: int | list[int] | Label) -> None:
        """Append an instruction."""
        self._code.append([int(op), *operands])
        self._lines.append(self.line)

    def constant(self, value: object, into: int | None = None) -> int:
        """Put a constant into a register and return that."""
        register = self.register() if into is None else into
        self.emit(Op.CONST, register, self.program.pools.constant(value))
        return register

    def at(self, node: tree.Node) -> None:
        """Set the line of the instructions that follow."""
        self.line = bisect_right(self._newlines, node.at) + 1

    def here(self, label: Label) -> None:
        """Set the place of a label."""
        label.place = len(self._code)

    def site(self, node: tree.Node) -> int:
        """Return the index of a new site for the effect of this node."""
        line = bisect_right(self._newlines, node.at)
        column = node.at - (self._newlines[line - 1] if line else -1)
        self._sites.append(CallSite(len(self._sites), tuple(self.rounds), line + 1, column))
        return len(self._sites) - 1

    def handle(
        self, start: int, end: int, target: Label, kinds: tuple[str, ...], reason: int
    ) -> None:
        """Add a handler for the instructions from `start` to `end`, unless there are none."""
        if start < end:
            self._handlers.append((start, end, target, kinds, reason, self.scopes))

    @property
    def place(self) -> int:
        """The index of the next instruction."""
        return len(self._code)

    def behind(self, label: Label, write: Callable[[], None]) -> None:
        """Write it after the rest, as if it stood here."""
        variables, free, rounds = dict(self.variables), self._free, list(self.rounds)
        scopes, line = self.scopes, self.line

        def later() -> None:
            self.variables, self._free, self.rounds = variables, free, rounds
            self.scopes, self.line, self.loops = scopes, line, []
            self.here(label)
            write()
            self.emit(Op.TASK_END)

        self._behind.append(later)

    def finish(self, name: str, params: Mapping[str, Type], result: Type, rights: int) -> Function:
        """Return the function, with the tasks behind its own code and all labels in place."""
        self.emit(Op.RETURN, self.constant(None))
        while self._behind:
            self._behind.pop(0)()
        return Function(
            name,
            self.unit.path,
            tuple(params.values()),
            result,
            self._most,
            tuple(tuple(map(_placed, row)) for row in self._code),
            tuple(self._lines),
            tuple(self._sites),
            tuple(
                Handler(start, end, target.place, kinds, reason, scopes)
                for start, end, target, kinds, reason, scopes in self._handlers
            ),
            rights,
            tuple(params),
        )


def _placed(operand: int | list[int] | Label) -> int | tuple[int, ...]:
    if isinstance(operand, Label):
        return operand.place
    return tuple(operand) if isinstance(operand, list) else operand


# Loops whose list is known at run time only ask before their first round, inside a `confirm`.


_REFUSED = "nobody agreed to what this loop may cost; raise `confirm`, or give it a shorter list"


def confirm(w: Writer, node: tree.For | tree.Build, items: int) -> None:
    """Write the question that a loop inside a `confirm` asks before its first round."""
    round_costs = w.program.rounds.get(id(node))
    if round_costs is None:
        return
    with w.scratch():
        agreed, go_on = w.register(), Label()
        costs = w.constant(round_costs)
        w.emit(Op.HOST, agreed, w.program.pools.constant(CONFIRM), [items, costs], w.site(node))
        w.emit(Op.JUMP_IF, agreed, go_on)
        reason = w.constant(_REFUSED)
        w.emit(Op.RAISE, w.program.pools.constant("BudgetExceeded"), reason)
        w.here(go_on)
