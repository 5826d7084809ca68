"""A wire format as its users know it, and what all formats have in common (pure)."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from vegakit.conversation import Finish, Media, ModelChunk, ModelReply, ModelRequest
from vegakit.errors import ErrorClass, UserError, WorldError
from vegakit.records import digest128

Header: TypeAlias = tuple[bytes, bytes]


class ModelFeatures(Struct, frozen=True):
    """The fields that a model takes. `json_output` is false for a model that answers in a shape
    only by calling a tool, `json_beside_tools` for one that does so if it is given tools; `reasons`
    is true for one that reasons unless it is told not to."""

    json_output: bool = True
    temperature: bool = True
    reasons: bool = False
    context_tokens: int | None = None
    json_beside_tools: bool = True


class AskForm(Struct, frozen=True):
    """The form in which one model is asked. `fields` are added to the body of every request, over
    ours."""

    features: ModelFeatures = ModelFeatures()
    stream: bool = False
    fields: Mapping[str, Any] = {}


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

    def reply(self) -> ModelReply:
        """Return the whole answer; only after `ended`."""
        ...


class Wire(NamedTuple):
    """A wire format. `target` is the path below the base URL for a model, plain or streamed.

    `decode` and `reader` take the name of the tool that carries the answer (see `output_tool`).
    What cannot be read raises one of `UNREADABLE`; an answer that its provider did not finish
    raises `WorldError`. `request_id` is the header that names a request. `ends_with_body` is true
    for a format without an event for the end: what follows `ended` still belongs to the answer.
    """

    name: str
    target: Callable[[str, bool], str]
    headers: tuple[Header, ...]
    encode: Callable[[ModelRequest, AskForm], bytes]
    decode: Callable[[bytes, str | None], ModelReply]
    reader: Callable[[str | None], AnswerReader]
    failure: Callable[[int, bytes], WireFailure]
    request_id: str
    ends_with_body: bool = False


UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, LookupError, TypeError)
"""How a codec says that bytes are no answer of its format. `UnicodeError` is a `ValueError`."""

OUTPUT_TOOL_DESCRIPTION = "Call this with your final answer."

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
    takes_schema = features.json_output and (features.json_beside_tools or not request.tools)
    return None if takes_schema else request.output.name


def finished(finish: Finish | None, reason: str | None, provider: str) -> Finish:
    """Return how an answer ended. A reason that nobody knows is not taken for a whole answer."""
    if finish is None:
        raise WorldError(
            f"{provider} broke its answer off ({reason or 'no reason given'})",
            ErrorClass.CONNECTION,
        )
    return finish


def read_arguments(text: str | bytes | None) -> object:
    """Return the arguments of a call. What is not JSON stays a text, and whoever checks the
    arguments says so to the model."""
    try:
        return msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text.decode(errors="replace") if isinstance(text, bytes) else text


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
