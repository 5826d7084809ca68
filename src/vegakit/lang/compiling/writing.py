"""One function being written: registers, labels, sites and handlers.

Registers of variables live as long as their block; those above them are scratch, free again after
each statement. Strands of `parallel` and `monitor` are written behind the function's own code, so
that no handler around them covers them: their errors belong to whoever joins them.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from vegakit.lang.bytecode import Function, Handler, Site
from vegakit.lang.checked import Checked, Unit
from vegakit.lang.compiling.pools import Pools
from vegakit.lang.opcodes import Op
from vegakit.lang.steps import took
from vegakit.lang.tree import Node
from vegakit.lang.types import Type

__all__ = ["Label", "Loop", "Program", "Writer"]


class Program(NamedTuple):
    """What every function of the module shares; `functions` are their places by full name, `rounds`
    what is told of loops that ask before they begin."""

    checked: Checked
    pools: Pools
    functions: dict[str, int]
    rounds: Mapping[int, list[Any]] = MappingProxyType({})


class Label:
    def __init__(self) -> None:
        self.place = -1


class Loop(NamedTuple):
    again: Label
    after: Label
    scopes: int


class Writer:
    def __init__(self, program: Program, unit: Unit) -> None:
        self.program = program
        self.unit = unit
        self.variables: dict[str, int] = {}
        self.loops: list[Loop] = []
        self.rounds: list[int] = []
        self.scopes = 0
        self._free = 0
        self._most = 0
        self._code: list[list[int | list[int] | Label]] = []
        self._lines: list[int] = []
        self._sites: list[Site] = []
        self._handlers: list[tuple[int, int, Label, tuple[str, ...], int, int]] = []
        self._behind: list[Callable[[], None]] = []
        self._newlines = unit.line_ends
        self.line = 1

    # Registers

    def register(self) -> int:
        self._free += 1
        self._most = max(self._most, self._free)
        return self._free - 1

    def declare(self, name: str) -> int:
        self.variables[name] = register = self.register()
        return register

    @contextmanager
    def block(self) -> Generator[None]:
        variables, free = self.variables, self._free
        self.variables = dict(variables)
        yield
        self.variables, self._free = variables, free

    @contextmanager
    def scratch(self) -> Generator[None]:
        took(1 + len(self.variables) // 16)
        free, known = self._free, set(self.variables.values())
        yield
        declared = [r for r in self.variables.values() if r not in known]
        self._free = max([free, *(register + 1 for register in declared)])

    # Code

    def emit(self, op: Op, *operands: int | list[int] | Label) -> None:
        self._code.append([int(op), *operands])
        self._lines.append(self.line)

    def constant(self, value: object, into: int | None = None) -> int:
        register = self.register() if into is None else into
        self.emit(Op.CONST, register, self.program.pools.constant(value))
        return register

    def at(self, node: Node) -> None:
        self.line = bisect_right(self._newlines, node.at) + 1

    def here(self, label: Label) -> None:
        label.place = len(self._code)

    def site(self, node: Node) -> int:
        line = bisect_right(self._newlines, node.at)
        column = node.at - (self._newlines[line - 1] if line else -1)
        self._sites.append(Site(len(self._sites), tuple(self.rounds), line + 1, column))
        return len(self._sites) - 1

    def handle(
        self, start: int, end: int, target: Label, kinds: tuple[str, ...], reason: int
    ) -> None:
        if start < end:
            self._handlers.append((start, end, target, kinds, reason, self.scopes))

    @property
    def place(self) -> int:
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
            self.emit(Op.STRAND_END)

        self._behind.append(later)

    def finish(self, name: str, params: Mapping[str, Type], result: Type, rights: int) -> Function:
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
