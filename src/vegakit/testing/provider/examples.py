"""An instance of a JSON Schema: the least that fits it, for answers nobody scripted.

The first example says Paris and the second London, so that parallel calls can be told apart.
"""

from collections.abc import Callable

from vegakit.testing.provider.requests import Schema

__all__ = ["example"]

_PLAIN: dict[str, Callable[[int], object]] = {
    "string": lambda nth: ("Paris", "London")[nth % 2],
    "integer": lambda nth: 21 + nth,
    "number": lambda nth: 21.5 + nth,
    "boolean": lambda _: True,
    "null": lambda _: None,
}


def example(schema: Schema, nth: int = 0) -> object:
    return _example(schema, nth, schema)


def _example(schema: Schema, nth: int, root: Schema) -> object:
    if "$ref" in schema:
        return _example(_definition(schema["$ref"], root), nth, root)
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return _example(schema[union][0], nth, root)
    kind = schema.get("type", "object")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "array":
        return [_example(schema.get("items", {}), nth, root)] * schema.get("minItems", 0)
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: _example(fields[name], nth, root) for name in schema.get("required", [])}
    return _PLAIN[kind](nth)


def _definition(reference: str, root: Schema) -> Schema:
    for step in reference.removeprefix("#/").split("/"):
        root = root[step]
    return root
