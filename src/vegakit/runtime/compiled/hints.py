"""Types of Python as types of programs, by their JSON schema.

| in the schema                     | in a program        |
|-----------------------------------|---------------------|
| string, integer, number, boolean  | `str int float bool`|
| enum or const of strings          | a choice            |
| array                             | a list              |
| object with properties            | a record            |
| other object                      | a map               |
| anyOf with null                   | optional            |
| nothing said                      | `any`               |

A field or parameter with a default is optional. What else there is, is refused: tuples, other
unions, types that contain themselves.
"""

from collections.abc import Mapping
from typing import Any, cast

from vegakit.errors import UserError
from vegakit.lang import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NULL,
    STR,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    RecordOf,
    Type,
)

__all__ = ["type_in", "without_defaults"]

Schema = Mapping[str, Any]

_PLAIN: dict[str, Type] = {
    "string": STR,
    "integer": INT,
    "number": FLOAT,
    "boolean": BOOL,
    "null": NULL,
}


def type_in(schema: Schema, what: str) -> Type:
    """`what` is told where it cannot be: "the result of look"."""
    return _Reader(schema.get("$defs", {}), what).read(schema)


def without_defaults(schema: Schema, value: Any, defs: Schema | None = None) -> Any:  # noqa: ANN401
    """Less the fields that are null and need not be there: Python has its own default for them."""
    known = cast("Schema", schema.get("$defs", {})) if defs is None else defs
    schema = _resolved(schema, known)
    if isinstance(value, list):
        inner = schema.get("items", {})
        return [without_defaults(inner, item, known) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields, properties = cast("dict[str, Any]", value), schema.get("properties", {})
    required = schema.get("required", properties if not properties else ())
    others = _others(schema)
    return {
        name: without_defaults(properties.get(name, others), field, known)
        for name, field in fields.items()
        if field is not None or name in required or name not in properties
    }


def _others(schema: Schema) -> Schema:
    inner: Any = schema.get("additionalProperties", {})
    return {} if isinstance(inner, bool) else cast("Schema", inner)


def _resolved(schema: Schema, defs: Schema) -> Schema:
    """Through a reference, and to what is not null."""
    if "$ref" in schema:
        return _resolved(defs[schema["$ref"].rpartition("/")[2]], defs)
    some = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return _resolved(some[0], defs) if len(some) == 1 else schema


class _Reader:
    def __init__(self, defs: Schema, what: str) -> None:
        self._defs, self._what = defs, what
        self._open: list[str] = []

    def read(self, schema: Schema) -> Type:
        if "$ref" in schema:
            return self._named(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema or "oneOf" in schema:
            return self._either(schema.get("anyOf") or schema["oneOf"])
        if "enum" in schema or "const" in schema:
            return self._choice(schema.get("enum") or [schema["const"]])
        match schema.get("type"):
            case None:
                return ANY
            case "array":
                return self._list(schema)
            case "object":
                return self._object(schema)
            case str(name) if name in _PLAIN:
                return _PLAIN[name]
            case other:
                raise self._refusal(f"{other} is no type of a program")

    def _named(self, name: str) -> Type:
        if name in self._open:
            raise self._refusal(f"{name} contains itself; keep the parts in one list")
        self._open.append(name)
        kind = self.read(self._defs[name])
        self._open.pop()
        return kind

    def _either(self, options: list[Schema]) -> Type:
        some = [option for option in options if option.get("type") != "null"]
        if len(some) != 1:
            raise self._refusal("it may be of several types; take one, or one and None")
        kind = self.read(some[0])
        return _optional(kind) if len(some) < len(options) else kind

    def _choice(self, choices: list[Any]) -> Type:
        if not all(isinstance(choice, str) for choice in choices):
            raise self._refusal("a choice is among strings")
        return ChoiceOf(tuple(choices))

    def _list(self, schema: Schema) -> Type:
        if "prefixItems" in schema:
            raise self._refusal("a program has no tuples; take a list, or a model")
        return ListOf(self.read(schema.get("items", {})), schema.get("maxItems"))

    def _object(self, schema: Schema) -> Type:
        if "properties" not in schema:
            return MapOf(self.read(_others(schema)))
        name = schema.get("title", "")
        required = schema.get("required", ())
        fields: list[tuple[str, Type]] = []
        for field, inside in schema["properties"].items():
            if not field.isidentifier():
                raise self._refusal(f"{field!r} cannot name a field")
            kind = self.read(inside)
            fields.append((field, kind if field in required else _optional(kind)))
        return RecordOf(name, tuple(fields))

    def _refusal(self, why: str) -> UserError:
        return UserError(f"{self._what} cannot be given to a program: {why}")


def _optional(kind: Type) -> Type:
    return (
        kind if isinstance(kind, OptionalOf) or kind in (ANY, Plain("null")) else OptionalOf(kind)
    )
