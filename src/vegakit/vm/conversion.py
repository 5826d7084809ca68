"""Conversion of a value to a type, with the reason if it does not fit (pure).

An int becomes a float where a float is expected, and money and times may be spelled as in JSON. A
record gets its fields in the order of the type, with null for missing fields that may be null.
Fields that the type does not know are dropped, because a service may return more than was asked
for.
"""

from collections.abc import Callable
from typing import Any

from vegakit.lang import (
    DURATION,
    MONEY,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    Problem,
    ProcessOf,
    RecordOf,
    StreamOf,
    Type,
    value_of,
)
from vegakit.vm.values import (
    Duration,
    FileRef,
    Future,
    Handle,
    ListValue,
    MapValue,
    Money,
    ProgramFault,
    StreamRef,
    Value,
    fields_of,
    items_of,
    kind_of,
    restored,
    whole,
)

_PLAIN: dict[str, type] = {
    "int": int,
    "money": Money,
    "duration": Duration,
    "str": str,
    "bool": bool,
    "null": type(None),
    "nothing": type(None),
    "file": FileRef,
}


def fit(value: Value, of: Type, at: str = "the value") -> Value:
    """Return the value as the type `of`, or raise. `at` says in the reason where the value is."""
    return _FIT[type(of)](value, of, at)


def _misfit(value: Value, wanted: str, at: str) -> ProgramFault:
    return ProgramFault("ContractViolated", f"{at} is {kind_of(value)}, expected {wanted}")


def _hold(count: int, most: int | None, what: str, at: str) -> None:
    if most is not None and count > most:
        raise ProgramFault("ContractViolated", f"{at} has {count} {what}, at most {most} may be")


def _plain(value: Value, of: Plain, at: str) -> Value:
    if of.name == "any" or type(value) is _PLAIN.get(of.name):
        if of.most is not None and type(value) is str:
            _hold(len(value), of.most, "characters", at)
        return value
    made = _READ[of.name](value) if of.name in _READ else None
    if made is None:
        raise _misfit(value, of.name, at)
    return made


def _from_outside(of: Type) -> Callable[[Value], Value | None]:
    """Return what reads money or times as JSON from outside spells them."""

    def read(value: Value) -> Value | None:
        if type(value) not in (str, int, float):
            return None
        found = value_of(of, value)
        return None if isinstance(found, Problem) else restored(found)

    return read


_READ: dict[str, Callable[[Value], Value | None]] = {
    "float": lambda value: float(value) if type(value) in (int, float) else None,
    "int": lambda value: whole(int(value)) if type(value) is float and value.is_integer() else None,
    "money": _from_outside(MONEY),
    "duration": _from_outside(DURATION),
}


def _list(value: Value, of: ListOf, at: str) -> Value:
    if type(value) is not ListValue:
        raise _misfit(value, "list", at)
    _hold(len(value), of.most, "items", at)
    if isinstance(of.inner, Plain) and _all_are(value, of.inner):
        return value
    made = [fit(item, of.inner, f"item {i} of {at}") for i, item in enumerate(value)]
    return value if _unchanged(made, value) else items_of(made)


def _all_are(items: ListValue, of: Plain) -> bool:
    """Seen without a look at each: most lists are what they are taken for."""
    kind = None if of.most is not None else _PLAIN.get(of.name)
    return of.name == "any" or (kind is not None and {kind}.issuperset(map(type, items)))


def _map(value: Value, of: MapOf, at: str) -> Value:
    if type(value) is not MapValue:
        raise _misfit(value, "map", at)
    _hold(len(value), of.most, "keys", at)
    made = {key: fit(item, of.inner, f"entry {key:.40} of {at}") for key, item in value.items()}
    return value if _unchanged([*made.values()], [*value.values()]) else fields_of(made)


def _unchanged(made: list[Value], before: list[Value]) -> bool:
    return all(one is other for one, other in zip(made, before, strict=True))


def _choice(value: Value, of: ChoiceOf, at: str) -> Value:
    if type(value) is str and value in of.choices:
        return value
    listed = " | ".join(of.choices)
    raise _misfit(value, f"one of {listed:.200}", at)


def _record(value: Value, of: RecordOf, at: str) -> Value:
    if type(value) is not MapValue:
        raise _misfit(value, of.name, at)
    made: dict[str, Value] = {}
    for name, kind in of.fields:
        if name not in value and not isinstance(kind, OptionalOf):
            raise ProgramFault("ContractViolated", f"{at} lacks the field {name} of {of.name}")
        made[name] = fit(value.get(name), kind, f"{name} of {at}")
    same = [*made] == [*value] and _unchanged([*made.values()], [*value.values()])
    return value if same else fields_of(made)


def _of_kind(kind: type, name: str) -> Callable[[Value, Any, str], Value]:
    def fitted(value: Value, _: Type, at: str) -> Value:
        if type(value) is kind:
            return value
        raise _misfit(value, name, at)

    return fitted


_FIT: dict[type, Callable[[Value, Any, str], Value]] = {
    Plain: _plain,
    OptionalOf: lambda value, of, at: None if value is None else fit(value, of.inner, at),
    ListOf: _list,
    MapOf: _map,
    ChoiceOf: _choice,
    RecordOf: _record,
    ProcessOf: _of_kind(Handle, "process"),
    FutureOf: _of_kind(Future, "future"),
    StreamOf: _of_kind(StreamRef, "stream"),
}
