"""Verify that a module is one the compiler could have made, and read and write modules as `.vgb`
files (pure).

The digest of a file finds damage. It does not make the file honest, so every module that is read
is verified.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from math import isfinite
from typing import Any

from vegakit.errors import InvalidRecordError
from vegakit.lang import types
from vegakit.lang.codegen.bytecode import CallSite, Function, Handler, Module, Op
from vegakit.lang.library import CATCHABLE, LIBRARY
from vegakit.records import from_json, to_json

# What may stand among the constants and types of a module.


_MAX_DEPTH = 100
_MAX_ITEMS = 1_000_000
_MAX_CHARS = 10_000_000
_MARKED: dict[str, type] = {"money": int, "duration": int, "agent": str, "file": str}
_PLAIN = frozenset("int float money duration str bool null any file nothing".split())


def constant_problem(constant: Any, depth: int = 0) -> str:  # noqa: ANN401
    """Return what is wrong with a constant, empty if nothing is. Processes, futures and streams
    cannot be constants."""
    match constant:
        # Before int, because to Python a bool is one.
        case bool() | None:
            return ""
        case int():
            return "" if -(2**63) <= constant < 2**63 else "does not fit 64 bits"
        case float():
            return "" if isfinite(constant) else "is not a finite number"
        case str():
            return "" if len(constant) <= _MAX_CHARS else "is too long"
        case list() | dict():
            return _held(constant, depth + 1)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return "is not a value"


def _held(constant: list[Any] | dict[Any, Any], depth: int) -> str:
    # Before it is walked: hostile JSON may be nested deeper than Python's stack.
    if depth > _MAX_DEPTH or len(constant) > _MAX_ITEMS:
        return "is nested too deep or too long"
    if isinstance(constant, dict):
        if "$" in constant:
            return _marked(constant, depth)
        if not all(isinstance(key, str) for key in constant):
            return "has a key that is no string"
    inner = constant.values() if isinstance(constant, dict) else constant
    return next((problem for each in inner if (problem := constant_problem(each, depth))), "")


def _marked(constant: dict[Any, Any], depth: int) -> str:
    name, of = constant["$"], constant.get("of")
    if name == "map" and isinstance(of, list):
        return _pairs(of, depth)  # pyright: ignore[reportUnknownArgumentType]
    kind = _MARKED.get(name) if isinstance(name, str) else None
    if kind is None or type(of) is not kind or len(constant) != 2:
        return "has a `$` that says no value"
    return constant_problem(of, depth)


def _pairs(pairs: list[Any], depth: int) -> str:
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:  # pyright: ignore[reportUnknownArgumentType]
            return "is a map without pairs"
    return constant_problem([each for _, each in pairs], depth)


def type_problem(kind: types.Type, depth: int = 0) -> str:
    """Return what is wrong with a type, empty if nothing is."""
    if depth > _MAX_DEPTH:
        return "is nested too deep"
    match kind:
        case types.Plain(name=name, most=most):
            if most is not None and (most < 0 or name != "str"):
                return "has a bound that it cannot have"
            return "" if name in _PLAIN else "has no such name"
        case types.ListOf(inner=inner, most=most) | types.MapOf(inner=inner, most=most):
            return "has a negative bound" if (most or 0) < 0 else type_problem(inner, depth + 1)
        case types.OptionalOf(inner=inner) | types.FutureOf(inner=inner):
            return type_problem(inner, depth + 1)
        case types.RecordOf(fields=fields):
            if len({name for name, _ in fields}) != len(fields):
                return "has two fields of one name"
            return next((p for _, each in fields if (p := type_problem(each, depth + 1))), "")
        case types.ChoiceOf() | types.ProcessOf() | types.StreamOf():
            return ""


# Is a module one that the compiler could have made? Hostile bytecode is refused before it runs.
#
# After this the machine need not check a single index: registers, constants, types, functions,
# sites and jumps exist, and control cannot run off the end of a function. What depends on values
# (kinds of operands, sizes) the machine checks as it runs.


_MAX_PROBLEMS = 100
_MAX_REGISTERS = 65_536
_MAX_CODE = 1_000_000
_MAX_HANDLERS = 1_000
_MAX_NAME = 200
_MAX_CALL = 2_000
"""A tool, with the names of its arguments."""
_ENDS = (Op.JUMP, Op.RETURN, Op.RAISE, Op.EXIT, Op.TASK_END, Op.RACE_WON)
"""Compared one by one: a list may stand where an instruction belongs, and has no hash."""


def verify(module: Module) -> list[str]:
    """Return what is wrong with a module, at most a hundred lines; nothing if it may run."""
    return list(islice(_module(module), _MAX_PROBLEMS))


def _module(module: Module) -> Iterator[str]:
    if not 0 <= module.main < len(module.functions):
        yield f"main is function {module.main} of {len(module.functions)}"
    # The walk below takes time by the instruction, so too many end it here.
    if sum(len(function.code) for function in module.functions) > _MAX_CODE:
        yield f"it has more than {_MAX_CODE:,} instructions"
        return
    for at, constant in enumerate(module.constants):
        problem = constant_problem(constant)
        if problem:
            yield f"constant {at} {problem}"
    for at, kind in enumerate(module.types):
        problem = type_problem(kind)
        if problem:
            yield f"type {at} {problem}"
    for function in module.functions:
        where = f"function {function.name[:_MAX_NAME]!r}"
        yield from (f"{where}: {problem}" for problem in _function(module, function))
    yield from _tools(module)


def _tools(module: Module) -> Iterator[str]:
    for tool in module.tools:
        if not 0 <= tool.function < len(module.functions):
            yield f"tool {tool.name[:_MAX_NAME]!r} is no function of the module"
        elif len(tool.params) != len(module.functions[tool.function].params):
            yield f"tool {tool.name[:_MAX_NAME]!r} has other parameters than its function"
        if not 0 <= tool.rights < len(module.rights):
            yield f"tool {tool.name[:_MAX_NAME]!r} has rights that are not there"
        if any(type_problem(kind) for kind in (tool.result, *(kind for _, kind in tool.params))):
            yield f"tool {tool.name[:_MAX_NAME]!r} has a type that cannot be"


def _function(module: Module, function: Function) -> Iterator[str]:
    code = function.code
    yield from _frame(module, function)
    if len(function.lines) != len(code) or any(line < 0 for line in function.lines):
        yield "not every instruction has its line"
    if not code or not code[-1] or code[-1][0] not in _ENDS:
        yield "it does not end by a jump, a return or a raise"
    for at, row in enumerate(code):
        yield from (f"instruction {at} {problem}" for problem in _row(module, function, row))
    if len({site.ordinal for site in function.sites}) != len(function.sites):
        yield "two sites have one ordinal"
    for site in function.sites:
        yield from _site(function, site)
    if len(function.handlers) > _MAX_HANDLERS:
        yield f"it has more than {_MAX_HANDLERS:,} handlers"
    for handler in function.handlers:
        yield from _handler(function, handler)


def _frame(module: Module, function: Function) -> Iterator[str]:
    if not 0 < len(function.name) <= _MAX_NAME or not function.name.isprintable():
        yield f"a name has 1 to {_MAX_NAME} characters"
    if function.names and not _are_names(function):
        yield "its parameters have not each a name of their own"
    if not len(function.params) <= function.registers <= _MAX_REGISTERS:
        yield f"{function.registers} registers are too few or too many"
    if not 0 <= function.rights < len(module.rights):
        yield f"rights {function.rights} are not there"
    if any(type_problem(kind) for kind in (*function.params, function.result)):
        yield "it has a parameter or result of a type that cannot be"


def _are_names(function: Function) -> bool:
    names = set(function.names)
    counts = {len(function.names), len(function.params)}
    return counts == {len(names)} and all(
        name.isidentifier() and len(name) <= _MAX_NAME for name in names
    )


def _site(function: Function, site: CallSite) -> Iterator[str]:
    if site.ordinal < 0 or not all(0 <= each < function.registers for each in site.loops):
        yield f"site {site.ordinal} counts in registers that are not there"


def _handler(function: Function, handler: Handler) -> Iterator[str]:
    size = len(function.code)
    if not (0 <= handler.start < handler.end <= size and 0 <= handler.target < size):
        yield "a handler covers or jumps to what is not there"
    if not -1 <= handler.reason < function.registers or handler.scopes < 0:
        yield "a handler has no register for its reason, or no scopes"
    if not all(kind in CATCHABLE for kind in handler.kinds):
        yield "a handler catches what cannot be caught"


def _row(module: Module, function: Function, row: tuple[Any, ...]) -> Iterator[str]:
    number = row[0] if row else None
    # True is 1 to Python, and would pass for the number of an instruction.
    if not isinstance(number, int) or isinstance(number, bool) or number not in _OPS:
        yield f"has the unknown number {str(number)[:40]}"
        return
    op = _OPS[number]
    if len(row) != len(op.operands) + 1:
        yield f"{op.name} has {len(row) - 1} operands instead of {len(op.operands)}"
        return
    # One wrong operand is enough: `_MORE` may index by what is within bounds only.
    for kind, operand in zip(op.operands, row[1:], strict=True):
        if not _FITS[kind](module, function, operand):
            yield f"{op.name} has a wrong operand {kind}: {str(operand)[:40]}"
            return
    if op in _MORE and not _MORE[op](module, row):
        yield f"{op.name} has operands that do not belong together"


_OPS: dict[int, Op] = {int(op): op for op in Op}


def _within(value: object, end: int, begin: int = 0) -> bool:
    # By `type`, because a bool is an instance of int.
    return type(value) is int and begin <= value < end


def _registers(_: Module, function: Function, operand: Any) -> bool:  # noqa: ANN401
    is_list = isinstance(operand, list | tuple)
    return is_list and all(_within(each, function.registers) for each in operand)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _register(_: Module, function: Function, operand: object) -> bool:
    return _within(operand, function.registers)


_FITS: dict[str, Callable[[Module, Function, Any], bool]] = {
    "w": _register,
    "r": _register,
    "o": lambda _, function, operand: _within(operand, function.registers, -1),
    "rs": _registers,
    "ws": _registers,
    "k": lambda module, _, operand: _within(operand, len(module.constants)),
    "j": lambda _, function, operand: _within(operand, len(function.code)),
    "f": lambda module, _, operand: _within(operand, len(module.functions)),
    "t": lambda module, _, operand: _within(operand, len(module.types), -1),
    "n": lambda _, __, operand: _within(operand, 256),
    "s": lambda _, function, operand: _within(operand, len(function.sites)),
}


def _named(at: int, most: int = _MAX_NAME) -> Callable[[Module, tuple[Any, ...]], bool]:
    return lambda module, row: _is_name(module.constants[row[at]], most)


def _is_name(constant: object, most: int = _MAX_NAME) -> bool:
    return isinstance(constant, str) and 0 < len(constant) <= most


def _settings(at: int) -> Callable[[Module, tuple[Any, ...]], bool]:
    def fits(module: Module, row: tuple[Any, ...]) -> bool:
        constant = module.constants[row[at]]
        return constant is None or (isinstance(constant, dict) and "$" not in constant)

    return fits


def _record(module: Module, row: tuple[Any, ...]) -> bool:
    at: int = row[2]
    kind = module.types[at] if at >= 0 else None
    return isinstance(kind, types.RecordOf) and len(kind.fields) == len(row[3])


def _call(module: Module, row: tuple[Any, ...]) -> bool:
    at: int = row[2]
    return len(row[3]) == len(module.functions[at].params)


def _raise(module: Module, row: tuple[Any, ...]) -> bool:
    name = module.constants[row[1]]
    return isinstance(name, str) and name in CATCHABLE


def _library(module: Module, row: tuple[Any, ...]) -> bool:
    name = module.constants[row[2]]
    known = LIBRARY.get(name) if isinstance(name, str) else None
    return known is not None and known.kind == "pure" and len(known.params) == len(row[3])


_MORE: dict[Op, Callable[[Module, tuple[Any, ...]], bool]] = {
    Op.AGENT: _named(2),
    Op.FIELD: _named(3),
    Op.WITH_FIELD: _named(3),
    Op.HOST: _named(2, _MAX_CALL),
    Op.LIBRARY: _library,
    Op.RAISE: _raise,
    Op.RECORD: _record,
    Op.MAP: lambda _, row: len(row[2]) % 2 == 0,
    Op.CALL: _call,
    Op.SPAWN_SUPERVISED: _settings(6),
    Op.BUDGET_ENTER: _settings(2),
    Op.BUDGET_CHECK: lambda _, row: row[2] <= 2,
}


# Modules as files: `.vgb`.
#
# | bytes   | are                                              |
# |---------|--------------------------------------------------|
# | 4       | `VEGA`                                           |
# | 2       | the version of the format, the high byte first   |
# | 4       | the length of the rest, the high byte first      |
# | 32      | the BLAKE2b digest of the rest                   |
# | the rest | the module as JSON                              |
#
# The digest finds damage. It does not make a file honest: every module that is read is verified.


_MAGIC = b"VEGA"
_VERSION = 1
_HEAD = struct.Struct(">4sHI32s")
_MAX_BYTES = 16 * 1024 * 1024
_AGAIN = "build it again with `vega build`"


def to_vgb(module: Module) -> bytes:
    """Return a module as the bytes of a `.vgb` file."""
    body = to_json(module)
    if len(body) > _MAX_BYTES:
        raise _refusal(f"a module has at most {_MAX_BYTES:,} bytes; this one has {len(body):,}")
    return _HEAD.pack(_MAGIC, _VERSION, len(body), _digest(body)) + body


def from_vgb(stored: bytes) -> Module:
    """Return the module of a `.vgb` file, or raise if it is damaged, too new or not what the
    compiler makes."""
    body = _body(stored)
    try:
        module = from_json(Module, body)
    except InvalidRecordError as error:
        raise _refusal(f"what it holds is not a module: {error.__cause__}") from error
    problems = verify(module)
    if problems:
        raise _refusal(f"it is not what the compiler makes: {'; '.join(problems[:3])}")
    return module


def _body(stored: bytes) -> bytes:
    if len(stored) < _HEAD.size or not stored.startswith(_MAGIC):
        raise _refusal("it does not begin as one")
    _, version, length, digest = _HEAD.unpack_from(stored)
    body = stored[_HEAD.size :]
    if version != _VERSION:
        raise _refusal(f"it has format {version}; this version of Vega reads format {_VERSION}")
    # Before the digest, which takes time by the byte.
    if length > _MAX_BYTES:
        raise _refusal(f"a module has at most {_MAX_BYTES:,} bytes; this one has {length:,}")
    if len(body) != length:
        raise _refusal(f"it has {len(body):,} bytes where {length:,} are announced")
    if _digest(body) != digest:
        raise _refusal("its content does not fit its digest: it was changed or damaged")
    return body


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=32).digest()


def _refusal(why: str) -> InvalidRecordError:
    return InvalidRecordError(f"this is not a program to run (.vgb): {why}; {_AGAIN}")
