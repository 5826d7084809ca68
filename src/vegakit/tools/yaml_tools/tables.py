"""What may be written in a file of tools: its tables, and what holds without them.

The published schema and the messages about wrong values are read from these types.

    tools:
      - name: search_code
        description: Find a text in the sources.
        parameters:
          text: {type: string, description: what to look for}
        command: [grep, -rn, "--regexp={text}", src]
        capabilities: ["process::exec"]
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from vegakit.tools.yaml_tools.reading import Misread, Node, plain

__all__ = [
    "KINDS",
    "File",
    "Items",
    "Parameter",
    "Request",
    "ToolTable",
    "checked",
    "nearest",
    "tools_schema",
]

T = TypeVar("T")

KINDS = ("command", "http", "python")

Name: TypeAlias = Annotated[
    str,
    # Python's `$` alone would let a line break follow.
    Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$(?!\n)", examples=["search_code"]),
]
Texts: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=64)]
Choices: TypeAlias = Annotated[tuple[str | int, ...], Meta(min_length=1, max_length=100)]
Length: TypeAlias = Annotated[int, Meta(ge=0, le=100_000, examples=[200])]


class _Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class _Schema(_Table, frozen=True, kw_only=True, rename="camel"):
    description: Annotated[str, Meta(max_length=1_000)] | UnsetType = UNSET
    enum: Choices | UnsetType = UNSET
    minimum: int | float | UnsetType = UNSET
    maximum: int | float | UnsetType = UNSET
    min_length: Length | UnsetType = UNSET
    max_length: Length | UnsetType = UNSET


class Items(_Schema, frozen=True, kw_only=True, rename="camel"):
    """A part of JSON Schema, with the meaning it has there."""

    type: Annotated[Literal["string", "integer", "number", "boolean"], Meta(examples=["string"])]


class Parameter(_Schema, frozen=True, kw_only=True, rename="camel"):
    """A part of JSON Schema, with the meaning it has there. With a default it may be left out."""

    type: Annotated[
        Literal["string", "integer", "number", "boolean", "array"], Meta(examples=["string"])
    ]
    items: Items | UnsetType = UNSET
    min_items: Length | UnsetType = UNSET
    max_items: Length | UnsetType = UNSET
    default: str | int | float | bool | tuple[str | int | float | bool, ...] | UnsetType = UNSET


class Request(_Table, frozen=True, kw_only=True):
    """Parameters that the URL does not use are sent as a JSON object, unless it is a GET."""

    method: Annotated[Literal["GET", "POST", "PUT", "PATCH", "DELETE"], Meta(examples=["GET"])] = (
        "GET"
    )
    url: Annotated[str, Meta(max_length=2_000, examples=["https://api.example.com/items/{item}"])]


class ToolTable(_Table, frozen=True, kw_only=True):
    """One of command, http and python; a command and a URL say themselves what they reach."""

    name: Name
    description: Annotated[str, Meta(min_length=1, max_length=4_000, examples=["What it does."])]
    parameters: Annotated[dict[Name, Parameter], Meta(max_length=32)] | UnsetType = UNSET
    command: (
        Annotated[
            tuple[str, ...],
            Meta(min_length=1, max_length=64, examples=[["pytest", "-q", "{path}"]]),
        ]
        | UnsetType
    ) = UNSET
    http: Request | UnsetType = UNSET
    python: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Za-z_][\w.]{0,199}:[A-Za-z_]\w{0,99}$(?!\n)", examples=["tools:add"]
            ),
        ]
        | UnsetType
    ) = UNSET
    capabilities: Texts = ()
    allowed_paths: Texts = ()
    allowed_hosts: Texts = ()
    repeatable: bool = False
    timeout_ms: Annotated[int, Meta(ge=1, le=3_600_000, examples=[60_000])] = 60_000


class File(_Table, frozen=True, kw_only=True):
    tools: Annotated[tuple[ToolTable, ...], Meta(max_length=100)]


def tools_schema() -> dict[str, Any]:
    """For editors and for other programs: JSON Schema 2020-12."""
    made = msgspec.json.schema(File)
    made["$defs"]["ToolTable"]["oneOf"] = [{"required": [kind]} for kind in KINDS]
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tools.yaml"}
    return msgspec.json.decode(msgspec.json.encode(named | made))


def checked(kind: type[T], node: Node) -> T:
    _check(kind, node, "the file")
    return msgspec.convert(plain(node), kind)


def nearest(word: str, known: list[str]) -> str:
    if close := get_close_matches(word, known, 1):
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(known) or 'none'}"


def _check(annotation: Any, node: Node, name: str) -> None:  # noqa: ANN401
    """Parts first, so that what is told is the smallest that is wrong."""
    for kind, part, part_name in _parts(annotation, node):
        _check(kind, part, part_name)
    try:
        msgspec.convert(plain(node), annotation)
    except msgspec.ValidationError as error:
        raise Misread(node.line, f"{name}: {error}{_example(annotation, name)}") from None


def _parts(annotation: Any, node: Node) -> Iterator[tuple[Any, Node, str]]:  # noqa: ANN401
    bare = _bare(annotation)
    match node.value:
        case dict() as children if isinstance(bare, type) and issubclass(bare, _Table):
            yield from _fields(bare, children)
        case dict() as children if get_origin(bare) is dict:
            kinds = get_args(bare)
            for key, child in children.items():
                yield kinds[0], Node(child.line, key), "a name"
                yield kinds[1], child, key
        case list() as parts if get_origin(bare) is tuple:
            for number, part in enumerate(parts, 1):
                yield get_args(bare)[0], part, f"entry {number}"
        case _:
            pass


def _fields(table: type[_Table], children: dict[str, Node]) -> Iterator[tuple[Any, Node, str]]:
    hints = get_type_hints(table, include_extras=True)
    known = {field.encode_name: hints[field.name] for field in fields(table)}
    for key, child in children.items():
        if key not in known:
            raise Misread(child.line, f"{key[:80]!a} is not known; {nearest(key, [*known])}")
        yield known[key], child, key


def _bare(annotation: Any) -> Any:  # noqa: ANN401
    """Of `Annotated[X, ...] | UnsetType`: X."""
    set_ones = [kind for kind in get_args(annotation) if kind is not UnsetType]
    if UnsetType in get_args(annotation) and len(set_ones) == 1:
        return _bare(set_ones[0])
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _example(annotation: Any, name: str) -> str:  # noqa: ANN401
    bare = _bare(annotation)
    if isinstance(bare, type) and issubclass(bare, _Table):
        return f"; its keys are: {', '.join(field.encode_name for field in fields(bare))}"
    found = msgspec.json.schema(annotation).get("examples")
    return f"; write for example {name}: {_shown(found[0])}" if found else ""


def _shown(example: object) -> str:
    return example if isinstance(example, str) else msgspec.json.encode(example).decode()
