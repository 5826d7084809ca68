"""Answers of Anthropic Messages, whole and streamed, and its errors (pure).

In a stream each block is opened, filled and closed by events, one block after the other;
`message_delta` says how the answer ended and what it used, and only `message_stop` makes it a whole
one. Kinds of blocks, deltas and events that are not known here are passed over; an end that is not
known is no end.
"""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Finish,
    ModelChunk,
    ModelReply,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    Usage,
)
from vegakit.errors import ErrorClass
from vegakit.wires.sse import EventReader, ServerSentEvent
from vegakit.wires.wire import (
    ABSENT,
    UNREADABLE,
    WireFailure,
    class_of_status,
    failed,
    finished,
    read_arguments,
    read_usage,
    shown_body,
)

ANTHROPIC_NAME = "anthropic"
"""What only Anthropic can read is kept under this name, and goes back to no other format."""
REDACTED_THINKING = "redacted_thinking"
"""The kind of a block that holds thoughts in a form that only Anthropic can read."""


# The blocks of an answer.


class _TextBlock(Struct, tag="text"):
    text: str = ""


class _ThinkingBlock(Struct, tag="thinking"):
    thinking: str = ""
    signature: str = ""


class _RedactedBlock(Struct, tag=REDACTED_THINKING):
    data: str


class _ToolUseBlock(Struct, tag="tool_use"):
    id: str
    name: str
    input: Raw = Raw(b"{}")


_Block: TypeAlias = _TextBlock | _ThinkingBlock | _RedactedBlock | _ToolUseBlock


class _Kind(Struct):
    type: str = ""


_read_block = msgspec.json.Decoder(_Block).decode
_read_kind = msgspec.json.Decoder(_Kind).decode
_BLOCKS = frozenset({"text", "thinking", REDACTED_THINKING, "tool_use"})


def _block(raw: Raw) -> _Block | None:
    """A block of a kind that is not known here is None."""
    try:
        return _read_block(raw)
    except msgspec.ValidationError:
        if _read_kind(raw).type in _BLOCKS:
            raise
        return None


def _beginning(block: _Block | None) -> str:
    """Return what a block says by itself: in a stream that is little, and deltas follow."""
    match block:
        case _TextBlock():
            return block.text
        case _ThinkingBlock():
            return block.thinking
        case _ToolUseBlock():
            text = bytes(block.input).decode()
            return "" if text.strip("{} \t\r\n") in {"", "null"} else text
        case _:
            return ""


def _part(block: _Block | None, text: str, carrier: str | None) -> AssistantPart | None:
    """Return a block as a part; None if there is nothing in it."""
    match block:
        case _TextBlock():
            return Text(text) if text else None
        case _ToolUseBlock() if block.name == carrier:
            return Text(text or "{}")
        case _ToolUseBlock():
            return ToolCall(block.id, block.name, read_arguments(text))
        case _ThinkingBlock(signature=""):
            return Reasoning(text) if text else None
        case _ThinkingBlock():
            return Reasoning(text, Opaque(ANTHROPIC_NAME, {"signature": block.signature}))
        case _RedactedBlock():
            return Reasoning(
                "", Opaque(ANTHROPIC_NAME, {"id": REDACTED_THINKING, "signature": block.data})
            )
        case None:
            return None


# How an answer ended, and what it used.


_Count: TypeAlias = Annotated[int, Meta(ge=0)]


class _Usage(Struct):
    """`iterations` are the passes of an answer. Those that are no `message`, such as a summary of
    what went before, are billed beside the counts."""

    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    iterations: list[_Kind] | None = None


class _StopDetails(Struct):
    explanation: str | None = None


class _Message(Struct):
    content: list[Raw]
    model: str | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    usage: Raw = Raw()


_FINISHES = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.TOOL_CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.CONTENT_FILTER,
}
"""`pause_turn` is missing on purpose: the provider would go on if it were asked again."""
_read_message = msgspec.json.Decoder(_Message).decode


def decode_answer(body: bytes, carrier: str | None) -> ModelReply:
    """Return a whole answer; `carrier` is the tool whose arguments are the answer."""
    try:
        said = _read_message(body)
    except msgspec.ValidationError:
        if _error_in(body) == _Error():
            raise
        raise failed(_failure_in_stream(body)) from None
    blocks = [_block(raw) for raw in said.content]
    parts = [_part(block, _beginning(block), carrier) for block in blocks]
    return _reply(said, parts, _told(said.usage))


