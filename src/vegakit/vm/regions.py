"""Stepping over code whose way is not known: where the ways meet again, and what lies between.

The ways from a jump meet at its immediate post-dominator: the first instruction that every way to
the end of the function passes. What is reachable before it is the region of the jump. It is found
from the bytecode alone, so `break`, `continue` and `return` need no rule of their own: with a
`return` inside, the ways meet at the end of the function only.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from vegakit.lang import (
    ANY_AGENT,
    CONFIRM,
    NOTHING_TOUCHED,
    Effects,
    Function,
    ModuleRows,
    Op,
    joined,
)

__all__ = ["PAUSES", "Region", "Regions", "registers_of"]

Row: TypeAlias = Sequence[Any]

_ENDS = frozenset({Op.RETURN, Op.RAISE, Op.EXIT, Op.STRAND_END})
_FORKS = frozenset({Op.JUMP_IF, Op.JUMP_IF_NOT, Op.JUMP_IF_NULL, Op.NEXT, Op.MONITOR})
_HOSTS = frozenset({Op.HOST})
_SENDS = frozenset({Op.ISSUE_SEND, Op.SEND_STREAM})
_CARVES = frozenset({Op.SPAWN_SUPERVISED, Op.BUDGET_ENTER})
"""Money is set aside; how much is not looked for."""

_BARRIERS = frozenset(
    {
        Op.BUDGET_CHECK,
        Op.EXIT,
        Op.LINK,
        Op.MONITOR,
        Op.PAR_BEGIN,
    }
)
"""A region with one of these is not stepped over: what follows may depend on it unseen."""


class Region(NamedTuple):
    """`meets` is -1 where the ways meet only at the end of the function. `sends` are the agents
    that it may ask, None when nobody knows how often."""

    meets: int
    writes: frozenset[int]
    row: Effects
    sends: tuple[str, ...] | None
    barrier: bool


def registers_of(row: Row, kinds: str) -> Iterator[int]:
    """The operands of these kinds: `w` and `ws` are written, the rest is read."""
    for kind, operand in zip(Op(row[0]).operands, row[1:], strict=True):
        if kind[0] not in kinds:
            continue
        if isinstance(operand, int):
            if operand >= 0:
                yield operand
        else:
            yield from operand


class Regions:
    """Of one module; each is found when it is first stepped over."""

    def __init__(
        self, rows: ModuleRows, functions: Sequence[Function], constants: Sequence[Any]
    ) -> None:
        self._rows = rows
        self._functions = functions
        self._constants = constants
        self._meets: dict[int, list[int]] = {}
        self._found: dict[tuple[int, int], Region] = {}
        self._operands: dict[tuple[int, int], tuple[int, tuple[int, ...], tuple[int, ...]]] = {}
        self._whole: dict[int, Region] = {}

    def operands(self, function: int, at: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The number of an instruction, and the registers that it reads and writes."""
        key = function, at
        found = self._operands.get(key)
        if found is None:
            row = self._functions[function].code[at]
            read, written = tuple(registers_of(row, "ro")), tuple(registers_of(row, "w"))
            found = self._operands[key] = row[0], read, written
        return found

    def of(self, function: int, at: int) -> Region:
        key = function, at
        found = self._found.get(key)
        if found is None:
            code = self._functions[function].code
            meets = self._meets_of(function)[at]
            inside = _between(code, [*_ways(code, at)], meets)
            found = self._found[key] = self._region(function, inside, meets)
        return found

    def whole(self, number: int) -> Region:
        """All of a function, as who calls it unseen must take it."""
        found = self._whole.get(number)
        if found is None:
            unknown = Region(-1, frozenset(), NOTHING_TOUCHED, None, barrier=True)
            self._whole[number] = unknown  # of a function that calls itself
            code = self._functions[number].code
            found = self._region(number, _between(code, [0], -1), -1)
            self._whole[number] = found
        return found

    def _region(self, function: int, inside: set[int], meets: int) -> Region:
        code = self._functions[function].code
        writes: set[int] = set()
        row, sends, barrier = NOTHING_TOUCHED, list[str](), False
        counted = not _has_cycle(code, inside)
        for at in inside:
            op = code[at][0]
            writes.update(registers_of(code[at], "w"))
            row = joined(row, self._rows.instruction(function, at))
            barrier |= op in _BARRIERS or self._waits(op, code[at])
            if op in _SENDS:
                sends.append(self._rows.called(function, at))
            elif op == Op.CALL:
                called = self.whole(code[at][2])
                barrier |= called.barrier
                counted &= called.sends is not None
                sends += called.sends or ()
            elif op in _CARVES:
                sends.append(ANY_AGENT)
                counted = False
        known = tuple(sends) if counted or not sends else None
        return Region(meets, frozenset(writes), row, known, barrier)

    def _waits(self, op: int, row: Row) -> bool:
        return op in _HOSTS and self._constants[row[2]] in PAUSES

    def _meets_of(self, function: int) -> list[int]:
        found = self._meets.get(function)
        if found is None:
            found = self._meets[function] = _post_dominators(self._functions[function].code)
        return found


