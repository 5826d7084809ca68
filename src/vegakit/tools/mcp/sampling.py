"""A server that asks for a model: what it asks, as our own records, and what it is told.

Who answers is given from outside and pays from the server's own budget. Texts only: no picture, no
tools, nothing of our own conversations goes along.
"""

from typing import TYPE_CHECKING

from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    SamplingMessage,
    TextContent,
)

from vegakit.conversation import AssistantMessage, Message, Text, UserMessage
from vegakit.errors import UserError, WorldError
from vegakit.policy import sanitise
from vegakit.tools.mcp.asking import Answer, McpSample, McpSampled

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext, SamplingFnT

__all__ = ["sampling_of"]


def sampling_of(answer: Answer) -> "SamplingFnT":
    async def sample(
        context: "ClientRequestContext", params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        del context
        try:
            told = await answer(_sample(params))
        except (UserError, WorldError) as error:
            return ErrorData(code=INVALID_REQUEST, message=f"{type(error).__name__}: {error}")
        return _result(told)

    return sample


def _sample(params: CreateMessageRequestParams) -> McpSample:
    if params.tools or params.tool_choice:
        raise UserError("a server is given no tools; ask for text")
    messages = tuple(map(_message, params.messages))
    if not messages or not isinstance(messages[-1], UserMessage):
        raise UserError("the last message must be the user's")
    return McpSample(messages, sanitise(params.system_prompt or ""), max(1, params.max_tokens))


def _message(message: SamplingMessage) -> Message:
    content = message.content if isinstance(message.content, list) else [message.content]
    texts = tuple(Text(sanitise(block.text)) for block in content if isinstance(block, TextContent))
    if len(texts) < len(content):
        raise UserError("a server may send text only")
    return UserMessage(texts) if message.role == "user" else AssistantMessage(texts)


def _result(told: McpSampled) -> CreateMessageResult:
    return CreateMessageResult(
        role="assistant",
        content=TextContent(type="text", text=told.text),
        model=told.model,
        stop_reason="endTurn",
    )
