"""Amazon Bedrock's Converse from the server's end (pure)."""

from typing import Any

from msgspec import Raw

from vegakit.conversation import Finish, Usage
from vegakit.records import to_json
from vegakit.wires.aws import write_frame
from vegakit.wires.serving import (
    ServedCall,
    ServedFailure,
    ServedReply,
    ServedRequest,
    ServedStream,
    WireError,
    WireServer,
    halves,
    joined,
    split_words,
)

_STOP_REASONS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.CONTENT_FILTER: "content_filtered",
}
_KINDS = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
    529: "ServiceUnavailableException",
}
_CAUSES = {
    "quota": (400, "ServiceQuotaExceededException", "Your account reached its service quota."),
    "context_length": (400, "ValidationException", "Input is too long for requested model."),
}
_METRICS = {"metrics": {"latencyMs": 1}}


def _whole(reply: ServedReply, _: ServedRequest) -> dict[str, Any]:
    text = [{"text": words}] if (words := reply.text or reply.refusal) else []
    calls = [
        {"toolUse": {**_call(call), "input": Raw(call.arguments.encode())}} for call in reply.calls
    ]
    message = {"role": "assistant", "content": [*text, *calls]}
    stop = {"stopReason": _stop_reason(reply)}
    return {"output": {"message": message}, **stop, **_usage(reply.usage), **_METRICS}


def _stream(reply: ServedReply, _: ServedRequest) -> ServedStream:
    blocks: list[list[bytes]] = []
    if words := reply.text or reply.refusal:
        blocks.append(_block(0, b"", [{"text": word} for word in split_words(words)]))
    for index, call in enumerate(reply.calls, len(blocks)):
        start = _event("contentBlockStart", contentBlockIndex=index, start={"toolUse": _call(call)})
        pieces = [{"toolUse": {"input": part}} for part in halves(call.arguments)]
        blocks.append(_block(index, start, pieces))
    closing = _event("messageStop", stopReason=_stop_reason(reply))
    closing += _event("metadata", **_usage(reply.usage), **_METRICS)
    pieces = [piece for block in blocks for piece in block]
    return ServedStream(_event("messageStart", role="assistant"), pieces, closing)


def _stop_reason(reply: ServedReply) -> str:
    return _STOP_REASONS[Finish.CONTENT_FILTER if reply.refusal else reply.finish]


def _block(index: int, start: bytes, deltas: list[dict[str, Any]]) -> list[bytes]:
    pieces = [_event("contentBlockDelta", contentBlockIndex=index, delta=d) for d in deltas]
    return joined(start, pieces, _event("contentBlockStop", contentBlockIndex=index))


def _event(kind: str, **fields: object) -> bytes:
    headers = {
        ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return write_frame(headers, to_json(fields))


def _call(call: ServedCall) -> dict[str, Any]:
    return {"toolUseId": f"tooluse_{call.ref}", "name": call.name}


def _usage(usage: Usage | None) -> dict[str, Any]:
    """Cached tokens stand beside the others, not among them."""
    if usage is None:
        return {}
    counts = {
        "inputTokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }
    return {"usage": counts}


def _error(failure: ServedFailure) -> WireError:
    """The name is in the body: there is no place here for the header that has it as well."""
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
        usual = "InternalServerException" if status >= 500 else "ValidationException"
        kind = _KINDS.get(status, usual)
    else:
        status, kind, message = _CAUSES[failure.cause]
    message = failure.message or message
    if status == 529:
        message = f"The model is overloaded. {message}"
    return WireError(status, kind, None, message, {"__type": kind, "message": message})


def _broken(failure: ServedFailure, _: ServedRequest) -> bytes:
    error = _error(failure)
    headers = {
        ":exception-type": error.kind[0].lower() + error.kind[1:],
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return write_frame(headers, to_json({"message": error.message}))


BEDROCK_SERVER = WireServer(
    _whole, _stream, _error, _broken, content_type="application/vnd.amazon.eventstream"
)
