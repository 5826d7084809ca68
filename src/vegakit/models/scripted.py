"""A model that answers as its script says, without a network, a key or a wait.

Tokens are words: those of a request are its bound and its bill. An answer of more words than
`max_tokens` is billed as `max_tokens`, as no provider bills more.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from msgspec import UNSET

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Finish,
    Media,
    Message,
    ModelChunk,
    ModelReply,
    ModelRequest,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    Usage,
    UserPart,
)
from vegakit.errors import ErrorClass, Phase, WorldError
from vegakit.models.script import Script, ScriptedReply, chooser, read_script, spell
from vegakit.money import dollars
from vegakit.ports import Clock
from vegakit.prices import PriceRow, PriceTier
from vegakit.records import to_json

__all__ = ["SCRIPTED_PRICE", "ScriptedModel"]

_IN, _OUT = dollars(1), dollars(5)
SCRIPTED_PRICE = PriceRow("scripted", (PriceTier(_IN, _OUT, cache_read=_IN, cache_write=_IN),))
_PIECE = re.compile(r"\s*\S+|\s+$")
_MAY_BE_BILLED = {ErrorClass.TIMEOUT, ErrorClass.CONNECTION}


class ScriptedModel:
    """Implements `ports.Model`; `requests` are all that came. Costs $1 and $5 a million words."""

    def __init__(
        self,
        script: Script,
        name: str = "scripted",
        *,
        price: PriceRow | None = SCRIPTED_PRICE,
        latency_ms: int = 0,
        clock: Clock | None = None,
        context_tokens: int | None = None,
        default_max_tokens: int = 4096,
    ) -> None:
        self.name = name
        self.price = price
        self.context_tokens = context_tokens
        self.default_max_tokens = default_max_tokens
        self.requests: list[ModelRequest] = []
        self._choose = chooser(script)
        self._latency_ms = latency_ms
        self._clock = clock

    @classmethod
    def from_file(cls, path: str | Path, **settings: Any) -> "ScriptedModel":  # noqa: ANN401
        return cls(read_script(path), **settings)

    def bound_input(self, request: ModelRequest) -> int:
        return sum(len(text.split()) for text in _texts(request))

    async def ask(self, request: ModelRequest) -> ModelReply:
        reply, error = await self._answer(request)
        if error is not None:
            raise error
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        reply, error = await self._answer(request)
        for delta in _deltas(reply.message):
            yield delta
            await asyncio.sleep(0)
        if error is not None:
            raise error
        yield reply

    async def aclose(self) -> None:
        """Nothing is open; every model that is built by name can be closed."""

    async def _answer(self, request: ModelRequest) -> tuple[ModelReply, WorldError | None]:
        """What is said, and what is raised after it."""
        self.requests.append(request)
        answer = self._choose(request)
        await self._wait()
        match spell(answer(request) if callable(answer) else answer):
            case WorldError() as error:
                return ModelReply(AssistantMessage(()), None), error
            case ModelReply() as reply:
                return reply, None
            case ScriptedReply() as scripted:
                return self._reply(scripted, request), _error(scripted)

    async def _wait(self) -> None:
        if self._clock is None:
            await asyncio.sleep(self._latency_ms / 1000)
        else:
            await self._clock.wait_until(self._clock.now() + self._latency_ms)

    def _reply(self, scripted: ScriptedReply, request: ModelRequest) -> ModelReply:
        message = AssistantMessage(tuple(self._parts(scripted)), self.name)
        usage = self._count(message, request) if scripted.usage is UNSET else scripted.usage
        usual = Finish.TOOL_CALLS if scripted.calls else Finish.STOP
        return ModelReply(message, usage, scripted.finish or usual)

    def _parts(self, scripted: ScriptedReply) -> Iterator[AssistantPart]:
        text = scripted.text if scripted.output is UNSET else to_json(scripted.output).decode()
        if text:
            yield Text(text)
        for index, call in enumerate(scripted.calls):
            yield ToolCall(f"call_{len(self.requests)}_{index}", call.name, call.arguments)

    def _count(self, message: AssistantMessage, request: ModelRequest) -> Usage:
        said = sum(len(text.split()) for text in _words_of(message))
        return Usage(self.bound_input(request), min(said, request.settings.max_tokens))


def _error(scripted: ScriptedReply) -> WorldError | None:
    if scripted.error is None:
        return None
    usual = Phase.UNKNOWN if scripted.error in _MAY_BE_BILLED else Phase.ANSWERED
    return WorldError(
        f"{scripted.error}, as scripted",
        scripted.error,
        phase=scripted.phase or usual,
        retry_after_ms=scripted.retry_after_ms,
    )


def _deltas(message: AssistantMessage) -> Iterator[ModelChunk]:
    calls = 0
    for part in message.parts:
        match part:
            case Text(text):
                yield from map(TextDelta, _PIECE.findall(text))
            case Reasoning(text):
                yield from map(ReasoningDelta, _PIECE.findall(text))
            case ToolCall():
                yield ToolCallStarted(part.name, calls)
                calls += 1


def _texts(request: ModelRequest) -> Iterator[str]:
    yield request.system
    for spec in (*request.tools, request.output):
        if spec is not None:
            yield to_json(spec).decode()
    for message in request.messages:
        yield from _words_of(message)


def _words_of(message: Message) -> Iterator[str]:
    if isinstance(message, ToolMessage):
        yield from (result.content for result in message.results)
    else:
        yield from (_words(part) for part in message.parts)


def _words(part: UserPart | AssistantPart) -> str:
    match part:
        case Text(text) | Reasoning(text):
            return text
        case ToolCall():
            return f"{part.name} {to_json(part.arguments).decode()}"
        case Media(media_type):
            return media_type
