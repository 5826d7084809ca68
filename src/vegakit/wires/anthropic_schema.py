"""JSON Schemas as Anthropic takes them (pure).

A tool may have any schema; it is sent without titles, which cost tokens and say nothing. The schema
of an answer is compiled into a grammar that knows few words: objects are closed, `oneOf` is
`anyOf`, a constant is the only value of an `enum`, and a constraint that the grammar cannot hold
(`minimum`, `pattern`, `default`) is told to the model in the description.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]

_FORMATS = frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split())
_NAMED = {"object": ("properties", "patternProperties")}
_PLACED = {"object": ("additionalProperties",), "array": ("prefixItems", "items")}
"""Where a schema of this type holds further ones: under names, or in a place of their own."""
_UNIONS = ("allOf", "anyOf", "oneOf")
_TYPES = {"bool": "boolean", "str": "string", "int": "integer", "float": "number"}


def tool_schema(schema: Schema) -> Schema:
    """Return the schema of a tool's arguments as it is sent."""
    return _with_definitions(schema, _without_titles)


def output_schema(schema: Schema) -> Schema:
    """Return the schema of an answer in the words that the provider's grammar knows. Anything but a
    schema in the right place is left as it is, for the provider to refuse."""
    return _closed(_with_definitions(schema, _with_typed_constants))


# The first walk takes away what is never of use; it enters objects, arrays and unions.


def _with_definitions(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    definitions: dict[str, Any] = schema.get("$defs") or {}
    walked = _walk({name: part for name, part in schema.items() if name != "$defs"}, change)
    if definitions:
        walked["$defs"] = {name: _walk(part, change) for name, part in definitions.items()}
    return walked


def _walk(node: Any, change: Callable[[Schema], Schema]) -> Any:  # noqa: ANN401
    if not isinstance(node, dict):
        return node
    walked = {**cast("Schema", node)}
    for name in _NAMED.get(str(walked.get("type")), ()):
        if isinstance(walked.get(name), dict):
            walked[name] = {key: _walk(part, change) for key, part in walked[name].items()}
    for name in _PLACED.get(str(walked.get("type")), ()):
        if name in walked:
            walked[name] = _walk_each(walked[name], change)
    for name in _UNIONS:
        if isinstance(walked.get(name), list):
            walked = _walk_union(walked, name, change)
    return change(walked)


def _walk_each(part: Any, change: Callable[[Schema], Schema]) -> Any:  # noqa: ANN401
    if isinstance(part, list):
        return [_walk(each, change) for each in cast("list[Any]", part)]
    return _walk(part, change)


def _walk_union(node: Schema, name: str, change: Callable[[Schema], Schema]) -> Schema:
    """A union of one is that one; what stands beside it goes before what stands in it."""
    members = _walk_each(node.pop(name), change)
    if len(members) == 1 and node.get("type") is None and isinstance(members[0], dict):
        return {**members[0], **node}
    return {**node, name: members}


def _without_titles(node: Schema) -> Schema:
    node.pop("title", None)
    node.pop("$schema", None)
    return node


def _with_typed_constants(node: Schema) -> Schema:
    node = _without_titles(node)
    kind = _TYPES.get(type(node.get("const")).__name__)
    if kind is not None:
        node.setdefault("type", kind)
        node["enum"] = [node.pop("const")]
    return node


# The second walk keeps what the grammar knows, and tells the rest in the description.


def _closed(node: Any) -> Any:  # noqa: ANN401
    if not isinstance(node, dict):
        return node
    rest = {**cast("Schema", node)}
    closed: Schema = {}
    if isinstance(definitions := rest.pop("$defs", None), dict):
        closed["$defs"] = {
            name: _closed(part) for name, part in cast("Schema", definitions).items()
        }
    if "$ref" in rest:
        return {**closed, "$ref": rest["$ref"]}
    kind = rest.pop("type", None)
    if literals := _literals(rest):
        closed, kind = {**closed, **literals}, None
    closed |= _closed_union(rest) or ({"type": kind} if kind is not None else {})
    if "description" in rest:
        closed["description"] = rest.pop("description")
    if isinstance(kind, str) and kind in _CLOSERS:
        closed |= _CLOSERS[kind](rest)
    return _told(closed, rest)


def _literals(rest: Schema) -> Schema:
    """The values that are allowed, where each is a plain one: they need no type beside them."""
    found: Schema = {}
    values = rest.get("enum")
    if isinstance(values, list) and values and all(map(_is_plain, cast("list[object]", values))):
        found["enum"] = rest.pop("enum")
    if "const" in rest and _is_plain(rest["const"]):
        found["const"] = rest.pop("const")
    return found


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _closed_union(rest: Schema) -> Schema:
    """The first of the unions counts, as it does at the provider; the others are dropped."""
    found = {name: rest.pop(name, None) for name in ("anyOf", "oneOf", "allOf")}
    for name, members in found.items():
        if isinstance(members, list):
            spelled = "anyOf" if name == "oneOf" else name
            return {spelled: [_closed(member) for member in cast("list[Any]", members)]}
    return {}


def _closed_object(rest: Schema) -> Schema:
    properties = rest.pop("properties", {})
    rest.pop("additionalProperties", None)
    closed: Schema = {
        "properties": {name: _closed(part) for name, part in properties.items()},
        "additionalProperties": False,
    }
    if "required" in rest:
        closed["required"] = rest.pop("required")
    return closed


def _closed_string(rest: Schema) -> Schema:
    known = {"format": rest.pop("format", None)}
    if known["format"] is None:
        return {}
    if known["format"] in _FORMATS:
        return known
    rest |= known
    return {}


def _closed_array(rest: Schema) -> Schema:
    closed: Schema = {}
    if "items" in rest:
        closed["items"] = _closed(rest.pop("items"))
    fewest = rest.pop("minItems", None)
    if fewest in (0, 1):
        closed["minItems"] = fewest
    elif fewest is not None:
        rest["minItems"] = fewest
    return closed


_CLOSERS: dict[str, Callable[[Schema], Schema]] = {
    "object": _closed_object,
    "string": _closed_string,
    "array": _closed_array,
}


def _told(closed: Schema, rest: Schema) -> Schema:
    if not rest:
        return closed
    told = "{" + ", ".join(f"{name}: {value}" for name, value in rest.items()) + "}"
    said = f"{closed['description']}\n\n" if "description" in closed else ""
    return {**closed, "description": said + told}
