"""Requests and scripted answers of the test provider: in order, or by words in the last user
message (kit).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, cycle, islice, repeat
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from vegakit.conversation import Finish, Usage

# A request is read alike from all wire formats, and notes what became of it.
#
# `text` is that of the last user message that has any, so the rounds of tool results that follow a
# question keep its text; `tool_results` counts those that came since.


Schema: TypeAlias = dict[str, Any]

_TEXT = frozenset({"text", "input_text"})
_IMAGE = frozenset({"image", "image_url", "input_image"})
_RESULT = frozenset({"tool_result", "function_call_output"})
_FORCED = frozenset({"any", "required", "ANY"})
_USUAL_OUTPUT_TOOL = "final_result"


class Api(StrEnum):
    """The wire formats."""

    ANTHROPIC = "anthropic"
    CHAT = "chat"
    RESPONSES = "responses"
    GEMINI = "gemini"
    BEDROCK = "bedrock"
    OLLAMA = "ollama"


class RequestStatus(StrEnum):
    """FAILED is an error that was sent; STOPPED is a request that the provider's end cut off."""

    OPEN = "open"
    ANSWERED = "answered"
    FAILED = "failed"
    DROPPED = "dropped"
    DISCONNECTED = "disconnected"
    STOPPED = "stopped"


class ProviderRequest(Struct):
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
        """Return the body as JSON."""
        return msgspec.json.decode(self.raw)


class _Part(Struct):
    """A part of a message. Formats that name no `type` say by a field of its own what a part is."""

    type: str = ""
    text: str | None = None
    image: Any = None
    inline_data: Any = field(default=None, name="inlineData")
    file_data: Any = field(default=None, name="fileData")
    tool_result: Any = field(default=None, name="toolResult")
    function_response: Any = field(default=None, name="functionResponse")

    @property
    def said(self) -> str:
        return (self.text or "") if not self.type or self.type in _TEXT else ""

    @property
    def is_image(self) -> bool:
        return self.type in _IMAGE or bool(self.image or self.inline_data or self.file_data)

    @property
    def is_result(self) -> bool:
        return self.type in _RESULT or bool(self.tool_result or self.function_response)


class _Message(Struct):
    role: str = ""
    type: str = ""
    content: str | list[_Part] | None = None
    parts: list[_Part] | None = None
    images: list[str] = field(default_factory=list[str])


class _Function(Struct):
    name: str = ""
    parameters: Schema | None = None
    parameters_json_schema: Schema | None = field(default=None, name="parametersJsonSchema")


class _InputSchema(Struct):
    json: Schema | None = None


class _ToolSpec(Struct):
    name: str = ""
    input_schema: _InputSchema | None = field(default=None, name="inputSchema")


class _Tool(Struct):
    name: str = ""
    input_schema: Schema | None = None
    parameters: Schema | None = None
    function: _Function | None = None
    declarations: list[_Function] | None = field(default=None, name="functionDeclarations")
    spec: _ToolSpec | None = field(default=None, name="toolSpec")


class _Choice(Struct):
    type: str = ""
    mode: str = ""
    name: str = ""
    function: _Function | None = None


class _BedrockChoice(Struct):
    any: Schema | None = None
    tool: _Choice | None = None


class _ToolConfig(Struct):
    """Of Bedrock, which has the tools in it, or of Gemini."""

    tools: list[_Tool] = field(default_factory=list[_Tool])
    choice: _BedrockChoice | None = field(default=None, name="toolChoice")
    calling: _Choice | None = field(default=None, name="functionCallingConfig")


class _Format(Struct):
    schema: Schema | None = None
    json_schema: "_Format | None" = None


class _Output(Struct):
    format: _Format | None = None


class _StreamOptions(Struct):
    include_usage: bool = False


class _Limits(Struct):
    """How long an answer may be, and in Gemini's requests its shape."""

    max_output_tokens: int | None = field(default=None, name="maxOutputTokens")
    max_tokens: int | None = field(default=None, name="maxTokens")
    num_predict: int | None = None
    schema: Schema | None = field(default=None, name="responseJsonSchema")


