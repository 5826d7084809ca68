"""What a client asked, read alike from the three wire formats, and what became of it.

`text` is that of the last user message that has any, so the rounds of tool results that follow a
question keep its text; `tool_results` counts those that came since.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

__all__ = ["Api", "Request", "RequestStatus", "Schema", "read_request"]

Schema: TypeAlias = dict[str, Any]

_TEXT = frozenset({"text", "input_text"})
_IMAGE = frozenset({"image", "image_url", "input_image"})
_RESULT = frozenset({"tool_result", "function_call_output"})
_FORCED = frozenset({"any", "required"})
_USUAL_OUTPUT_TOOL = "final_result"


class Api(StrEnum):
    ANTHROPIC = "anthropic"
    CHAT = "chat"
    RESPONSES = "responses"


class RequestStatus(StrEnum):
    """FAILED is an error that was sent; STOPPED is a request that the provider's end cut off."""

    OPEN = "open"
    ANSWERED = "answered"
    FAILED = "failed"
    DROPPED = "dropped"
    DISCONNECTED = "disconnected"
    STOPPED = "stopped"


class Request(Struct):
    """`attempt` counts requests with the very same body; `sent` counts pieces of a stream.

    `code` is the HTTP status sent, 0 if none was. `output_schema` is set if the client asked for
    JSON text of a schema, `output_tool` if it asked for a call of a tool instead.
    """

    n: int
    api: Api
    raw: bytes
    headers: dict[str, str]
    attempt: int
    started_ms: int
    model: str = ""
    text: str = ""
    max_tokens: int | None = None
    stream: bool = False
    stream_usage: bool = False
    images: int = 0
    tool_results: int = 0
    characters: int = 0
    tools: dict[str, Schema] = field(default_factory=dict[str, Schema])
    output_schema: Schema | None = None
    output_tool: str | None = None
    status: RequestStatus = RequestStatus.OPEN
    code: int = 0
    sent: int = 0
    ended_ms: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        return msgspec.json.decode(self.raw)


class _Part(Struct):
    type: str = ""
    text: str | None = None


class _Message(Struct):
    role: str = ""
    type: str = ""
    content: str | list[_Part] | None = None


class _Function(Struct):
    name: str = ""
    parameters: Schema | None = None


class _Tool(Struct):
    name: str = ""
    input_schema: Schema | None = None
    parameters: Schema | None = None
    function: _Function | None = None


class _Choice(Struct):
    type: str = ""
    mode: str = ""
    name: str = ""
    function: _Function | None = None


class _Format(Struct):
    schema: Schema | None = None
    json_schema: "_Format | None" = None


class _Output(Struct):
    format: _Format | None = None


class _StreamOptions(Struct):
    include_usage: bool = False


class _Body(Struct):
    """The fields of all three formats that matter here; none of them means two things."""

    model: str = ""
    messages: list[_Message] = field(default_factory=list[_Message])
    input: str | list[_Message] = field(default_factory=list[_Message])
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    tools: list[_Tool] = field(default_factory=list[_Tool])
    tool_choice: str | _Choice | None = None
    response_format: _Format | None = None
    text: _Output | None = None
    output_config: _Output | None = None


_DECODER = msgspec.json.Decoder(_Body)


def read_request(
    n: int, api: Api, raw: bytes, headers: dict[str, str], attempt: int, started_ms: int
) -> Request:
    """Raises msgspec.DecodeError for a body that no provider would take."""
    body = _DECODER.decode(raw)
    request = Request(n, api, raw, headers, attempt, started_ms, body.model)
    request.max_tokens = body.max_tokens or body.max_completion_tokens or body.max_output_tokens
    request.stream = bool(body.stream)
    request.stream_usage = body.stream_options is not None and body.stream_options.include_usage
    asked = [_Message("user", content=body.input)] if isinstance(body.input, str) else body.input
    for message in body.messages or asked:
        _read_message(message, request)
    if body.tools:
        request.tools = dict(_name_and_schema(tool) for tool in body.tools)
        request.output_tool = _output_tool(body.tool_choice, list(request.tools))
    request.output_schema = _output_schema(body)
    return request


def _read_message(message: _Message, request: Request) -> None:
    content = message.content
    parts = [_Part("text", content)] if isinstance(content, str) else content or []
    said = "".join(part.text for part in parts if part.type in _TEXT and part.text)
    request.characters += len(said)
    request.images += sum(part.type in _IMAGE for part in parts)
    if message.role == "tool" or message.type in _RESULT:
        request.tool_results += 1
    request.tool_results += sum(part.type in _RESULT for part in parts)
    if message.role == "user" and said:
        request.text, request.tool_results = said, 0


def _name_and_schema(tool: _Tool) -> tuple[str, Schema]:
    if tool.function is not None:
        return tool.function.name, tool.function.parameters or {}
    return tool.name, tool.input_schema or tool.parameters or {}


def _output_tool(choice: str | _Choice | None, names: list[str]) -> str | None:
    """The one tool that the client insists on, or the one that agent libraries put in for output.

    A choice that only forbids plain text means the last tool.
    """
    asked = choice if isinstance(choice, _Choice) else _Choice(choice or "")
    if asked.name or asked.function:
        return asked.name or (asked.function and asked.function.name)
    if _USUAL_OUTPUT_TOOL in names:
        return _USUAL_OUTPUT_TOOL
    return names[-1] if _FORCED & {asked.type, asked.mode} else None


def _output_schema(body: _Body) -> Schema | None:
    chat = body.response_format and body.response_format.json_schema
    others = (output and output.format for output in (body.text, body.output_config))
    return next((found.schema for found in (chat, *others) if found), None)
