"""What a model may give a tool: the parameters of a file as a schema for it and a check of it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from vegakit.tools.functions import ToolArgumentsError
from vegakit.tools.yaml_tools.reading import Misread, Node
from vegakit.tools.yaml_tools.tables import Items, Parameter

__all__ = ["Arguments"]

_TYPES: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}
_BOUNDS: dict[str, dict[str, str]] = {
    "string": {"min_length": "min_length", "max_length": "max_length"},
    "integer": {"minimum": "ge", "maximum": "le"},
    "number": {"minimum": "ge", "maximum": "le"},
    "boolean": {},
    "array": {"min_items": "min_length", "max_items": "max_length"},
}
"""Which words of a schema say something about which type, and what the check calls them."""


class Arguments:
    def __init__(self, parameters: Mapping[str, Parameter], node: Node) -> None:
        made = [_field(name, each, node.child(name)) for name, each in parameters.items()]
        self._type = msgspec.defstruct(
            "Arguments", sorted(made, key=len), forbid_unknown_fields=True, kw_only=True
        )
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": msgspec.json.decode(msgspec.json.encode(parameters)),
            "required": [name for name, each in parameters.items() if each.default is UNSET],
            "additionalProperties": False,
        }

    def checked(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Through JSON, in which there are neither NaN nor halves of surrogates."""
        try:
            sent = msgspec.json.encode(dict(arguments))
            return msgspec.structs.asdict(msgspec.json.decode(sent, type=self._type))
        except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, OverflowError) as error:
            raise ToolArgumentsError(f"the arguments of {tool} are wrong: {error}") from error


def _field(name: str, parameter: Parameter, node: Node) -> tuple[Any, ...]:
    kind = _type(parameter, node)
    if parameter.default is UNSET:
        return (name, kind)
    try:
        default = msgspec.convert(parameter.default, kind)
    except msgspec.ValidationError as error:
        raise Misread(
            node.child("default").line, f"the default does not fit its parameter: {error}"
        ) from None
    return (name, kind, msgspec.field(default=default))


def _type(schema: Items | Parameter, node: Node) -> Any:  # noqa: ANN401
    _check_words(schema, node)
    if schema.enum is not UNSET:
        return _choice(schema, node)
    bounds: dict[str, Any] = {
        own: bound
        for word, own in _BOUNDS[schema.type].items()
        if (bound := getattr(schema, word)) is not UNSET
    }
    if not isinstance(schema, Parameter) or schema.type != "array":
        return Annotated[_TYPES[schema.type], Meta(**bounds)]
    if schema.items is UNSET:
        raise Misread(node.line, "an array says what is in it; add items: {type: string}")
    part = _type(schema.items, node.child("items"))
    return Annotated[tuple[part, ...], Meta(**bounds)]


def _choice(schema: Items | Parameter, node: Node) -> Any:  # noqa: ANN401
    kind = _TYPES.get(schema.type)
    enum = () if schema.enum is UNSET else schema.enum
    if kind not in {str, int} or not all(type(each) is kind for each in enum):
        raise Misread(
            node.child("enum").line,
            f"an enum lists texts of a string or whole numbers of an integer; this is a "
            f"{schema.type}",
        )
    return Literal[enum]


def _check_words(schema: Items | Parameter, node: Node) -> None:
    every = {word for words in _BOUNDS.values() for word in words} | {"items"}
    fitting = {*_BOUNDS[schema.type], *(["items"] if schema.type == "array" else [])}
    for word in sorted(every - fitting):
        if getattr(schema, word, UNSET) is not UNSET:
            spelled = msgspec.structs.fields(type(schema))
            key = next(field.encode_name for field in spelled if field.name == word)
            raise Misread(
                node.child(key).line, f"{key} says nothing about a {schema.type}; take it out"
            )
