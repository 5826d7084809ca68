"""A module made ready to run: constants as values, instructions as rows of four.

Plain computation is numbered from 0 in the order of how often it occurs, with its operands spread
out: the loop in `computing` unpacks a row and compares numbers. Everything else keeps its number
from the table, all above those, with its operands in one tuple.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from vegakit.lang import Function, Module, Op, Type
from vegakit.vm.values import AgentRef, Value, restored

__all__ = ["COLD", "HOT", "JUMP", "Call", "Handled", "LastFew", "Program", "load"]

Of = TypeVar("Of")
Made = TypeVar("Made")
Row: TypeAlias = tuple[int, Any, Any, Any]
Handled: TypeAlias = tuple[int, int, int, tuple[str, ...], int, int]

HOT: tuple[str, ...] = (
    "ADD LT JUMP_IF_NOT JUMP CONST MOVE EQ SUB NEXT ROUND MUL MOD LE JUMP_IF NE NOT INDEX FIELD DIV"
).split()  # pyright: ignore[reportAssignmentType]
_NUMBERS = {name: number for number, name in enumerate(HOT)}
JUMP = _NUMBERS["JUMP"]
COLD = 64
"""Cold rows have their number from the table and this added."""


class Call(NamedTuple):
    """A function; `sites` are ordinals and the registers of the loops around, `handlers` start,
    end, target, kinds, register of the reason, and scopes kept."""

    name: str
    file: str
    params: tuple[Type, ...]
    registers: int
    code: tuple[Row, ...]
    lines: tuple[int, ...]
    sites: tuple[tuple[int, tuple[int, ...]], ...]
    handlers: tuple[Handled, ...]
    rights: int


class Program(NamedTuple):
    module: Module
    functions: tuple[Call, ...]
    constants: tuple[Value, ...]
    types: tuple[Type, ...]


def load(module: Module) -> Program:
    """Of a verified module; the last few are kept, as one module runs many times."""
    return _LOADED.of(module)


class LastFew(Generic[Of, Made]):
    """What is made of an object, kept for the last few of them; by identity, as they are large."""

    def __init__(self, make: Callable[[Of], Made]) -> None:
        self._make = make
        self._kept: dict[int, tuple[Of, Made]] = {}

    def of(self, one: Of) -> Made:
        kept = self._kept.get(id(one))
        if kept is not None and kept[0] is one:
            return kept[1]
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        made = self._make(one)
        self._kept[id(one)] = one, made
        return made

    def clear(self) -> None:
        self._kept.clear()


_KEPT = 16


def _loaded(module: Module) -> Program:
    constants = tuple(restored(constant) for constant in module.constants)
    functions = tuple(_call(function, constants) for function in module.functions)
    return Program(module, functions, constants, module.types)


_LOADED = LastFew(_loaded)


def _call(function: Function, constants: tuple[Value, ...]) -> Call:
    return Call(
        function.name,
        function.file,
        function.params,
        function.registers,
        tuple(_row(row, constants) for row in function.code),
        function.lines,
        tuple((site.ordinal, tuple(site.loops)) for site in function.sites),
        tuple((h.start, h.end, h.target, h.kinds, h.reason, h.scopes) for h in function.handlers),
        function.rights,
    )


def _row(row: tuple[Any, ...], constants: tuple[Value, ...]) -> Row:
    op, operands = Op(row[0]), [*row[1:]]
    for at, kind in enumerate(op.operands):
        if kind == "k":
            operands[at] = constants[operands[at]]
    if op is Op.AGENT:
        return (_NUMBERS["CONST"], operands[0], AgentRef(operands[1]), None)
    if op.name not in _NUMBERS:
        return (COLD + op, tuple(operands), None, None)
    if op is Op.NEXT:
        into, items, counter, end = operands
        return (_NUMBERS["NEXT"], into, items, (counter, end))
    a, b, c = [*operands, None, None][:3]
    return (_NUMBERS[op.name], a, b, c)
