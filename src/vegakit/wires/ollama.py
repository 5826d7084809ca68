"""Ollama's own chat, on this machine or in its cloud (pure).

    {"model": …, "messages": [{"role": …, "content": …}], "options": {"num_predict": …}}

A stream is a line of JSON for each piece; the last one has `done` and the counts. A line that is
done for no reason is one whose model was cut off, and is no whole answer. A message has one text,
so several are joined by line ends. Newer servers give calls an id, older ones none; a result names
its tool as well. Thoughts have no signature, and go back to Ollama only.
"""

from base64 import b64encode
from typing import Any

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
from vegakit.errors import ErrorClass
from vegakit.records import to_json
from vegakit.wires.sse import LineDecoder
from vegakit.wires.wire import (
    OUTPUT_TOOL_DESCRIPTION,
    UNREADABLE,
    AskForm,
    ModelFeatures,
    Wire,
    WireFailure,
    bounded_arguments,
    class_of_status,
    failed,
    finished,
    made_call_id,
    object_arguments,
    output_tool,
    provider_call_id,
    read_usage,
    refuse_url,
    shown_body,
    with_fields,
)

_NAME = "ollama"
_THOUGHT = Opaque(_NAME, {"field": "thinking"})
_FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH}
_TOO_LONG = ("exceeds the context length", "exceeds the available context", "context length limit")


# A request.


def _target(model: str, stream: bool) -> str:
    return "/api/chat"


def _effort(_: ModelRequest, __: Effort, ___: ModelFeatures) -> dict[str, Any]:
    """Most models that think there do so or not, without degrees."""
    return {"think": True}


def _encode(request: ModelRequest, form: AskForm) -> bytes:
    options: dict[str, Any] = {"num_predict": request.settings.max_tokens}
    if request.settings.temperature is not None and form.features.temperature:
        options["temperature"] = request.settings.temperature
    messages = [{"role": "system", "content": request.system}] if request.system else []
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [*messages, *(said for one in request.messages for said in _said(one))],
        "stream": form.stream,
        "options": options,
    }
    tools = [_tool(spec) for spec in request.tools]
    if request.output and output_tool(request, form.features):
        spec = ToolSpec(request.output.name, OUTPUT_TOOL_DESCRIPTION, request.output.json_schema)
        tools.append(_tool(spec))
    elif request.output:
        body["format"] = request.output.json_schema
    if tools:
        body["tools"] = tools
    return to_json(with_fields(body, form.fields))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    declared = {"name": spec.name, "parameters": spec.parameters}
    if spec.description:
        declared["description"] = spec.description
    return {"type": "function", "function": declared}


