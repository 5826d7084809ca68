"""What may stand among the constants and types of a module."""

from math import isfinite
from typing import Any

from vegakit.lang.types import (
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    StreamOf,
    Type,
)

__all__ = ["constant_problem", "type_problem"]

_MAX_DEPTH = 100
_MAX_ITEMS = 1_000_000
_MAX_CHARS = 10_000_000
_MARKED: dict[str, type] = {"money": int, "duration": int, "agent": str, "file": str}
_PLAIN = frozenset("int float money duration str bool null any file nothing".split())


def constant_problem(constant: Any, depth: int = 0) -> str:  # noqa: ANN401
    """Empty when it is a value: processes, futures and streams are none that could be written."""
    match constant:
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


def type_problem(kind: Type, depth: int = 0) -> str:
    if depth > _MAX_DEPTH:
        return "is nested too deep"
    match kind:
        case Plain(name=name):
            return "" if name in _PLAIN else "has no such name"
        case ListOf(inner=inner, most=most):
            return "has a negative bound" if (most or 0) < 0 else type_problem(inner, depth + 1)
        case OptionalOf(inner=inner) | MapOf(inner=inner) | FutureOf(inner=inner):
            return type_problem(inner, depth + 1)
        case RecordOf(fields=fields):
            if len({name for name, _ in fields}) != len(fields):
                return "has two fields of one name"
            return next((p for _, each in fields if (p := type_problem(each, depth + 1))), "")
        case ChoiceOf() | ProcessOf() | StreamOf():
            return ""
