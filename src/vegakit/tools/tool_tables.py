"""The format of a file of tools: a strict reader of YAML, the tables with their JSON Schema, and
the check of a model's arguments against them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from vegakit.errors import SettingsError, UserError, did_you_mean
from vegakit.policy import sanitise
from vegakit.tools.functions import ToolArgumentsError

# YAML that every program reads the same way, as nodes that know their line.
#
# in a file                                          | decided
# ---------------------------------------------------|--------------------------------------------
# mappings, lists, texts; `true`, `false`            | themselves
# `12`, `-3`, `0.25`                                 | numbers, of at most 15 digits
# `no`, `010`, `0x10`, `1:30`, `2001-01-01`, `.nan`, | refused: what they are depends on who reads
# `1e400`, `1_000`, `~`, nothing at all              |
# the same in quotes                                 | text
# tags, anchors, aliases, merge keys, directives     | refused
# a key twice, a key that is no text, two documents  | refused
# control, invisible and direction marks             | refused, as themselves and as escapes
# more than 64 KiB, 5,000 nodes or 12 levels         | refused, before it is made into anything
#
# Only the event stream of ruamel.yaml is used, which neither recurses nor constructs. So a level
# too deep ends the reading where it begins, whatever comes after it.


MAX_BYTES = 64 * 1024
_MAX_NODES = 5_000
_MAX_DEPTH = 12
_TOO_DEEP = f"this is nested deeper than {_MAX_DEPTH} levels; write it flatter"
_BRACKETS = re.compile(r"(?:[\[{] *){256}")
"""The library looks 1,024 characters ahead for the end of a key, and at every bracket in them."""

Scalar: TypeAlias = str | int | float | bool

_MEANINGS: tuple[tuple[re.Pattern[str], Callable[[str], Scalar]], ...] = (
    (re.compile("true|false"), lambda text: text == "true"),
    (re.compile("-?[1-9][0-9]{0,14}|0"), int),
    (re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}"), float),
)
_AMBIGUOUS = re.compile(
    r"|~|=|<<|null|y|n|yes|no|on|off|true|false|[-+]?\.?(inf|infinity|nan)"
    r"|[-+]?\.?[0-9]\S*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*",
    re.IGNORECASE | re.DOTALL,
)


class ToolFileProblem(UserError):  # noqa: N818  (a place and a reason; the file's name is added above)
    """A mistake in a file of tools, with its line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class YamlNode(Struct, frozen=True):
    """A value with its line. A value below a key has the line of its key."""

    line: int
    value: "Scalar | list[YamlNode] | dict[str, YamlNode]"

    def child(self, key: str) -> "YamlNode":
        """Itself, if there is none: the place where it is missing."""
        return self.value.get(key, self) if isinstance(self.value, dict) else self


def plain_value(node: YamlNode) -> Any:  # noqa: ANN401
    """Return the value without lines."""
    match node.value:
        case dict() as children:
            return {key: plain_value(child) for key, child in children.items()}
        case list() as parts:
            return [plain_value(part) for part in parts]
        case scalar:
            return scalar


def read_yaml(content: bytes) -> YamlNode:
    """Read YAML, or raise `ToolFileProblem` for anything that could be read in two ways."""
    return _Reader(_events(_text(content))).document()


