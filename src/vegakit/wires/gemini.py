"""Google Gemini: generateContent, on AI Studio and on Vertex AI (pure).

    {"contents": [{"role": "user" | "model", "parts": [...]}], "generationConfig": {...}}

A stream has no event of its own for the end. The event whose candidate has a `finishReason`, or
whose prompt was blocked, says that the answer is complete, so it counts as the end; what follows
it up to the end of the body (more usage, an empty part with a signature) still belongs to the
answer. A body that its transport saw cut off is broken whatever was read.

Signatures of thoughts (`thoughtSignature`) stand on parts of every kind and go back on the same
part, to the service they came from: AI Studio and Vertex refuse each other's. Those of texts are
kept with the message, in the order of its texts. An empty part that has one is kept as reasoning
without text.

The counts of usage grow through a stream and those of zero are left out. Thoughts are output, and
are billed as such; when the parts come to less than `totalTokenCount`, the rest counts as output.
"""

from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

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
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
    UserPart,
)
from vegakit.errors import ErrorClass
from vegakit.records import to_json
from vegakit.wires.sse import EventReader, ServerSentEvent
from vegakit.wires.wire import (
    ABSENT,
    OUTPUT_TOOL_DESCRIPTION,
    UNREADABLE,
    AskForm,
    EffortForm,
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
    shown_body,
    thinking_tokens,
    with_fields,
)

NO_SIGNATURE = b64encode(b"skip_thought_signature_validator").decode()
"""What Google's documentation gives for the first call of a turn that another model made: newer
models refuse a call without a signature."""

_FINISHES = {
    "STOP": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    "CONTINUATION": Finish.LENGTH,
    "SAFETY": Finish.CONTENT_FILTER,
    "RECITATION": Finish.CONTENT_FILTER,
    "BLOCKLIST": Finish.CONTENT_FILTER,
    "PROHIBITED_CONTENT": Finish.CONTENT_FILTER,
    "SPII": Finish.CONTENT_FILTER,
    "IMAGE_SAFETY": Finish.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": Finish.CONTENT_FILTER,
    "IMAGE_RECITATION": Finish.CONTENT_FILTER,
    "MODEL_ARMOR": Finish.CONTENT_FILTER,
}
"""The rest (`MALFORMED_FUNCTION_CALL`, `LANGUAGE`, `OTHER` …) are no whole answers."""

_CLASSES = {
    "RESOURCE_EXHAUSTED": ErrorClass.RATE_LIMIT,
    "UNAVAILABLE": ErrorClass.UNAVAILABLE,
    "INTERNAL": ErrorClass.SERVER,
    "UNAUTHENTICATED": ErrorClass.AUTH,
    "PERMISSION_DENIED": ErrorClass.AUTH,
    "DEADLINE_EXCEEDED": ErrorClass.TIMEOUT,
}


# A request.


_LEAST_THINKING, _MOST_THINKING = 512, 24_576
"""That every model with a budget of thoughts takes."""


def _effort(request: ModelRequest, effort: Effort, features: ModelFeatures) -> dict[str, Any]:
    if features.effort is EffortForm.LEVEL:
        return {"generationConfig": {"thinkingConfig": {"thinkingLevel": effort}}}
    tokens = thinking_tokens(request.settings, effort, _LEAST_THINKING, _MOST_THINKING)
    return {"generationConfig": {"thinkingConfig": {"thinkingBudget": tokens}}}


def _encode(request: ModelRequest, form: AskForm, service: str) -> bytes:
    body: dict[str, Any] = {
        "contents": [
            content for message in request.messages if (content := _content(message, service))
        ],
        "generationConfig": _generation(request, form),
    }
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}], "role": "user"}
    tools = [_tool(spec) for spec in request.tools]
    if request.output and output_tool(request, form.features):
        spec = ToolSpec(request.output.name, OUTPUT_TOOL_DESCRIPTION, request.output.json_schema)
        tools.append(_tool(spec))
        body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY"}}
    if tools:
        body["tools"] = [{"functionDeclarations": tools}]
    return to_json(with_fields(body, form.fields))


