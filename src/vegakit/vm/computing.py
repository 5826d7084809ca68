"""The loop: one strand computes until its fuel is gone or it ends or waits.

It is one long function, because a call for every instruction would cost more than the instruction.
Ints that fit 30 bits are checked first: Python compares those without a call. What is rare goes to
`COLD`, one function an instruction, which answers:

| answer   | meaning                                           |
|----------|---------------------------------------------------|
| None     | go on with the next instruction                   |
| `RELOAD` | go on with the top frame as it is now             |
| `STOP`   | this strand waits, or has ended                   |
"""

# ruff: noqa: N806, TRY301  (the names of the table; raising here is what costs nothing)

from collections.abc import Callable, Mapping
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any, TypeAlias

from vegakit.vm.arithmetic import BINARY, rest
from vegakit.vm.comparing import at_most, equal, less
from vegakit.vm.decoding import HOT
from vegakit.vm.faults import Fault, bad, limit
from vegakit.vm.state import Frame, Strand
from vegakit.vm.values import HIGH, LOW, Fields, Items, Value, kind_of, weight_of

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["RELOAD", "STOP", "Cold", "Operands", "compute"]

RELOAD, STOP = 1, 2

Operands: TypeAlias = Any
Cold: TypeAlias = Callable[["Vm", Strand, Frame, Operands], int | None]

_CODES = tuple(range(len(HOT)))
_ADD, _SUB, _MUL, _DIV, _MOD = (BINARY[name] for name in ("ADD", "SUB", "MUL", "DIV", "MOD"))


