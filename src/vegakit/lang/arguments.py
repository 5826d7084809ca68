"""Arguments of `main` as words of a command line: `vega run review.vega a.py b.py`.

Each word goes to the next parameter; the last one, if it is a list, takes all that are left. Lists
before the last, maps and records are written as JSON. What may be null may be left out at the end.
"""

import re
from collections.abc import Sequence

import msgspec

from vegakit.lang.schemas import Problem, value_of
from vegakit.lang.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    MONEY,
    NULL,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    RecordOf,
    Type,
)
from vegakit.records import Json

__all__ = ["arguments_of"]

_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TRUTHS: dict[str, bool] = {"true": True, "yes": True, "false": False, "no": False}


def arguments_of(
    params: Sequence[tuple[str, Type]], words: Sequence[str]
) -> tuple[Json, ...] | Problem:
    values: list[Json] = []
    left = list(words)
    for at, (name, kind) in enumerate(params):
        taken = _taken(kind, left, last=at == len(params) - 1)
        if isinstance(taken, Problem):
            return Problem(taken.message, f"{name}{taken.path}")
        values.append(taken)
    if left:
        return Problem(f"{_counted(params)}; nothing takes {left[0]!r}")
    return tuple(values)


def _counted(params: Sequence[tuple[str, Type]]) -> str:
    count = len(params)
    return f"the program takes {count or 'no'} argument{'' if count == 1 else 's'}"


def _taken(kind: Type, left: list[str], *, last: bool) -> Json | Problem:
    """Takes its words off the front of `left`."""
    if last and isinstance(kind, ListOf):
        words, left[:] = left[:], []
        return _several(kind, words)
    if left:
        return _one(kind, left.pop(0))
    return None if isinstance(kind, OptionalOf) else Problem("is missing; write it behind the file")


def _several(kind: ListOf, words: list[str]) -> Json | Problem:
    if kind.most is not None and len(words) > kind.most:
        return Problem(f"takes at most {kind.most}, {len(words)} are given")
    items: list[Json] = []
    for at, word in enumerate(words):
        item = _one(kind.inner, word)
        if isinstance(item, Problem):
            return Problem(item.message, f"[{at}]{item.path}")
        items.append(item)
    return items


def _one(kind: Type, word: str) -> Json | Problem:
    given = _read(kind, word)
    if isinstance(given, Problem):
        return given
    found = value_of(kind, given)
    if isinstance(found, Problem) and found.path and found.path[0] != "[":
        return Problem(found.message, f".{found.path}")
    return found


def _read(kind: Type, word: str) -> Json | Problem:
    """The word as the JSON that the type expects."""
    match kind:
        case OptionalOf(inner=inner):
            return None if word == "null" else _read(inner, word)
        case ListOf() | MapOf() | RecordOf():
            return _json(word)
        case Plain():
            return _read_plain(kind, word)
        case _:
            return word


def _read_plain(kind: Plain, word: str) -> Json | Problem:
    if kind == INT:
        return int(word) if _WHOLE.fullmatch(word) else Problem(f"expected 3 or -3, got {word!r}")
    if kind == FLOAT:
        return float(word) if _NUMBER.fullmatch(word) else Problem(f"expected 2.5, got {word!r}")
    if kind == MONEY:
        return word if word.startswith("$") else f"${word}"
    if kind == BOOL:
        truth = _TRUTHS.get(word.lower())
        return Problem(f"expected true or false, got {word!r}") if truth is None else truth
    if kind == NULL:
        return None if word == "null" else word
    if kind == ANY:
        given = _json(word)
        return word if isinstance(given, Problem) else given
    return word


def _json(word: str) -> Json | Problem:
    try:
        return msgspec.json.decode(word)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Problem(f"expected JSON such as [1, 2] or {{...}}: {error}")
