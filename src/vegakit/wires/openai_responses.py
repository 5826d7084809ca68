"""OpenAI Responses: a request and an answer are lists of items (pure).

Answers are not stored at the provider, so what a later request needs of them goes back with it:
ids of items, encrypted thoughts, phases. They travel in `opaque` as `openai`, and go back only to
a model that reasons, which is the one that needs them.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

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
from vegakit.records import to_json
from vegakit.wires.openai_common import (
    REQUEST_ID,
    failure,
    failure_inside,
    file_name,
    media_url,
    usage_of,
    written_arguments,
    written_result,
)
from vegakit.wires.openai_schemas import sent_schema
from vegakit.wires.sse import EventReader, ServerSentEvent
from vegakit.wires.wire import (
    ABSENT,
    OUTPUT_TOOL_DESCRIPTION,
    AskForm,
    ModelFeatures,
    Wire,
    failed,
    finished,
    output_tool,
    read_arguments,
    read_usage,
)

_NAME = "openai"
_NOTHING: dict[str, Any] = {}

# Out.


def _target(_model: str, _stream: bool) -> str:
    return "/responses"


def _effort(_: ModelRequest, effort: Effort, __: ModelFeatures) -> dict[str, Any]:
    return {"reasoning": {"effort": effort}}


def _encode(request: ModelRequest, form: AskForm) -> bytes:
    reasons = form.features.reasons or "reasoning" in form.fields
    items: list[dict[str, Any]] = []
    for message in request.messages:
        items += _items(message, request.model, reasons=reasons)
    body: dict[str, Any] = {
        "model": request.model,
        "input": items or [{"role": "user", "content": ""}],
        "max_output_tokens": request.settings.max_tokens,
        "stream": form.stream,
    }
    if request.system:
        body["instructions"] = request.system
    if reasons:
        body["include"] = ["reasoning.encrypted_content"]
    if request.settings.temperature is not None and form.features.temperature:
        body["temperature"] = request.settings.temperature
    body |= _tools(request, form)
    return to_json({**body, **form.fields})


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
        shape = {"type": "json_schema", "name": request.output.name}
        fields["text"] = {"format": {**shape, "schema": schema, "strict": strict}}
    return {**fields, "tools": tools, "tool_choice": choice} if tools else fields


def _tool(name: str, description: str, parameters: object) -> dict[str, Any]:
    schema, strict = sent_schema(parameters)
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": strict,
    }


def _items(message: Message, model: str, *, reasons: bool) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": [_user_part(part) for part in message.parts]}]
        case AssistantMessage():
            return _assistant(message, model, reasons=reasons)
        case ToolMessage():
            return [
                {
                    "type": "function_call_output",
                    "call_id": result.id,
                    "output": written_result(result.content, is_error=result.is_error),
                }
                for result in message.results
            ]


def _user_part(part: UserPart) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if part.url or part.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": media_url(part), "detail": "auto"}
    return {"type": "input_file", "file_data": media_url(part), "filename": file_name(part)}


def _assistant(message: AssistantMessage, model: str, *, reasons: bool) -> list[dict[str, Any]]:
    """Parts of one item share its id. Thoughts without an id are another model's, and left out."""
    kept = cast("list[dict[str, Any]]", _kept(message.opaque).get("texts", []))
    texts = iter(kept)
    same_model = message.model.startswith(model)
    items: list[dict[str, Any]] = []
    by_id: dict[str, dict[str, Any]] = {}
    for part in message.parts:
        match part:
            case Text():
                item = _text(part.text, next(texts, _NOTHING), phase=same_model, reasons=reasons)
            case ToolCall():
                item = _call(part, _kept(part.opaque), reasons=reasons)
            case Reasoning():
                item = _reasoning(part.text, _kept(part.opaque)) if reasons else None
        if item is None:
            continue
        known = by_id.setdefault(item["id"], item) if "id" in item else item
        if known is item:
            items.append(item)
        else:
            _merge(known, item)
    return items


def _kept(opaque: Opaque | None) -> dict[str, Any]:
    if opaque is None or opaque.provider != _NAME or not isinstance(opaque.value, dict):
        return {}
    return cast("dict[str, Any]", opaque.value)