def compute(  # noqa: C901, PLR0912, PLR0915
    vm: "Vm", strand: Strand, fuel: int, cold: Mapping[int, Cold]
) -> int:
    """The fuel that is left; below zero by what the last instruction cost beyond it."""
    (
        ADD, LT, JUMP_IF_NOT, JUMP, CONST, MOVE, EQ, SUB, NEXT, ROUND,
        MUL, MOD, LE, JUMP_IF, NE, NOT, INDEX, FIELD, DIV,
    ) = _CODES  # fmt: skip
    while True:
        frame = strand.frames[-1]
        r = frame.registers
        pc = frame.pc
        code = vm.functions[frame.function].code
        meter = repeat(None, fuel)
        try:
            for _ in meter:
                op, a, b, c = code[pc]
                pc += 1
                if op == ADD:
                    x = r[b]
                    y = r[c]
                    if type(x) is int and type(y) is int:
                        z = x + y
                        if -1073741823 < z < 1073741823 or LOW <= z <= HIGH:
                            r[a] = z
                            continue
                    r[a] = z = _ADD(x, y)
                    cost = weight_of(z) >> 6
                    if cost:
                        frame.pc = pc
                        break
                elif op == LT:
                    x = r[b]
                    y = r[c]
                    if type(x) is int and type(y) is int:
                        r[a] = x < y
                    else:
                        r[a] = less(x, y)
                        cost = weight_of(x) >> 6
                        if cost:
                            frame.pc = pc
                            break
                elif op == JUMP_IF_NOT:
                    x = r[a]
                    if x is False:
                        pc = b
                    elif x is not True:
                        raise _not_bool(x)
                elif op == JUMP:
                    pc = a
                elif op == CONST:
                    r[a] = b
                elif op == MOVE:
                    r[a] = r[b]
                elif op == EQ:
                    x = r[b]
                    y = r[c]
                    if type(x) is int and type(y) is int:
                        r[a] = x == y
                    else:
                        r[a] = equal(x, y)
                        cost = weight_of(x) >> 6
                        if cost:
                            frame.pc = pc
                            break
                elif op == SUB:
                    x = r[b]
                    y = r[c]
                    if type(x) is int and type(y) is int:
                        z = x - y
                        if -1073741823 < z < 1073741823 or LOW <= z <= HIGH:
                            r[a] = z
                            continue
                    r[a] = _SUB(x, y)
                elif op == NEXT:
                    counter, end = c
                    y = r[counter]
                    x = r[b]
                    if type(y) is not int or type(x) is not Items or y < -1:
                        raise bad("NEXT needs a list and a counter from -1")
                    y += 1
                    if y < len(x):
                        r[counter] = y
                        r[a] = x[y]
                    else:
                        pc = end
                elif op == ROUND:
                    y = r[a]
                    if type(y) is not int or y < -1:
                        raise bad("ROUND needs a counter from -1")
                    y += 1
                    if b >= 0:
                        _within(y, r[b])
                    r[a] = y
                elif op == MUL:
                    x = r[b]
                    y = r[c]
                    if type(x) is int and type(y) is int:
                        z = x * y
                        if -1073741823 < z < 1073741823 or LOW <= z <= HIGH:
                            r[a] = z
                            continue
                    r[a] = _MUL(x, y)
                elif op == MOD:
                    x = r[b]
                    y = r[c]
                    if type(x) is int and type(y) is int and y:
                        r[a] = x % y if x >= 0 and y > 0 else rest(x, y)
                    else:
                        r[a] = _MOD(x, y)
                elif op == LE:
                    x = r[b]
                    y = r[c]
                    if type(x) is int and type(y) is int:
                        r[a] = x <= y
                    else:
                        r[a] = at_most(x, y)
                        cost = weight_of(x) >> 6
                        if cost:
                            frame.pc = pc
                            break
                elif op == JUMP_IF:
                    x = r[a]
                    if x is True:
                        pc = b
                    elif x is not False:
                        raise _not_bool(x)
                elif op == NE:
                    x = r[b]
                    r[a] = not equal(x, r[c])
                    cost = weight_of(x) >> 6
                    if cost:
                        frame.pc = pc
                        break
                elif op == NOT:
                    x = r[b]
                    if x is not True and x is not False:
                        raise _not_bool(x)
                    r[a] = not x
                elif op == INDEX:
                    x = r[b]
                    y = r[c]
                    if type(x) is Items and type(y) is int and 0 <= y < len(x):
                        r[a] = x[y]
                    else:
                        r[a] = _item(x, y)
                elif op == FIELD:
                    x = r[b]
                    if type(x) is not Fields:
                        raise bad(f"{kind_of(x)} has no fields")
                    if c not in x:
                        raise Fault("KeyError", f"there is no field {c:.80}")
                    r[a] = x[c]
                elif op == DIV:
                    r[a] = _DIV(r[b], r[c])
                else:
                    frame.pc = pc
                    answer = cold[op](vm, strand, frame, a)
                    cost = vm.extra
                    vm.extra = 0
                    if answer is None and not cost:
                        continue
                    if answer == STOP:
                        return length_hint(meter) - cost
                    break
            else:
                frame.pc = pc
                return min(fuel, 0)
            fuel = length_hint(meter) - cost
        except Fault as fault:
            frame.pc = pc
            handled = vm.unwind(strand, fault)
            fuel = length_hint(meter) - vm.extra
            vm.extra = 0
            if not handled:
                return fuel


def _within(count: int, most: Value) -> None:
    if type(most) is not int:
        raise bad(f"the limit of a loop is an int, not {kind_of(most)}")
    if count >= most:
        raise limit(f"the loop has had its {most} rounds")


def _not_bool(value: Value) -> Fault:
    return bad(f"{kind_of(value)} is neither true nor false")


def _item(whole: Value, at: Value) -> Value:
    if type(whole) in (Items, str) and type(at) is int:
        if 0 <= at < len(whole):
            return whole[at]
        raise Fault("IndexError", f"there is no item {at}; there are {len(whole)}")
    if type(whole) is Fields and type(at) is str:
        if at in whole:
            return whole[at]
        raise Fault("KeyError", f"there is no entry {at:.80}")
    raise bad(f"{kind_of(whole)} has no item {kind_of(at)}")
