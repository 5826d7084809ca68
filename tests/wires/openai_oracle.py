"""The same requests and answers by way of pydantic-ai on the official SDK, without a socket.

What they send is caught and what they hear is given, so that our codecs can be held against them.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, NamedTuple, cast

import httpx2
from openai import AsyncOpenAI
from pydantic_ai import exceptions as theirs
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest as TheirRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
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
    Usage,
    UserMessage,
)
from vegakit.errors import ErrorClass
from vegakit.wires import AskForm, Wire

_FINISHES = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
}
_SETTINGS = {"service_tier": "openai_service_tier", "store": "openai_store"}


class Heard(NamedTuple):
    """What pydantic-ai sent, and what it made of the answer."""

    body: dict[str, Any]
    chunks: list[ModelChunk]
    reply: ModelReply


def heard(
    wire: Wire, request: ModelRequest, form: AskForm, answer: bytes, status: int = 200
) -> Heard:
    """Ask once and return what came of it. Raises the library's own errors."""
    return asyncio.run(_heard(wire, request, form, answer, status))


def sdk_body(wire: Wire, body: dict[str, Any], answer: bytes) -> dict[str, Any]:
    """Return what the bare SDK sends if it is given our body as its arguments."""

    async def run() -> dict[str, Any]:
        sent: list[httpx2.Request] = []
        async with _http(sent, answer, 200) as http:
            sdk = _sdk(http)
            create = sdk.responses.create if wire.name == "openai" else sdk.chat.completions.create
            answered = await cast("Any", create)(**body)
            if body["stream"]:
                async for _ in answered:
                    pass
        return json.loads(sent[0].content)

    return asyncio.run(run())


def sdk_answer(wire: Wire, answer: bytes, *, stream: bool, status: int = 200) -> dict[str, Any]:
    """Return the answer as the SDK reads it; a stream as the SDK puts it together."""

    async def run() -> Any:
        async with _http([], answer, status) as http:
            sdk = cast("Any", _sdk(http))
            if wire.name == "openai":
                if not stream:
                    return await sdk.responses.create(model="m", input="hi")
                events = await sdk.responses.create(model="m", input="hi", stream=True)
                return [event async for event in events][-1].response
            asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            if not stream:
                return await sdk.chat.completions.create(**asked)
            async with sdk.chat.completions.stream(**asked) as events:
                async for _ in events:
                    pass
                return events.current_completion_snapshot

    return asyncio.run(run()).model_dump(mode="json", warnings=False)


_CLASSES: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (theirs.ModelContextWindowExceededError, ErrorClass.CONTEXT_LENGTH),
    (theirs.ModelAuthenticationError, ErrorClass.AUTH),
    (theirs.ModelQuotaExceededError, ErrorClass.QUOTA),
    (theirs.ModelRateLimitError, ErrorClass.RATE_LIMIT),
    (theirs.ModelOverloadedError, ErrorClass.OVERLOADED),
    (theirs.ModelUnavailableError, ErrorClass.UNAVAILABLE),
    (theirs.ModelServerError, ErrorClass.SERVER),
    (theirs.ModelRequestRejectedError, ErrorClass.REJECTED),
    (theirs.ModelHTTPError, ErrorClass.REJECTED),
    (Exception, ErrorClass.SERVER),
)
_FILTER_CODES = {"content_filter", "content_policy_violation"}


def class_of(error: Exception) -> ErrorClass:
    """Return what an error of the library means."""
    if getattr(error, "provider_error_code", None) in _FILTER_CODES:
        return ErrorClass.CONTENT_FILTER
    return next(ours for kind, ours in _CLASSES if isinstance(error, kind))


def joined(chunks: list[ModelChunk]) -> list[ModelChunk]:
    """Return the chunks with neighbours of a kind as one."""
    whole: list[ModelChunk] = []
    for chunk in chunks:
        match whole, chunk:
            case [*_, TextDelta(text)], TextDelta():
                whole[-1] = TextDelta(text + chunk.text)
            case [*_, ReasoningDelta(text)], ReasoningDelta():
                whole[-1] = ReasoningDelta(text + chunk.text)
            case _:
                whole.append(chunk)
    return whole


