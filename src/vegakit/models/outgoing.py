"""Our records in the words of pydantic-ai, on their way to one wire format.

What a provider gave us to hand back (signatures, item ids) goes back to the wire format it came
from. Reasoning without it is left out: another model's thoughts are no answer, and would be billed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as TheirRequest
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Media,
    Message,
    ModelRequest,
    Opaque,
    OutputSpec,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    UserPart,
)
from vegakit.models.bounds import bound_of_text, bound_of_tools
from vegakit.models.naming import Wire

__all__ = ["Standing", "standing_of", "their_message"]


@dataclass(frozen=True, slots=True)
class Standing:
    """What the requests of one agent have in common, made ready once.

    `output_tool` is the tool by which a model without JSON answers gives one.
    """

    parameters: ModelRequestParameters
    output_tool: str | None
    bound: int


def standing_of(model: Model, provider: str, request: ModelRequest) -> Standing:
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
    bound = bound_of_text(provider, request.system) + bound_of_tools(provider, schemas)
    return Standing(parameters, output_tool, bound)


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


def their_message(message: Message, wire: Wire) -> ModelMessage:
    match message:
        case UserMessage():
            return TheirRequest([UserPromptPart([_user_part(part) for part in message.parts])])
        case ToolMessage():
            return TheirRequest([_result(result) for result in message.results])
        case AssistantMessage():
            return _said(message, wire)


def _said(message: AssistantMessage, wire: Wire) -> ModelResponse:
    texts = iter(_kept(message.opaque, wire).get("texts", ()))
    theirs = (_assistant_part(part, wire, texts) for part in message.parts)
    return ModelResponse([part for part in theirs if part], provider_name=wire.provider)


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
    part: AssistantPart, wire: Wire, texts: Iterator[dict[str, Any]]
) -> TextPart | ThinkingPart | ToolCallPart | None:
    match part:
        case Text():
            return TextPart(part.text, **next(texts, dict[str, Any]()), provider_name=wire.provider)
        case Reasoning():
            kept = _kept(part.opaque, wire)
            return ThinkingPart(part.text, **kept, provider_name=wire.provider) if kept else None
        case ToolCall():
            kept = _kept(part.opaque, wire)
            return ToolCallPart(
                part.name,
                _arguments(part.arguments),
                part.id,
                **kept,
                provider_name=wire.provider,
            )


def _kept(opaque: Opaque | None, wire: Wire) -> dict[str, Any]:
    """`incoming` says what is in it."""
    return opaque.value if opaque and opaque.provider == wire.name else {}


def _arguments(arguments: object) -> str | dict[str, Any]:
    """A text is what a model wrote that was not JSON."""
    if isinstance(arguments, str | dict):
        return cast("str | dict[str, Any]", arguments)
    return json.dumps(arguments)
