"""OpenAI Chat Completions, as OpenAI and the many servers that imitate it speak it (pure).

Imitators differ: tool calls without an index, content in a list of parts, thoughts in a field of
their own or between tags at the beginning of the answer. What they want back with a part travels
in `opaque` as `openai-chat`.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Effort,
    Finish,
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
    Usage,
    UserMessage,
    UserPart,
)
from vegakit.errors import ErrorClass, WorldError
from vegakit.records import to_json
from vegakit.wires.openai_common import (
    REQUEST_ID,
    failure,
    failure_inside,
    file_name,
    media_url,
    most_usage,
    usage_of,
    written_arguments,
    written_result,
)
from vegakit.wires.openai_schemas import sent_schema
from vegakit.wires.sse import EventReader, ServerSentEvent
from vegakit.wires.think_tags import TagSplitter, tagged
from vegakit.wires.wire import (
    ABSENT,
    OUTPUT_TOOL_DESCRIPTION,
    AskForm,
    ModelFeatures,
    Wire,
    bounded_arguments,
    failed,
    finished,
    output_tool,
    read_arguments,
    read_usage,
)

_NAME = "openai-chat"
_TAGS = "content"
"""Where thoughts came from that stood between tags; others name the field they came in."""

# Out.


def _target(_model: str, _stream: bool) -> str:
    return "/chat/completions"


def _effort(_: ModelRequest, effort: Effort, __: ModelFeatures) -> dict[str, Any]:
    return {"reasoning_effort": effort}


def _encode(request: ModelRequest, form: AskForm) -> bytes:
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        messages += _messages(message)
    _fill_thoughts(messages)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": messages,
        _length_field(form): request.settings.max_tokens,
        "stream": form.stream,
    }
    if form.stream:
        body["stream_options"] = {"include_usage": True}
    if request.settings.temperature is not None and form.features.temperature:
        body["temperature"] = request.settings.temperature
    body |= _tools(request, form)
    return to_json({**body, **form.fields})


def _length_field(form: AskForm) -> str:
    """Return by which name a server is told how long an answer may be. OpenAI itself wants the new
    one; many others know only the old one, pass over what they do not know, and would answer
    without end. Who takes no temperature is a model of OpenAI that reasons, wherever it is asked,
    and refuses the old one."""
    is_new = not form.elsewhere or not form.features.temperature
    return "max_completion_tokens" if is_new else "max_tokens"


def _tools(request: ModelRequest, form: AskForm) -> dict[str, Any]:
    tools = [_tool(spec.name, spec.description, spec.parameters) for spec in request.tools]
    fields: dict[str, Any] = {}
    choice = "auto"
    if request.output and output_tool(request, form.features):
        choice = "required"
        tools.append(
            _tool(request.output.name, OUTPUT_TOOL_DESCRIPTION, request.output.json_schema)
        )
    elif request.output:
        schema, strict = sent_schema(request.output.json_schema)
        shape = {"name": request.output.name, "schema": schema, "strict": strict}
        fields["response_format"] = {"type": "json_schema", "json_schema": shape}
    return {**fields, "tools": tools, "tool_choice": choice} if tools else fields


def _tool(name: str, description: str, parameters: object) -> dict[str, Any]:
    schema, strict = sent_schema(parameters)
    function: dict[str, Any] = {
        "name": name,
        "description": description,
        "parameters": schema,
    }
    if strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _messages(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": [_user_part(part) for part in message.parts]}]
        case AssistantMessage():
            return _assistant(message)
        case ToolMessage():
            return [
                {
                    "role": "tool",
                    "tool_call_id": result.id,
                    "content": written_result(result.content, is_error=result.is_error),
                }
                for result in message.results
            ]


def _user_part(part: UserPart) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.url or part.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": media_url(part)}}
    return {"type": "file", "file": {"file_data": media_url(part), "filename": file_name(part)}}


def _assistant(message: AssistantMessage) -> list[dict[str, Any]]:
    """A message with nothing to say is left out, which the format has no way to write. Thoughts go
    back to where they came from; those of other formats are left out."""
    texts: list[str] = []
    thoughts: dict[str, list[str]] = {}
    calls: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text():
                texts.append(part.text)
            case ToolCall():
                calls.append(_call(part))
            case Reasoning(opaque=Opaque(provider="openai-chat", value={"id": "content"})):
                texts.append(tagged(part.text))
            case Reasoning(opaque=Opaque(provider="openai-chat", value={"id": str(name)})):
                thoughts.setdefault(name, []).append(part.text)
            case Reasoning():
                pass
    if not texts and not calls:
        return []
    said: dict[str, Any] = {"role": "assistant"}
    said |= {name: "\n\n".join(pieces) for name, pieces in thoughts.items()}
    said["content"] = "\n\n".join(texts) if texts else None
    if calls:
        said["tool_calls"] = calls
    return [said]


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": written_arguments(call.arguments)}
    written = {"id": call.id, "type": "function", "function": function}
    match call.opaque:
        case Opaque(provider="openai-chat", value={"provider_details": {"extra_content": extra}}):
            written["extra_content"] = extra
        case _:
            pass
    return written


def _fill_thoughts(messages: list[dict[str, Any]]) -> None:
    """A server that gave thoughts in a field refuses calls since the last question without it."""
    names = {name for said in messages for name in _FIELDS if name in said}
    if len(names) != 1:
        return
    (name,) = names
    for said in reversed(messages):
        if said["role"] == "user":
            return
        if "tool_calls" in said:
            said.setdefault(name, "")


# In: both a message and a delta.


_FINISHES = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "eos_token": Finish.STOP,
    "end_turn": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
}
_FIELDS = ("reasoning", "reasoning_content")


class _Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Said(Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    """One of several answers, if a setting asks for more than one: the first is ours."""

    index: Any = None
    message: _Said | None = None
    delta: _Said | None = None
    finish_reason: str | None = None


class _Body(Struct):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: Raw = Raw()
    error: Raw = Raw()


class _Cached(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None


class _OpenCall(Struct):
    """A call as far as it has come. `number` is its place among the calls of the answer; the call
    that carries the answer has none."""

    id: str = ""
    name: str = ""
    number: int | None = None
    carries_answer: bool = False
    extra_content: Any = None
    given: dict[str, Any] | None = None
    pieces: list[str] = field(default_factory=list[str])


_read = msgspec.json.Decoder(_Body).decode
_read_usage = msgspec.json.Decoder(_Usage, strict=False).decode


def _decode(body: bytes, answer_tool: str | None) -> ModelReply:
    said = _read(body)
    if bytes(said.error) not in ABSENT:
        raise failed(failure_inside(bytes(said.error)))
    choice = _ours(said.choices) or (said.choices[0] if said.choices else None)
    if choice is None or choice.message is None:
        raise WorldError("the provider answered without a choice", ErrorClass.SERVER)
    gathered = _Gathered(answer_tool)
    gathered.add_body(said)
    gathered.add(choice.message, [])
    return gathered.reply()


def _ours(choices: list[_Choice] | None) -> _Choice | None:
    """Return the choice that is the answer. Those of a stream come one by one, in any order."""
    for choice in choices or ():
        if not choice.index:
            return choice
    return None


class _Gathered:
    """What an answer has said so far. Pieces are kept as they come and joined once."""

    __slots__ = (
        "_answer_tool",
        "_calls",
        "_field",
        "_is_counted",
        "_last",
        "_model",
        "_numbered",
        "_places",
        "_reason",
        "_refusal",
        "_splitter",
        "_thoughts",
        "_usages",
    )

    def __init__(self, answer_tool: str | None) -> None:
        self._answer_tool = answer_tool
        self._model = ""
        self._reason: str | None = None
        self._usages: list[Usage | None] = []
        self._is_counted = False
        self._splitter = TagSplitter()
        self._refusal: list[str] = []
        self._field = ""
        self._thoughts: list[str] = []
        self._calls: list[_OpenCall] = []
        self._numbered = 0
        self._places: dict[int, _OpenCall] = {}
        self._last: _OpenCall | None = None

    def add_body(self, said: _Body) -> None:
        """Take what stands around the choices."""
        if said.model:
            self._model = said.model
        choice = _ours(said.choices)
        if choice is not None and choice.finish_reason:
            self._reason = choice.finish_reason
        if bytes(said.usage) not in ABSENT:
            self._usages.append(_usage(said.usage))
            # What was counted before the end of an answer is not all of it.
            self._is_counted = self._reason is not None

    def add(self, said: _Said, chunks: list[ModelChunk]) -> None:
        """Take a message or a part of one."""
        if said.reasoning or said.reasoning_content:
            self._add_thought(said, chunks)
        if content := said.content:
            text = content if isinstance(content, str) else _joined(content)
            self._splitter.feed(text, chunks)
        if said.refusal:
            self._refusal.append(said.refusal)
        for call in said.tool_calls or ():
            self._add_call(call, chunks)

    @property
    def has_reason(self) -> bool:
        """Return whether it was said why the answer ended."""
        return self._reason is not None

    def reply(self) -> ModelReply:
        """Return the whole answer. A refusal stands for all else that was said."""
        reason = self._reason
        usage = most_usage(self._usages) if self._is_counted else None
        finish = finished(_FINISHES.get(reason or ""), reason, "the provider", usage)
        parts = self._parts()
        if self._refusal:
            finish, parts = Finish.CONTENT_FILTER, [Text("".join(self._refusal))]
        message = AssistantMessage(tuple(parts), self._model)
        if finish in {Finish.STOP, Finish.TOOL_CALLS}:
            finish = Finish.TOOL_CALLS if message.tool_calls else Finish.STOP
        return ModelReply(message, usage, finish)

    def _parts(self) -> list[AssistantPart]:
        tag_thought, text = self._splitter.whole()
        parts: list[AssistantPart] = []
        if self._thoughts:
            parts.append(Reasoning("".join(self._thoughts), Opaque(_NAME, {"id": self._field})))
        if tag_thought:
            parts.append(Reasoning(tag_thought, Opaque(_NAME, {"id": _TAGS})))
        if text:
            parts.append(Text(text))
        parts += map(_closed, self._calls)
        return parts

    def _add_thought(self, said: _Said, chunks: list[ModelChunk]) -> None:
        for name, thought in zip(_FIELDS, (said.reasoning, said.reasoning_content), strict=True):
            if isinstance(thought, str) and thought:
                self._field = self._field or name
                self._thoughts.append(thought)
                chunks.append(ReasoningDelta(thought))
                return

    def _add_call(self, call: _Call, chunks: list[ModelChunk]) -> None:
        function = call.function or _Function()
        open_call = self._open_call(call, function)
        open_call.id = open_call.id or call.id or ""
        open_call.extra_content = open_call.extra_content or call.extra_content
        if function.name and function.name != open_call.name:
            open_call.name = (open_call.name + function.name)[:1_000]
            if open_call.name == self._answer_tool:
                open_call.carries_answer = True
            elif open_call.number is None:
                open_call.number = self._numbered
                self._numbered += 1
                chunks.append(ToolCallStarted(open_call.name, open_call.number))
        if isinstance(function.arguments, dict):
            open_call.given = function.arguments
        elif function.arguments:
            open_call.pieces.append(function.arguments)
            if open_call.carries_answer:
                chunks.append(TextDelta(function.arguments))

    def _open_call(self, call: _Call, function: _Function) -> _OpenCall:
        """A call without an index goes on with the last one unless it has a name. Some servers
        give all calls the same index: another id with a name is another call."""
        known = self._last if call.index is None else self._places.get(call.index)
        if known is not None and function.name:
            other = call.id and call.id != known.id
            known = None if call.index is None or other else known
        if known is None:
            known = _OpenCall()
            self._calls.append(known)
        if call.index is not None:
            self._places[call.index] = known
        self._last = known
        return known


def _closed(call: _OpenCall) -> Text | ToolCall:
    """A server that gives its calls no ids gets the place of each as one."""
    written = "".join(call.pieces)
    if call.carries_answer:
        return Text(written if call.given is None else to_json(call.given).decode())
    arguments = read_arguments(written) if call.given is None else bounded_arguments(call.given)
    kept = {"provider_details": {"extra_content": call.extra_content}}
    opaque = Opaque(_NAME, kept) if call.extra_content else None
    return ToolCall(call.id or f"call_{call.number or 0}", call.name, arguments, opaque)


def _joined(content: list[Any]) -> str:
    """Some servers send a list of parts; those that are no text are references."""
    texts: list[str] = []
    for part in content:
        match part:
            case str():
                texts.append(part)
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case _:
                pass
    return "".join(texts)


def _usage(said: Raw) -> Usage | None:
    usage = read_usage(_read_usage, said)
    if usage is None:
        return None
    cached = usage.prompt_tokens_details or _Cached()
    return usage_of(
        usage.prompt_tokens,
        usage.completion_tokens,
        cached.cached_tokens,
        cached.cache_write_tokens,
        usage.total_tokens,
    )


class _ChatReader(EventReader):
    """Implements `AnswerReader`."""

    __slots__ = ("_gathered",)

    def __init__(self, answer_tool: str | None) -> None:
        super().__init__()
        self._gathered = _Gathered(answer_tool)

    def close(self) -> list[ModelChunk]:
        """Return the pieces that the end of the body completes. Some servers send no word of the
        end after it."""
        chunks = super().close()
        if self._gathered.has_reason:
            self._end()
        return chunks

    def _heard(self, events: list[ServerSentEvent]) -> list[ModelChunk]:
        chunks: list[ModelChunk] = []
        for name, data in events:
            if self.ended or self.failure:
                break
            if data.startswith(b"[DONE]"):
                self._end()
            elif data:
                self._on_event(name, data, chunks)
        return chunks

    def reply(self) -> ModelReply:
        """Return the whole answer."""
        return self._gathered.reply()

    def _on_event(self, name: bytes, data: bytes, chunks: list[ModelChunk]) -> None:
        said = _read(data)
        error = bytes(said.error)
        if name == b"error" or error not in ABSENT:
            self._fail(failure_inside(data if error in ABSENT else error))
            return
        self._gathered.add_body(said)
        choice = _ours(said.choices)
        if choice is not None and choice.delta is not None:
            self._gathered.add(choice.delta, chunks)


CHAT = Wire(
    name=_NAME,
    target=_target,
    headers=(),
    encode=_encode,
    decode=_decode,
    reader=_ChatReader,
    failure=failure,
    request_id=REQUEST_ID,
    effort=_effort,
)
