"""Modules written by hand: `assemble` takes functions as lines of an assembly language.

    assemble("main", "CONST 0 5", "loop: JUMP_IF 1 @end", "end: RETURN 0")

Operands are registers and numbers; `#x` is the constant x (JSON, without spaces), `@name` a label,
`[1,2]` a list of registers, `!T` a type of the dict given, `$f` a function by name, `*` the next
site, `*[2,3]` the next site with loop registers.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from vegakit.lang import ANY, Function, Handler, Module, Op, Rights, Type
from vegakit.lang.codegen.bytecode import CallSite

__all__ = ["Code", "assemble", "program"]


@dataclass
class Code:
    name: str
    lines: tuple[str, ...]
    params: tuple[Type, ...] = ()
    result: Type = ANY
    registers: int = 16
    handlers: tuple[tuple[Any, ...], ...] = ()
    rights: int = 0


@dataclass
class _Pools:
    functions: list[str]
    types: dict[str, Type]
    constants: list[Any] = field(default_factory=list)


def program(*lines: str, types: dict[str, Type] | None = None, **more: Any) -> Module:
    """A module of one function."""
    return assemble(Code("main", lines, **more), types=types)


def assemble(*functions: Code, types: dict[str, Type] | None = None) -> Module:
    pools = _Pools([code.name for code in functions], types or {})
    made = tuple(_function(code, pools) for code in functions)
    return Module(
        "main.vega",
        0,
        made,
        tuple(pools.constants),
        tuple(pools.types.values()),
        (Rights(),),
        (),
        (),
        (),
        (),
        (("main.vega", "0"),),
    )


def _function(code: Code, pools: _Pools) -> Function:
    labels: dict[str, int] = {}
    rows: list[list[str]] = []
    for line in code.lines:
        head, *rest = line.split()
        while head.endswith(":"):
            labels[head[:-1]] = len(rows)
            head, *rest = rest
        rows.append([head, *rest])
    sites: list[CallSite] = []
    body = tuple(
        (int(Op[name]), *(_operand(each, labels, sites, pools) for each in operands))
        for name, *operands in rows
    )
    return Function(
        code.name,
        "main.vega",
        code.params,
        code.result,
        code.registers,
        body,
        tuple(range(1, len(body) + 1)),
        tuple(sites),
        tuple(_handler(row, labels) for row in code.handlers),
        code.rights,
    )


def _handler(row: tuple[Any, ...], labels: dict[str, int]) -> Handler:
    """start, end and target are labels; then kinds, the register of the reason, scopes kept."""
    start, end, target, kinds, reason, scopes = row
    return Handler(labels[start], labels[end], labels[target], tuple(kinds), reason, scopes)


def _operand(text: str, labels: dict[str, int], sites: list[CallSite], pools: _Pools) -> Any:
    match text[0]:
        case "#":
            pools.constants.append(json.loads(text[1:]))
            return len(pools.constants) - 1
        case "@":
            return labels[text[1:]]
        case "!":
            return list(pools.types).index(text[1:])
        case "$":
            return pools.functions.index(text[1:])
        case "*":
            loops = tuple(json.loads(text[1:])) if text[1:] else ()
            sites.append(CallSite(len(sites), loops, 1, 1))
            return len(sites) - 1
        case "[":
            return tuple(json.loads(text))
        case _:
            return int(text)
