"""Amazon Bedrock: Converse, for every model that it serves (pure).

    {"messages": [{"role": "user" | "assistant", "content": [{"text": …} | {"toolUse": …}]}],
     "system": [{"text": …}], "inferenceConfig": {"maxTokens": …}}

Turns must alternate, so neighbours of one role are joined, and a text of blanks, which is refused,
is left out. A stream is made of frames (see `aws`): blocks by index, `messageStop` with the
reason, and last `metadata` with the usage. It has ended when both have come: without the last one
nobody would know what it cost. Tokens read from and written to a cache stand beside `inputTokens`.
What is worth it is written there for five minutes, up to a `cachePoint` among the blocks of a turn.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Effort,
    Finish,
    Media,
    Message,
    ModelChunk,
    ModelReply,
    ModelRequest,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from vegakit.errors import ErrorClass, UserError
from vegakit.records import to_json
from vegakit.wires.anthropic import thinking_fields
from vegakit.wires.aws import EventFrame, FrameDecoder
from vegakit.wires.wire import (
    ABSENT,
    OUTPUT_TOOL_DESCRIPTION,
    UNREADABLE,
    AskForm,
    ModelFeatures,
    Wire,
    WireFailure,
    class_of_status,
    failed,
    finished,
    is_worth_caching,
    object_arguments,
    output_tool,
    read_arguments,
    read_usage,
    refuse_url,
    shown_body,
    with_fields,
)

_NAME = "bedrock"
_IMAGE_FORMATS = ("png", "jpeg", "gif", "webp")
_FINISHES = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.TOOL_CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "guardrail_intervened": Finish.CONTENT_FILTER,
    "content_filtered": Finish.CONTENT_FILTER,
}
"""The rest (`malformed_tool_use` …) are no whole answers."""

_CLASSES = {
    "throttlingexception": ErrorClass.RATE_LIMIT,
    "servicequotaexceededexception": ErrorClass.QUOTA,
    "modelstreamerrorexception": ErrorClass.SERVER,
    "modelerrorexception": ErrorClass.SERVER,
    "internalserverexception": ErrorClass.SERVER,
    "serviceunavailableexception": ErrorClass.UNAVAILABLE,
    "modelnotreadyexception": ErrorClass.UNAVAILABLE,
    "modeltimeoutexception": ErrorClass.TIMEOUT,
    "accessdeniedexception": ErrorClass.AUTH,
    "unrecognizedclientexception": ErrorClass.AUTH,
    "invalidsignatureexception": ErrorClass.AUTH,
    "incompletesignatureexception": ErrorClass.AUTH,
    "expiredtokenexception": ErrorClass.AUTH,
    "expiredtoken": ErrorClass.AUTH,
    "validationexception": ErrorClass.REJECTED,
    "resourcenotfoundexception": ErrorClass.REJECTED,
}
"""By name in lower case: it is written with a capital in an answer and without in a stream."""

_TOO_LONG = ("input is too long", "input tokens exceeded", "prompt is too long")
_MODEL_FAILED = 424
"""The status by which Bedrock says that the model behind it failed."""


# A request.


def _target(model: str, stream: bool) -> str:
    return f"/model/{quote(model, safe='')}/{'converse-stream' if stream else 'converse'}"


def _effort(request: ModelRequest, effort: Effort, features: ModelFeatures) -> dict[str, Any]:
    """Converse has no field of its own for it: each maker's goes along as it is."""
    if "anthropic." in request.model:
        return {"additionalModelRequestFields": thinking_fields(request, effort, features)}
    return {"additionalModelRequestFields": {"reasoning_effort": effort}}


def _encode(request: ModelRequest, form: AskForm) -> bytes:
    limits: dict[str, Any] = {"maxTokens": request.settings.max_tokens}
    if request.settings.temperature is not None and form.features.temperature:
        limits["temperature"] = request.settings.temperature
    turns = _turns(request.messages)
    if form.cache and _CACHES.search(request.model) and is_worth_caching(request):
        _mark(turns)
    body: dict[str, Any] = {"messages": turns, "inferenceConfig": limits}
    if request.system.strip():
        body["system"] = [{"text": request.system}]
    tools = [_tool(spec) for spec in request.tools]
    if request.output and output_tool(request, form.features):
        spec = ToolSpec(request.output.name, OUTPUT_TOOL_DESCRIPTION, request.output.json_schema)
        # A model that was told to reason must not be forced to call a tool.
        choice = "auto" if "additionalModelRequestFields" in form.fields else "any"
        body["toolConfig"] = {"tools": [*tools, _tool(spec)], "toolChoice": {choice: {}}}
    elif tools:
        body["toolConfig"] = {"tools": tools}
    if request.output and not output_tool(request, form.features):
        schema = to_json(request.output.json_schema).decode()
        shape = {"jsonSchema": {"schema": schema, "name": request.output.name}}
        body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": shape}}
    return to_json(with_fields(body, form.fields))


