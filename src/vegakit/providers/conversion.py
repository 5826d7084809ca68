"""Conversion between our records and those of pydantic-ai: requests, replies, stream chunks and
errors.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from pydantic_ai import exceptions as theirs
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest as TheirRequest,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

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
    OutputSpec,
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
from vegakit.errors import ErrorClass, Phase, VegaError, WorldError
from vegakit.providers.access import ModelName
from vegakit.providers.answer import UNREADABLE_ANSWER
from vegakit.providers.token_bounds import InputCounting
from vegakit.wires import bounded_arguments, read_arguments

# Our records in the words of pydantic-ai, on their way to one wire format.
#
# What a provider gave us to hand back (signatures, item ids) goes back to the wire format it came
# from. Reasoning without it is left out: another model's thoughts are no answer, and would be
# billed.


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """The part that the requests of one agent have in common, made ready once. `output_tool` is the
    tool by which a model without JSON answers gives one."""

    parameters: ModelRequestParameters
    output_tool: str | None
    bound: int


def request_template(
    model: Model, counting: InputCounting, request: ModelRequest
) -> RequestTemplate:
    """Return the template of a request, with the bound on the tokens of its text and tools."""
    tools = [_tool(spec) for spec in request.tools]
    system = [InstructionPart(content=request.system)] if request.system else None
    shape = _output(model, request.output)
    parameters = ModelRequestParameters(function_tools=tools, instruction_parts=system, **shape)
    sent = model.customize_request_parameters(parameters)
    schemas: list[object] = [
        [tool.name, tool.description, tool.parameters_json_schema]
        for tool in (*sent.function_tools, *sent.output_tools)
    ]
    if sent.output_object:
        schemas.append([sent.output_object.name, sent.output_object.json_schema])
    output_tool = parameters.output_tools[0].name if parameters.output_tools else None
    bound = counting.bound_of_text(request.system) + counting.bound_of_tools(schemas)
    return RequestTemplate(parameters, output_tool, bound)


def _tool(spec: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=spec.name, description=spec.description, parameters_json_schema=spec.parameters
    )


def _output(model: Model, spec: OutputSpec | None) -> dict[str, Any]:
    if spec is None:
        return {}
    if model.profile.get("supports_json_schema_output"):
        shape = OutputObjectDefinition(json_schema=spec.json_schema, name=spec.name)
        return {"output_mode": "native", "output_object": shape}
    tool = ToolDefinition(
        name=spec.name,
        description="Call this with your final answer.",
        parameters_json_schema=spec.json_schema,
        kind="output",
    )
    return {"output_mode": "tool", "output_tools": [tool], "allow_text_output": False}


def encode_message(message: Message, name: ModelName) -> ModelMessage:
    """Return a message as pydantic-ai has it."""
    match message:
        case UserMessage():
            return TheirRequest([UserPromptPart([_user_part(part) for part in message.parts])])
        case ToolMessage():
            return TheirRequest([_result(result) for result in message.results])
        case AssistantMessage():
            return _encode_assistant(message, name)


def _encode_assistant(message: AssistantMessage, name: ModelName) -> ModelResponse:
    texts = iter(_kept(message.opaque, name).get("texts", ()))
    theirs = (_assistant_part(part, name, texts) for part in message.parts)
    return ModelResponse([part for part in theirs if part], provider_name=name.provider.name)


def _user_part(part: UserPart) -> UserContent:
    match part:
        case Text():
            return part.text
        case Media(url=""):
            return BinaryContent(part.data, media_type=part.media_type)
        case Media():
            return ImageUrl(part.url, media_type=part.media_type)


def _result(result: ToolResult) -> ToolReturnPart:
    outcome = "failed" if result.is_error else "success"
    return ToolReturnPart(result.name, result.content, result.id, outcome=outcome)


def _assistant_part(
    part: AssistantPart, name: ModelName, texts: Iterator[dict[str, Any]]
) -> TextPart | ThinkingPart | ToolCallPart | None:
    match part:
        case Text():
            return TextPart(
                part.text, **next(texts, dict[str, Any]()), provider_name=name.provider.name
            )
        case Reasoning():
            kept = _kept(part.opaque, name)
            return (
                ThinkingPart(part.text, **kept, provider_name=name.provider.name) if kept else None
            )
        case ToolCall():
            kept = _kept(part.opaque, name)
            return ToolCallPart(
                part.name,
                _encode_arguments(part.arguments),
                part.id,
                **kept,
                provider_name=name.provider.name,
            )


def _kept(opaque: Opaque | None, name: ModelName) -> dict[str, Any]:
    """`incoming` says what is in it."""
    return opaque.value if opaque and opaque.provider == name.wire.name else {}


def _encode_arguments(arguments: object) -> str | dict[str, Any]:
    """A text is what a model wrote that was not JSON."""
    if isinstance(arguments, str | dict):
        return cast("str | dict[str, Any]", arguments)
    return json.dumps(arguments)


# A provider's answer, by way of pydantic-ai, in our records.
#
# Kinds of parts that we do not know (files, tools that a provider ran itself) are left out. What
# a provider wants back with a part travels in `opaque`, under the name of the wire format.


_FINISHES = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
}


def decode_reply(response: ModelResponse, name: ModelName, output_tool: str | None) -> ModelReply:
    """Return a reply of ours. A filtered answer is a reply too: what it cost is then known."""
    finish = _FINISHES.get(response.finish_reason or "")
    if finish is None or response.state != "complete":
        raise WorldError(
            f"{name.provider.name} broke its answer off "
            f"({response.finish_reason or 'no reason given'})",
            ErrorClass.CONNECTION,
        )
    message = decode_message(response, name, output_tool)
    if finish is Finish.CONTENT_FILTER and not message.parts:
        message = msgspec.structs.replace(message, parts=_refusal(response))
    if finish in {Finish.STOP, Finish.TOOL_CALLS}:
        finish = Finish.TOOL_CALLS if message.tool_calls else Finish.STOP
    return ModelReply(message, _usage(response.usage), finish)


def decode_message(
    response: ModelResponse, name: ModelName, output_tool: str | None
) -> AssistantMessage:
    """Return the message of an answer. What belongs to its texts stands with the message, in their
    order."""
    ours = (_part(part, name, output_tool) for part in response.parts)
    texts = [_round_trip_fields(part) for part in response.parts if isinstance(part, TextPart)]
    kept = {"texts": texts} if any(texts) and output_tool is None else {}
    return AssistantMessage(
        tuple(part for part in ours if part), response.model_name or "", _opaque(kept, name)
    )


def _part(
    part: ModelResponsePart, name: ModelName, output_tool: str | None
) -> AssistantPart | None:
    match part:
        case TextPart():
            return Text(part.content)
        case ThinkingPart():
            return Reasoning(part.content, _opaque(_round_trip_fields(part), name))
        case ToolCallPart() if part.tool_name == output_tool:
            return Text(part.args if isinstance(part.args, str) else json.dumps(part.args or {}))
        case ToolCallPart():
            kept = _opaque(_round_trip_fields(part), name)
            return ToolCall(part.tool_call_id, part.tool_name, _decode_arguments(part.args), kept)
        case _:
            return None


def _round_trip_fields(part: TextPart | ThinkingPart | ToolCallPart) -> dict[str, Any]:
    names = ("id", "signature", "provider_details")
    return {name: kept for name in names if (kept := getattr(part, name, None))}


def _opaque(kept: dict[str, Any], name: ModelName) -> Opaque | None:
    return Opaque(name.wire.name, kept) if kept else None


def _decode_arguments(args: object) -> object:
    return read_arguments(args) if isinstance(args, str) else bounded_arguments(args or {})


def _refusal(response: ModelResponse) -> tuple[Text, ...]:
    said = (response.provider_details or {}).get("refusal")
    return (Text(said),) if said else ()


def _usage(usage: RequestUsage) -> Usage | None:
    """No call has no input: a zero is a provider that did not say."""
    if usage.unmeasured_requests or not usage.input_tokens:
        return None
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )


# The pieces of a streamed answer, as they come.
#
# Of a tool call only its beginning is told: half its arguments are of no use to anybody. The
# arguments of the output tool are the answer itself and come as text.


class ChunkConverter:
    """Turns the events of one streamed answer into chunks."""

    def __init__(self, output_tool: str | None) -> None:
        self._output_tool = output_tool
        self._outputs: set[int] = set()
        self._calls = 0

    def of(self, event: ModelResponseStreamEvent) -> Iterator[ModelChunk]:
        """Yield the chunks of an event."""
        match event:
            case PartStartEvent(part=TextPart(content=str(text))) if text:
                yield TextDelta(text)
            case PartStartEvent(part=ThinkingPart(content=str(text))) if text:
                yield ReasoningDelta(text)
            case PartStartEvent(part=ToolCallPart() as call):
                yield from self._on_call(event.index, call)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=str(text))) if text:
                yield TextDelta(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))) if text:
                yield ReasoningDelta(text)
            case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(text))):
                if text and event.index in self._outputs:
                    yield TextDelta(text)
            case _:
                pass

    def _on_call(self, index: int, call: ToolCallPart) -> Iterator[ModelChunk]:
        if call.tool_name == self._output_tool:
            self._outputs.add(index)
            if isinstance(call.args, str) and call.args:
                yield TextDelta(call.args)
        else:
            yield ToolCallStarted(call.tool_name, self._calls)
            self._calls += 1


# What went wrong, by one table, and how far the request had come.
#
# | phase        | when                                                                 |
# |--------------|----------------------------------------------------------------------|
# | NOTHING_SENT | no connection was had, or the request could not even be written      |
# | ANSWERED     | the provider answered with an HTTP status of failure                 |
# | UNKNOWN      | the rest: dropped, timed out, failed inside a stream, unreadable     |
#
# A content filter is no failure but a reply, except where a provider makes an HTTP status of it.


_UNREADABLE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""How the library stumbles over an answer that nobody expected."""