def _merge(known: dict[str, Any], item: dict[str, Any]) -> None:
    """The first part of an item holds what is there once."""
    for name in ("content", "summary"):
        if name in item:
            known[name] = [*known.get(name, ()), *item[name]]


def _text(text: str, kept: dict[str, Any], *, phase: bool, reasons: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"role": "assistant", "content": text}
    if reasons and kept.get("id"):
        said = {"type": "output_text", "text": text, "annotations": ()}
        item |= {"type": "message", "id": kept["id"], "content": [said], "status": "completed"}
    match kept:
        case {"provider_details": {"phase": "commentary" | "final_answer" as said_in}} if phase:
            item["phase"] = said_in
        case _:
            pass
    return item


def _call(call: ToolCall, kept: dict[str, Any], *, reasons: bool) -> dict[str, Any]:
    item: dict[str, Any] = {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": written_arguments(call.arguments),
    }
    if reasons and kept.get("id"):
        item["id"] = kept["id"]
    match kept:
        case {"provider_details": {"namespace": str(namespace)}}:
            item["namespace"] = namespace
        case _:
            pass
    return item


def _reasoning(text: str, kept: dict[str, Any]) -> dict[str, Any] | None:
    raw = cast("list[str]", (kept.get("provider_details") or _NOTHING).get("raw_content"))
    if not kept.get("id") or not (text or raw or kept.get("signature")):
        return None
    item: dict[str, Any] = {
        "type": "reasoning",
        "id": kept["id"],
        "summary": [{"type": "summary_text", "text": text}] if text else [],
        "encrypted_content": kept.get("signature"),
    }
    if raw:
        item["content"] = [{"type": "reasoning_text", "text": each} for each in raw]
    return item


# In: a whole response, which is also how a stream ends.


_FINISHES = {
    "completed": Finish.STOP,
    "max_output_tokens": Finish.LENGTH,
    "content_filter": Finish.CONTENT_FILTER,
}


class _Part(Struct):
    """A part of a message, of a summary or of thoughts."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(Struct):
    """All kinds of items that matter here; none of the fields means two things."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str = ""
    namespace: str | None = None
    arguments: str = ""


class _Kind(Struct):
    type: str = ""


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    model: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    incomplete_details: _Incomplete | None = None
    usage: Raw = Raw()
    error: Raw = Raw()