class _Body(Struct):
    """The fields of all formats that matter here; none of them means two things."""

    model: str = ""
    messages: list[_Message] = field(default_factory=list[_Message])
    input: str | list[_Message] = field(default_factory=list[_Message])
    contents: list[_Message] = field(default_factory=list[_Message])
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    tools: list[_Tool] = field(default_factory=list[_Tool])
    tool_choice: str | _Choice | None = None
    tool_config: _ToolConfig = field(default_factory=_ToolConfig, name="toolConfig")
    response_format: _Format | None = None
    text: _Output | None = None
    output_config: _Output | None = None
    format: Schema | str | None = None
    options: _Limits | None = None
    generation: _Limits | None = field(default=None, name="generationConfig")
    inference: _Limits | None = field(default=None, name="inferenceConfig")

    @property
    def limits(self) -> _Limits:
        return self.options or self.generation or self.inference or _Limits()

    @property
    def most_tokens(self) -> int | None:
        limits = self.limits
        named = (self.max_tokens, self.max_completion_tokens, self.max_output_tokens)
        nested = (limits.max_output_tokens, limits.max_tokens, limits.num_predict)
        return next((found for found in (*named, *nested) if found), None)

    @property
    def asked(self) -> list[_Message]:
        said = [_Message("user", content=self.input)] if isinstance(self.input, str) else self.input
        return self.messages or self.contents or said

    @property
    def choice(self) -> str | _Choice | None:
        bedrock = self.tool_config.choice
        if bedrock:
            return bedrock.tool or ("any" if bedrock.any is not None else None)
        return self.tool_choice or self.tool_config.calling


_DECODER = msgspec.json.Decoder(_Body)


class Route(NamedTuple):
    """The format that is spoken at a path, and what formats say there that others say in the
    body."""

    api: Api
    model: str = ""
    stream: bool | None = None


def read_request(
    n: int, route: Route, raw: bytes, headers: dict[str, str], attempt: int, started_ms: int
) -> ProviderRequest:
    """Raises msgspec.DecodeError for a body that no provider would take."""
    body = _DECODER.decode(raw)
    model = body.model or route.model
    request = ProviderRequest(n, route.api, raw, headers, attempt, started_ms, model)
    request.max_tokens = body.most_tokens
    request.stream = bool(body.stream) if route.stream is None else route.stream
    request.stream_usage = body.stream_options is not None and body.stream_options.include_usage
    for message in body.asked:
        _read_message(message, request)
    if tools := body.tools or body.tool_config.tools:
        request.tools = dict(found for tool in tools for found in _names_and_schemas(tool))
        request.output_tool = _output_tool(body.choice, list(request.tools))
    request.output_schema = _output_schema(body)
    return request


def _read_message(message: _Message, request: ProviderRequest) -> None:
    content = message.content
    parts = [_Part("text", content)] if isinstance(content, str) else content or message.parts or []
    said = "".join(part.said for part in parts)
    request.characters += len(said)
    request.images += sum(part.is_image for part in parts) + len(message.images)
    if message.role == "tool" or message.type in _RESULT:
        request.tool_results += 1
    request.tool_results += sum(part.is_result for part in parts)
    if message.role == "user" and said:
        request.text, request.tool_results = said, 0


def _names_and_schemas(tool: _Tool) -> Iterator[tuple[str, Schema]]:
    if tool.spec is not None:
        yield tool.spec.name, (tool.spec.input_schema and tool.spec.input_schema.json) or {}
    elif tool.declarations is not None:
        for one in tool.declarations:
            yield one.name, one.parameters_json_schema or one.parameters or {}
    elif tool.function is not None:
        yield tool.function.name, tool.function.parameters or {}
    else:
        yield tool.name, tool.input_schema or tool.parameters or {}


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
    if found := next((found.schema for found in (chat, *others) if found), None):
        return found
    return body.format if isinstance(body.format, dict) else body.limits.schema