def _generation(request: ModelRequest, form: AskForm) -> dict[str, Any]:
    wanted: dict[str, Any] = {"maxOutputTokens": request.settings.max_tokens}
    if request.settings.temperature is not None and form.features.temperature:
        wanted["temperature"] = request.settings.temperature
    if request.output and not output_tool(request, form.features):
        wanted["responseMimeType"] = "application/json"
        wanted["responseJsonSchema"] = request.output.json_schema
    return wanted


def _tool(spec: ToolSpec) -> dict[str, Any]:
    declared = {"name": spec.name, "parametersJsonSchema": spec.parameters}
    if spec.description:
        declared["description"] = spec.description
    return declared


def _content(message: Message, service: str) -> dict[str, Any] | None:
    match message:
        case UserMessage():
            return {"parts": [_user_part(part) for part in message.parts], "role": "user"}
        case ToolMessage():
            return {"parts": [_result(result) for result in message.results], "role": "user"}
        case AssistantMessage():
            parts = list(_assistant_parts(message, service))
            return {"parts": parts, "role": "model"} if parts else None


def _user_part(part: UserPart) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.url:
        return {"fileData": {"fileUri": part.url, "mimeType": part.media_type}}
    return {"inlineData": {"data": b64encode(part.data).decode(), "mimeType": part.media_type}}


def _result(result: ToolResult) -> dict[str, Any]:
    told = {"error" if result.is_error else "output": result.content}
    answer: dict[str, Any] = {"name": result.name, "response": told}
    if call_id := provider_call_id(result.id):
        answer["id"] = call_id
    return {"functionResponse": answer}


def _assistant_parts(message: AssistantMessage, service: str) -> Iterator[dict[str, Any]]:
    signed_texts = iter(_kept(message.opaque, service).get("texts", ()))
    first_call = True
    for part in message.parts:
        match part:
            case Text():
                # A text of nothing is refused, unless it has a signature.
                signature = next(signed_texts, dict[str, Any]())
                if part.text or signature:
                    yield {"text": part.text, **signature}
            case Reasoning():
                if kept := _kept(part.opaque, service):
                    yield {"text": part.text, **kept}
            case ToolCall():
                signature = _kept(part.opaque, service)
                if first_call and not signature:
                    signature = {"thoughtSignature": NO_SIGNATURE}
                first_call = False
                yield {"functionCall": _call(part), **signature}


def _call(call: ToolCall) -> dict[str, Any]:
    said: dict[str, Any] = {"name": call.name, "args": object_arguments(call.arguments)}
    if call_id := provider_call_id(call.id):
        said["id"] = call_id
    return said


def _kept(opaque: Opaque | None, service: str) -> dict[str, Any]:
    return opaque.value if opaque and opaque.provider == service else {}


# An answer. The fields of the provider keep their names, so that they are read as they stand.


class _FunctionCall(Struct, rename="camel"):
    name: str = ""
    id: str | None = None
    args: Any = None
    will_continue: bool = False


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(Struct):
    parts: list[_Part] = field(default_factory=list[_Part])


