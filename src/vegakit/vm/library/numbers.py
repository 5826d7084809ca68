"""`math::…`, `json::…`, `time::…`, and numbers out of text."""

import math
import re

import msgspec

from vegakit.vm.arithmetic import negate
from vegakit.vm.faults import Fault, arithmetic
from vegakit.vm.library.table import pure
from vegakit.vm.texts import json_text
from vegakit.vm.values import Duration, FileRef, Money, Value, kind_of, plain_value, sized, whole

__all__ = []

_INT = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?")
_NANOS, _MS = 1_000_000_000, 1_000
_MOST_DIGITS = 308


@pure("int", "*")
def _int(of: Value) -> int:
    if type(of) is int:
        return of
    if type(of) is float:
        return whole(math.trunc(of))
    if type(of) is str and _INT.fullmatch(of.strip()):
        return whole(int(of.strip()))
    raise _no_number(of, "a whole number")


@pure("float", "*")
def _float(of: Value) -> float:
    match of:
        case bool() | None:
            raise _no_number(of, "a number")
        case int() | float():
            return float(of)
        case Money(nanos=nanos):
            return nanos / _NANOS
        case Duration(ms=ms):
            return ms / _MS
        case str() if _FLOAT.fullmatch(of.strip()) and math.isfinite(float(of.strip())):
            return float(of.strip())
        case _:
            raise _no_number(of, "a number")


def _no_number(of: Value, wanted: str) -> Fault:
    shown = repr(of[:40]) if type(of) is str else kind_of(of)
    return Fault("ValueError", f"{shown} is not {wanted}")


@pure("math::abs", "*")
def _abs(x: Value) -> Value:
    negative = negate(x)
    return max(x, negative)


@pure("math::floor", "f")
def _floor(x: float) -> int:
    return whole(math.floor(x))


@pure("math::ceil", "f")
def _ceil(x: float) -> int:
    return whole(math.ceil(x))


@pure("math::round", "f i?")
def _round(x: float, digits: int | None) -> float:
    places = max(-_MOST_DIGITS, min(_MOST_DIGITS, digits or 0))
    try:
        return float(round(x, places))
    except OverflowError:
        raise arithmetic("the rounded number is too large") from None


@pure("math::sqrt", "f")
def _sqrt(x: float) -> float:
    if x < 0:
        raise arithmetic("a negative number has no square root")
    return math.sqrt(x)


@pure("math::pow", "f f")
def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        raise arithmetic("the power is not a finite number") from None


@pure("json::parse", "s")
def _parse(text: str) -> Value:
    try:
        return plain_value(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Fault("ValueError", f"not JSON: {error}") from None


@pure("json::text", "*")
def _text(value: Value) -> str:
    return sized(json_text(value))


@pure("time::seconds", "d")
def _seconds(of: Duration) -> float:
    return of.ms / _MS


@pure("time::of_seconds", "f")
def _of_seconds(seconds: float) -> Duration:
    if seconds < 0:
        raise Fault("ValueError", f"a duration is not negative; got {seconds} seconds")
    if seconds > _MOST_SECONDS:
        raise arithmetic("the duration is too long")
    return Duration(round(seconds * _MS))


_MOST_SECONDS = 1e15


@pure("file", "s")
def _file(path: str) -> FileRef:
    return FileRef(path)
