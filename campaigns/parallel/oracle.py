"""A model whose answers follow from the request alone, so that any order of calls gets the same.

| decided by a hash of agent and conversation | so that                                         |
|---------------------------------------------|-------------------------------------------------|
| how long it takes                           | calls end in any order                          |
| what it says, and how much that costs       | an answer shows all that led to it              |
| tool calls, and with which paths            | what is read and written differs                |
| failures that pass                          | a request fails once                            |
| stumbles: crashes in every other life       | a new life answers; of what answers in turn     |
| failures that stay, crashes, silence        | the same request always fails alike             |
| answers that do not fit their type, or are  | asked again, the conversation is another; one   |
| empty                                       | model in four is careless, which empties a pool |
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Finish,
    ModelChunk,
    ModelReply,
    ModelRequest,
    Text,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
)
from vegakit.errors import ErrorClass, Phase, WorldError
from vegakit.ports import Clock
from vegakit.providers import ScriptedModel
from vegakit.records import canonical, to_json

__all__ = ["PATHS", "SILENCE_MS", "Oracle", "current_life"]

SILENCE_MS = 4_000
"""Longer than every `timeout` that programs set; anything else answers far within one."""
SLOWEST_MS = 200
PATHS = (
    *("a/x.txt",) * 6,
    *("a/y.txt",) * 3,
    *("b/x.txt",) * 3,
    *("a/deep/z.txt", "a/deep/z.txt", "b/new.txt", "none.txt"),
)
"""Few, so that what is written is also read."""
_WORDS = "amber birch cedar delta ember flint grove heron".split()
_MOST_TOOL_ROUNDS = 2
_TIMES = re.compile(rb"\b\d+ ms\b")
"""In reasons that a model is told of: when to ask again."""


current_life: ContextVar[int] = ContextVar("current_life", default=0)
"""The life of the process that a call is made for."""


class Oracle(ScriptedModel):
    """One for each agent: its name is in the system text, with how often in a hundred it fails.
    With another `tempo` it says the same after other times."""

    def __init__(
        self, seed: int, name: str, clock: Clock, *, never_fails: bool = False, tempo: int = 0
    ) -> None:
        super().__init__("", name)
        self._seed, self._tempo = seed, tempo
        self._never_fails = never_fails
        self._is_careless = seed % 4 == 3 and not never_fails
        self._time = clock
        self._failed: Counter[int] = Counter()

    async def ask(self, request: ModelRequest) -> ModelReply:
        reply, error = await self._answer_to(request)
        if error is not None:
            raise error
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """A stream may break after what it said."""
        reply, error = await self._answer_to(request)
        for word in reply.message.text.split():
            yield TextDelta(f"{word} ")
        if error is not None:
            raise error
        yield reply

    async def _answer_to(self, request: ModelRequest) -> tuple[ModelReply, WorldError | None]:
        self.requests.append(request)
        draw = self._draw(request)
        fate = "answers" if self._never_fails else _fate(request, draw)
        takes_ms = SILENCE_MS if fate == "silence" else 5 + self._pace(draw.below(SLOWEST_MS))
        await self._time.wait_until(self._time.now() + takes_ms)
        if fate == "crash" or (fate == "stumbles" and current_life.get() % 2):
            raise RuntimeError(f"crash {draw.below(100)}")
        if fate == "passes" and self._fails_again(draw.seed):
            overloaded = WorldError("busy", ErrorClass.OVERLOADED, phase=Phase.ANSWERED)
            return _nothing(), overloaded
        reply = self._says(request, draw)
        if fate == "stays":
            return reply, WorldError(f"no {draw.below(100)}", ErrorClass.REJECTED)
        return reply, None

    def _pace(self, takes_ms: int) -> int:
        """Turned by about a third of the slowest for each tempo, quick answers become slow ones."""
        return (takes_ms + self._tempo * 61) % SLOWEST_MS

    def _fails_again(self, seed: int) -> bool:
        """Once, and never again."""
        self._failed[seed] += 1
        return self._failed[seed] == 1

    def _draw(self, request: ModelRequest) -> "_Draw":
        said = [request.system, request.messages, request.output]
        text = _TIMES.sub(b"ms", canonical([self._seed, said]))
        return _Draw(int.from_bytes(blake2b(text, digest_size=8).digest(), "big"))

    def _says(self, request: ModelRequest, draw: "_Draw") -> ModelReply:
        rounds = sum(isinstance(message, ToolMessage) for message in request.messages)
        parts: list[AssistantPart] = []
        if request.tools and rounds < _MOST_TOOL_ROUNDS and draw.below(100) < 75:
            parts = [_call(request, draw, index) for index in range(1 + draw.below(2))]
        elif request.output is not None:
            fits = draw.below(100) < (40 if self._is_careless else 80) or self._never_fails
            wrong = {"no": draw.below(9)}
            parts = [Text(_json(_value(request.output.json_schema, draw) if fits else wrong))]
        else:
            words = [_WORDS[draw.below(len(_WORDS))] for _ in range(1 + draw.below(3))]
            parts = [Text(" ".join([*words, str(draw.below(100))]))]
            if self._is_careless and draw.below(100) < 40:
                parts = []
        calls = any(isinstance(part, ToolCall) for part in parts)
        said = 1 + draw.below(request.settings.max_tokens)
        usage = Usage(self.bound_input(request), said)
        finish = Finish.TOOL_CALLS if calls else Finish.STOP
        return ModelReply(AssistantMessage(tuple(parts), self.name), usage, finish)


class _Draw:
    """Numbers that follow from one hash."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._left = seed

    def below(self, most: int) -> int:
        self._left = (self._left * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        return (self._left >> 33) % most


def _fate(request: ModelRequest, draw: _Draw) -> str:
    """`system` is the agent's name and pairs such as `crash:3`, in hundredths."""
    at = draw.below(100)
    for word in request.system.split()[1:]:
        fate, _, share = word.partition(":")
        at -= int(share)
        if at < 0:
            return fate
    return "answers"


def _call(request: ModelRequest, draw: _Draw, index: int) -> ToolCall:
    tool = request.tools[draw.below(len(request.tools))]
    arguments: dict[str, Any] = {}
    for name, schema in tool.parameters["properties"].items():
        arguments[name] = PATHS[draw.below(len(PATHS))] if name == "path" else _value(schema, draw)
    return ToolCall(f"c{draw.seed % 100_000}_{index}", tool.name, arguments)


def _value(schema: dict[str, Any], draw: _Draw) -> Any:
    if "enum" in schema:
        return schema["enum"][draw.below(len(schema["enum"]))]
    match schema["type"]:
        case "object":
            return {name: _value(one, draw) for name, one in schema["properties"].items()}
        case "array":
            most = min(3, schema.get("maxItems", 3))
            return [_value(schema["items"], draw) for _ in range(draw.below(most + 1))]
        case "boolean":
            return draw.below(2) == 0
        case "integer":
            return draw.below(7)
        case _:
            return _WORDS[draw.below(len(_WORDS))]


def _json(value: Any) -> str:
    return to_json(value).decode()


def _nothing() -> ModelReply:
    return ModelReply(AssistantMessage(()), None)