def _text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise ToolFileProblem(
            1, f"the file is larger than {MAX_BYTES} bytes; split it into several"
        )
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ToolFileProblem(line, "this is not UTF-8; save the file as UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        _check_seen(number, line)
        if _BRACKETS.search(line):
            raise ToolFileProblem(number, _TOO_DEEP)
    return text


def _check_seen(line: int, text: str) -> None:
    clean = sanitise(text, 8 * MAX_BYTES)
    if clean != text:
        at = next(i for i, (a, b) in enumerate(zip(text, clean, strict=False)) if a != b)
        raise ToolFileProblem(
            line, f"there is an invisible or control character, {text[at]!a}; take it out"
        )


class _Event(Struct, frozen=True):
    kind: str
    line: int
    text: str
    quoted: bool
    anchor: str | None
    tag: str | None
    directives: bool


def _events(text: str) -> Iterator[_Event]:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError as error:
        raise SettingsError(
            "files in YAML need ruamel.yaml, which is not installed: pip install 'vegakit[yaml]'"
        ) from error
    line = 1
    parser: Any = YAML(typ="safe", pure=True)
    try:
        for event in parser.parse(text):
            line = event.start_mark.line + 1
            yield _event(event)
    except MarkedYAMLError as error:
        marked: Any = error
        place = line if marked.problem_mark is None else marked.problem_mark.line + 1
        problem = str(marked.problem)[:200]
        raise ToolFileProblem(
            place, f"this is no YAML: {problem}; check quotes and indents"
        ) from None
    except (YAMLError, ValueError, OverflowError):
        raise ToolFileProblem(line, "what follows is no YAML; check quotes and indents") from None


def _event(event: Any) -> _Event:  # noqa: ANN401  (the library's own have no types)
    tag = getattr(event, "tag", None)
    directives = getattr(event, "version", None) or getattr(event, "tags", None)
    return _Event(
        type(event).__name__.removesuffix("Event"),
        event.start_mark.line + 1,
        str(getattr(event, "value", "")),
        getattr(event, "style", None) is not None,
        getattr(event, "anchor", None),
        None if tag is None else str(tag),
        bool(directives),
    )


class _Reader:
    def __init__(self, events: Iterator[_Event]) -> None:
        self._events = events
        self._nodes = 0

    def document(self) -> YamlNode:
        next(self._events)
        start = next(self._events)
        if start.kind != "DocumentStart":
            raise ToolFileProblem(1, "the file is empty; begin with `tools:`")
        if start.directives:
            raise ToolFileProblem(start.line, "directives are not read; take the lines with % out")
        found = self._node(next(self._events), 0)
        next(self._events)
        after = next(self._events)
        if after.kind != "StreamEnd":
            raise ToolFileProblem(after.line, "a second document begins; keep one, without `---`")
        return found

    def _node(self, event: _Event, depth: int) -> YamlNode:
        self._check(event, depth)
        match event.kind:
            case "SequenceStart":
                return YamlNode(event.line, [self._node(e, depth + 1) for e in self._until_end()])
            case "MappingStart":
                return YamlNode(event.line, self._mapping(depth + 1))
            case _:
                return YamlNode(event.line, _scalar(event))

    def _check(self, event: _Event, depth: int) -> None:
        self._nodes += 1
        found = (
            (
                depth > _MAX_DEPTH,
                _TOO_DEEP,
            ),
            (
                self._nodes > _MAX_NODES,
                f"the file has more than {_MAX_NODES} values; split it into several",
            ),
            (event.kind == "Alias", "aliases are not followed; write the value out"),
            (event.anchor is not None, "anchors are not read; take it out, write the value twice"),
            (event.tag is not None, f"tags are not read; take {str(event.tag)[:80]!a} out"),
        )
        for refused, reason in found:
            if refused:
                raise ToolFileProblem(event.line, reason)

    def _mapping(self, depth: int) -> dict[str, YamlNode]:
        found: dict[str, YamlNode] = {}
        for event in self._until_end():
            key = self._node(event, depth)
            if not isinstance(key.value, str):
                raise ToolFileProblem(key.line, "a key is a name; put it in quotes if it is meant")
            if key.value in found:
                raise ToolFileProblem(
                    key.line,
                    f"{key.value[:80]!a} stands here again, first in line "
                    f"{found[key.value].line}; keep one of them",
                )
            found[key.value] = YamlNode(key.line, self._node(next(self._events), depth).value)
        return found

    def _until_end(self) -> Iterator[_Event]:
        while not (event := next(self._events)).kind.endswith("End"):
            yield event


def _scalar(event: _Event) -> Scalar:
    line, text = event.line, event.text
    for part in text.split("\n"):
        _check_seen(line, part)
    if event.quoted:
        return text
    for pattern, meaning in _MEANINGS:
        if pattern.fullmatch(text):
            return meaning(text)
    if _AMBIGUOUS.fullmatch(text):
        said = f"{text[:80]!a} is" if text else "nothing stands here, which is"
        raise ToolFileProblem(
            line,
            f"{said} read differently by different programs; put a text in quotes, write a "
            "number in plain digits, and true or false",
        )
    return text


# The tables of a file of tools, and their defaults.
#
# The published schema and the messages about wrong values are read from these types.


T = TypeVar("T")

KINDS = ("command", "http", "python")

ToolName: TypeAlias = Annotated[
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


class ItemsTable(_Schema, frozen=True, kw_only=True, rename="camel"):
    """A part of JSON Schema, with the meaning it has there."""

    type: Annotated[Literal["string", "integer", "number", "boolean"], Meta(examples=["string"])]


class ParameterTable(_Schema, frozen=True, kw_only=True, rename="camel"):
    """A part of JSON Schema, with the meaning it has there. With a default it may be left out."""

    type: Annotated[
        Literal["string", "integer", "number", "boolean", "array"], Meta(examples=["string"])
    ]
    items: ItemsTable | UnsetType = UNSET
    min_items: Length | UnsetType = UNSET
    max_items: Length | UnsetType = UNSET
    default: str | int | float | bool | tuple[str | int | float | bool, ...] | UnsetType = UNSET


class RequestTable(_Table, frozen=True, kw_only=True):
    """Parameters that the URL does not use are sent as a JSON object, unless it is a GET."""

    method: Annotated[Literal["GET", "POST", "PUT", "PATCH", "DELETE"], Meta(examples=["GET"])] = (
        "GET"
    )
    url: Annotated[str, Meta(max_length=2_000, examples=["https://api.example.com/items/{item}"])]


class ToolTable(_Table, frozen=True, kw_only=True):
    """One of command, http and python; a command and a URL say themselves what they reach."""

    name: ToolName
    description: Annotated[str, Meta(min_length=1, max_length=4_000, examples=["What it does."])]
    parameters: Annotated[dict[ToolName, ParameterTable], Meta(max_length=32)] | UnsetType = UNSET
    command: (
        Annotated[
            tuple[str, ...],
            Meta(min_length=1, max_length=64, examples=[["pytest", "-q", "{path}"]]),
        ]
        | UnsetType
    ) = UNSET
    http: RequestTable | UnsetType = UNSET
    python: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Za-z_][\w.]{0,199}:[A-Za-z_]\w{0,99}$(?!\n)", examples=["tools:add"]
            ),
        ]
        | UnsetType
    ) = UNSET
    capabilities: Texts | UnsetType = UNSET
    allowed_paths: Texts = ()
    allowed_hosts: Texts = ()
    idempotent: bool = False
    timeout_ms: Annotated[int, Meta(ge=1, le=3_600_000, examples=[60_000])] = 60_000