async def _heard(
    wire: Wire, request: ModelRequest, form: AskForm, answer: bytes, status: int
) -> Heard:
    sent: list[httpx2.Request] = []
    async with _http(sent, answer, status) as http:
        profile: ModelProfile = {"supports_json_schema_output": form.features.json_output}
        kind = OpenAIResponsesModel if wire.name == "openai" else OpenAIChatModel
        provider = OpenAIProvider(openai_client=_sdk(http))
        model = kind(request.model, provider=provider, profile=profile)
        chunks, response, tool = await _asked(model, wire.name, request, form)
    reply = decode_reply(response, wire.name, tool)
    return Heard(json.loads(sent[0].content), chunks, reply)


def _http(sent: list[httpx2.Request], answer: bytes, status: int) -> httpx2.AsyncClient:
    def handle(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        kind = "application/json" if answer.lstrip().startswith(b"{") else "text/event-stream"
        return httpx2.Response(status, content=answer, headers={"content-type": kind})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(handle))


def _sdk(http: httpx2.AsyncClient) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="k", base_url="http://sdk.test/v1", http_client=http, max_retries=0)


async def _asked(
    model: Model, wire: str, request: ModelRequest, form: AskForm
) -> tuple[list[ModelChunk], ModelResponse, str | None]:
    parameters = _parameters(request, form)
    messages = [_message(message, wire) for message in request.messages]
    settings: dict[str, Any] = {_SETTINGS[k]: v for k, v in form.fields.items() if k in _SETTINGS}
    settings["max_tokens"] = request.settings.max_tokens
    if request.settings.temperature is not None and form.features.temperature:
        settings["temperature"] = request.settings.temperature
    tool = parameters.output_tools[0].name if parameters.output_tools else None
    if not form.stream:
        return [], await model.request(messages, cast("Any", settings), parameters), tool
    chunks: list[ModelChunk] = []
    converter = _Chunks(tool)
    async with model.request_stream(messages, cast("Any", settings), parameters) as answer:
        events = cast("Any", aiter(answer))
        async with aclosing(events):
            async for event in events:
                chunks += converter.of(event)
    return chunks, answer.get(), tool


def _parameters(request: ModelRequest, form: AskForm) -> ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=spec.name, description=spec.description, parameters_json_schema=spec.parameters
        )
        for spec in request.tools
    ]
    system = [InstructionPart(content=request.system)] if request.system else None
    shape: dict[str, Any] = {}
    if request.output and form.features.json_output:
        wanted = OutputObjectDefinition(
            json_schema=request.output.json_schema, name=request.output.name
        )
        shape = {"output_mode": "native", "output_object": wanted}
    elif request.output:
        tool = ToolDefinition(
            name=request.output.name,
            description="Call this with your final answer.",
            parameters_json_schema=request.output.json_schema,
            kind="output",
        )
        shape = {"output_mode": "tool", "output_tools": [tool], "allow_text_output": False}
    return ModelRequestParameters(function_tools=tools, instruction_parts=system, **shape)


# Our records in their words.


def _message(message: Message, wire: str) -> ModelMessage:
    match message:
        case UserMessage():
            return TheirRequest([UserPromptPart([_user_part(part) for part in message.parts])])
        case ToolMessage():
            return TheirRequest(
                [
                    ToolReturnPart(
                        result.name,
                        result.content,
                        result.id,
                        outcome="failed" if result.is_error else "success",
                    )
                    for result in message.results
                ]
            )
        case AssistantMessage():
            texts = iter(_kept(message.opaque, wire).get("texts", ()))
            parts = (_assistant_part(part, wire, texts) for part in message.parts)
            return ModelResponse([part for part in parts if part], provider_name="openai")


def _user_part(part: Text | Media) -> Any:
    if isinstance(part, Text):
        return part.text
    if part.url:
        return ImageUrl(part.url, media_type=part.media_type)
    return BinaryContent(part.data, media_type=part.media_type)


