"""One place that settings come from, as checked values by name.

    a tree of tables  ── along the types of `Tables` ──▶  {name: Setting(value, source)}

An unknown word or a value of another type is refused here, with the place it stands at, what was
expected, and what to write.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from vegakit.config.names import (
    Name,
    dict_of,
    is_key,
    is_list,
    name_of_variable,
    nearest,
    parse_name,
    show_name,
    table_of,
)
from vegakit.config.schema import plain
from vegakit.config.sources import Source, SourceKind, badly_named, not_a_table, wrong
from vegakit.config.tables import Tables
from vegakit.errors import SettingsError

__all__ = ["Layer", "Setting", "default_layer", "environment_layer", "flag_layer", "layer_of"]


class Setting(Struct, frozen=True):
    value: Any
    source: Source


Layer: TypeAlias = dict[Name, Setting]
Where: TypeAlias = Callable[[Name], Source]


def layer_of(written: object, where: Where) -> Layer:
    return dict(_walk(Tables, written, (), where))


def default_layer() -> Layer:
    return layer_of(plain(Tables()), lambda _: Source(SourceKind.DEFAULT))


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """An empty variable is one that is not set."""
    layer: Layer = {}
    for variable in sorted(environment):
        name = name_of_variable(variable) if environment[variable] else None
        if name is not None:
            source = Source(SourceKind.ENVIRONMENT, variable)
            layer |= layer_of(_nested(name, environment[variable]), lambda _, s=source: s)
    return layer


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """By dotted names or as a tree; None is a flag that was not given."""
    layer: Layer = {}
    for text, value in flags.items():
        layer |= layer_of(_nested(parse_name(text), value), lambda _: Source(SourceKind.FLAG))
    return layer


def _nested(name: Name, value: object) -> object:
    for word in reversed(name):
        value = {word: value}
    return value


def _walk(annotation: Any, value: Any, name: Name, where: Where) -> Iterator[tuple[Name, Setting]]:  # noqa: ANN401
    if value is None:
        return
    if table_of(annotation) is None and dict_of(annotation) is None:
        yield name, Setting(_checked(annotation, value, name, where), where(name))
        return
    if not isinstance(value, Mapping):
        raise not_a_table(where(name), name)
    for word, inner in cast("Mapping[str, Any]", value).items():
        inner_name = (*name, word)
        yield from _walk(_type_of(annotation, inner_name, where), inner, inner_name, where)


def _type_of(annotation: Any, name: Name, where: Where) -> Any:  # noqa: ANN401
    """Of the value under the last word of `name`, if the table may have such a word."""
    if pair := dict_of(annotation):
        try:
            msgspec.convert(name[-1], pair[0])
        except msgspec.ValidationError:
            raise badly_named(where(name), name, pair[0]) from None
        return pair[1]
    known = {field.encode_name: field.type for field in fields(table_of(annotation) or Tables)}
    if name[-1] not in known:
        hint = nearest(name[-1], list(known))
        raise SettingsError(f"{where(name)}: there is no setting {show_name(name)}; {hint}")
    return known[name[-1]]


def _checked(annotation: Any, value: Any, name: Name, where: Where) -> Any:  # noqa: ANN401
    """A text may stand for a number or, with commas, for a list where its type is known so."""
    if callable(value) and is_key(name):  # given in code
        return value
    if isinstance(value, PurePath):
        value = str(value)
    lax = where(name).kind in {SourceKind.ENVIRONMENT, SourceKind.FLAG}
    if lax and isinstance(value, str) and is_list(annotation):
        value = value.split(",")
    try:
        return plain(msgspec.convert(value, annotation, strict=not lax))
    except msgspec.ValidationError as problem:
        raise wrong(where(name), name, value, annotation, problem) from None