class _Cached(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _Cached | None = None


_read_response = msgspec.json.Decoder(_Response).decode
_read_kind = msgspec.json.Decoder(_Kind).decode
_read_item = msgspec.json.Decoder(_Item).decode
_read_usage = msgspec.json.Decoder(_Usage, strict=False).decode
_KNOWN = frozenset({"message", "reasoning", "function_call"})


def _decode(body: bytes, answer_tool: str | None) -> ModelReply:
    response = _read_response(body)
    items = [item for raw in response.output or () if (item := _item(raw))]
    return _reply(response, items, answer_tool)


def _item(raw: Raw) -> _Item | None:
    """An item of a kind that we do not know may have any fields, and is passed over."""
    return _read_item(raw) if _read_kind(raw).type in _KNOWN else None


def _reply(response: _Response, items: list[_Item], answer_tool: str | None) -> ModelReply:
    if bytes(response.error) not in ABSENT:
        raise failed(failure_inside(bytes(response.error)))
    usage = _usage(response)
    finish = _finish(response, usage)
    refusal = "".join(part.refusal or "" for item in items for part in item.content or ())
    if refusal:
        message = AssistantMessage((Text(refusal),), response.model or "")
        return ModelReply(message, usage, Finish.CONTENT_FILTER)
    parts: list[AssistantPart] = []
    texts: list[dict[str, Any]] = []
    for item in items:
        parts += _parts(item, answer_tool, texts)
    kept = {"texts": texts} if any(texts) and answer_tool is None else None
    opaque = Opaque(_NAME, kept) if kept else None
    message = AssistantMessage(tuple(parts), response.model or "", opaque)
    if finish is Finish.STOP and message.tool_calls:
        finish = Finish.TOOL_CALLS
    return ModelReply(message, usage, finish)


def _finish(response: _Response, usage: Usage | None) -> Finish:
    """Only these two states are ends that an answer has by itself."""
    details = response.incomplete_details
    reason = (details and details.reason) or response.status
    ended = response.status in {"completed", "incomplete"}
    known = _FINISHES.get(reason or "") if ended else None
    return finished(known, reason, "the provider", usage)


def _parts(
    item: _Item, answer_tool: str | None, texts: list[dict[str, Any]]
) -> Iterator[AssistantPart]:
    match item.type:
        case "message":
            details = {"provider_details": {"phase": item.phase}} if item.phase else {}
            for part in item.content or ():
                if part.text:
                    texts.append({"id": item.id, **details} if item.id else details)
                    yield Text(part.text)
        case "reasoning":
            yield from _thoughts(item)
        case "function_call" if item.name == answer_tool:
            yield Text(item.arguments)
        case _:
            kept: dict[str, Any] = {"id": item.id} if item.id else {}
            if item.namespace:
                kept["provider_details"] = {"namespace": item.namespace}
            opaque = Opaque(_NAME, kept) if kept else None
            arguments = read_arguments(item.arguments)
            yield ToolCall(item.call_id or item.id or "", item.name, arguments, opaque)


def _thoughts(item: _Item) -> Iterator[Reasoning]:
    """Each part of a summary is a thought; the first holds what the item has once."""
    raw = [part.text for part in item.content or () if part.text]
    kept: dict[str, Any] = {}
    if item.encrypted_content:
        kept["signature"] = item.encrypted_content
    if raw:
        kept["provider_details"] = {"raw_content": raw}
    summary = [part.text or "" for part in item.summary or ()]
    for text in summary or ([""] if kept else []):
        value = {"id": item.id, **kept} if item.id else kept
        yield Reasoning(text, Opaque(_NAME, value) if value else None)
        kept = {}


def _usage(response: _Response) -> Usage | None:
    usage = read_usage(_read_usage, response.usage)
    if usage is None:
        return None
    cached = usage.input_tokens_details or _Cached()
    return usage_of(
        usage.input_tokens,
        usage.output_tokens,
        cached.cached_tokens,
        cached.cache_write_tokens,
        usage.total_tokens,
    )


# In: the events of a stream.


class _Event(Struct):
    """Of most events only the kind and a piece of text are read."""

    type: str = ""
    delta: Any = None
    output_index: Any = None
    item_id: Any = None
    item: Raw = Raw()
    response: Raw = Raw()
    error: Raw = Raw()


class _OpenItem(Struct):
    """An item that has begun. Its pieces count only if nothing later tells the item whole."""

    item: _Item
    pieces: list[str] = field(default_factory=list[str])
    refusals: list[str] = field(default_factory=list[str])
    whole: bool = False

    def closed(self) -> _Item:
        """Return the item, put together from its pieces if it was not told whole."""
        said = "".join(self.pieces)
        if self.whole or self.item.type == "reasoning":
            return self.item
        if self.item.type == "function_call":
            return msgspec.structs.replace(self.item, arguments=said)
        parts = [_Part("output_text", said), _Part("refusal", refusal="".join(self.refusals))]
        return msgspec.structs.replace(self.item, content=parts)


_read_event = msgspec.json.Decoder(_Event).decode


class _ResponsesReader(EventReader):
    """Implements `AnswerReader`."""

    __slots__ = (
        "_answer_tool",
        "_begun",
        "_calls",
        "_open",
        "_response",
    )

    def __init__(self, answer_tool: str | None) -> None:
        super().__init__()
        self._answer_tool = answer_tool
        self._response: _Response | None = None
        self._begun: list[_OpenItem] = []
        self._open: dict[object, _OpenItem] = {}
        self._calls = 0

    def _heard(self, events: list[ServerSentEvent]) -> list[ModelChunk]:
        chunks: list[ModelChunk] = []
        for _, data in events:
            if self.ended or self.failure:
                break
            if data and not data.startswith(b"[DONE]"):
                event = _read_event(data)
                if handle := _HANDLERS.get(event.type):
                    handle(self, event, chunks)
                elif event.type in {"error", ""}:
                    self._on_error(event, data)
        return chunks

    def reply(self) -> ModelReply:
        """Return the whole answer. The response that ends a stream repeats all of its items,
        except with servers that leave them out, and for thoughts that it may hold unfinished."""
        response = self._response or _Response()
        items = [item for raw in response.output or () if (item := _item(raw))]
        begun = [open_item.closed() for open_item in self._begun]
        sealed = {item.id: item.encrypted_content for item in begun if item.id}
        for item in items:
            item.encrypted_content = sealed.get(item.id or "") or item.encrypted_content
        return _reply(response, items or begun, self._answer_tool)

    def on_text(self, event: _Event, chunks: list[ModelChunk]) -> None:
        text = event.delta
        if isinstance(text, str) and text:
            chunks.append(TextDelta(text))
            known = self._item_of(event) or self._begin(event, _Item("message"), chunks)
            known.pieces.append(text)

    def on_arguments(self, event: _Event, chunks: list[ModelChunk]) -> None:
        known = self._item_of(event)
        if known and isinstance(event.delta, str):
            self._add_arguments(known, event.delta, chunks)

    def on_thought(self, event: _Event, chunks: list[ModelChunk]) -> None:
        if isinstance(event.delta, str) and event.delta:
            chunks.append(ReasoningDelta(event.delta))

    def on_refusal(self, event: _Event, _: list[ModelChunk]) -> None:
        known = self._item_of(event)
        if known and isinstance(event.delta, str):
            known.refusals.append(event.delta)

    def on_item_added(self, event: _Event, chunks: list[ModelChunk]) -> None:
        if item := _item(event.item):
            self._add_arguments(self._begin(event, item, chunks), item.arguments, chunks)

    def on_item_done(self, event: _Event, chunks: list[ModelChunk]) -> None:
        """Some servers tell an item only when it is whole, or its arguments only then."""
        item = _item(event.item)
        if item is None:
            return
        known = self._item_of(event, item)
        if known is None or known.whole:
            known = self._begin(event, item, chunks)
        received = "".join(known.pieces)
        if item.name == self._answer_tool and item.arguments.startswith(received):
            rest = item.arguments.removeprefix(received)
            chunks += [TextDelta(rest)] if rest else []
        known.item, known.whole = item, True

    def _begin(self, event: _Event, item: _Item, chunks: list[ModelChunk]) -> _OpenItem:
        known = _OpenItem(item)
        self._begun.append(known)
        self._open[_place(event, item)] = known
        if item.type == "function_call" and item.name != self._answer_tool:
            chunks.append(ToolCallStarted(item.name, self._calls))
            self._calls += 1
        return known

    def _add_arguments(self, known: _OpenItem, text: str, chunks: list[ModelChunk]) -> None:
        known.pieces.append(text)
        if text and known.item.name == self._answer_tool:
            chunks.append(TextDelta(text))

    def _item_of(self, event: _Event, item: _Item | None = None) -> _OpenItem | None:
        return self._open.get(_place(event, item))

    def on_end(self, event: _Event, _: list[ModelChunk]) -> None:
        self._response = _read_response(event.response)
        self._end()

    def on_failed(self, event: _Event, _: list[ModelChunk]) -> None:
        self._fail(failure_inside(bytes(_read_response(event.response).error)))

    def _on_error(self, event: _Event, data: bytes) -> None:
        """The fields of an error stand in the event, or in an object inside it."""
        inner = bytes(event.error)
        if event.type or inner not in ABSENT:
            self._fail(failure_inside(data if inner in ABSENT else inner))


def _place(event: _Event, item: _Item | None) -> object:
    """Ids of items change between the events of some servers, so the index goes first."""
    if event.output_index is not None:
        return event.output_index
    return item.id if item else event.item_id


_HANDLERS: dict[str, Callable[[_ResponsesReader, _Event, list[ModelChunk]], None]] = {
    "response.output_text.delta": _ResponsesReader.on_text,
    "response.function_call_arguments.delta": _ResponsesReader.on_arguments,
    "response.reasoning_summary_text.delta": _ResponsesReader.on_thought,
    "response.refusal.delta": _ResponsesReader.on_refusal,
    "response.output_item.added": _ResponsesReader.on_item_added,
    "response.output_item.done": _ResponsesReader.on_item_done,
    "response.completed": _ResponsesReader.on_end,
    "response.incomplete": _ResponsesReader.on_end,
    "response.failed": _ResponsesReader.on_failed,
}
"""Events that are not here are skipped."""

RESPONSES = Wire(
    name=_NAME,
    target=_target,
    headers=(),
    encode=_encode,
    decode=_decode,
    reader=_ResponsesReader,
    failure=failure,
    request_id=REQUEST_ID,
    effort=_effort,
)
