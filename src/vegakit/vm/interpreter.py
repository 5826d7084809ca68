"""The interpreter loop: one task runs until its fuel is used up, or it ends or waits (pure).

It is one long function, because a call for every instruction would cost more than the instruction.
Ints of at most 30 bits are checked first, because Python compares those without a call. Rare
instructions have a function each, in the table `cold`, which returns:

| value    | meaning                                     |
|----------|---------------------------------------------|
| None     | continue with the next instruction          |
| `RELOAD` | continue with the top frame as it is now    |
| `STOP`   | this task waits, or has ended               |
"""

from collections.abc import Mapping
from itertools import repeat
from operator import length_hint

from vegakit.vm.module_facts import HOT
from vegakit.vm.operators import BINARY, at_most, equal, grow, less, rest
from vegakit.vm.state import ProgramTask
from vegakit.vm.task_machine import STOP, InstructionHandler, TaskMachine
from vegakit.vm.values import (
    HIGH,
    LOW,
    ListValue,
    MapValue,
    ProgramFault,
    Value,
    bad,
    kind_of,
    limit,
    weight_of,
    work_of,
)

# ruff: noqa: N806, TRY301  (the names of the table; raising here is what costs nothing)


_CODES = tuple(range(len(HOT)))
_ADD, _SUB, _MUL, _DIV, _MOD = (BINARY[name] for name in ("ADD", "SUB", "MUL", "DIV", "MOD"))


def compute(  # noqa: C901, PLR0912, PLR0915
    vm: TaskMachine, task: ProgramTask, fuel: int, cold: Mapping[int, InstructionHandler]
) -> int:
    """Return the fuel that is left, below zero if the last instruction cost more than there was."""
    (
        ADD, LT, JUMP_IF_NOT, JUMP, CONST, MOVE, EQ, SUB, NEXT, ROUND,
        MUL, MOD, LE, JUMP_IF, NE, NOT, INDEX, FIELD, DIV,
    ) = _CODES  # fmt: skip
    while True:
        frame = task.frames[-1]
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
                    if a == b:
                        x = None  # what is held here, too, would have to be copied
                        grow(r, a, y)
                    else:
                        r[a] = _ADD(x, y)
                    cost = weight_of(r[a]) >> 6
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
                        cost = work_of(x)
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
                        cost = work_of(x)
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
                    if type(y) is not int or type(x) is not ListValue or y < -1:
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
                        cost = work_of(x)
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
                    cost = work_of(x)
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
                    if type(x) is ListValue and type(y) is int and 0 <= y < len(x):
                        r[a] = x[y]
                    else:
                        r[a] = _item(x, y)
                elif op == FIELD:
                    x = r[b]
                    if type(x) is not MapValue:
                        raise bad(f"{kind_of(x)} has no fields")
                    if c not in x:
                        raise ProgramFault("KeyError", f"there is no field {c:.80}")
                    r[a] = x[c]
                elif op == DIV:
                    r[a] = _DIV(r[b], r[c])
                else:
                    frame.pc = pc
                    answer = cold[op](vm, task, frame, a)
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
        except ProgramFault as fault:
            frame.pc = pc
            handled = vm.unwind(task, fault)
            fuel = length_hint(meter) - vm.extra
            vm.extra = 0
            if not handled:
                return fuel


def _within(count: int, most: Value) -> None:
    if type(most) is not int:
        raise bad(f"the limit of a loop is an int, not {kind_of(most)}")
    if count >= most:
        raise limit(f"the loop has had its {most} rounds")


def _not_bool(value: Value) -> ProgramFault:
    return bad(f"{kind_of(value)} is neither true nor false")


def _item(whole: Value, at: Value) -> Value:
    if type(whole) in (ListValue, str) and type(at) is int:
        if 0 <= at < len(whole):
            return whole[at]
        raise ProgramFault("IndexError", f"there is no item {at}; there are {len(whole)}")
    if type(whole) is MapValue and type(at) is str:
        if at in whole:
            return whole[at]
        raise ProgramFault("KeyError", f"there is no entry {at:.80}")
    raise bad(f"{kind_of(whole)} has no item {kind_of(at)}")
