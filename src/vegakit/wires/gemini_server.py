"""Google Gemini from the server's end (pure)."""

from typing import Any

from msgspec import Raw

from vegakit.conversation import Finish
from vegakit.wires.serving import (
    ServedCall,
    ServedFailure,
    ServedReply,
    ServedRequest,
    ServedStream,
    WireError,
    WireServer,
    split_words,
)
from vegakit.wires.sse import write_event

_FINISHES = {
    Finish.STOP: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.TOOL_CALLS: "STOP",
    Finish.CONTENT_FILTER: "SAFETY",
}
_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_TOO_LONG = (
    "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
)
_DAILY: dict[str, Any] = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
}


def _whole(reply: ServedReply, request: ServedRequest) -> dict[str, Any]:
    text = [{"text": reply.text}] if reply.text else []
    parts = [*text, *(_call(call) for call in reply.calls)]
    return {**_answer(request, parts, _stop(reply)), **_usage(reply)}


def _stream(reply: ServedReply, request: ServedRequest) -> ServedStream:
    """Calls are not cut into pieces, and nothing comes before the first piece."""
    parts = [{"text": word} for word in split_words(reply.text)]
    parts += [_call(call) for call in reply.calls]
    closing = {**_answer(request, [{"text": ""}], _stop(reply)), **_usage(reply)}
    pieces = [write_event(_answer(request, [part], {})) for part in parts]
    return ServedStream(b"", pieces, write_event(closing))


def _answer(
    request: ServedRequest, parts: list[dict[str, Any]], stop: dict[str, Any]
) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **stop}
    named = {"modelVersion": request.model, "responseId": f"resp_{request.n}"}
    return {"candidates": [candidate], **named}


def _call(call: ServedCall) -> dict[str, Any]:
    arguments = Raw(call.arguments.encode())
    return {"functionCall": {"id": f"call_{call.ref}", "name": call.name, "args": arguments}}


def _stop(reply: ServedReply) -> dict[str, Any]:
    if reply.refusal:
        return {"finishReason": "SAFETY", "finishMessage": reply.refusal}
    return {"finishReason": _FINISHES[reply.finish]}


def _usage(reply: ServedReply) -> dict[str, Any]:
    if reply.usage is None:
        return {}
    counts = {
        "promptTokenCount": reply.usage.input_tokens,
        "candidatesTokenCount": reply.usage.output_tokens,
        "totalTokenCount": reply.usage.input_tokens + reply.usage.output_tokens,
        "cachedContentTokenCount": reply.usage.cache_read_tokens,
    }
    return {"usageMetadata": {name: count for name, count in counts.items() if count}}


def _error(failure: ServedFailure) -> WireError:
    details: list[dict[str, Any]] = []
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
    elif failure.cause == "quota":
        status, message, details = 429, "You exceeded your current quota.", [_DAILY]
    else:
        status, message = 400, _TOO_LONG
    usual = "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"
    kind, message = _STATUSES.get(status, usual), failure.message or message
    if status == 529:
        message = f"The model is overloaded. {message}"
    error = {"code": status, "message": message, "status": kind, "details": details}
    return WireError(status, kind, None, message, {"error": error})


def _broken(failure: ServedFailure, _: ServedRequest) -> bytes:
    return write_event(_error(failure).body)


GEMINI_SERVER = WireServer(_whole, _stream, _error, _broken)
