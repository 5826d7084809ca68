"""Random modules that pass the verifier: little about them makes sense, and none may do harm.

Registers have roles, so that most instructions find operands of a kind they can use and a program
lives long enough to tangle its tasks, processes and budgets. One operand in thirty is any.
"""

import random
from typing import Any

from tests.vm.samples import SAMPLES
from vegakit.lang import ANY, Function, Handler, Module, Op, Rights
from vegakit.lang.codegen.bytecode import CallSite

__all__ = ["wild_module"]

_AGENT, _GROUP, _MONEY, _HANDLE, _LIST, _COUNT, _BOOL, _STREAM, _FUTURE, _ANY, _TEXT = range(11)
_REGISTERS = 11
_CONSTANTS: tuple[Any, ...] = (
    *(
        "A",
        {"$": "money", "of": 5},
        [1, 2, 3],
        -1,
        True,
        "text",
        None,
        {"k": 1},
        "Failed",
        "k",
        "file",
    ),
    *("Timeout", "str::upper", {"file": "a"}, 0, 2**62, 1.5, {"$": "map", "of": [["$", 1]]}),
)
_NAMED = {constant: at for at, constant in enumerate(_CONSTANTS) if isinstance(constant, str)}
_START = {_MONEY: 1, _LIST: 2, _COUNT: 3, _BOOL: 4, _TEXT: 5, _ANY: 7, _FUTURE: 6}
_SETTINGS = (6, 7)
_TYPES = (*SAMPLES["values"].types, ANY)
_READS: dict[Op, tuple[int, ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MOD, Op.LT, Op.LE), (_MONEY, _MONEY)),
    Op.MUL: (_MONEY, _COUNT),
    Op.DIV: (_MONEY, _MONEY),
    Op.WITH_FIELD: (_ANY, _ANY),
    Op.ISSUE_SEND: (_AGENT, _TEXT),
    Op.SEND_STREAM: (_HANDLE, _ANY),
    Op.SPAWN_SUPERVISED: (_AGENT,),
    Op.LINK: (_HANDLE, _HANDLE),
    Op.MONITOR: (_HANDLE,),
    Op.FORCE: (_FUTURE,),
    Op.STREAM_NEXT: (_STREAM,),
    Op.STREAM_DONE: (_STREAM,),
    Op.BUDGET_ENTER: (_MONEY,),
    Op.BUDGET_RESERVE: (_MONEY,),
    Op.PAR_SPAWN: (_GROUP,),
    Op.PAR_JOIN: (_GROUP,),
    Op.NEXT: (_LIST,),
    Op.ITEMS: (_LIST,),
    Op.PAIRS: (_LIST,),
    Op.INDEX: (_LIST, _COUNT),
    Op.WITH_INDEX: (_LIST, _COUNT, _ANY),
    Op.FIELD: (_ANY,),
    Op.JUMP_IF: (_BOOL,),
    Op.JUMP_IF_NOT: (_BOOL,),
    Op.NOT: (_BOOL,),
    Op.NEG: (_MONEY,),
    Op.IN: (_COUNT, _LIST),
    Op.LIBRARY: (_TEXT,),
}
_WRITES: dict[Op, tuple[int, ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MOD, Op.MUL), (_MONEY,)),
    **dict.fromkeys((Op.DIV, Op.CALL, Op.FORCE, Op.HOST, Op.STREAM_NEXT), (_TEXT,)),
    Op.ISSUE_SEND: (_FUTURE,),
    Op.SPAWN_SUPERVISED: (_FUTURE,),
    Op.SEND_STREAM: (_STREAM,),
    Op.STREAM_DONE: (_BOOL,),
    Op.PAR_BEGIN: (_GROUP,),
    Op.RACE_BEGIN: (_GROUP,),
    Op.NEXT: (_ANY, _COUNT),
    Op.ROUND: (_COUNT,),
    Op.LT: (_BOOL,),
    Op.EQ: (_BOOL,),
    Op.NE: (_BOOL,),
    Op.LE: (_BOOL,),
    Op.IN: (_BOOL,),
    Op.NOT: (_BOOL,),
    Op.LIST: (_LIST,),
    Op.ITEMS: (_LIST,),
    Op.BUDGET_CHECK: (_MONEY,),
    Op.NEG: (_MONEY,),
    Op.TEXT: (_TEXT,),
    Op.FIELD: (_TEXT,),
    Op.LIBRARY: (_TEXT,),
    Op.AGENT: (_AGENT,),
}
_EFFECTS = (
    *(Op.ISSUE_SEND, Op.FORCE, Op.HOST, Op.PRINT, Op.SPAWN_SUPERVISED, Op.LINK, Op.MONITOR),
    *(Op.SEND_STREAM, Op.STREAM_DONE, Op.STREAM_NEXT, Op.BUDGET_ENTER),
    *(Op.BUDGET_CHECK, Op.PAR_SPAWN, Op.PAR_SPAWN, Op.PAR_JOIN, Op.CALL, Op.ROUND, Op.RAISE),
)
_OTHERS = tuple(set(Op) - {*_EFFECTS, Op.RECORD, Op.RETURN, Op.TASK_END, Op.RACE_WON, Op.EXIT})


