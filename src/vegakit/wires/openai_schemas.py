"""JSON Schemas as OpenAI takes them, and whether a model can be held to one strictly (pure).

A strict schema lists every field of every object as required and lets no other field in. One that
leaves only the second unsaid is closed here. All others are sent as they were written, without
`strict`: to close them would change what they mean. Titles say nothing that a model needs.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Raw

from vegakit.records import to_json

_Node: TypeAlias = dict[str, Any]

_LEFT_OUT = frozenset({"title", "$schema", "discriminator"})
_DEFINITIONS = ("$defs", "definitions")
_UNIONS = ("anyOf", "allOf", "oneOf")
_TYPED = frozenset({"type", "$ref", "anyOf", "enum", "const"})
_NEVER_STRICT = frozenset(
    "default minLength maxLength patternProperties unevaluatedProperties propertyNames "
    "minProperties maxProperties unevaluatedItems contains minContains maxContains uniqueItems "
    "oneOf allOf not dependentRequired dependentSchemas if then else prefixItems".split()
)
_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")


class SentSchema(NamedTuple):
    """A schema in the JSON that is sent."""

    json: Raw
    strict: bool


def sent_schema(schema: object) -> SentSchema:
    """Return a schema as it is sent. Whoever bounds the tokens of a request counts this text."""
    return _sent_schema(to_json(schema))


@lru_cache(maxsize=256)
def _sent_schema(text: bytes) -> SentSchema:
    """Agents are few and ask often, so what was worked out once is kept."""
    written = _rooted(msgspec.json.decode(text))
    walk = _Walk(closes=True)
    closed = walk.of_root(written)
    sent = closed if walk.strict else _Walk(closes=False).of_root(written)
    return SentSchema(Raw(to_json(sent)), walk.strict)


def _rooted(schema: Any) -> Any:  # noqa: ANN401
    """A schema whose root is a reference has what it refers to as its root."""
    if not isinstance(schema, dict):
        return schema
    known = cast("_Node", schema)
    name = str(known.get("$ref", "")).removeprefix("#/$defs/")
    target = known.get("$defs", {}).get(name) if name else None
    if not isinstance(target, dict):
        return known
    return {**cast("_Node", target), **{key: known[key] for key in known if key != "$ref"}}


class _Walk:
    """One way through a schema. `strict` holds until a node is met that cannot be."""

    __slots__ = ("_closes", "strict")

    def __init__(self, *, closes: bool) -> None:
        self.strict = True
        self._closes = closes

    def of_root(self, schema: Any) -> Any:  # noqa: ANN401
        """Return the schema with its definitions."""
        root = self._of(schema)
        if isinstance(root, dict):
            known = cast("_Node", root)
            known |= {key: self._of_each(known[key]) for key in _DEFINITIONS if key in known}
        return cast("Any", root)

    def _of_each(self, schemas: Mapping[str, Any]) -> _Node:
        return {name: self._of(schema) for name, schema in schemas.items()}

    def _of(self, schema: Any) -> Any:  # noqa: ANN401
        if not isinstance(schema, dict):
            self.strict = False
            return schema
        node = {k: v for k, v in cast("_Node", schema).items() if k not in _LEFT_OUT}
        match node.get("type"):
            case "object":
                node["properties"] = self._of_each(node.get("properties") or {})
                if isinstance(node.get("additionalProperties"), dict):
                    node["additionalProperties"] = self._of(node["additionalProperties"])
            case "array" if isinstance(node.get("items"), dict):
                node["items"] = self._of(node["items"])
            case _:
                pass
        node = _beside_reference(self._of_unions(node))
        self.strict = self.strict and _can_be_strict(node)
        if self._closes and node.get("type") == "object":
            node.setdefault("additionalProperties", False)
        return node

    def _of_unions(self, node: _Node) -> _Node:
        """A union of one is that one."""
        for union in _UNIONS:
            if not isinstance(node.get(union), list):
                continue
            members = [self._of(member) for member in node[union]]
            if len(members) == 1 and isinstance(members[0], dict) and "type" not in node:
                del node[union]
                node = {**cast("_Node", members[0]), **node}
            else:
                node[union] = members
        return node


def _beside_reference(node: _Node) -> _Node:
    """Nothing may stand beside a reference, but it may beside a union of one."""
    if "$ref" in node and len(node) > 1 and not any(key in node for key in _DEFINITIONS):
        node["anyOf"] = [{"$ref": node.pop("$ref")}]
    return node


def _can_be_strict(node: _Node) -> bool:
    kind = node.get("type")
    if _NEVER_STRICT & node.keys() or not _TYPED & node.keys() or not _strict_text(node):
        return False
    if isinstance(kind, list):
        return not {"object", "array"} & set(cast("list[str]", kind))
    if kind == "object":
        return _lists_its_fields(node)
    if kind == "array":
        return isinstance(node.get("items"), dict)
    reference = str(node.get("$ref", "#"))
    return reference == "#" or reference.count("/") == 2


def _strict_text(node: _Node) -> bool:
    pattern = str(node.get("pattern", ""))
    known = not node.get("format") or node["format"] in _STRICT_FORMATS
    return known and not any(token in pattern for token in _LOOKAROUND)


def _lists_its_fields(node: _Node) -> bool:
    return (
        node.get("additionalProperties", False) is False
        and "required" in node
        and node["properties"].keys() <= set(node["required"])
    )