FAILURES = (theirs.AgentRunError, theirs.UserError, *_UNREADABLE)

_CLASSES: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (theirs.ModelContextWindowExceededError, ErrorClass.CONTEXT_LENGTH),
    (theirs.ModelAuthenticationError, ErrorClass.AUTH),
    (theirs.ModelQuotaExceededError, ErrorClass.QUOTA),
    (theirs.ModelRateLimitError, ErrorClass.RATE_LIMIT),
    (theirs.ModelOverloadedError, ErrorClass.OVERLOADED),
    (theirs.ModelUnavailableError, ErrorClass.UNAVAILABLE),
    (theirs.ModelServerError, ErrorClass.SERVER),
    (theirs.ModelTimeoutError, ErrorClass.TIMEOUT),
    (theirs.ModelConnectionError, ErrorClass.CONNECTION),
    (theirs.ContentFilterError, ErrorClass.CONTENT_FILTER),
    (theirs.ModelRequestRejectedError, ErrorClass.REJECTED),
    (theirs.ModelHTTPError, ErrorClass.REJECTED),
    (theirs.UserError, ErrorClass.REJECTED),
    (Exception, ErrorClass.SERVER),
)
"""The first that fits: what is special stands before what it is a case of."""

_FILTER_CODES = {"content_filter", "content_policy_violation"}
_SHOWN = 300