def _reply(said: _Message, parts: list[AssistantPart | None], usage: _Usage | None) -> ModelReply:
    told, reason = _usage(usage), said.stop_reason
    finish = finished(_FINISHES.get(reason or ""), reason, ANTHROPIC_NAME, told)
    kept = tuple(part for part in parts if part is not None)
    if finish is Finish.CONTENT_FILTER and not kept and said.stop_details:
        kept = (Text(said.stop_details.explanation),) if said.stop_details.explanation else ()
    message = AssistantMessage(kept, said.model or "")
    if finish in {Finish.STOP, Finish.TOOL_CALLS}:
        finish = Finish.TOOL_CALLS if message.tool_calls else Finish.STOP
    return ModelReply(message, told, finish)


_UNREAD = _Usage(iterations=[_Kind("unread")])
"""Stands for counts that cannot be read: whatever else is told, they are not all."""
_read_usage = msgspec.json.Decoder(_Usage, strict=False).decode


def _told(said: Raw) -> _Usage | None:
    if bytes(said) in ABSENT:
        return None
    return read_usage(_read_usage, said) or _UNREAD


def _usage(usage: _Usage | None) -> Usage | None:
    """Cached tokens stand beside the others here, and among them in our records. No call has no
    input: a zero is a provider that did not say."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    if any(passed.type != "message" for passed in usage.iterations or ()):
        return None
    read = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    whole = usage.input_tokens + read + written
    return Usage(whole, usage.output_tokens, read, written) if whole else None


_COUNTS = tuple(name for name in _Usage.__struct_fields__ if name != "iterations")


def _merged(first: _Usage | None, then: _Usage | None) -> _Usage | None:
    """Counts of a stream are totals so far, and those that stay the same need not come again. One
    that is lower than before is not believed."""
    if first is None or then is None:
        return first or then
    counts = {name: _larger(getattr(first, name), getattr(then, name)) for name in _COUNTS}
    return _Usage(**counts, iterations=[*(first.iterations or ()), *(then.iterations or ())])


def _larger(one: int | None, other: int | None) -> int | None:
    return max((count for count in (one, other) if count is not None), default=None)


# A streamed answer.


class _Delta(Struct, frozen=True):
    """What any delta may hold; those of `message_delta` have no type."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Event(Struct):
    type: str = ""
    index: int = -1
    delta: _Delta = _Delta()
    content_block: Raw = Raw(b"null")
    message: _Message | None = None
    usage: Raw = Raw()


class _AnyEvent(Struct):
    type: str = ""
    delta: Raw = Raw(b"{}")


class _OpenBlock:
    """A block that is being filled."""

    __slots__ = ("begun", "pieces")

    def __init__(self, begun: _Block | None) -> None:
        self.begun = begun
        self.pieces = [_beginning(begun)]


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_any_event = msgspec.json.Decoder(_AnyEvent).decode
_EVENTS = frozenset(
    "content_block_delta content_block_start content_block_stop error message_delta message_start "
    "message_stop".split()
)
_DELTAS = frozenset("input_json_delta signature_delta text_delta thinking_delta".split())


def _read_event(data: bytes) -> _Event:
    """What does not fit is passed over if it is of a kind that is not known here."""
    try:
        return _decode_event(data)
    except msgspec.ValidationError:
        event = _decode_any_event(data)
        delta = event.type == "content_block_delta" and _read_kind(event.delta).type
        if event.type in _EVENTS and (not delta or delta in _DELTAS):
            raise
        return _Event()


