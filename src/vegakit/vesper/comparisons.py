"""Says when two answers are the same: exactly, within a tolerance, as sets, or field by field.

A comparison has a name, which is a part of what a rollout's evidence is kept under: answers that
were compared otherwise say nothing about these.
"""

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import asdict, is_dataclass
from math import isclose
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from vegakit.errors import UserError, did_you_mean
from vegakit.host import Reply

Same: TypeAlias = Callable[[Any, Any], bool]
"""A function of two answers, the reference's first."""


class Comparison(Struct, frozen=True):
    """A way to compare, under its name."""

    name: str
    same: Same

    def __call__(self, reference: object, candidate: object) -> bool:
        """Return whether both answers are the same. A comparison that fails has not shown that."""
        return bool(self.same(plain(reference), plain(candidate)))


def comparison_of(compare: "Comparison | Same") -> Comparison:
    """Return a comparison by its name; a function of your own has that of its definition."""
    if isinstance(compare, Comparison):
        return compare
    name = getattr(compare, "__qualname__", "")
    if not callable(compare) or not name:
        raise UserError(
            f"compare is {compare!r:.60}; give exact(), close(…), same_set(), by_field(…), or a "
            "function of two answers"
        )
    return Comparison(f"{compare.__module__}.{name}", compare)


def exact() -> Comparison:
    """Compare values: equal numbers are the same, whatever their type; True is no number."""
    return Comparison("exact", _is_same)


def close(relative: float = 1e-9, absolute: float = 0.0) -> Comparison:
    """Compare numbers within a tolerance, anywhere in the answers; all else exactly."""

    def number(reference: float, candidate: float) -> bool:
        return isclose(reference, candidate, rel_tol=relative, abs_tol=absolute)

    def same(reference: object, candidate: object) -> bool:
        return _is_same(reference, candidate, number)

    return Comparison(f"close({relative!r}, {absolute!r})", same)


def same_set() -> Comparison:
    """Compare lists as sets: order and repetition do not count."""

    def within(some: Sequence[object], others: Sequence[object]) -> bool:
        return all(any(_is_same(one, other) for other in others) for one in some)

    def same(reference: object, candidate: object) -> bool:
        some, others = _items(reference), _items(candidate)
        if some is None or others is None:
            return False
        return within(some, others) and within(others, some)

    return Comparison("same_set", same)


def ignored() -> Comparison:
    """Leave a field out: what it says does not count."""
    return Comparison("ignored", lambda _reference, _candidate: True)


def by_field(
    fields: Mapping[str, "Comparison | Same"], rest: Comparison | None = None
) -> Comparison:
    """Compare records field by field; `rest` is for fields that are not named, exact if not given.
    A field inside another is named like `total.amount`."""
    rules = {name: comparison_of(each) for name, each in fields.items()}
    other = rest or exact()
    if not rules:
        raise UserError('by_field needs a field, like by_field({"total": close(0.01)})')

    def same(reference: object, candidate: object, place: str = "") -> bool:
        if place in rules:
            return rules[place](reference, candidate)
        has_rules = any(name.startswith(f"{place}.") for name in rules) or not place
        if not has_rules:
            return other(reference, candidate)
        if not isinstance(reference, dict) or not isinstance(candidate, dict):
            return other(cast("object", reference), candidate)
        one, two = cast("dict[str, Any]", reference), cast("dict[str, Any]", candidate)
        _check_fields(rules, place, one)
        return all(
            same(one.get(key, _MISSING), two.get(key, _MISSING), f"{place}.{key}".lstrip("."))
            for key in one.keys() | two.keys()
        )

    names = ", ".join(f"{name}: {each.name}" for name, each in sorted(rules.items()))
    return Comparison(f"by_field({names}; {other.name})", same)


_MISSING = object()


def _check_fields(rules: Mapping[str, Comparison], place: str, reference: dict[str, Any]) -> None:
    """A misspelt field would be compared by the rest, and nobody would notice."""
    for name in rules:
        above, _, field = name.rpartition(".")
        if above == place and field not in reference:
            raise UserError(
                f"by_field names {name!r}, and the answer of the reference has no such field; "
                f"{did_you_mean(field, reference)}"
            )


def plain(value: object) -> object:
    """Return a value as dicts, lists, sets, texts and numbers: a reply is what it answers."""
    if isinstance(value, Reply):
        return plain(cast("Reply[Any]", value).output)
    if isinstance(value, Struct):
        return msgspec.to_builtins(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    dump = getattr(value, "model_dump", None)
    return value if dump is None or isinstance(value, type) else dump()


def _items(value: object) -> list[object] | None:
    if isinstance(value, AbstractSet | list | tuple):
        return [*cast("Sequence[object]", value)]
    return None


def _is_same(
    reference: object,
    candidate: object,
    number: Callable[[float, float], bool] = lambda one, two: one == two,
) -> bool:
    one, two = plain(reference), plain(candidate)
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, int | float) and isinstance(two, int | float):
        return number(one, two)
    if isinstance(one, dict) and isinstance(two, dict):
        some, others = cast("dict[object, object]", one), cast("dict[object, object]", two)
        return some.keys() == others.keys() and all(
            _is_same(some[key], others[key], number) for key in some
        )
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        first, second = cast("Sequence[object]", one), cast("Sequence[object]", two)
        return len(first) == len(second) and all(
            _is_same(*pair, number) for pair in zip(first, second, strict=True)
        )
    return one == two