def decode_error(error: Exception, name: ModelName, sent_headers: Mapping[str, str]) -> VegaError:
    """An error of ours that comes back wrapped in theirs comes out as itself.

    What was sent in `sent_headers` is struck out of the message, should the provider repeat it.
    """
    for inner in _chain(error):
        if isinstance(inner, VegaError):
            return inner
    kind = _class_of(error)
    wait_s = getattr(error, "retry_after", None)
    return WorldError(
        f"{name} failed ({kind}): {_redacted(_error_text(error, kind, name), sent_headers)}",
        kind,
        phase=_phase_of(error),
        retry_after_ms=None if wait_s is None else round(wait_s * 1_000),
    )


def timed_out(name: ModelName, timeout_s: float) -> WorldError:
    """Return the error of a call that was not answered in time."""
    return WorldError(
        f"{name} failed ({ErrorClass.TIMEOUT}): no answer within {timeout_s:g} s",
        ErrorClass.TIMEOUT,
    )


def _class_of(error: Exception) -> ErrorClass:
    if getattr(error, "provider_error_code", None) in _FILTER_CODES:
        return ErrorClass.CONTENT_FILTER
    return next(ours for kind, ours in _CLASSES if isinstance(error, kind))


def _phase_of(error: Exception) -> Phase:
    match error:
        case theirs.UserError():
            return Phase.NOTHING_SENT
        case theirs.ModelConnectionError(phase="connect" | "pool"):
            return Phase.NOTHING_SENT
        case theirs.ModelHTTPError(in_stream=False):
            return Phase.ANSWERED
        case _:
            return Phase.UNKNOWN


def _error_text(error: Exception, kind: ErrorClass, name: ModelName) -> str:
    """In the provider's words if it had any; about a key it may quote the key."""
    if kind is ErrorClass.AUTH:
        return f"the key was not accepted; check {name.provider.key_variable}"
    if isinstance(error, _UNREADABLE):
        return UNREADABLE_ANSWER
    return _reported(getattr(error, "body", None)) or getattr(error, "message", "") or str(error)


def _redacted(text: str, sent_headers: Mapping[str, str]) -> str:
    """The key stands behind the word Bearer."""
    for value in sent_headers.values():
        for secret in filter(None, (value, value.rpartition(" ")[2])):
            text = text.replace(secret, "…")
    return text[:_SHOWN]


def _reported(body: object) -> str:
    """`{"error": {"message": …}}`, or without the outer braces."""
    while isinstance(body, dict):
        known = cast("dict[str, object]", body)
        body = known.get("error") or known.get("message")
    return body if isinstance(body, str) else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