# Answers of the provider are data, in a list, by text, or by a function.
#
# A string is short for a `ProviderReply` with that text. Without a script the words of the last
# user message choose, see `words`.


class ProviderToolCall(Struct, frozen=True):
    """One tool call."""

    name: str
    arguments: Any = {}


class DropConnection(Struct, frozen=True):
    """The connection is closed, without a byte if no answer had begun."""

    delay_ms: int = 0


class Hang(Struct, frozen=True):
    """Nothing more comes until the client gives up."""


class Failure(Struct, frozen=True):
    """An HTTP status, or what each provider has its own way to say; in the provider's format."""

    cause: int | Literal["quota", "context_length"]
    message: str = ""
    retry_after_s: float | None = None
    delay_ms: int = 0
    headers: dict[str, str] = {}


class Break(Struct, frozen=True):
    """An early end of a stream: after so many pieces, by a drop, a stall or an error in it.

    An answer that is not streamed breaks off in the middle of its body; a failure comes in its
    place.
    """

    after: int
    by: DropConnection | Hang | Failure


class ProviderReply(Struct, frozen=True):
    """`output` is JSON, sent as the client asked for it: as text or as a call of its output tool.

    `usage` not given is reckoned from the lengths of question and answer; None is not reported.
    `finish` follows from what is sent unless it is given. `refusal` stands instead of text.
    """

    text: str = ""
    calls: Sequence[ProviderToolCall] = ()
    output: Any = UNSET
    refusal: str = ""
    usage: Usage | UnsetType | None = UNSET
    finish: Finish | None = None
    delay_ms: int = 0
    gap_ms: int = 0
    breaks: Break | None = None
    headers: dict[str, str] = {}


ProviderAnswer: TypeAlias = str | ProviderReply | Failure | DropConnection | Hang
Choose: TypeAlias = Callable[[ProviderRequest], ProviderAnswer]
Script: TypeAlias = ProviderAnswer | Sequence[ProviderAnswer] | Mapping[str, "Script"] | Choose


def chooser(script: Script) -> Choose:
    """Begins the script from its start; a list keeps its place in what is returned."""
    if callable(script):
        return script
    if isinstance(script, Mapping):
        return _by_text({key: chooser(inner) for key, inner in script.items()})
    if isinstance(script, str | Struct):
        return _in_turn([script])
    return _in_turn(script)


def _in_turn(answers: Sequence[ProviderAnswer]) -> Choose:
    if not answers:
        raise ValueError("a script needs an answer; got an empty list, write ['…'] or leave it out")
    turns = chain(answers, repeat(answers[-1]))
    return lambda _: next(turns)


def _by_text(choosers: Mapping[str, Choose]) -> Choose:
    def choose(request: ProviderRequest) -> ProviderAnswer:
        for key, chosen in choosers.items():
            if key in request.text:
                return chosen(request)
        return Failure(
            400,
            f"the script has no answer for {request.text[:80]!r}; it knows {', '.join(choosers)}; "
            "add a key that the text contains, or '' for all others",
        )

    return choose


# An instance of a JSON Schema: the least that fits it, for answers nobody scripted.
#
# The first example says Paris and the second London, so that parallel calls can be told apart.


_PLAIN: dict[str, Callable[[int], object]] = {
    "string": lambda nth: ("Paris", "London")[nth % 2],
    "integer": lambda nth: 21 + nth,
    "number": lambda nth: 21.5 + nth,
    "boolean": lambda _: True,
    "null": lambda _: None,
}


def example(schema: Schema, nth: int = 0) -> object:
    """Return a value that fits a JSON schema."""
    return _example(schema, nth, schema)


def _example(schema: Schema, nth: int, root: Schema) -> object:
    if "$ref" in schema:
        return _example(_definition(schema["$ref"], root), nth, root)
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return _example(schema[union][0], nth, root)
    kind = schema.get("type", "object")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "array":
        return [_example(schema.get("items", {}), nth, root)] * schema.get("minItems", 0)
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: _example(fields[name], nth, root) for name in schema.get("required", [])}
    return _PLAIN[kind](nth)