class ToolFileTable(_Table, frozen=True, kw_only=True):
    """The tools of a file."""

    tools: Annotated[tuple[ToolTable, ...], Meta(max_length=100)]


def convert_node(kind: type[T], node: YamlNode) -> T:
    """Return the record that a node describes, or raise `ToolFileProblem` with the line."""
    _check(kind, node, "the file")
    return msgspec.convert(plain_value(node), kind)


def _check(annotation: Any, node: YamlNode, name: str) -> None:  # noqa: ANN401
    """Parts first, so that what is told is the smallest that is wrong."""
    for kind, part, part_name in _parts(annotation, node):
        _check(kind, part, part_name)
    try:
        msgspec.convert(plain_value(node), annotation)
    except msgspec.ValidationError as error:
        raise ToolFileProblem(node.line, f"{name}: {error}{_example(annotation, name)}") from None


def _parts(annotation: Any, node: YamlNode) -> Iterator[tuple[Any, YamlNode, str]]:  # noqa: ANN401
    bare = _bare(annotation)
    match node.value:
        case dict() as children if isinstance(bare, type) and issubclass(bare, Struct):
            yield from _fields(bare, children)
        case dict() as children if get_origin(bare) is dict:
            kinds = get_args(bare)
            for key, child in children.items():
                yield kinds[0], YamlNode(child.line, key), "a name"
                yield kinds[1], child, key
        case list() as parts if get_origin(bare) is tuple:
            for number, part in enumerate(parts, 1):
                yield get_args(bare)[0], part, f"entry {number}"
        case _:
            pass


def _fields(
    table: type[Struct], children: dict[str, YamlNode]
) -> Iterator[tuple[Any, YamlNode, str]]:
    hints = get_type_hints(table, include_extras=True)
    known = {field.encode_name: hints[field.name] for field in fields(table)}
    for key, child in children.items():
        if key not in known:
            raise ToolFileProblem(
                child.line, f"{key[:80]!a} is not known; {did_you_mean(key, [*known])}"
            )
        yield known[key], child, key


