"""Parts that OpenAI's two formats share: errors, arguments, results and usage (pure)."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from vegakit.conversation import Media, Usage
from vegakit.errors import ErrorClass
from vegakit.records import to_json
from vegakit.wires.wire import WireFailure, class_of_status, read_arguments, shown_body

REQUEST_ID = "x-request-id"

# Out: what a request of either format says in the same words.


def written_arguments(arguments: object) -> str:
    """Return the arguments of a call as JSON. What a model wrote that is no object is wrapped into
    one, because many servers read the arguments of earlier calls and refuse others."""
    given: object = read_arguments(arguments) if isinstance(arguments, str) else arguments or {}
    if not isinstance(given, dict):
        raw = arguments if isinstance(arguments, str) else to_json(arguments).decode()
        return to_json({"INVALID_JSON": raw}).decode()
    return to_json(cast("object", given)).decode()


def written_result(content: str, *, is_error: bool) -> str:
    """Return the result of a call. The formats have no flag for a failed one."""
    return to_json({"error": content}).decode() if is_error else content


def media_url(media: Media) -> str:
    """Return the address of a medium, or its bytes as one."""
    return media.url or f"data:{media.media_type};base64,{b64encode(media.data).decode()}"


def file_name(media: Media) -> str:
    """Return a name for a file. Its ending is what the name is for."""
    return f"filename.{media.media_type.rpartition('/')[2]}"


# In: usage. A provider that says something impossible has not said what it used.


def usage_of(
    input_tokens: int | None,
    output_tokens: int | None,
    read: int | None,
    written: int | None,
    total: int | None,
) -> Usage | None:
    """Return the usage, or None if it is not told or cannot be. No call has no input. Some servers
    count what a model thought in the total alone: what the parts leave of it is output."""
    if not input_tokens or output_tokens is None:
        return None
    output_tokens = max(output_tokens, (total or 0) - input_tokens)
    usage = Usage(input_tokens, output_tokens, read or 0, written or 0)
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    least = min(output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    return usage if least >= 0 and cached <= input_tokens else None


def most_usage(told: Sequence[Usage | None]) -> Usage | None:
    """Return the usage of a stream that tells it more than once: each time it is all so far."""
    if not told or None in told:
        return None
    known = cast("Sequence[Usage]", told)
    return Usage(
        max(usage.input_tokens for usage in known),
        max(usage.output_tokens for usage in known),
        max(usage.cache_read_tokens for usage in known),
        max(usage.cache_write_tokens for usage in known),
    )


# In: errors. Many servers speak these formats, so an error is known by its code, its type, its
# words or its status, in this order.


_QUOTA = frozenset(
    "insufficient_quota billing_hard_limit_reached credit_balance_exhausted "
    "organization_spend_limit_exceeded project_spend_limit_exceeded "
    "organization_usage_limit_exceeded".split()
)
_FILTERS = frozenset({"content_filter", "content_policy_violation"})
_TOO_LONG = ("maximum context length", "reduce the length of the messages")
_OVERLOADED = ("overloaded", "over capacity")
_CLASS_BY_CODE = {
    "context_length_exceeded": ErrorClass.CONTEXT_LENGTH,
    "model_not_found": ErrorClass.REJECTED,
    "invalid_api_key": ErrorClass.AUTH,
}
_STATUS_BY_WORD = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    "context_length_exceeded": 400,
    "service_unavailable": 503,
    "service_unavailable_error": 503,
    "server_is_overloaded": 503,
    "overloaded": 503,
    "server_error": 500,
}
"""The status of an error that comes without one, inside a stream."""
_UNSAID = "the provider gave no reason"


class _Error(Struct):
    message: Any = None
    type: Any = None
    code: Any = None
    metadata: Any = None


class _ErrorBody(Struct):
    error: Raw = Raw()


_read_body = msgspec.json.Decoder(_ErrorBody).decode
_read_error = msgspec.json.Decoder(_Error | str | None).decode


def failure(status: int, body: bytes) -> WireFailure:
    """Return what an answer with a status of failure says. Some servers leave the outer braces
    out, or say nothing but a text."""
    try:
        inner = bytes(_read_body(body).error)
        error = _read_error(body if inner in {b"", b"null"} else inner)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return WireFailure(_class_of(status, _Error()), shown_body(body))
    return _failure_of(status, error, shown_body(body))


def failure_inside(error: bytes) -> WireFailure:
    """Return what an error in a stream, or in an answer with a status of success, says."""
    try:
        said = _read_error(error)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return WireFailure(ErrorClass.SERVER, shown_body(error) or _UNSAID)
    known = said if isinstance(said, _Error) else _Error()
    return _failure_of(_status_inside(known), said, _UNSAID)


def _failure_of(status: int, error: _Error | str | None, unsaid: str) -> WireFailure:
    if not isinstance(error, _Error):
        return WireFailure(_class_of(status, _Error(error)), error or unsaid)
    message = error.message if isinstance(error.message, str) else ""
    return WireFailure(_class_of(status, error), message or unsaid)


def _status_inside(error: _Error) -> int:
    for word in (error.code, error.type):
        if isinstance(word, str) and word in _STATUS_BY_WORD:
            return _STATUS_BY_WORD[word]
    code = str(error.code)
    return int(code) if len(code) == 3 and code.isascii() and "400" <= code < "600" else 500


def _class_of(status: int, error: _Error) -> ErrorClass:
    code, kind, message = (
        word if isinstance(word, str) else "" for word in (error.code, error.type, error.message)
    )
    if code in _FILTERS:
        return ErrorClass.CONTENT_FILTER
    if code in _QUOTA or kind in _QUOTA:
        return ErrorClass.QUOTA
    if any(words in message.lower() for words in _TOO_LONG):
        return ErrorClass.CONTEXT_LENGTH
    if code in _CLASS_BY_CODE:
        return _CLASS_BY_CODE[code]
    if _says_overloaded(code, kind) or (status == 503 and _says_overloaded(message)):
        return ErrorClass.OVERLOADED
    if status == 403 and _is_flagged(error.metadata):
        return ErrorClass.REJECTED
    return class_of_status(status)


def _says_overloaded(*texts: str) -> bool:
    return any(words in text.lower() for text in texts for words in _OVERLOADED)


def _is_flagged(metadata: object) -> bool:
    """A gateway that found the input unfit says so with the status of a wrong key."""
    return isinstance(metadata, dict) and bool({"flagged_input", "reasons"} & metadata.keys())