def _definition(reference: str, root: Schema) -> Schema:
    for step in reference.removeprefix("#/").split("/"):
        root = root[step]
    return root


# Without a script, words in the last user message choose the answer.
#
# | word             | answer                                                                    |
# |------------------|---------------------------------------------------------------------------|
# | err:<s>[:<n>]    | HTTP status s, the first n times this very request comes; retry-after 1 s |
# | quota, ctx       | the account has no money left; the prompt is too long                     |
# | drop, hang       | the connection closes without a byte; nothing ever comes                  |
# | drop-mid, stall  | the same after three pieces of a stream                                   |
# | stream-error     | an error event after three pieces of a stream                             |
# | wait:<ms>        | so long before the first byte                                             |
# | slow, burst      | 200 words, 50 ms apart; all at once                                       |
# | refuse, length   | ended by the content filter; ended by the limit of tokens                 |
# | no-usage         | tokens are not reported                                                   |
# | tools            | two parallel tool calls, then text once their results are there           |
#
# Otherwise: the output that the client asked for, or five words.


_FIVE_WORDS = "w0 w1 w2 w3 w4 "
_TWO_HUNDRED_WORDS = "".join(f"w{i} " for i in range(200))
_NUMBERED = re.compile(r"(?<!\S)(err|wait):(\d+)(?::(\d+))?(?!\S)", re.ASCII)

_INSTEAD: dict[str, ProviderAnswer] = {
    "quota": Failure("quota"),
    "ctx": Failure("context_length"),
    "drop": DropConnection(),
    "hang": Hang(),
}
_CHANGES: dict[str, dict[str, Any]] = {
    "drop-mid": {"breaks": Break(3, DropConnection())},
    "stall": {"breaks": Break(3, Hang())},
    "slow": {"text": _TWO_HUNDRED_WORDS, "gap_ms": 50},
    "burst": {"text": _TWO_HUNDRED_WORDS},
    "refuse": {"text": "", "output": UNSET, "finish": Finish.CONTENT_FILTER},
    "length": {"finish": Finish.LENGTH},
    "no-usage": {"usage": None},
}
_USUAL_STREAM_ERROR = {Api.ANTHROPIC: Failure(529)}
"""Of the others it is a 500."""


def default_answer(request: ProviderRequest) -> ProviderAnswer:
    """Return the answer that the words of the last user message ask for."""
    words = set(request.text.split())
    changes: dict[str, Any] = {}
    for name, number, times in _NUMBERED.findall(request.text):
        if name == "wait":
            changes["delay_ms"] = int(number)
        elif not times or request.attempt <= int(times):
            return Failure(int(number), retry_after_s=1)
    for word, answer in _INSTEAD.items():
        if word in words:
            return answer
    for word, change in _CHANGES.items():
        if word in words:
            changes |= change
    if "stream-error" in words:
        changes["breaks"] = Break(3, _USUAL_STREAM_ERROR.get(request.api, Failure(500)))
    return replace(_plain_reply(request, words), **changes)


def _plain_reply(request: ProviderRequest, words: set[str]) -> ProviderReply:
    if "tools" in words and request.tools and not request.tool_results:
        return ProviderReply(calls=_two_calls(request))
    if request.output_schema:
        return ProviderReply(output=example(request.output_schema))
    if request.output_tool:
        return ProviderReply(output=example(request.tools.get(request.output_tool, {})))
    return ProviderReply(_FIVE_WORDS)


def _two_calls(request: ProviderRequest) -> list[ProviderToolCall]:
    """Return calls of the first two tools, or two of the only one."""
    names = [name for name in request.tools if name != request.output_tool] or list(request.tools)
    chosen = enumerate(islice(cycle(names), 2))
    return [ProviderToolCall(name, example(request.tools[name], nth)) for nth, name in chosen]