def _said(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [_asked(message)]
        case AssistantMessage():
            return [_answered(message)]
        case ToolMessage():
            return [_result(result) for result in message.results]


def _asked(message: UserMessage) -> dict[str, Any]:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    said: dict[str, Any] = {"role": "user", "content": "\n".join(texts)}
    if images := [_image(part) for part in message.parts if isinstance(part, Media)]:
        said["images"] = images
    return said


def _image(media: Media) -> str:
    if media.url:
        raise refuse_url(media, _NAME)
    return b64encode(media.data).decode()


def _answered(message: AssistantMessage) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant"}
    if message.text:
        said["content"] = message.text
    thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
    if thought := "".join(part.text for part in thoughts if part.opaque == _THOUGHT):
        said["thinking"] = thought
    if message.tool_calls:
        said["tool_calls"] = [_call(call) for call in message.tool_calls]
    return said


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": object_arguments(call.arguments)}
    call_id = provider_call_id(call.id)
    return {"id": call_id, "function": function} if call_id else {"function": function}


def _result(result: ToolResult) -> dict[str, Any]:
    """The format has no flag for a failed call."""
    content = to_json({"error": result.content}).decode() if result.is_error else result.content
    said = {"role": "tool", "content": content, "tool_name": result.name}
    if call_id := provider_call_id(result.id):
        said["tool_call_id"] = call_id
    return said


# An answer. The fields of the provider keep their names, so that they are read as they stand.


class _Function(Struct):
    name: str = ""
    arguments: Any = None


class _ToolCall(Struct):
    id: str | None = None
    function: _Function = field(default_factory=_Function)


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Line(Struct):
    """A whole answer, or one line of a streamed one."""

    model: str = ""
    created_at: str = ""
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: Raw = Raw()
    eval_count: Raw = Raw()
    error: Any = None


_read = msgspec.json.Decoder(_Line).decode
_read_count = msgspec.json.Decoder(int, strict=False).decode


class _Reader:
    """Reads an answer, line by line."""

    def __init__(self, output: str | None) -> None:
        self.ended = False
        self.failure: WireFailure | None = None
        self._output = output
        self._lines = LineDecoder()
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[ToolCall] = []
        self._first = _Line()
        self._last = _Line()

    def feed(self, received: bytes) -> list[ModelChunk]:
        """Return the pieces that these bytes complete."""
        lines = self._lines.feed(received)
        return [chunk for line in lines if line.strip() for chunk in self.add(_read(line))]

    def close(self) -> list[ModelChunk]:
        """Return the pieces that the end of the body completes."""
        return self.feed(b"\n")

    def add(self, line: _Line) -> list[ModelChunk]:
        """Take up a line, or a whole answer."""
        if line.error is not None:
            self.failure = _failure(500, line.error)
            return []
        if not self._first.created_at:
            self._first = line
        if line.done and not self.ended:
            self._last, self.ended = line, True
        return self._on_message(line.message) if line.message else []

    def _on_message(self, message: _Message) -> list[ModelChunk]:
        chunks: list[ModelChunk] = []
        if message.thinking:
            self._thoughts.append(message.thinking)
            chunks.append(ReasoningDelta(message.thinking))
        if message.content:
            self._texts.append(message.content)
            chunks.append(TextDelta(message.content))
        chunks += [self._on_call(call) for call in message.tool_calls or ()]
        return chunks

    def _on_call(self, call: _ToolCall) -> ModelChunk:
        """A call comes whole."""
        name = call.function.name
        arguments: object = {} if call.function.arguments is None else call.function.arguments
        if name == self._output:
            text = to_json(arguments).decode()
            self._texts.append(text)
            return TextDelta(text)
        index = len(self._calls)
        call_id = call.id or made_call_id(self._first.created_at, index)
        self._calls.append(ToolCall(call_id, name, bounded_arguments(arguments)))
        return ToolCallStarted(name, index)

    def reply(self) -> ModelReply:
        """Return the whole answer."""
        reason, usage = self._last.done_reason, _usage(self._last)
        finish = finished(_FINISHES.get(reason or ""), reason, _NAME, usage)
        parts: list[AssistantPart] = []
        if thought := "".join(self._thoughts):
            parts.append(Reasoning(thought, _THOUGHT))
        if text := "".join(self._texts):
            parts.append(Text(text))
        parts += self._calls
        if finish is Finish.STOP and self._calls:
            finish = Finish.TOOL_CALLS
        message = AssistantMessage(tuple(parts), self._first.model)
        return ModelReply(message, usage, finish)


def _usage(line: _Line) -> Usage | None:
    """No call has no input: a count that is missing or zero is a server that did not say."""
    read = read_usage(_read_count, line.prompt_eval_count)
    written = read_usage(_read_count, line.eval_count)
    if not read or read < 0 or written is None or written < 0:
        return None
    return Usage(read, written)


def _decode(body: bytes, output: str | None) -> ModelReply:
    """An answer that is not done has no reason either."""
    reader = _Reader(output)
    reader.add(_read(body))
    if reader.failure:
        raise failed(reader.failure)
    return reader.reply()


# What went wrong: a sentence, and a status.


def failure_of(status: int, body: bytes) -> WireFailure:
    """Return what an answer with an HTTP status of failure says."""
    try:
        error = _read(body).error
    except UNREADABLE:
        error = None
    return _failure(status, shown_body(body) if error is None else error)


def _failure(status: int, error: object) -> WireFailure:
    message = error if isinstance(error, str) else to_json(error).decode()
    kind, text = class_of_status(status), message.lower()
    if any(words in text for words in _TOO_LONG):
        kind = ErrorClass.CONTEXT_LENGTH
    elif "server busy" in text or "overloaded" in text:
        kind = ErrorClass.OVERLOADED
    return WireFailure(kind, message)


OLLAMA = Wire(
    name=_NAME,
    target=_target,
    headers=(),
    encode=_encode,
    decode=_decode,
    reader=_Reader,
    failure=failure_of,
    request_id="",
    streams_objects=True,
    effort=_effort,
)
