"""YAML that every program reads the same way, as nodes that know their line.

| in a file                                          | decided                                     |
|----------------------------------------------------|---------------------------------------------|
| mappings, lists, texts; `true`, `false`            | themselves                                  |
| `12`, `-3`, `0.25`                                 | numbers, of at most 15 digits               |
| `no`, `010`, `0x10`, `1:30`, `2001-01-01`, `.nan`, | refused: what they are depends on who reads |
| `1e400`, `1_000`, `~`, nothing at all              |                                             |
| the same in quotes                                 | text                                        |
| tags, anchors, aliases, merge keys, directives     | refused                                     |
| a key twice, a key that is no text, two documents  | refused                                     |
| control, invisible and direction marks             | refused, as themselves and as escapes       |
| more than 64 KiB, 5,000 nodes or 12 levels         | refused, before it is made into anything    |

Only the event stream of ruamel.yaml is used, which neither recurses nor constructs. So a level too
deep ends the reading where it begins, whatever comes after it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.errors import UserError
from vegakit.policy import sanitise

__all__ = ["MAX_BYTES", "Misread", "Node", "plain", "read"]

MAX_BYTES = 64 * 1024
_MAX_NODES = 5_000
_MAX_DEPTH = 12

Scalar: TypeAlias = str | int | float | bool

_MEANINGS: tuple[tuple[re.Pattern[str], Callable[[str], Scalar]], ...] = (
    (re.compile("true|false"), lambda text: text == "true"),
    (re.compile("-?[1-9][0-9]{0,14}|0"), int),
    (re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}"), float),
)
_DOUBTFUL = re.compile(
    r"|~|=|<<|null|y|n|yes|no|on|off|true|false|[-+]?\.?(inf|infinity|nan)"
    r"|[-+]?\.?[0-9]\S*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*",
    re.IGNORECASE | re.DOTALL,
)


class Misread(UserError):  # noqa: N818  (a place and a reason; the file's name is added above)
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Node(Struct, frozen=True):
    """What stands below a key has the line of its key."""

    line: int
    value: "Scalar | list[Node] | dict[str, Node]"

    def child(self, key: str) -> "Node":
        """Itself, if there is none: the place where it is missing."""
        return self.value.get(key, self) if isinstance(self.value, dict) else self


def plain(node: Node) -> Any:  # noqa: ANN401
    match node.value:
        case dict() as children:
            return {key: plain(child) for key, child in children.items()}
        case list() as parts:
            return [plain(part) for part in parts]
        case scalar:
            return scalar


def read(content: bytes) -> Node:
    return _Reader(_events(_text(content))).document()


def _text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise Misread(1, f"the file is larger than {MAX_BYTES} bytes; split it into several")
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise Misread(line, "this is not UTF-8; save the file as UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        _check_seen(number, line)
    return text


def _check_seen(line: int, text: str) -> None:
    clean = sanitise(text, 8 * MAX_BYTES)
    if clean != text:
        at = next(i for i, (a, b) in enumerate(zip(text, clean, strict=False)) if a != b)
        raise Misread(
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
        raise UserError(
            "tools from YAML need ruamel.yaml, which is not installed: pip install 'vegakit[yaml]'"
        ) from error
    line = 1
    parser: Any = YAML(typ="safe", pure=True)
    try:
        for event in parser.parse(text):
            line = event.start_mark.line + 1
            yield _event(event)
    except MarkedYAMLError as error:
        told: Any = error
        place = line if told.problem_mark is None else told.problem_mark.line + 1
        problem = str(told.problem)[:200]
        raise Misread(place, f"this is no YAML: {problem}; check quotes and indents") from None
    except (YAMLError, ValueError, OverflowError):
        raise Misread(line, "what follows is no YAML; check quotes and indents") from None


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

    def document(self) -> Node:
        next(self._events)
        start = next(self._events)
        if start.kind != "DocumentStart":
            raise Misread(1, "the file is empty; begin with `tools:`")
        if start.directives:
            raise Misread(start.line, "directives are not read; take the lines with % out")
        found = self._node(next(self._events), 0)
        next(self._events)
        after = next(self._events)
        if after.kind != "StreamEnd":
            raise Misread(after.line, "a second document begins; keep one, without `---`")
        return found

    def _node(self, event: _Event, depth: int) -> Node:
        self._check(event, depth)
        match event.kind:
            case "SequenceStart":
                return Node(event.line, [self._node(e, depth + 1) for e in self._until_end()])
            case "MappingStart":
                return Node(event.line, self._mapping(depth + 1))
            case _:
                return Node(event.line, _scalar(event))

    def _check(self, event: _Event, depth: int) -> None:
        self._nodes += 1
        found = (
            (
                depth > _MAX_DEPTH,
                f"this is nested deeper than {_MAX_DEPTH} levels; write it flatter",
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
                raise Misread(event.line, reason)

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for event in self._until_end():
            key = self._node(event, depth)
            if not isinstance(key.value, str):
                raise Misread(key.line, "a key is a name; put it in quotes if it is meant")
            if key.value in found:
                raise Misread(
                    key.line,
                    f"{key.value[:80]!a} stands here again, first in line "
                    f"{found[key.value].line}; keep one of them",
                )
            found[key.value] = Node(key.line, self._node(next(self._events), depth).value)
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
    if _DOUBTFUL.fullmatch(text):
        said = f"{text[:80]!a} is" if text else "nothing stands here, which is"
        raise Misread(
            line,
            f"{said} read differently by different programs; put a text in quotes, write a "
            "number in plain digits, and true or false",
        )
    return text