def _assistant_part(part: AssistantPart, wire: str, texts: Iterator[Any]) -> Any:
    match part:
        case Text():
            return TextPart(part.text, **next(texts, {}), provider_name="openai")
        case Reasoning():
            kept = _kept(part.opaque, wire)
            return ThinkingPart(part.text, **kept, provider_name="openai") if kept else None
        case ToolCall():
            given = part.arguments
            args = given if isinstance(given, str | dict) else json.dumps(given)
            kept = _kept(part.opaque, wire)
            return ToolCallPart(part.name, args, part.id, **kept, provider_name="openai")


def _kept(opaque: Opaque | None, wire: str) -> dict[str, Any]:
    return opaque.value if opaque and opaque.provider == wire else {}


# Their answers in our records.


def decode_reply(response: ModelResponse, wire: str, tool: str | None) -> ModelReply:
    """Return a reply of ours; raises ValueError for an answer that did not end."""
    finish = _FINISHES.get(response.finish_reason or "")
    if finish is None or response.state != "complete":
        raise ValueError(f"broke off ({response.finish_reason})")
    parts = tuple(part for each in response.parts if (part := _part(each, wire, tool)))
    texts = [_round_trip(part) for part in response.parts if isinstance(part, TextPart)]
    kept = {"texts": texts} if any(texts) and tool is None else {}
    message = AssistantMessage(parts, response.model_name or "", _opaque(kept, wire))
    refusal = (response.provider_details or {}).get("refusal")
    if finish is Finish.CONTENT_FILTER and not parts and refusal:
        message = AssistantMessage((Text(refusal),), response.model_name or "")
    if finish in {Finish.STOP, Finish.TOOL_CALLS}:
        finish = Finish.TOOL_CALLS if message.tool_calls else Finish.STOP
    used = response.usage
    usage = None
    if not used.unmeasured_requests and used.input_tokens:
        cached = used.cache_read_tokens, used.cache_write_tokens
        usage = Usage(used.input_tokens, used.output_tokens, *cached)
    return ModelReply(message, usage, finish)


def _part(part: Any, wire: str, tool: str | None) -> AssistantPart | None:
    match part:
        case TextPart():
            return Text(part.content)
        case ThinkingPart():
            return Reasoning(part.content, _opaque(_round_trip(part), wire))
        case ToolCallPart() if part.tool_name == tool:
            return Text(part.args if isinstance(part.args, str) else json.dumps(part.args or {}))
        case ToolCallPart():
            kept = _opaque(_round_trip(part), wire)
            return ToolCall(part.tool_call_id, part.tool_name, _arguments(part.args), kept)
        case _:
            return None


def _round_trip(part: Any) -> dict[str, Any]:
    names = ("id", "signature", "provider_details")
    return {name: kept for name in names if (kept := getattr(part, name, None))}


def _opaque(kept: dict[str, Any], wire: str) -> Opaque | None:
    return Opaque(wire, kept) if kept else None


def _arguments(args: Any) -> object:
    if not isinstance(args, str):
        return args or {}
    try:
        return json.loads(args) if args else {}
    except ValueError:
        return args


class _Chunks:
    def __init__(self, tool: str | None) -> None:
        self._tool = tool
        self._outputs: set[int] = set()
        self._calls = 0

    def of(self, event: Any) -> list[ModelChunk]:
        match event:
            case PartStartEvent(part=TextPart(content=str(text))) if text:
                return [TextDelta(text)]
            case PartStartEvent(part=ThinkingPart(content=str(text))) if text:
                return [ReasoningDelta(text)]
            case PartStartEvent(part=ToolCallPart() as call):
                return self._on_call(event.index, call)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=str(text))) if text:
                return [TextDelta(text)]
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))) if text:
                return [ReasoningDelta(text)]
            case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(text))):
                return [TextDelta(text)] if text and event.index in self._outputs else []
            case _:
                return []

    def _on_call(self, index: int, call: ToolCallPart) -> list[ModelChunk]:
        if call.tool_name == self._tool:
            self._outputs.add(index)
            return [TextDelta(call.args)] if isinstance(call.args, str) and call.args else []
        self._calls += 1
        return [ToolCallStarted(call.tool_name, self._calls - 1)]