def wild_module(seed: int) -> Module:
    draw = random.Random(seed)
    functions = tuple(_function(at, draw) for at in range(3))
    rest: Any = ((Rights(),), (), (), (), (), ())
    return Module("main.vega", 0, functions, _CONSTANTS, _TYPES, *rest)


def _function(number: int, draw: random.Random) -> Function:
    """The body, then the code of two tasks, which the body may start."""
    sizes = [draw.randint(6, 14), draw.randint(1, 6), draw.randint(1, 6)]
    begin, end_task = (
        (Op.RACE_BEGIN, (int(Op.RACE_WON), 6))
        if draw.random() < 0.3
        else (Op.PAR_BEGIN, (int(Op.TASK_END),))
    )
    setup: list[tuple[Any, ...]] = [
        (int(Op.AGENT), _AGENT, 0),
        (int(begin), _GROUP),
        *((int(Op.CONST), register, constant) for register, constant in _START.items()),
        (int(Op.SPAWN_SUPERVISED), _FUTURE, _AGENT, -1, -1, -1, 6, 0),
        (int(Op.FORCE), _HANDLE, _FUTURE),
        (int(Op.SEND_STREAM), _STREAM, _HANDLE, _TEXT, -1, -1, -1, 2),
        (int(Op.BUDGET_ENTER), _MONEY, 6, 4),
    ]
    starts = (len(setup) + sizes[0] + 1, len(setup) + sum(sizes[:2]) + 2)
    ends = ((int(Op.RETURN), draw.randrange(_REGISTERS)), end_task, end_task)
    code = list(setup)
    for size, end in zip(sizes, ends, strict=True):
        code += [_row(draw, len(code) + at, starts, number) for at in range(size)]
        code.append(end)
    sites = tuple(CallSite(at, (_COUNT,) * (at % 2), 1, 1) for at in range(40))
    handlers = tuple(_handler(draw, len(setup), len(code)) for _ in range(draw.randrange(3)))
    name, lines = "mfg"[number], tuple(range(len(code)))
    return Function(name, "main.vega", (), ANY, _REGISTERS, tuple(code), lines, sites, handlers, 0)


def _handler(draw: random.Random, first: int, size: int) -> Handler:
    start = draw.randrange(first, size)
    kinds = draw.choice([(), ("Timeout",), ("ArithmeticError", "Failed", "LimitReached")])
    end, target = draw.randint(start + 1, size), draw.randrange(first, size)
    return Handler(start, end, target, kinds, draw.choice([-1, _TEXT]), draw.randrange(2))


def _row(  # noqa: C901  (a line for each kind of operand)
    draw: random.Random, at: int, starts: tuple[int, int], number: int
) -> tuple[Any, ...]:
    op = draw.choice(_EFFECTS if draw.random() < 0.8 else _OTHERS)
    if op is Op.CALL and number == 2:
        op = Op.HOST
    reads, writes = iter(_READS.get(op, ())), iter(_WRITES.get(op, ()))
    row: list[Any] = [int(op)]
    for kind in op.operands:
        wild = draw.random() < 0.03
        match kind:
            case "w":
                row.append(draw.randrange(_REGISTERS) if wild else next(writes, _ANY))
            case "r":
                row.append(draw.randrange(_REGISTERS) if wild else next(reads, _ANY))
            case "o":
                row.append(_MONEY if op is Op.SPAWN_SUPERVISED and len(row) == 3 else -1)
            case "rs" | "ws":
                row.append(tuple(draw.randrange(_REGISTERS) for _ in range(draw.randrange(3))))
            case "j":
                row.append(_jump(draw, op, at, starts))
            case "k":
                row.append(_constant(draw, op))
            case "f":
                row.append(draw.randint(number + 1, 2))
            case "s":
                row.append(at % 40 if not wild else draw.randrange(40))
            case _:
                row.append(draw.randrange(3) if kind == "n" else draw.choice([-1, -1, 2]))
    return _fixed(op, row)


def _jump(draw: random.Random, op: Op, at: int, starts: tuple[int, int]) -> int:
    if op is Op.PAR_SPAWN or draw.random() < 0.1:
        return draw.choice(starts)
    return min(at + draw.randint(1, 4), starts[1])


def _constant(draw: random.Random, op: Op) -> int:
    if op in (Op.SPAWN_SUPERVISED, Op.BUDGET_ENTER):
        return draw.choice(_SETTINGS)
    names = {
        Op.RAISE: ("Failed", "Timeout"),
        Op.LIBRARY: ("str::upper",),
        Op.FIELD: ("k", "file"),
        Op.WITH_FIELD: ("k",),
    }
    if op in (Op.RAISE, Op.LIBRARY, Op.AGENT, Op.HOST, Op.FIELD, Op.WITH_FIELD):
        return _NAMED[draw.choice(names.get(op, ("A", "text")))]
    return draw.randrange(len(_CONSTANTS))


def _fixed(op: Op, row: list[Any]) -> tuple[Any, ...]:
    """What the verifier wants to belong together."""
    if op is Op.LIBRARY:
        row[3] = (_TEXT,)
    elif op is Op.MAP:
        row[2] = (_TEXT, _ANY)
    elif op is Op.CALL:
        row[3] = ()
    return tuple(row)
