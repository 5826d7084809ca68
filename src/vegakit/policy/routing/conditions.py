"""When a routing rule fires: a closed set of comparisons with a field of a stage's output.

| condition     | holds when the field                                                    |
|---------------|-------------------------------------------------------------------------|
| always        | is anything, or absent                                                  |
| exists        | is there, even if null                                                  |
| equals        | is that text, number, truth value or null: 1 is 1.0, true is not 1      |
| not_equals    | is another value, or absent                                             |
| contains      | is a text with that part, a list with that member, a map with that key  |
| greater, less | is a number above, or below, that number                                |

A field is a path of keys such as `review.verdict`; the empty field is the whole output.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeGuard, cast

__all__ = ["Condition", "condition_holds", "is_number"]

_ABSENT: Final = object()


class Condition(StrEnum):
    ALWAYS = "always"
    EXISTS = "exists"
    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    CONTAINS = "contains"
    GREATER = "greater"
    LESS = "less"


def condition_holds(condition: Condition, output: object, field: str, value: object) -> bool:
    return _HOLDS[condition](_look_up(output, field), value)


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _look_up(output: object, field: str) -> object:
    found = output
    for key in field.split(".") if field else ():
        if not isinstance(found, dict):
            return _ABSENT
        found = cast("dict[str, object]", found).get(key, _ABSENT)
    return found


def _is_same(found: object, value: object) -> bool:
    return found == value and isinstance(found, bool) == isinstance(value, bool)


def _contains(found: object, value: object) -> bool:
    if isinstance(found, list):
        return any(_is_same(member, value) for member in cast("list[object]", found))
    return isinstance(value, str) and isinstance(found, str | dict) and value in found


def _is_above(found: object, value: object) -> bool:
    return is_number(found) and is_number(value) and found > value


_HOLDS: Final[Mapping[Condition, Callable[[object, object], bool]]] = MappingProxyType(
    {
        Condition.ALWAYS: lambda _found, _value: True,
        Condition.EXISTS: lambda found, _value: found is not _ABSENT,
        Condition.EQUALS: _is_same,
        Condition.NOT_EQUALS: lambda found, value: not _is_same(found, value),
        Condition.CONTAINS: _contains,
        Condition.GREATER: _is_above,
        Condition.LESS: lambda found, value: _is_above(value, found),
    }
)
