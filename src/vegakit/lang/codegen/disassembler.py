"""Print a module for people: every instruction with names, labels and source lines (pure)."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from vegakit.lang.codegen.bytecode import Function, Handler, Module, Op
from vegakit.lang.types import type_label

_WIDTH = 60


def disassemble(module: Module) -> str:
    """Return a verified module as text for people."""
    parts = [_head(module), *(_function(module, function) for function in module.functions)]
    return "\n\n".join(parts) + "\n"


def _head(module: Module) -> str:
    main = module.functions[module.main].name
    counts = f"{len(module.functions)} functions, {len(module.constants)} constants"
    rows = [f"module {module.name}: {counts}, runs {main}"]
    rows += [f"agent {agent.name}: {', '.join(agent.models)}" for agent in module.agents]
    rows += [f"tool {tool.name}: function {tool.function}" for tool in module.tools]
    return "\n".join(rows)


def _function(module: Module, function: Function) -> str:
    names = function.names or [f"r{at}" for at in range(len(function.params))]
    pairs = zip(names, function.params, strict=True)
    params = ", ".join(f"{name}: {type_label(kind)}" for name, kind in pairs)
    result = type_label(function.result)
    place = f"{function.file}, {function.registers} registers"
    head = f"fn {function.name}({params}) -> {result}    // {place}"
    rows = [*_rows(module, function), *map(_handler, function.handlers)]
    return "\n".join([head, *rows])


def _rows(module: Module, function: Function) -> Iterator[str]:
    targets, line = _targets(function), -1
    for at, row in enumerate(function.code):
        op = Op(row[0])
        operands = zip(op.operands, row[1:], strict=True)
        text = " ".join(_SHOWN[kind](module, function, operand) for kind, operand in operands)
        label = f"@{at}" if at in targets else ""
        source = "" if function.lines[at] == line else f"line {function.lines[at]}"
        line = function.lines[at]
        yield f"{label:>6} {at:>5}  {op.name:<16} {text:<{_WIDTH}} {source}".rstrip()


def _targets(function: Function) -> set[int]:
    jumps = {
        operand
        for row in function.code
        for kind, operand in zip(Op(row[0]).operands, row[1:], strict=True)
        if kind == "j"
    }
    return jumps | {handler.target for handler in function.handlers}


def _handler(handler: Handler) -> str:
    kinds = " or ".join(handler.kinds) or "anything"
    covered = f"{handler.start} to {handler.end - 1}"
    reason = f", reason in r{handler.reason}" if handler.reason >= 0 else ""
    return f"       catch {kinds} from {covered}: @{handler.target}{reason}"


def _constant(module: Module, _: Function, operand: int) -> str:
    text = msgspec.json.encode(module.constants[operand]).decode()
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _site(_: Module, function: Function, operand: int) -> str:
    site = function.sites[operand]
    loops = f"[{'.'.join(f'r{each}' for each in site.loops)}]" if site.loops else ""
    return f"site:{site.ordinal}{loops}"


def _register(_: Module, __: Function, operand: int) -> str:
    return "-" if operand < 0 else f"r{operand}"


def _registers(_: Module, __: Function, operand: list[int]) -> str:
    return f"[{' '.join(f'r{each}' for each in operand)}]"


def _called(module: Module, _: Function, operand: int) -> str:
    return module.functions[operand].name


def _type(module: Module, _: Function, operand: int) -> str:
    return type_label(module.types[operand]) if operand >= 0 else "-"


_SHOWN: dict[str, Callable[[Module, Function, Any], str]] = {
    "w": _register,
    "r": _register,
    "o": _register,
    "rs": _registers,
    "ws": _registers,
    "k": _constant,
    "j": lambda _, __, operand: f"@{operand}",
    "f": _called,
    "t": _type,
    "n": lambda _, __, operand: str(operand),
    "s": _site,
}
