"""What went wrong, by one table, and how far the request had come.

| phase        | when                                                                 |
|--------------|----------------------------------------------------------------------|
| NOTHING_SENT | no connection was had, or the request could not even be written      |
| ANSWERED     | the provider answered with an HTTP status of failure                 |
| UNKNOWN      | the rest: dropped, timed out, failed inside a stream, unreadable     |

A content filter is no failure but a reply, except where a provider makes an HTTP status of it.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic_ai import exceptions as theirs

from vegakit.errors import ErrorClass, Phase, VegaError, WorldError
from vegakit.models.naming import Wire

__all__ = ["FAILURES", "our_error", "timed_out"]

_UNREADABLE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""How the library stumbles over an answer that nobody expected."""

FAILURES = (theirs.AgentRunError, theirs.UserError, *_UNREADABLE)

_CLASSES: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (theirs.ModelContextWindowExceededError, ErrorClass.CONTEXT_LENGTH),
    (theirs.ModelAuthenticationError, ErrorClass.AUTH),
    (theirs.ModelQuotaExceededError, ErrorClass.QUOTA),
    (theirs.ModelRateLimitError, ErrorClass.RATE_LIMIT),
    (theirs.ModelOverloadedError, ErrorClass.OVERLOADED),
    (theirs.ModelUnavailableError, ErrorClass.UNAVAILABLE),
    (theirs.ModelServerError, ErrorClass.SERVER),
    (theirs.ModelTimeoutError, ErrorClass.TIMEOUT),
    (theirs.ModelConnectionError, ErrorClass.CONNECTION),
    (theirs.ContentFilterError, ErrorClass.CONTENT_FILTER),
    (theirs.ModelRequestRejectedError, ErrorClass.REJECTED),
    (theirs.ModelHTTPError, ErrorClass.REJECTED),
    (theirs.UserError, ErrorClass.REJECTED),
    (Exception, ErrorClass.SERVER),
)
"""The first that fits: what is special stands before what it is a case of."""

_FILTER_CODES = {"content_filter", "content_policy_violation"}
_SHOWN = 300


def our_error(
    error: Exception, wire: Wire, model: str, sent_headers: Mapping[str, str]
) -> VegaError:
    """An error of ours that comes back wrapped in theirs comes out as itself.

    What was sent in `sent_headers` is struck out of the message, should the provider repeat it.
    """
    for inner in _chain(error):
        if isinstance(inner, VegaError):
            return inner
    kind = _class_of(error)
    wait_s = getattr(error, "retry_after", None)
    return WorldError(
        f"{wire.name}:{model} failed ({kind}): {_struck(_said(error, kind, wire), sent_headers)}",
        kind,
        phase=_phase_of(error),
        retry_after_ms=None if wait_s is None else round(wait_s * 1_000),
    )


def timed_out(wire: Wire, model: str, timeout_s: float) -> WorldError:
    return WorldError(
        f"{wire.name}:{model} failed ({ErrorClass.TIMEOUT}): no answer within {timeout_s:g} s",
        ErrorClass.TIMEOUT,
    )


def _class_of(error: Exception) -> ErrorClass:
    if getattr(error, "provider_error_code", None) in _FILTER_CODES:
        return ErrorClass.CONTENT_FILTER
    return next(ours for kind, ours in _CLASSES if isinstance(error, kind))


def _phase_of(error: Exception) -> Phase:
    match error:
        case theirs.UserError():
            return Phase.NOTHING_SENT
        case theirs.ModelConnectionError(phase="connect" | "pool"):
            return Phase.NOTHING_SENT
        case theirs.ModelHTTPError(in_stream=False):
            return Phase.ANSWERED
        case _:
            return Phase.UNKNOWN


def _said(error: Exception, kind: ErrorClass, wire: Wire) -> str:
    """In the provider's words if it had any; about a key it may quote the key."""
    if kind is ErrorClass.AUTH:
        return f"the key was not accepted; check {wire.key_variable}"
    if isinstance(error, _UNREADABLE):
        return f"its answer could not be read ({type(error).__name__})"
    return _reported(getattr(error, "body", None)) or getattr(error, "message", "") or str(error)


def _struck(text: str, sent_headers: Mapping[str, str]) -> str:
    """The key stands behind the word Bearer."""
    for value in sent_headers.values():
        for secret in filter(None, (value, value.rpartition(" ")[2])):
            text = text.replace(secret, "…")
    return text[:_SHOWN]


def _reported(body: object) -> str:
    """`{"error": {"message": …}}`, or without the outer braces."""
    while isinstance(body, dict):
        known = cast("dict[str, object]", body)
        body = known.get("error") or known.get("message")
    return body if isinstance(body, str) else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
