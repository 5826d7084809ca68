"""A model that makes a program as dear as it can: it fails where that is billed, answers what does
not fit, calls tools until it may not, gives the longest lists, and uses all its tokens."""

from collections import Counter
from random import Random
from typing import Any

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    Usage,
    UserMessage,
)
from vegakit.errors import ErrorClass, Phase, WorldError
from vegakit.models import ScriptedModel
from vegakit.records import to_json

WINDOW = 600


class Spite:
    """Of an agent whose system text says how many attempts and steps it has."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._failed: Counter[bytes] = Counter()
        self._calls = 0
        self.model = ScriptedModel(self.answer, context_tokens=WINDOW)

    def answer(self, request: ModelRequest) -> Any:
        attempts, steps = map(int, request.system.split())
        key = to_json(request)
        self._failed[key] += 1
        if self._failed[key] % attempts:
            return WorldError("lost", ErrorClass.TIMEOUT, phase=Phase.UNKNOWN)
        return self._reply(request, steps)

    def _reply(self, request: ModelRequest, steps: int) -> ModelReply:
        told = "".join(map(_text, request.messages))
        asked = sum(isinstance(message, UserMessage) for message in request.messages)
        rounds = len(request.messages) // 2
        if request.tools and rounds + 1 < steps and self._chance.random() < 0.8:
            return self._said(request, calls=True)
        if "was empty" not in told and asked < steps and self._chance.random() < 0.7:
            return self._said(request, "")
        if request.output is not None and told.count("does not fit") < 2 and asked < steps:
            return self._said(request, "no")
        plan = {"steps": ["long"] * 3, "sure": self._chance.random() < 0.7}
        return self._said(request, "fine" if request.output is None else to_json(plan).decode())

    def _said(self, request: ModelRequest, text: str = "", *, calls: bool = False) -> ModelReply:
        self._calls += 1
        parts: tuple[Any, ...] = (Text(text),) if text else ()
        if calls:
            name = request.tools[0].name
            parts = tuple(
                ToolCall(f"c{self._calls}_{n}", name, {"what": f"w{self._calls} {n}"})
                for n in range(2)
            )
        usage = Usage(self.model.bound_input(request), request.settings.max_tokens)
        finish = Finish.TOOL_CALLS if calls else Finish.STOP
        return ModelReply(AssistantMessage(parts, "scripted"), usage, finish)


def _text(message: object) -> str:
    parts = getattr(message, "parts", ())
    return "".join(part.text for part in parts if isinstance(part, Text))
