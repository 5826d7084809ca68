"""Types and JSON: the schema a model is asked to fill, the value that came back, and command-line
arguments as arguments of `main` (pure).
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from vegakit.errors import BugError, InvalidMoneyError
from vegakit.lang import types
from vegakit.lang.diagnostics import nearest
from vegakit.lang.syntax.lexer import UNITS_MS
from vegakit.money import dollars
from vegakit.records import UNREADABLE_JSON, Json

# Types and JSON: the schema a model is asked to fill, and what came back as a value.
#
# | type          | in JSON from outside                | as a value                            |
# |---------------|-------------------------------------|---------------------------------------|
# | `money`       | a number of dollars, or `"$1.50"`   | `{"$": "money", "of": 1500000000}`    |
# | `duration`    | `"30s"`                             | `{"$": "duration", "of": 30000}`      |
# | `file`        | its path                            | `{"$": "file", "of": "a.png"}`        |
# | a map         | an object                           | itself, or its pairs if it has a `$`  |
# | all else      | itself                              | itself                                |
#
# A model answers with an object, so what is none is asked for as `{"result": …}`.


_LEAST, _MOST = -(2**63), 2**63 - 1
_DEEPEST = 100
_DURATION = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_SCHEMAS: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "null": {"type": "null"},
    "any": {},
    "money": {"type": "number", "description": "an amount in US dollars"},
    "duration": {"type": "string", "description": "a time such as 500ms, 30s, 5m, 2h or 1d"},
    "file": {"type": "string", "description": "the path of a file of the project"},
}


class Problem(Struct, frozen=True):
    """The reason why JSON is no value of a type. `path` says where, such as `items[2].severity`; it
    is empty for the whole."""

    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class _Misfit(Exception):  # noqa: N818
    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message, self.path = message, path


def schema_of(kind: types.Type) -> dict[str, Any]:
    """Return the JSON schema of a type."""
    match kind:
        case types.Plain(name=name, most=most) if name in _SCHEMAS:
            return {**_SCHEMAS[name], **_bound("maxLength", most)}
        case types.OptionalOf(inner=inner):
            return {"anyOf": [schema_of(inner), {"type": "null"}]}
        case types.ListOf(inner=inner, most=most):
            return {"type": "array", "items": schema_of(inner), **_bound("maxItems", most)}
        case types.MapOf(inner=inner, most=most):
            held = _bound("maxProperties", most)
            return {"type": "object", "additionalProperties": schema_of(inner), **held}
        case types.ChoiceOf(choices=choices):
            return {"type": "string", "enum": list(choices)}
        case types.RecordOf(fields=fields):
            return _object({name: schema_of(field) for name, field in fields})
        case _:
            raise BugError(f"{kind} has no JSON form; the checker refuses it where JSON is needed")


def _bound(name: str, most: int | None) -> dict[str, int]:
    """JSON Schema counts the length of a text in characters, as Vega does."""
    return {} if most is None else {name: most}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def answer_schema(kind: types.Type) -> dict[str, Any]:
    """Return the schema of an answer, which is always an object."""
    schema = schema_of(kind)
    return schema if isinstance(kind, types.RecordOf) else _object({"result": schema})


def answer_of(kind: types.Type, given: Json) -> Json | Problem:
    """Return the value in an answer that was asked for by `answer_schema`."""
    if isinstance(kind, types.RecordOf):
        return value_of(kind, given)
    found = value_of(_whole_answer(kind), given)
    return found["result"] if isinstance(found, dict) else found


def _whole_answer(kind: types.Type) -> types.RecordOf:
    return types.RecordOf("the answer", (("result", kind),))


# What is said of a misfit, and how long that is at most.


_SHOWN_CHARS, _UTF8_BYTES = 40, 4
_LONGEST_NUMBER = len("-1.7976931348623157e+308")
_MONEY_PROBLEM = 1_000
_TOO_DEEP = f"nested more than {_DEEPEST} deep"
_TOO_LARGE = "expected a whole number of 64 bits, this is larger"
_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "null": "null",
    "duration": "a time such as 500ms, 30s, 5m, 2h or 1d",
    "file": "the path of a file",
}


def problem_bytes(kind: types.Type, answer: int) -> int:
    """Return how many bytes the problem of an answer of so many bytes has at most. What its path
    names and what it shows share the answer."""
    if not isinstance(kind, types.RecordOf):
        kind = _whole_answer(kind)
    below = max(_in_fields(kind, answer, answer), default=0)
    return max(_misfit_bytes(kind, answer), len(": ") - len(".") + below, len("it is not JSON"))


def _longest_problem(kind: types.Type, given: int, answer: int) -> int:
    """Return how much is said of a part of an answer, which is given in so many bytes, with the
    path from there. No byte makes that longer by more than one; so a key in the path may well have
    all of them but one."""
    own = _misfit_bytes(kind, given)
    match kind:
        case types.OptionalOf(inner=inner):
            return _longest_problem(inner, given, answer)
        case types.ListOf(inner=inner):
            return max(own, len(f"[{answer}]") + _longest_problem(inner, given - 2, answer))
        case types.MapOf(inner=inner):
            key = max(given - len('{"":0}'), 0)
            return max(own, len(".") + key + _longest_problem(inner, 1, answer))
        case types.RecordOf():
            return max(own, max(_in_fields(kind, given, answer), default=0))
        case _:
            return own


def _in_fields(kind: types.RecordOf, given: int, answer: int) -> Iterator[int]:
    """Yield the longest problem in each field. A record is looked into where all is there that must
    be, in a byte or more."""
    sizes = {name: len(f',"{name}":0'.encode()) for name, _ in kind.fields}
    needed = sum(sizes[name] for name, of in kind.fields if not isinstance(of, types.OptionalOf))
    for name, of in kind.fields:
        others = needed + (sizes[name] if isinstance(of, types.OptionalOf) else 0)
        if (left := given - others) > 0:
            yield len(f".{name}".encode()) + _longest_problem(of, left, answer)


def _misfit_bytes(kind: types.Type, given: int) -> int:
    """Return how much is said of a part alone."""
    shown = max(_LONGEST_NUMBER, _shown_bytes(given))
    match kind:
        case types.Plain(name="money"):
            return _MONEY_PROBLEM
        case types.Plain(name="any"):
            return max(len(_TOO_DEEP), len(_TOO_LARGE))
        case types.Plain(name=name, most=most):
            return max(len(_expected(_EXPECTED[name])) + shown, _held_bytes(most, given))
        case types.ListOf(most=most):
            return max(len(_expected("a list")) + shown, _held_bytes(most, given))
        case types.MapOf(most=most):
            return max(len(_expected("an object")) + shown, _held_bytes(most, given))
        case types.ChoiceOf(choices=choices):
            return max(len(_not_one_of(choices, "", close).encode()) for close in choices) + shown
        case types.RecordOf():
            return _record_bytes(kind, shown, _shown_bytes(given - len("{:0}")))
        case _:
            return 0


def _record_bytes(kind: types.RecordOf, shown: int, key: int) -> int:
    names = [name for name, _ in kind.fields]
    said = [(_expected(_fields_of(kind)), shown), *((_missing(name), 0) for name in names)]
    said += [(_no_field(kind, "", close), key) for close in ("", *names)]
    return max(len(text.encode()) + more for text, more in said)


def _shown_bytes(given: int) -> int:
    """Return the bytes of a text that is shown; what else is shown has no more, but for numbers."""
    return min(given, len('""') + _SHOWN_CHARS * _UTF8_BYTES)


def _held_bytes(most: int | None, given: int) -> int:
    return 0 if most is None else len(_too_many(most, given, "characters"))


def _expected(what: str, shown: str = "") -> str:
    return f"expected {what}, got {shown}"


def _fields_of(kind: types.RecordOf) -> str:
    return f"an object with the fields of {kind.name}"


def _missing(name: str) -> str:
    return f"the field {name} is missing"


def _no_field(kind: types.RecordOf, shown: str, close: str) -> str:
    names = ", ".join(name for name, _ in kind.fields)
    meant = f"did you mean {close}?" if close else f"there are: {names}"
    return f"{shown} is not a field of {kind.name}; {meant}"


def _not_one_of(choices: tuple[str, ...], shown: str, close: str) -> str:
    listed = ", ".join(f'"{choice}"' for choice in choices)
    meant = f'; did you mean "{close}"?' if close else ""
    return f"expected one of {listed}, got {shown}{meant}"


def _too_many(most: int, count: int, what: str) -> str:
    return f"expected at most {most} {what}, got {count}"


def _shown(given: Json) -> str:
    match given:
        case None:
            return "null"
        case bool():
            return "true" if given else "false"
        case str():
            is_short = len(given) <= _SHOWN_CHARS
            return f'"{given}"' if is_short else f'"{given[: _SHOWN_CHARS - 3]}…"'
        case list():
            return f"a list of {len(given)}"
        case dict():
            return "an object"
        case _:
            return f"{given}"[:_SHOWN_CHARS]


# JSON as a value of a type.


def value_of(kind: types.Type, given: Json) -> Json | Problem:
    """Return JSON as a value of the type, or a `Problem` if it is none."""
    try:
        return _value(kind, given)
    except _Misfit as misfit:
        return Problem(misfit.message, misfit.path.removeprefix("."))


def _value(kind: types.Type, given: Json) -> Json:
    match kind:
        case types.Plain(name=name, most=most):
            value = _PLAIN[name](given)
            if isinstance(value, str):
                _hold(len(value), most, "characters")
            return value
        case types.OptionalOf(inner=inner):
            return None if given is None else _value(inner, given)
        case types.ListOf(inner=inner, most=most):
            return _list(given, inner, most)
        case types.MapOf(inner=inner, most=most):
            return _map(given, inner, most)
        case types.ChoiceOf(choices=choices):
            return _choice(given, choices)
        case types.RecordOf():
            return _record(given, kind)
        case _:
            raise BugError(f"{kind} has no JSON form")


def _below(path: str, kind: types.Type, given: Json) -> Json:
    try:
        return _value(kind, given)
    except _Misfit as misfit:
        raise _Misfit(misfit.message, f"{path}{misfit.path}") from None


def _list(given: Json, inner: types.Type, most: int | None) -> Json:
    if not isinstance(given, list):
        raise _wrong("a list", given)
    _hold(len(given), most, "items")
    return [_below(f"[{at}]", inner, item) for at, item in enumerate(given)]


def _hold(count: int, most: int | None, what: str) -> None:
    if most is not None and count > most:
        raise _Misfit(_too_many(most, count, what))


def _map(given: Json, inner: types.Type, most: int | None) -> Json:
    if not isinstance(given, dict):
        raise _wrong("an object", given)
    _hold(len(given), most, "keys")
    return _escaped({key: _below(f".{key}", inner, item) for key, item in given.items()})


def _escaped(made: dict[str, Json]) -> Json:
    """A `$` in a plain map must not be taken for the mark of another value."""
    if "$" not in made:
        return made
    pairs: list[Json] = [[key, item] for key, item in made.items()]
    return _marked("map", pairs)


def _marked(kind: str, of: Json) -> Json:
    return {"$": kind, "of": of}


def _choice(given: Json, choices: tuple[str, ...]) -> Json:
    if isinstance(given, str) and given in choices:
        return given
    close = nearest(given, choices) if isinstance(given, str) else ""
    raise _Misfit(_not_one_of(choices, _shown(given), close))


def _record(given: Json, kind: types.RecordOf) -> Json:
    if not isinstance(given, dict):
        raise _wrong(_fields_of(kind), given)
    names = [name for name, _ in kind.fields]
    for key in given:
        if key not in names:
            raise _Misfit(_no_field(kind, _shown(key), nearest(key, names)))
    for name, field in kind.fields:
        if name not in given and not isinstance(field, types.OptionalOf):
            raise _Misfit(_missing(name))
    return {name: _below(f".{name}", field, given.get(name)) for name, field in kind.fields}


def _int(given: Json) -> Json:
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool):
        raise _wrong(_EXPECTED["int"], given)
    if not _LEAST <= given <= _MOST:
        raise _Misfit(_TOO_LARGE)
    return given


def _float(given: Json) -> Json:
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise _wrong(_EXPECTED["float"], given)
    try:
        number = float(given)
    except OverflowError:
        raise _Misfit("expected a number, this is too large") from None
    if not math.isfinite(number):
        raise _Misfit(f"expected a finite number, got {number}")
    return number


def _str(given: Json) -> Json:
    if not isinstance(given, str):
        raise _wrong(_EXPECTED["str"], given)
    return given


def _bool(given: Json) -> Json:
    if not isinstance(given, bool):
        raise _wrong(_EXPECTED["bool"], given)
    return given


def _null(given: Json) -> Json:
    if given is not None:
        raise _wrong(_EXPECTED["null"], given)
    return None


def _money(given: Json) -> Json:
    if not isinstance(given, int | float | str) or isinstance(given, bool):
        raise _wrong("an amount in dollars", given)
    try:
        return _marked("money", dollars(given))
    except InvalidMoneyError as error:
        raise _Misfit(str(error)) from None


def _duration(given: Json) -> Json:
    match = _DURATION.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None:
        raise _wrong(_EXPECTED["duration"], given)
    return _marked("duration", int(match[1]) * UNITS_MS[match[2]])


def _file(given: Json) -> Json:
    if not isinstance(given, str) or not given:
        raise _wrong(_EXPECTED["file"], given)
    return _marked("file", given)


def _any(given: Json, depth: int = 0) -> Json:
    if depth > _DEEPEST:
        raise _Misfit(_TOO_DEEP)
    if isinstance(given, dict):
        return _escaped({key: _any(item, depth + 1) for key, item in given.items()})
    if isinstance(given, list):
        return [_any(item, depth + 1) for item in given]
    if isinstance(given, float):
        return _float(given)
    return _int(given) if isinstance(given, int) and not isinstance(given, bool) else given


_PLAIN = {
    "int": _int,
    "float": _float,
    "str": _str,
    "bool": _bool,
    "null": _null,
    "money": _money,
    "duration": _duration,
    "file": _file,
    "any": _any,
}


def _wrong(expected: str, given: Json) -> _Misfit:
    return _Misfit(_expected(expected, _shown(given)))


# Arguments of `main` as words of a command line: `vega run review.vega a.py b.py`.
#
# Each word goes to the next parameter; the last one, if it is a list, takes all that are left.
# Lists before the last, maps and records are written as JSON. What may be null may be left out at
# the end.


_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TRUTHS: dict[str, bool] = {"true": True, "yes": True, "false": False, "no": False}


def arguments_of(
    params: Sequence[tuple[str, types.Type]], arguments: Sequence[str]
) -> tuple[Json, ...] | Problem:
    """Return the arguments of `main` from the words of a command line, or a `Problem`."""
    values: list[Json] = []
    left = list(arguments)
    for at, (name, kind) in enumerate(params):
        taken = _taken(kind, left, last=at == len(params) - 1)
        if isinstance(taken, Problem):
            return Problem(taken.message, f"{name}{taken.path}")
        values.append(taken)
    if left:
        return Problem(f"{_counted(params)}; nothing takes {left[0]!r}")
    return tuple(values)


def _counted(params: Sequence[tuple[str, types.Type]]) -> str:
    count = len(params)
    return f"the program takes {count or 'no'} argument{'' if count == 1 else 's'}"


def _taken(kind: types.Type, left: list[str], *, last: bool) -> Json | Problem:
    """Takes its words off the front of `left`."""
    if last and isinstance(kind, types.ListOf):
        arguments, left[:] = left[:], []
        if len(arguments) == 1 and _is_list(kind.inner, arguments[0]):
            return _one(kind, arguments[0])
        return _several(kind, arguments)
    if left:
        return _one(kind, left.pop(0))
    return (
        None
        if isinstance(kind, types.OptionalOf)
        else Problem("is missing; write it behind the file")
    )


def _is_list(inner: types.Type, argument: str) -> bool:
    """Whether a single word is all of them as JSON, as a list is written where it is not last."""
    return isinstance(_one(types.ListOf(inner), argument), list)


def _several(kind: types.ListOf, arguments: list[str]) -> Json | Problem:
    if kind.most is not None and len(arguments) > kind.most:
        return Problem(f"takes at most {kind.most}, {len(arguments)} are given")
    items: list[Json] = []
    for at, argument in enumerate(arguments):
        item = _one(kind.inner, argument)
        if isinstance(item, Problem):
            return Problem(item.message, f"[{at}]{item.path}")
        items.append(item)
    return items


def _one(kind: types.Type, argument: str) -> Json | Problem:
    given = _read(kind, argument)
    if isinstance(given, Problem):
        return given
    found = value_of(kind, given)
    if isinstance(found, Problem) and found.path and found.path[0] != "[":
        return Problem(found.message, f".{found.path}")
    return found


def _read(kind: types.Type, argument: str) -> Json | Problem:
    """The word as the JSON that the type expects."""
    match kind:
        case types.OptionalOf(inner=inner):
            return None if argument == "null" else _read(inner, argument)
        case types.ListOf() | types.MapOf() | types.RecordOf():
            return _json(argument)
        case types.Plain():
            return _read_plain(kind, argument)
        case _:
            return argument


def _read_plain(kind: types.Plain, argument: str) -> Json | Problem:
    if kind == types.INT:
        return (
            int(argument)
            if _WHOLE.fullmatch(argument)
            else Problem(f"expected a whole number such as 3, got {argument!r}")
        )
    if kind == types.FLOAT:
        return (
            float(argument)
            if _NUMBER.fullmatch(argument)
            else Problem(f"expected a number such as 2.5, got {argument!r}")
        )
    if kind == types.MONEY:
        return argument if argument.startswith("$") else f"${argument}"
    if kind == types.BOOL:
        truth = _TRUTHS.get(argument.lower())
        return Problem(f"expected true or false, got {argument!r}") if truth is None else truth
    if kind == types.NULL:
        return None if argument == "null" else argument
    if kind == types.ANY:
        given = _json(argument)
        return argument if isinstance(given, Problem) else given
    return argument


def _json(argument: str) -> Json | Problem:
    try:
        return msgspec.json.decode(argument)
    except UNREADABLE_JSON as error:
        return Problem(f"expected JSON such as [1, 2] or {{...}}: {error}")