class _Candidate(Struct, rename="camel"):
    """One of several answers, if a setting asks for more than one: the first is ours."""

    index: Any = None
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Counts(Struct, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class _Detail(Struct, rename="camel"):
    """An entry of `details`: an `ErrorInfo` has a reason, a `QuotaFailure` its violations."""

    reason: str | None = None
    violations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


class _Error(Struct):
    code: int = 0
    message: str = ""
    status: str = ""
    details: list[_Detail] = field(default_factory=list[_Detail])


class _Answer(Struct, rename="camel"):
    """A whole answer, or one event of a streamed one."""

    candidates: list[_Candidate] = field(default_factory=list[_Candidate])
    prompt_feedback: _Feedback | None = None
    usage_metadata: Raw = Raw()
    model_version: str = ""
    response_id: str = ""
    error: _Error | None = None


_read = msgspec.json.Decoder(_Answer).decode
_read_counts = msgspec.json.Decoder(_Counts, strict=False).decode


class _Ending(NamedTuple):
    """How an answer ended, in Google's words, and what it says of the reason."""

    reason: str
    message: str | None
    blocked: bool


def _ending(said: _Answer) -> _Ending | None:
    """Return how the answer ended; None while it has not."""
    if said.prompt_feedback and (reason := said.prompt_feedback.block_reason):
        return _Ending(reason, said.prompt_feedback.block_reason_message, blocked=True)
    ours = _ours(said)
    if ours is not None and ours.finish_reason:
        return _Ending(ours.finish_reason, ours.finish_message, blocked=False)
    return None


def _ours(said: _Answer) -> _Candidate | None:
    return next((one for one in said.candidates if not one.index), None)


class _Parts:
    """The parts of an answer. Texts that follow one another are one text, except that a part with
    a signature stays by itself, as Google asks."""

    def __init__(self, service: str, output: str | None) -> None:
        self.calls = 0
        self._service = service
        self._output = output
        self._parts: list[AssistantPart] = []
        self._texts: list[dict[str, Any]] = []
        self._open: list[str] = []
        self._open_thought = False

    def add(self, part: _Part, answer: str) -> Iterator[ModelChunk]:
        """Take up a part; yield what it adds to the answer."""
        kept = {"thoughtSignature": part.thought_signature} if part.thought_signature else {}
        if part.function_call is not None:
            yield from self._add_call(part.function_call, kept, answer)
        elif part.text or kept:
            yield from self._add_text(part.text or "", kept, thought=part.thought)

    def _add_text(self, text: str, kept: dict[str, Any], *, thought: bool) -> Iterator[ModelChunk]:
        if kept or thought is not self._open_thought:
            self._close()
        self._open_thought = thought
        if text:
            yield ReasoningDelta(text) if thought else TextDelta(text)
        if not kept:
            self._open.append(text)
        elif thought:
            self._keep(Reasoning(text, Opaque(self._service, {"thought": True, **kept})))
        elif text:
            self._keep(Text(text), kept)
        else:
            self._keep(Reasoning("", Opaque(self._service, kept)))

    def _add_call(
        self, call: _FunctionCall, kept: dict[str, Any], answer: str
    ) -> Iterator[ModelChunk]:
        if call.will_continue:
            raise ValueError("a call that comes in pieces, which was not asked for")
        self._close()
        arguments: object = {} if call.args is None else call.args
        if call.name == self._output:
            text = to_json(arguments).decode()
            self._keep(Text(text))
            yield TextDelta(text)
            return
        call_id = call.id or made_call_id(answer, self.calls)
        opaque = Opaque(self._service, kept) if kept else None
        self._keep(ToolCall(call_id, call.name, bounded_arguments(arguments), opaque))
        yield ToolCallStarted(call.name, self.calls)
        self.calls += 1

    def _close(self) -> None:
        text = "".join(self._open)
        self._open = []
        if text:
            self._keep(Reasoning(text) if self._open_thought else Text(text))

    def _keep(self, part: AssistantPart, kept: dict[str, Any] | None = None) -> None:
        self._parts.append(part)
        if isinstance(part, Text):
            self._texts.append(kept or {})

    def message(self, model: str) -> AssistantMessage:
        """Return the message."""
        self._close()
        kept = any(self._texts) and self._output is None
        opaque = Opaque(self._service, {"texts": self._texts}) if kept else None
        return AssistantMessage(tuple(self._parts), model, opaque)


class _Reader(EventReader):
    """Reads an answer, event by event."""

    def __init__(self, service: str, output: str | None) -> None:
        super().__init__()
        self._service = service
        self._parts = _Parts(service, output)
        self._counts: dict[str, int] = dict.fromkeys(_Counts.__struct_fields__, 0)
        self._counted = False
        self._unread = False
        self._ending: _Ending | None = None
        self._model = ""
        self._id = ""

    def _heard(self, events: list[ServerSentEvent]) -> list[ModelChunk]:
        return [chunk for event in events for chunk in self.add(_read(event.data))]

    def add(self, said: _Answer) -> Iterator[ModelChunk]:
        """Take up an event, or a whole answer."""
        if said.error is not None:
            self._fail(_failure(said.error.code or 500, said.error))
            return
        self._model = self._model or said.model_version
        self._id = self._id or said.response_id
        if ending := _ending(said):
            self._ending = ending
            self._end()
        if bytes(said.usage_metadata) not in ABSENT:
            self._count(read_usage(_read_counts, said.usage_metadata))
        ours = _ours(said)
        if ours is not None and ours.content:
            for part in ours.content.parts:
                yield from self._parts.add(part, self._id)

    def _count(self, counts: _Counts | None) -> None:
        """Counts that came before the end are those of an answer that went on."""
        if counts is None:
            self._unread = True
            return
        for name, before in self._counts.items():
            self._counts[name] = max(before, getattr(counts, name) or 0)
        self._counted = self._counted or self.ended

    def reply(self) -> ModelReply:
        """Return the whole answer."""
        ending = self._ending or _Ending("", None, blocked=False)
        known = Finish.CONTENT_FILTER if ending.blocked else _FINISHES.get(ending.reason)
        message = self._parts.message(self._model)
        answered = bool(message.text or message.tool_calls)
        is_known = self._counted and not self._unread
        usage = _usage(self._counts, answered=answered) if is_known else None
        finish = finished(known, ending.reason, self._service, usage)
        if finish is Finish.CONTENT_FILTER and not message.parts and ending.message:
            message = msgspec.structs.replace(message, parts=(Text(ending.message),))
        if finish is Finish.STOP and message.tool_calls:
            finish = Finish.TOOL_CALLS
        return ModelReply(message, usage, finish)


def _usage(counts: dict[str, int], *, answered: bool) -> Usage | None:
    """No call has no input: a zero is a provider that did not say. Nor does a call with an answer
    have no output, which is left out where it is zero."""
    read = counts["prompt_token_count"] + counts["tool_use_prompt_token_count"]
    written = counts["candidates_token_count"] + counts["thoughts_token_count"]
    output = max(written, counts["total_token_count"] - read)
    if counts["prompt_token_count"] <= 0 or (answered and output <= 0):
        return None
    return Usage(read, max(0, output), counts["cached_content_token_count"])


def _decode(body: bytes, output: str | None, service: str) -> ModelReply:
    reader = _Reader(service, output)
    for _ in reader.add(_read(body)):
        pass
    if reader.failure:
        raise failed(reader.failure)
    return reader.reply()


# What went wrong, as `google.rpc.Status`.


def failure_of(status: int, body: bytes) -> WireFailure:
    """Return what an answer with an HTTP status of failure says. A stream that was not asked for
    as events has its error in a list."""
    try:
        listed = body.lstrip().startswith(b"[")
        said = msgspec.json.decode(body, type=list[_Answer])[0] if listed else _read(body)
    except UNREADABLE:
        said = _Answer()
    if said.error is None:
        return WireFailure(class_of_status(status), shown_body(body))
    return _failure(status, said.error)


def _failure(status: int, error: _Error) -> WireFailure:
    return WireFailure(_class_of(status, error), error.message)


def _class_of(status: int, error: _Error) -> ErrorClass:
    text = error.message.lower()
    if any(detail.reason == "API_KEY_INVALID" for detail in error.details):
        return ErrorClass.AUTH
    if "input token count" in text or "number of tokens allowed" in text:
        return ErrorClass.CONTEXT_LENGTH
    kind = _CLASSES.get(error.status, class_of_status(status))
    if kind is ErrorClass.RATE_LIMIT and (_is_daily(error) or "credits are depleted" in text):
        return ErrorClass.QUOTA
    if kind is ErrorClass.UNAVAILABLE and "overloaded" in text:
        return ErrorClass.OVERLOADED
    return kind


def _is_daily(error: _Error) -> bool:
    """A limit for a day is not back before a retry gives up."""
    limits = (str(one.get("quotaId")) for detail in error.details for one in detail.violations)
    return any("PerDay" in limit for limit in limits)


# The wire formats.


def gemini_wire(name: str, prefix: str) -> Wire:
    """Return the format of a service whose models lie below a path. `name` is also the name under
    which its signatures are kept."""

    def target(model: str, stream: bool) -> str:
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{prefix}/{quote(model, safe='')}:{verb}"

    return Wire(
        name=name,
        target=target,
        headers=(),
        encode=partial(_encode, service=name),
        decode=partial(_decode, service=name),
        reader=partial(_Reader, name),
        failure=failure_of,
        request_id="",
        effort=_effort,
        ends_with_body=True,
    )


GEMINI = gemini_wire("google", "/v1beta/models")
"""AI Studio; the base URL is a host."""

VERTEX = gemini_wire("vertex", "/publishers/google/models")
"""Vertex AI; the base URL ends with the location, before `/publishers`."""