class StreamReader(EventReader):
    """Implements `AnswerReader`. An event completes one chunk at most."""

    __slots__ = (
        "_blocks",
        "_calls",
        "_carrier",
        "_is_billed",
        "_is_open",
        "_said",
        "_usage",
    )

    def __init__(self, carrier: str | None) -> None:
        super().__init__()
        self._carrier = carrier
        self._said: _Message | None = None
        self._usage: _Usage | None = None
        self._blocks: list[_OpenBlock] = []
        self._is_open = False
        self._is_billed = False
        self._calls = 0

    def _heard(self, events: list[ServerSentEvent]) -> list[ModelChunk]:
        chunks: list[ModelChunk] = []
        for name, data in events:
            if self.ended or self.failure:
                break
            chunk = self._on_event(name, data)
            if chunk is not None:
                chunks.append(chunk)
        return chunks

    def reply(self) -> ModelReply:
        """Return the whole answer; only after `ended`."""
        if self._said is None or not self.ended:
            raise ValueError("the stream has not ended")
        said, blocks = self._said, self._blocks
        parts = [_part(block.begun, "".join(block.pieces), self._carrier) for block in blocks]
        return _reply(said, parts, self._usage if self._is_billed else None)

    def _on_event(self, name: bytes, data: bytes) -> ModelChunk | None:
        if name == b"ping":
            return None
        event = _Event("error") if name == b"error" else _read_event(data)
        match event.type:
            case "content_block_delta":
                return self._on_delta(event.index, event.delta)
            case "content_block_start":
                return self._on_block(event.index, event.content_block)
            case "content_block_stop":
                self._is_open = False
            case "message_start":
                self._on_message(event.message)
            case "message_delta":
                self._on_end(event)
            case "message_stop":
                self._begun()
                self._end()
            case "error":
                self._fail(_failure_in_stream(data))
            case _:
                pass
        return None

    def _on_message(self, said: _Message | None) -> None:
        if said is None or self._said is not None:
            raise ValueError("a stream has one beginning")
        self._said, self._usage = said, _told(said.usage)
        self._blocks = [_OpenBlock(_block(raw)) for raw in said.content]

    def _on_block(self, index: int, raw: Raw) -> ModelChunk | None:
        self._begun()
        if index != len(self._blocks):
            raise ValueError(f"block {index} begins out of turn")
        block = _OpenBlock(_block(raw))
        self._blocks.append(block)
        self._is_open = True
        begun, text = block.begun, block.pieces[0]
        if isinstance(begun, _ToolUseBlock) and begun.name != self._carrier:
            self._calls += 1
            return ToolCallStarted(begun.name, self._calls - 1)
        if not text:
            return None
        return ReasoningDelta(text) if isinstance(begun, _ThinkingBlock) else TextDelta(text)

    def _on_delta(self, index: int, delta: _Delta) -> ModelChunk | None:
        if not self._is_open or index != len(self._blocks) - 1:
            raise ValueError(f"a piece of block {index} comes out of turn")
        block = self._blocks[index]
        match delta.type, block.begun:
            case "text_delta", _TextBlock():
                block.pieces.append(delta.text)
                return TextDelta(delta.text) if delta.text else None
            case "thinking_delta", _ThinkingBlock():
                block.pieces.append(delta.thinking)
                return ReasoningDelta(delta.thinking) if delta.thinking else None
            case "input_json_delta", _ToolUseBlock(name=name):
                block.pieces.append(delta.partial_json)
                is_answer = name == self._carrier and delta.partial_json
                return TextDelta(delta.partial_json) if is_answer else None
            case "signature_delta", _ThinkingBlock() as thinking:
                thinking.signature = delta.signature
            case kind, begun if begun is not None and kind in _DELTAS:
                raise ValueError(f"a {kind} in a block of another kind")
            case _:
                pass
        return None

    def _on_end(self, event: _Event) -> None:
        """What was used is known if the end says so, not by what the beginning foresaw."""
        said = self._begun()
        said.stop_reason = event.delta.stop_reason or said.stop_reason
        said.stop_details = event.delta.stop_details or said.stop_details
        told = _told(event.usage)
        self._usage = _merged(self._usage, told)
        self._is_billed = told is not None and told.output_tokens is not None

    def _begun(self) -> _Message:
        if self._said is None:
            raise ValueError("a stream begins with its message")
        return self._said


# What went wrong. A few causes are known by the type or the words of the error, the rest by the
# HTTP status; an error inside a stream has none, and stands for the one it would have had.


_KINDS = {
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "billing_error": ErrorClass.QUOTA,
    "overloaded_error": ErrorClass.OVERLOADED,
}
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "timeout_error": 504,
}
_PHRASES = {
    "prompt is too long": ErrorClass.CONTEXT_LENGTH,
    "exceed context limit": ErrorClass.CONTEXT_LENGTH,
    "exceed the context window": ErrorClass.CONTEXT_LENGTH,
    "credit balance is too low": ErrorClass.QUOTA,
}


class _Error(Struct):
    type: str = ""
    message: str = ""


class _Failed(Struct):
    error: _Error


_read_failed = msgspec.json.Decoder(_Failed).decode


def read_failure(status: int, body: bytes) -> WireFailure:
    """Return what the body of an error says."""
    error = _error_in(body)
    message = error.message or shown_body(body) or f"HTTP status {status}"
    if error.type in _KINDS:
        return WireFailure(_KINDS[error.type], message)
    words = message.lower()
    if error.type == "invalid_request_error":
        for phrase, kind in _PHRASES.items():
            if phrase in words:
                return WireFailure(kind, message)
    if status == 503 and ("overloaded" in words or "over capacity" in words):
        return WireFailure(ErrorClass.OVERLOADED, message)
    return WireFailure(class_of_status(status), message)


def _failure_in_stream(data: bytes) -> WireFailure:
    return read_failure(_STATUSES.get(_error_in(data).type, 500), data)


def _error_in(body: bytes) -> _Error:
    try:
        return _read_failed(body).error
    except UNREADABLE:
        return _Error()