_CACHES = re.compile(r"anthropic\.claude-(?!instant|v\d|3-(?:haiku|opus|sonnet|5-sonnet))")
"""Models that take a cache point anywhere in a conversation. A request with one to any other is
refused, so a profile whose name does not tell its model has none, and neither has Nova, which has
refused them beside the results of tools."""
_MARKS = 2


def _mark(turns: list[dict[str, Any]]) -> None:
    """Write the prompt to the cache up to its end, and read it up to the end of the call before,
    which was written by that call. A call ends with what a user or a tool said."""
    for turn in [turn for turn in turns if turn["role"] == "user"][-_MARKS:]:
        turn["content"].append({"cachePoint": {"type": "default"}})


def _tool(spec: ToolSpec) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": spec.name, "inputSchema": {"json": spec.parameters}}
    if spec.description.strip():
        declared["description"] = spec.description
    return {"toolSpec": declared}


def _turns(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = list(_blocks(message))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    match message:
        case ToolMessage():
            yield from map(_result, message.results)
        case UserMessage() | AssistantMessage():
            for part in message.parts:
                if block := _block(part):
                    yield block


def _block(part: Text | Media | Reasoning | ToolCall) -> dict[str, Any] | None:
    match part:
        case Text():
            return {"text": part.text} if part.text.strip() else None
        case Media():
            return {"image": _image(part)}
        case Reasoning():
            return _reasoning(part)
        case ToolCall():
            asked = object_arguments(part.arguments)
            return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": asked}}


def _image(media: Media) -> dict[str, Any]:
    kind = media.media_type.removeprefix("image/")
    if kind not in _IMAGE_FORMATS:
        raise UserError(
            f"bedrock takes images of {', '.join(_IMAGE_FORMATS)}, not {media.media_type}; "
            "convert the image"
        )
    if media.url.startswith("s3://"):
        return {"format": kind, "source": {"s3Location": {"uri": media.url}}}
    if media.url:
        raise refuse_url(media, _NAME)
    return {"format": kind, "source": {"bytes": b64encode(media.data).decode()}}


def _reasoning(part: Reasoning) -> dict[str, Any] | None:
    """Only with what Bedrock gave for it: another model's thoughts are no answer."""
    if part.opaque is None or part.opaque.provider != _NAME:
        return None
    if "redactedContent" in part.opaque.value:
        return {"reasoningContent": part.opaque.value}
    return {"reasoningContent": {"reasoningText": {"text": part.text, **part.opaque.value}}}


def _result(result: ToolResult) -> dict[str, Any]:
    """A success is not said: some models refuse the field."""
    told: dict[str, Any] = {"toolUseId": result.id, "content": [{"text": result.content}]}
    if result.is_error:
        told["status"] = "error"
    return {"toolResult": told}


# An answer. The fields of the provider keep their names, so that they are read as they stand.


class _Thought(Struct, rename="camel"):
    text: str = ""
    signature: str | None = None


class _ReasoningContent(Struct, rename="camel"):
    """In a whole answer the text lies in `reasoningText`, in a stream beside it."""

    reasoning_text: _Thought | None = None
    redacted_content: str | None = None
    text: str | None = None
    signature: str | None = None


class _ToolUse(Struct, rename="camel"):
    """`type` is set for a tool that the provider runs itself; those are not ours to call. `input`
    is JSON, in a stream a piece of its text."""

    tool_use_id: str = ""
    name: str = ""
    type: str | None = None
    input: Raw = field(default_factory=Raw)


class _Block(Struct, rename="camel"):
    """A block, the beginning of one, or a piece of one."""

    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: _ReasoningContent | None = None


class _Counts(Struct, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Turn(Struct):
    content: list[_Block] = field(default_factory=list[_Block])


class _Output(Struct):
    message: _Turn | None = None


class _Answer(Struct, rename="camel"):
    output: _Output
    stop_reason: str | None = None
    usage: Raw = Raw()


class _Event(Struct, rename="camel"):
    """The payload of a frame, whichever it is."""

    content_block_index: int = 0
    start: _Block | None = None
    delta: _Block | None = None
    stop_reason: str | None = None
    usage: Raw = Raw()


_read_counts = msgspec.json.Decoder(_Counts, strict=False).decode
_read_answer = msgspec.json.Decoder(_Answer).decode
_read_event = msgspec.json.Decoder(_Event).decode
_read_text = msgspec.json.Decoder(str).decode


def _decode(body: bytes, output: str | None) -> ModelReply:
    try:
        said = _read_answer(body)
    except msgspec.ValidationError:
        if (failure := _failure_inside(body)) is None:
            raise
        raise failed(failure) from None
    blocks = said.output.message.content if said.output.message else []
    parts = [part for block in blocks if (part := _part(block, output))]
    return _reply(parts, said.stop_reason, read_usage(_read_counts, said.usage))


def _part(block: _Block, output: str | None) -> AssistantPart | None:
    if block.tool_use is not None:
        return _call(block.tool_use, bytes(block.tool_use.input), output)
    if block.reasoning_content is not None:
        thought = block.reasoning_content.reasoning_text or _Thought()
        redacted = block.reasoning_content.redacted_content
        return _thought(thought.text, thought.signature, redacted)
    return Text(block.text) if block.text else None


def _call(call: _ToolUse, arguments: bytes, output: str | None) -> AssistantPart | None:
    if call.type is not None:
        return None
    if call.name == output:
        return Text(arguments.decode())
    return ToolCall(call.tool_use_id, call.name, read_arguments(arguments))


def _thought(text: str, signature: str | None, redacted: str | None) -> Reasoning:
    if redacted:
        return Reasoning("", Opaque(_NAME, {"redactedContent": redacted}))
    return Reasoning(text, Opaque(_NAME, {"signature": signature}) if signature else None)


def _reply(parts: list[AssistantPart], reason: str | None, counts: _Counts | None) -> ModelReply:
    usage = _usage(counts)
    finish = finished(_FINISHES.get(reason or ""), reason, _NAME, usage)
    message = AssistantMessage(tuple(parts))
    if finish in {Finish.STOP, Finish.TOOL_CALLS}:
        finish = Finish.TOOL_CALLS if message.tool_calls else Finish.STOP
    return ModelReply(message, usage, finish)


def _usage(counts: _Counts | None) -> Usage | None:
    """No call has no input: a zero is a provider that did not say."""
    if counts is None:
        return None
    read, written = counts.cache_read_input_tokens or 0, counts.cache_write_input_tokens or 0
    whole = (counts.input_tokens or 0) + read + written
    output = max(counts.output_tokens or 0, (counts.total_tokens or 0) - whole)
    return Usage(whole, output, read, written) if whole > 0 else None


class _Open:
    """A block of a stream while its pieces come."""

    __slots__ = ("call", "pieces", "redacted", "signature", "thought")

    def __init__(self, call: _ToolUse | None = None) -> None:
        self.call = call
        self.pieces: list[str] = []
        self.redacted: list[bytes] = []
        self.signature: list[str] = []
        self.thought = False

    def part(self, output: str | None) -> AssistantPart | None:
        """Return the part that the pieces make."""
        text = "".join(self.pieces)
        if self.call is not None:
            return _call(self.call, text.encode() or b"{}", output)
        if self.thought:
            redacted = b64encode(b"".join(self.redacted)).decode()
            return _thought(text, "".join(self.signature), redacted)
        return Text(text) if text else None


class _Reader:
    """Reads an answer, frame by frame."""

    def __init__(self, output: str | None) -> None:
        self.ended = False
        self.failure: WireFailure | None = None
        self._output = output
        self._frames = FrameDecoder()
        self._blocks: dict[int, _Open] = {}
        self._calls = 0
        self._reason: str | None = None
        self._counts: _Counts | None = None
        self._counted = False

    def feed(self, received: bytes) -> list[ModelChunk]:
        """Return the pieces that these bytes complete."""
        return [chunk for frame in self._frames.feed(received) for chunk in self._on_frame(frame)]

    def close(self) -> list[ModelChunk]:
        """A frame tells its length, so the end of the body completes none."""
        return []

    def _on_frame(self, frame: EventFrame) -> Iterator[ModelChunk]:
        if frame.headers.get(":message-type") != "event":
            self.failure = _failure_of_frame(frame)
            return
        event = _read_event(frame.payload)
        yield from self._on_event(frame.headers.get(":event-type"), event)
        self.ended = self._reason is not None and self._counted

    def _on_event(self, kind: str | None, event: _Event) -> Iterator[ModelChunk]:
        match kind:
            case "contentBlockStart":
                yield from self._on_start(event.content_block_index, event.start or _Block())
            case "contentBlockDelta":
                yield from self._on_delta(event.content_block_index, event.delta or _Block())
            case "messageStop":
                self._reason = event.stop_reason or ""
            case "metadata":
                self._counts, self._counted = read_usage(_read_counts, event.usage), True
            case _:
                pass

    def _on_start(self, index: int, block: _Block) -> Iterator[ModelChunk]:
        if index in self._blocks:
            raise ValueError("a block that began already")
        call = block.tool_use
        self._blocks[index] = _Open(call)
        if call is not None and call.type is None and call.name != self._output:
            yield ToolCallStarted(call.name, self._calls)
            self._calls += 1

    def _on_delta(self, index: int, piece: _Block) -> Iterator[ModelChunk]:
        """Blocks of text begin with their first piece."""
        block = self._blocks.setdefault(index, _Open())
        if piece.tool_use is not None:
            if block.call is None:
                raise ValueError("a piece of a call that did not begin")
            text = _read_text(bytes(piece.tool_use.input) or b'""')
            block.pieces.append(text)
            if text and block.call.name == self._output:
                yield TextDelta(text)
        elif piece.reasoning_content is not None:
            yield from _on_thought(block, piece.reasoning_content)
        elif piece.text:
            block.pieces.append(piece.text)
            yield TextDelta(piece.text)

    def reply(self) -> ModelReply:
        """Return the whole answer."""
        blocks = (block for _, block in sorted(self._blocks.items()))
        parts = [part for block in blocks if (part := block.part(self._output))]
        return _reply(parts, self._reason, self._counts)


def _on_thought(block: _Open, piece: _ReasoningContent) -> Iterator[ModelChunk]:
    block.thought = True
    block.redacted.append(b64decode(piece.redacted_content or "", validate=True))
    block.signature.append(piece.signature or "")
    if piece.text:
        block.pieces.append(piece.text)
        yield ReasoningDelta(piece.text)


# What went wrong.


class _Failed(Struct):
    """The name of the exception is in a header for most failures, and in the body for some."""

    message: str | None = None
    capital: str | None = field(default=None, name="Message")
    kind: str | None = field(default=None, name="__type")


def failure_of(status: int, body: bytes) -> WireFailure:
    """Return what an answer with an HTTP status of failure says."""
    try:
        said = msgspec.json.decode(body, type=_Failed)
    except UNREADABLE:
        return WireFailure(class_of_status(status), shown_body(body))
    kind = (said.kind or "").partition(":")[0].rpartition("#")[2]
    return _failure(kind, said.message or said.capital or shown_body(body), status)


class _Inner(Struct):
    error: Raw = Raw()


def _failure_inside(body: bytes) -> WireFailure | None:
    """Return the failure that a body with a status of success tells, as AWS spells it or, behind a
    gateway, as an `error` object; None if it tells none."""
    inner = bytes(msgspec.json.decode(body, type=_Inner).error)
    told = body if inner in ABSENT else inner
    try:
        said = msgspec.json.decode(told, type=_Failed)
    except UNREADABLE:
        return WireFailure(ErrorClass.SERVER, shown_body(told))
    found = said.message or said.capital or said.kind or told is inner
    return failure_of(500, told) if found else None


def _failure(kind: str, message: str, status: int) -> WireFailure:
    """The daily limit on tokens is spelled as a throttling, but is not back before a retry gives
    up."""
    usual = ErrorClass.SERVER if status == _MODEL_FAILED else class_of_status(status)
    known = _CLASSES.get(kind.lower(), usual)
    text = message.lower()
    if known is ErrorClass.REJECTED and any(words in text for words in _TOO_LONG):
        known = ErrorClass.CONTEXT_LENGTH
    elif known is ErrorClass.RATE_LIMIT and "per day" in text:
        known = ErrorClass.QUOTA
    elif known is ErrorClass.UNAVAILABLE and "overloaded" in text:
        known = ErrorClass.OVERLOADED
    return WireFailure(known, message)


def _failure_of_frame(frame: EventFrame) -> WireFailure:
    """An exception has its name in a header and its message in the payload; an error has both in
    headers."""
    kind = frame.headers.get(":exception-type") or frame.headers.get(":error-code") or ""
    told = failure_of(500, frame.payload).message if frame.payload else ""
    return _failure(kind, frame.headers.get(":error-message") or told, 500)


BEDROCK = Wire(
    name=_NAME,
    target=_target,
    headers=(),
    encode=_encode,
    decode=_decode,
    reader=_Reader,
    failure=failure_of,
    request_id="x-amzn-requestid",
    effort=_effort,
)