def _bare(annotation: Any) -> Any:  # noqa: ANN401
    """Return X of `Annotated[X, ...] | UnsetType`, and of `X | None`."""
    absent = (UnsetType, type(None))
    set_ones = [kind for kind in get_args(annotation) if kind not in absent]
    if {*absent} & {*get_args(annotation)} and len(set_ones) == 1:
        return _bare(set_ones[0])
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _example(annotation: Any, name: str) -> str:  # noqa: ANN401
    bare = _bare(annotation)
    if isinstance(bare, type) and issubclass(bare, Struct):
        return f"; its keys are: {', '.join(field.encode_name for field in fields(bare))}"
    found = msgspec.json.schema(annotation).get("examples")
    return f"; write for example {name}: {_shown(found[0])}" if found else ""


def _shown(example: object) -> str:
    return example if isinstance(example, str) else msgspec.json.encode(example).decode()


# The parameters of a tool are a schema for the model and a check of what it gives.


_TYPES: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}
_BOUNDS: dict[str, dict[str, str]] = {
    "string": {"min_length": "min_length", "max_length": "max_length"},
    "integer": {"minimum": "ge", "maximum": "le"},
    "number": {"minimum": "ge", "maximum": "le"},
    "boolean": {},
    "array": {"min_items": "min_length", "max_items": "max_length"},
}
"""Which words of a schema say something about which type, and what the check calls them."""


class ArgumentsSchema:
    """The schema of a tool's arguments, and the check against it."""

    def __init__(self, parameters: Mapping[str, ParameterTable], node: YamlNode) -> None:
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
        """Return the arguments if they fit. They go through JSON, in which there are neither NaN
        nor halves of surrogates."""
        try:
            sent = msgspec.json.encode(dict(arguments))
            return msgspec.structs.asdict(msgspec.json.decode(sent, type=self._type))
        except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, OverflowError) as error:
            raise ToolArgumentsError(f"the arguments of {tool} are wrong: {error}") from error


def _field(name: str, parameter: ParameterTable, node: YamlNode) -> tuple[Any, ...]:
    kind = _type(parameter, node)
    if parameter.default is UNSET:
        return (name, kind)
    try:
        default = msgspec.convert(parameter.default, kind)
    except msgspec.ValidationError as error:
        raise ToolFileProblem(
            node.child("default").line, f"the default does not fit its parameter: {error}"
        ) from None
    return (name, kind, msgspec.field(default=default))


def _type(schema: ItemsTable | ParameterTable, node: YamlNode) -> Any:  # noqa: ANN401
    _check_words(schema, node)
    if schema.enum is not UNSET:
        return _choice(schema, node)
    bounds: dict[str, Any] = {
        own: bound
        for word, own in _BOUNDS[schema.type].items()
        if (bound := getattr(schema, word)) is not UNSET
    }
    if not isinstance(schema, ParameterTable) or schema.type != "array":
        return Annotated[_TYPES[schema.type], Meta(**bounds)]
    if schema.items is UNSET:
        raise ToolFileProblem(node.line, "an array says what is in it; add items: {type: string}")
    part = _type(schema.items, node.child("items"))
    return Annotated[tuple[part, ...], Meta(**bounds)]


def _choice(schema: ItemsTable | ParameterTable, node: YamlNode) -> Any:  # noqa: ANN401
    kind = _TYPES.get(schema.type)
    enum = () if schema.enum is UNSET else schema.enum
    if kind not in {str, int} or not all(type(each) is kind for each in enum):
        raise ToolFileProblem(
            node.child("enum").line,
            f"an enum lists texts of a string or whole numbers of an integer; this is a "
            f"{schema.type}",
        )
    return Literal[enum]


def _check_words(schema: ItemsTable | ParameterTable, node: YamlNode) -> None:
    every = {word for words in _BOUNDS.values() for word in words} | {"items"}
    fitting = {*_BOUNDS[schema.type], *(["items"] if schema.type == "array" else [])}
    for word in sorted(every - fitting):
        if getattr(schema, word, UNSET) is not UNSET:
            spelled = msgspec.structs.fields(type(schema))
            key = next(field.encode_name for field in spelled if field.name == word)
            raise ToolFileProblem(
                node.child(key).line, f"{key} says nothing about a {schema.type}; take it out"
            )