PAUSES = frozenset({"process::sleep", "process::yield", CONFIRM})


def _ways(code: Sequence[Row], at: int) -> Iterator[int]:
    """The instructions that may follow; -1 is the end of the function."""
    row = code[at]
    op = row[0]
    if op in _ENDS:
        yield -1
    elif op == Op.JUMP:
        yield row[1]
    else:
        yield at + 1
        if op in _FORKS:
            yield row[1 + Op(op).operands.index("j")]


def _between(code: Sequence[Row], starts: Sequence[int], meets: int) -> set[int]:
    inside: set[int] = set()
    due = [at for at in starts if at not in (meets, -1)]
    while due:
        at = due.pop()
        if at not in inside:
            inside.add(at)
            due += [way for way in _ways(code, at) if way not in (meets, -1)]
    return inside


def _has_cycle(code: Sequence[Row], inside: set[int]) -> bool:
    """Every loop jumps back somewhere."""
    return any(way <= at and way in inside for at in inside for way in _ways(code, at))


def _post_dominators(code: Sequence[Row]) -> list[int]:
    """For each instruction the nearest that all its ways pass, -1 for the end; also -1 for what
    never comes to the end. By meeting of chains over the reversed graph until nothing changes."""
    end = len(code)
    before: list[list[int]] = [[] for _ in range(end + 1)]
    after = [[end if way == -1 else way for way in _ways(code, at)] for at in range(end)]
    for at, ways in enumerate(after):
        for way in ways:
            before[way].append(at)
    order = _numbered(before, end)
    known = [-1] * (end + 1)
    known[end] = end
    changed = True
    while changed:
        changed = False
        for at in sorted((at for at in range(end) if order[at] >= 0), key=lambda a: -order[a]):
            met = _meeting([way for way in after[at] if known[way] >= 0], known, order)
            if known[at] != met:
                known[at] = met
                changed = True
    return [-1 if met == end else met for met in known[:end]]


def _meeting(ways: Sequence[int], known: list[int], order: list[int]) -> int:
    met, *rest = ways
    for way in rest:
        one, other = met, way
        while one != other:
            if order[one] < order[other]:
                one = known[one]
            else:
                other = known[other]
        met = one
    return met


def _numbered(before: list[list[int]], end: int) -> list[int]:
    """By the moment a walk from the end leaves them: the end is the greatest; -1 if never met."""
    order = [-1] * (end + 1)
    seen = {end}
    stack: list[tuple[int, Iterator[int]]] = [(end, iter(before[end]))]
    count = 0
    while stack:
        at, rest = stack[-1]
        way = next((way for way in rest if way not in seen), None)
        if way is None:
            stack.pop()
            order[at] = count
            count += 1
        else:
            seen.add(way)
            stack.append((way, iter(before[way])))
    return order
