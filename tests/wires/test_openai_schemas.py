"""Schemas as OpenAI takes them, beside those that pydantic-ai sends."""

import json
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from annotated_types import Ge, Len, MaxLen
from pydantic import BaseModel, Field, TypeAdapter
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from vegakit.wires.openai_schemas import sent_schema


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A place."""

    x: int
    y: Annotated[float, Ge(0)]


class Shape(BaseModel):
    title: str
    color: Color
    kind: Literal["round", "square"]
    center: Point = Field(description="Its middle.")
    corners: Annotated[list[Point], Len(1, 9)]
    made: date | None


class Loose(BaseModel):
    name: str = "x"


class Holder(BaseModel):
    inner: Loose


class Tree(BaseModel):
    value: int
    children: list["Tree"]


class Map(BaseModel):
    counts: dict[str, int]


class Open(BaseModel, extra="allow"):
    name: str


class Short(BaseModel):
    name: Annotated[str, MaxLen(5)]


class Alike(BaseModel):
    shape: Annotated[Point | Tree, Field(description="Either.")]


class Pair(NamedTuple):
    left: int
    right: str


class Untyped(BaseModel):
    anything: Any


class Pairs(BaseModel):
    pairs: list[Pair]


def _open(schema: Any) -> Any:
    """The same without what closes an object."""
    if isinstance(schema, dict):
        return {
            key: _open(value)
            for key, value in schema.items()
            if (key, value) != ("additionalProperties", False)
        }
    return [_open(each) for each in schema] if isinstance(schema, list) else schema


def _sent(schema: Any) -> tuple[Any, bool]:
    text, strict = sent_schema(schema)
    return json.loads(bytes(text)), strict


@pytest.mark.parametrize(
    ("kind", "strict"),
    [
        (Point, True),
        (Shape, True),
        (Alike, True),
        (Loose, False),
        (Holder, False),
        (Map, False),
        (Open, False),
        (Short, False),
    ],
)
def test_a_schema_is_the_one_that_the_library_sends(kind: Any, strict: bool) -> None:
    """Closed if that makes it strict; else only the library closes it, here and there."""
    schema = TypeAdapter(kind).json_schema()
    theirs = OpenAIJsonSchemaTransformer(schema)
    walked = theirs.walk()
    sent, is_strict = _sent(schema)
    assert is_strict is strict is theirs.is_strict_compatible
    assert sent == walked if strict else _open(sent) == _open(walked)
    assert strict or '"additionalProperties": false' not in json.dumps(sent)


@pytest.mark.parametrize(
    "schema",
    [
        TypeAdapter(Untyped).json_schema(),
        TypeAdapter(Pairs).json_schema(),
        {"type": "object", "properties": {"a": True}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"allOf": [{"type": "string"}, {"enum": ["x"]}]}},
            "required": ["a"],
        },
        {"type": "object", "properties": {"a": {"not": {}}}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a/x"}},
            "required": ["a", "b"],
        },
        {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": "(?=x)"}},
            "required": ["a"],
        },
        {"type": "object"},
        {},
        True,
    ],
)
def test_what_openai_refuses_to_hold_a_model_to_is_not_strict(schema: Any) -> None:
    """Even where the library asks for it."""
    assert _sent(schema)[1] is False


def test_a_root_that_is_a_reference_is_what_it_refers_to() -> None:
    """A root must be an object. References to it stay as they are."""
    schema = TypeAdapter(Tree).json_schema()
    assert "$ref" in schema
    sent, strict = _sent(schema)
    assert strict
    assert sent["type"] == "object"
    assert sent["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert sent["$defs"]["Tree"]["additionalProperties"] is False


def test_an_object_has_properties() -> None:
    """OpenAI drops one without."""
    assert _sent({"type": "object"})[0] == {"type": "object", "properties": {}}


def test_a_schema_is_not_changed_by_being_sent() -> None:
    """It is whoever's it was."""
    schema = TypeAdapter(Shape).json_schema()
    before = json.dumps(schema)
    _sent(schema)
    assert json.dumps(schema) == before
    assert sent_schema(schema) is sent_schema(json.loads(before))
