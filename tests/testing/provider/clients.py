"""The official clients, told in one way what the three APIs call differently."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import anthropic
import httpx2
import openai

from tests.patience import PATIENCE_S
from vegakit.testing import Provider, Script

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

SDK_ERRORS = (anthropic.APIError, openai.APIError, httpx2.TransportError)


class Heard(NamedTuple):
    text: str
    calls: list[tuple[str, Any]]
    finish: str | None
    refusal: str | None
    tokens: tuple[int, int] | None
    """All input, and output."""


class Client(Protocol):
    async def ask(self, text: str, *, tools: bool = False, stream: bool = False) -> Heard: ...

    async def open(self, text: str) -> AsyncIterator[Any]:
        """A raw stream of events."""
        ...


class AnthropicClient:
    def __init__(self, url: str, **options: Any) -> None:
        self.api: Any = anthropic.AsyncAnthropic(base_url=url, **options)

    async def ask(self, text: str, *, tools: bool = False, stream: bool = False) -> Heard:
        asked = self._asked(text)
        if tools:
            asked["tools"] = [{"name": "get_weather", "input_schema": CITY}]
        if stream:
            async with self.api.messages.stream(**asked) as events:
                return self._heard(await events.get_final_message())
        return self._heard(await self.api.messages.create(**asked))

    async def open(self, text: str) -> AsyncIterator[Any]:
        return await self.api.messages.create(**self._asked(text), stream=True)

    def _asked(self, text: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": "claude-test", "max_tokens": 100, "messages": messages}

    def _heard(self, message: Any) -> Heard:
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [(b.name, b.input) for b in message.content if b.type == "tool_use"]
        usage = getattr(message, "usage", None)
        tokens = usage and (
            usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
            usage.output_tokens,
        )
        refusal = message.stop_details and message.stop_details.explanation
        return Heard(text, calls, message.stop_reason, refusal, tokens)


class ChatClient:
    def __init__(self, url: str, **options: Any) -> None:
        self.api: Any = openai.AsyncOpenAI(base_url=f"{url}/v1", **options)

    async def ask(self, text: str, *, tools: bool = False, stream: bool = False) -> Heard:
        asked = self._asked(text)
        if tools:
            function = {"name": "get_weather", "parameters": CITY}
            asked["tools"] = [{"type": "function", "function": function}]
        if stream:
            asked["stream_options"] = {"include_usage": True}
            async with self.api.chat.completions.stream(**asked) as events:
                async for _ in events:
                    pass
                return self._heard(events.current_completion_snapshot)
        return self._heard(await self.api.chat.completions.create(**asked))

    async def open(self, text: str) -> AsyncIterator[Any]:
        return await self.api.chat.completions.create(**self._asked(text), stream=True)

    def _asked(self, text: str) -> dict[str, Any]:
        return {"model": "gpt-test", "messages": [{"role": "user", "content": text}]}

    def _heard(self, completion: Any) -> Heard:
        (choice,), usage = completion.choices, completion.usage
        functions = [call.function for call in choice.message.tool_calls or []]
        return Heard(
            choice.message.content or "",
            [(function.name, json.loads(function.arguments)) for function in functions],
            choice.finish_reason,
            choice.message.refusal,
            usage and (usage.prompt_tokens, usage.completion_tokens),
        )


class ResponsesClient:
    def __init__(self, url: str, **options: Any) -> None:
        self.api: Any = openai.AsyncOpenAI(base_url=f"{url}/v1", **options)

    async def ask(self, text: str, *, tools: bool = False, stream: bool = False) -> Heard:
        asked = self._asked(text)
        if tools:
            asked["tools"] = [{"type": "function", "name": "get_weather", "parameters": CITY}]
        if stream:
            async with self.api.responses.stream(**asked) as events:
                last = [event async for event in events][-1]
                return self._heard(last.response)
        return self._heard(await self.api.responses.create(**asked))

    async def open(self, text: str) -> AsyncIterator[Any]:
        return await self.api.responses.create(**self._asked(text), stream=True)

    def _asked(self, text: str) -> dict[str, Any]:
        return {"model": "gpt-test", "input": text}

    def _heard(self, response: Any) -> Heard:
        calls = [item for item in response.output if item.type == "function_call"]
        parts = [p for item in response.output if item.type == "message" for p in item.content]
        details, usage = response.incomplete_details, response.usage
        return Heard(
            response.output_text,
            [(call.name, json.loads(call.arguments)) for call in calls],
            details.reason if details else response.status,
            next((part.refusal for part in parts if part.type == "refusal"), None),
            usage and (usage.input_tokens, usage.output_tokens),
        )


CLIENTS: dict[str, Callable[..., Client]] = {
    "anthropic": AnthropicClient,
    "chat": ChatClient,
    "responses": ResponsesClient,
}


@asynccontextmanager
async def connected(
    api: str, provider: Provider, *, max_retries: int = 0, timeout_s: float = PATIENCE_S
) -> AsyncGenerator[Client]:
    async with httpx2.AsyncClient(verify=False) as http:  # loads no certificates: much faster
        timeout = httpx2.Timeout(PATIENCE_S, read=timeout_s)
        options: dict[str, Any] = {"http_client": http, "timeout": timeout}
        yield CLIENTS[api](provider.url, api_key="sk-canary", max_retries=max_retries, **options)


def talk(
    api: str,
    script: Script | None,
    conversation: Callable[[Client, Provider], Awaitable[None]],
    **options: Any,
) -> Provider:
    """Runs a conversation with a provider of its own, which is returned for its log."""

    async def run() -> Provider:
        async with Provider(script) as provider, connected(api, provider, **options) as client:
            await asyncio.wait_for(conversation(client, provider), 2 * PATIENCE_S)
        return provider

    return asyncio.run(run())


def ask(api: str, script: Script | None, text: str = "hi", **settings: Any) -> Heard:
    """What one question is answered."""
    heard: list[Heard] = []

    async def conversation(client: Client, _: Provider) -> None:
        heard.append(await client.ask(text, **settings))

    talk(api, script, conversation)
    return heard[0]
