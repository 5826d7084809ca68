"""Ollama's chat from the server's end (pure)."""

from datetime import UTC, datetime
from typing import Any

from msgspec import Raw

from vegakit.conversation import Finish, Usage
from vegakit.records import to_json
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

_TOO_LONG = "the input length exceeds the context length"
_BUSY = "server busy, please try again. maximum pending requests exceeded"


def _whole(reply: ServedReply, request: ServedRequest) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or reply.refusal}
    if reply.calls:
        message["tool_calls"] = [_call(call, index) for index, call in enumerate(reply.calls)]
    return {**_line(request, message), **_end(reply)}


def _stream(reply: ServedReply, request: ServedRequest) -> ServedStream:
    """Calls are not cut into pieces, and nothing comes before the first piece."""
    words: list[dict[str, Any]] = [
        {"role": "assistant", "content": word} for word in split_words(reply.text or reply.refusal)
    ]
    words += [
        {"role": "assistant", "content": "", "tool_calls": [_call(call, index)]}
        for index, call in enumerate(reply.calls)
    ]
    pieces = [_written({**_line(request, message), "done": False}) for message in words]
    last = {**_line(request, {"role": "assistant", "content": ""}), **_end(reply)}
    return ServedStream(b"", pieces, _written(last))


def _written(line: object) -> bytes:
    return to_json(line) + b"\n"


def _line(request: ServedRequest, message: dict[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(request.started_ms / 1_000, UTC)
    return {"model": request.model, "created_at": created.isoformat(), "message": message}


def _end(reply: ServedReply) -> dict[str, Any]:
    """There is no word for a refusal: a model of this format says it as its answer."""
    reason = "length" if reply.finish is Finish.LENGTH else "stop"
    return {"done": True, "done_reason": reason, **_counts(reply.usage)}


def _counts(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    return {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}


def _call(call: ServedCall, index: int) -> dict[str, Any]:
    arguments = Raw(call.arguments.encode())
    function = {"index": index, "name": call.name, "arguments": arguments}
    return {"id": f"call_{call.ref}", "function": function}


def _error(failure: ServedFailure) -> WireError:
    """A quota is the cloud's; its status says so."""
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
    elif failure.cause == "quota":
        status, message = 402, "you have reached your usage limit"
    else:
        status, message = 400, _TOO_LONG
    message = failure.message or message
    if status == 529:
        message = f"{_BUSY}: {message}"
    return WireError(status, "", None, message, {"error": message})


def _broken(failure: ServedFailure, _: ServedRequest) -> bytes:
    """A stream that broke has no status, only the sentence."""
    return _written(_error(failure).body)


OLLAMA_SERVER = WireServer(_whole, _stream, _error, _broken, content_type="application/x-ndjson")
