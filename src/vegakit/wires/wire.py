"""A wire format as its users know it, and what all formats have in common (pure)."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Effort,
    Finish,
    Media,
    ModelChunk,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Reasoning,
    Text,
    ToolMessage,
    ToolResult,
    Usage,
    UserPart,
)
from vegakit.errors import ErrorClass, UserError, WorldError
from vegakit.records import UNREADABLE_JSON, digest128

Header: TypeAlias = tuple[bytes, bytes]


class EffortForm(StrEnum):
    """The ways in which a model is told how much to reason."""

    LEVEL = "level"
    """By a word."""
    BUDGET = "budget"
    """By a number of tokens, which are a part of `max_tokens`."""


class ModelFeatures(Struct, frozen=True):
    """The fields that a model takes. `json_output` is false for a model that answers in a shape
    only by calling a tool, `json_beside_tools` for one that does so if it is given tools,
    `json_maps` for one that does so if a shape has objects with any keys; `reasons` is true for one
    that reasons unless it is told not to; `effort` says how it is told how much, None where it
    cannot be told."""

    json_output: bool = True
    temperature: bool = True
    reasons: bool = False
    context_tokens: int | None = None
    json_beside_tools: bool = True
    json_maps: bool = True
    effort: EffortForm | None = None


class AskForm(Struct, frozen=True):
    """The form in which one model is asked. `fields` are added to the body of every request, over
    ours. With `cache` a format that needs to be told marks what is worth keeping in the provider's
    cache, see `is_worth_caching`. With `elsewhere` another server is asked than the provider's own,
    one that speaks its format and need not know its latest words."""

    features: ModelFeatures = ModelFeatures()
    stream: bool = False
    fields: Mapping[str, Any] = {}
    cache: bool = False
    elsewhere: bool = False


_EFFORT_PERCENT = {Effort.LOW: 20, Effort.MEDIUM: 50, Effort.HIGH: 80}


def thinking_tokens(settings: ModelSettings, effort: Effort, least: int, most: int) -> int:
    """Return the part of `max_tokens` that a model may reason with, between what it takes at least
    and at most. Some of `max_tokens` is left for the answer."""
    tokens = min(max(settings.max_tokens * _EFFORT_PERCENT[effort] // 100, least), most)
    if tokens >= settings.max_tokens:
        raise UserError(
            f"effort {effort} needs at least {least:,} tokens to reason with, beside the answer, "
            f"and max_tokens is {settings.max_tokens:,}; raise max_tokens, or leave effort out"
        )
    return tokens


_CACHED_CHARACTERS = 16_000
"""About 4,096 tokens, the most that a model asks for before it keeps anything. Below that a mark
is ignored at best."""


def is_worth_caching(request: ModelRequest) -> bool:
    """Return whether a prompt is worth writing to a cache, which costs a quarter more than input
    and makes each later reading cost a tenth. Nobody knows whether there will be a next call, so
    the conversation itself has to show it: it is the second call or a later one of the same, and
    long. The first call never pays for a cache; of one that ends with its second the surcharge on
    that call is lost, and from the third on every call saves."""
    if not any(isinstance(message, AssistantMessage) for message in request.messages):
        return False
    size = len(request.system)
    for message in request.messages:
        said = message.results if isinstance(message, ToolMessage) else message.parts
        size += sum(map(_characters, said))
        if size >= _CACHED_CHARACTERS:
            return True
    return False


def _characters(part: UserPart | AssistantPart | ToolResult) -> int:
    match part:
        case Text(text) | Reasoning(text):
            return len(text)
        case ToolResult():
            return len(part.content)
        case _:
            return 0


class WireFailure(Struct, frozen=True):
    """A failure as its provider tells it, in its own words."""

    kind: ErrorClass
    message: str


class AnswerReader(Protocol):
    """Reads one streamed answer from bytes that are cut anywhere. `ended` is set by the event that
    a whole answer ends with: without it a stream was cut off. `failure` is set by an error inside
    the stream."""

    ended: bool
    failure: WireFailure | None

    def feed(self, received: bytes) -> list[ModelChunk]:
        """Return the pieces that these bytes complete."""
        ...

    def close(self) -> list[ModelChunk]:
        """Return the pieces that the end of the body completes: the last event of some servers
        lacks the line that closes it. Called only for a body that came whole; what is left is
        passed over if it cannot be read."""
        ...

    def reply(self) -> ModelReply:
        """Return the whole answer; only after `ended`."""
        ...


class Wire(NamedTuple):
    """A wire format. `target` is the path below the base URL for a model, plain or streamed.

    `decode` and `reader` take the name of the tool that carries the answer (see `output_tool`).
    What cannot be read raises one of `UNREADABLE`; an answer that its provider did not finish
    raises `WorldError`. `request_id` is the header that names a request. `ends_with_body` is true
    for a format without an event for the end: what follows `ended` still belongs to the answer.
    `streams_objects` is true for a format whose streams begin like a whole answer.
    `effort` gives the fields by which a model of these features is told how much to reason.
    """

    name: str
    target: Callable[[str, bool], str]
    headers: tuple[Header, ...]
    encode: Callable[[ModelRequest, AskForm], bytes]
    decode: Callable[[bytes, str | None], ModelReply]
    reader: Callable[[str | None], AnswerReader]
    failure: Callable[[int, bytes], WireFailure]
    request_id: str
    effort: Callable[[ModelRequest, Effort, ModelFeatures], Mapping[str, Any]]
    ends_with_body: bool = False
    streams_objects: bool = False


UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, LookupError, TypeError)
"""How a codec says that bytes are no answer of its format. `UnicodeError` is a `ValueError`."""

ABSENT = frozenset({b"", b"null"})
"""A field that is not there, as `Raw` has it."""

OUTPUT_TOOL_DESCRIPTION = "Call this with your final answer."

_DEEPEST_ARGUMENTS = 200

_CLASS_BY_STATUS = {
    401: ErrorClass.AUTH,
    402: ErrorClass.QUOTA,
    403: ErrorClass.AUTH,
    408: ErrorClass.TIMEOUT,
    429: ErrorClass.RATE_LIMIT,
    503: ErrorClass.UNAVAILABLE,
    504: ErrorClass.TIMEOUT,
    529: ErrorClass.OVERLOADED,
}


def class_of_status(status: int) -> ErrorClass:
    """Return what an HTTP status means where the body says no more."""
    usual = ErrorClass.SERVER if status >= 500 else ErrorClass.REJECTED
    return _CLASS_BY_STATUS.get(status, usual)


def output_tool(request: ModelRequest, features: ModelFeatures) -> str | None:
    """Return the tool by which a model without JSON answers gives one."""
    if request.output is None:
        return None
    takes_schema = (
        features.json_output
        and (features.json_beside_tools or not request.tools)
        and (features.json_maps or not _has_map(request.output.json_schema))
    )
    return None if takes_schema else request.output.name


def _has_map(part: object) -> bool:
    """Say whether a schema has an object with keys that it does not name. A provider that closes
    every object would let such a one be empty only."""
    if isinstance(part, list):
        return any(map(_has_map, cast("list[object]", part)))
    if not isinstance(part, dict):
        return False
    schema = cast("dict[str, object]", part)
    is_open = isinstance(schema.get("additionalProperties"), dict)
    return is_open or any(map(_has_map, schema.values()))


class UnfinishedAnswerError(WorldError):
    """An answer came to an end that is none. Its `usage` is what the provider bills for it all the
    same, if it said so."""

    def __init__(self, message: str, usage: Usage | None) -> None:
        super().__init__(message, ErrorClass.CONNECTION)
        self.usage = usage


def finished(
    finish: Finish | None, reason: str | None, provider: str, usage: Usage | None
) -> Finish:
    """Return how an answer ended. A reason that nobody knows is not taken for a whole answer."""
    if finish is None:
        raise UnfinishedAnswerError(
            f"{provider} broke its answer off ({reason or 'no reason given'})", usage
        )
    return finish


def read_arguments(text: str | bytes | None) -> object:
    """Return the arguments of a call. What is not JSON stays a text, and whoever checks the
    arguments says so to the model."""
    try:
        return bounded_arguments(msgspec.json.decode(text or "{}"))
    except UNREADABLE_JSON:
        return text.decode(errors="replace") if isinstance(text, bytes) else text


def bounded_arguments(arguments: object) -> object:
    """Return arguments that came as JSON. Those that are nested deeper than anybody means become a
    text: what checks, copies and stores them goes down level by level, and would fall over them
    long after the answer was paid for."""
    level: list[object] = [arguments]
    for _ in range(_DEEPEST_ARGUMENTS):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return arguments
    return msgspec.json.encode(arguments).decode()


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def failed(found: WireFailure) -> WorldError:
    """Return the error of an answer that has a status of success and says that it failed. As in a
    stream, what was done until then may be billed."""
    return WorldError(found.message, found.kind)


_T = TypeVar("_T")


def read_usage(decode: Callable[[Raw], _T], said: Raw) -> _T | None:
    """Return the counts of an answer; None if there are none, or if they cannot be read. The answer
    was paid for and is worth more than its bill: without one it is charged as reserved. Decoders of
    counts are not strict, since numbers are told as texts, too."""
    try:
        return None if bytes(said) in ABSENT else decode(said)
    except UNREADABLE:
        return None


def shown_body(body: bytes) -> str:
    """Return the beginning of a body that is no error of its format. It is longer than what is
    shown: a secret must not be cut before it is looked for."""
    return body[:4_000].decode(errors="replace")


# Parts of a format that several make from our records alike.


_MADE = "made_"


def with_fields(body: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with the fields of a setting over ours. Objects are joined key by key, so that
    a field beside the limit on tokens does not take the limit away."""
    joined = dict(body)
    for name, value in fields.items():
        ours = joined.get(name)
        if isinstance(ours, dict) and isinstance(value, Mapping):
            value = with_fields(cast("dict[str, Any]", ours), cast("Mapping[str, Any]", value))  # noqa: PLW2901
        joined[name] = value
    return joined


def object_arguments(arguments: object) -> dict[str, Any]:
    """Return the arguments of a call for a format that takes nothing but an object. What a model of
    another format wrote that is none is shown to this one as it was."""
    if isinstance(arguments, dict):
        return cast("dict[str, Any]", arguments)
    return {"arguments": arguments}


def made_call_id(answer: str, index: int) -> str:
    """Return an id for a call that its provider gave none, from whatever names the answer. It is
    another one in every answer, since other formats refuse a conversation with an id twice."""
    return _MADE + digest128([answer, index])[:24]


def provider_call_id(call_id: str) -> str | None:
    """Return the id of a call, or None if it was made here: its provider would not know it."""
    return None if not call_id or call_id.startswith(_MADE) else call_id


def refuse_url(media: Media, provider: str) -> UserError:
    """Return the error of an image by an address that a format cannot carry."""
    return UserError(
        f"{provider} takes images by their data only, but this one is an address ({media.url}); "
        "read the image and send its data"
    )
