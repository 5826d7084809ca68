"""What the programs of these tests are made of."""

import asyncio
from typing import Any

from vegakit.control import Question
from vegakit.conversation import ModelReply, ModelRequest, Text
from vegakit.durable import ProgramHandle
from vegakit.host import Reducer
from vegakit.money import dollars
from vegakit.policy import InterruptKind
from vegakit.program import (
    AskPerson,
    AskProcess,
    DeferReply,
    ProcessSpec,
    Prompt,
    Respond,
    ResultMessage,
    Returned,
    SendAfter,
    SpawnChild,
)
from vegakit.providers import ScriptedModel


def count(state: int, message: Any) -> tuple[int, list[Any]]:
    if message == "boom":
        raise ValueError("boom")
    return state + 1, [Respond(state + 1)]


COUNTER = Reducer("counter", count, 0)


class Hanging(ScriptedModel):
    """Answers nobody until it is cancelled."""

    def __init__(self) -> None:
        super().__init__("never")
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def ask(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError


class Gated(ScriptedModel):
    """Answers when it is let."""

    def __init__(self, script: str) -> None:
        super().__init__(script)
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def ask(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await self.may_answer.wait()
        return await super().ask(request)


class OnlyStreaming(ScriptedModel):
    async def ask(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("a stream was wanted")


def boss(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Starts a worker with a part of its own wallet, and passes on what that one answers."""
    if message == "go":
        spec = ProcessSpec("worker", wallet=dollars("$0.004"))
        ask = AskProcess("boss/worker", Prompt((Text("?"),)), "w")
        return state, [SpawnChild(spec, "worker"), ask, DeferReply("client")]
    heard = message if isinstance(message, ResultMessage) else None
    said = heard.outcome if heard else None
    return state, [Respond("told" if isinstance(said, Returned) else str(said), "client")]


def clerk(state: Any, message: Any) -> tuple[Any, list[Any]]:
    if message == "may I?":
        return state, [DeferReply("request")]
    if isinstance(message, int):
        return state, [SendAfter(message, "wake"), DeferReply("request")]
    return state, [Respond(f"it was: {message}", "request")]


def buyer(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Asks leave, or which one, and tells what came of it."""
    if isinstance(message, ResultMessage):
        return state, [Respond(getattr(message.outcome, "value", str(message.outcome)), "client")]
    kind = InterruptKind.CLARIFICATION if message["open"] else InterruptKind.CONFIRMATION
    asked = AskPerson(message["question"], "q", kind, message.get("timeout_ms"))
    return state, [DeferReply("client"), asked]


async def asked(program: ProgramHandle) -> Question | None:
    return next(iter(await program.interrupts()), None)


async def waits(program: Any, count: int = 1) -> bool:
    return len((await program.state()).asks) == count


async def landed(program: Any) -> Any:
    state = await program.state()
    return None if state.effects_in_flight else state
