"""What an ask costs beside its model: CPU time of this process, all threads.

A round opens a runtime, asks, and closes it, so that traces are written within the time that is
taken. Rounds of every kind take turns; each kind counts by its best round, so that a busy machine
counts as little as it can.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.handing import BareThread
from vegakit.concurrency import SteadyClock
from vegakit.conversation import (
    AssistantMessage,
    ModelChunk,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Text,
    Usage,
    UserMessage,
)
from vegakit.host import Agent, Limiter, LimiterRules
from vegakit.host.limiter import CallHealth
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import RateRule, Reserved, ScopeRule
from vegakit.ports import Ledger
from vegakit.prices import PriceRow, PriceTier
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger, SqliteLedger
from vegakit.telemetry import JsonLinesSink

__all__ = ["ConstantModel", "ask_all", "ask_figures"]

ROUNDS, ASKS, AT_ONCE = 30, 150, 50
PROMPT = "What is the capital of France?"


class ConstantModel:
    """Implements `ports.Model`: the same answer, at once."""

    name = "constant:one"
    price = PriceRow(name, (PriceTier(Money(10**9), Money(5 * 10**9), Money(0), Money(0)),))
    context_tokens = 200_000
    default_max_tokens = 1_000
    _reply = ModelReply(AssistantMessage((Text("Paris."),), name), Usage(12, 3))

    def bound_input(self, request: ModelRequest) -> int:
        return 100

    async def ask(self, request: ModelRequest) -> ModelReply:
        return self._reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        yield self._reply


class HandingModel(ConstantModel):
    """Twice to a thread and back, as a ledger on a file is asked twice; nothing is done there."""

    def __init__(self) -> None:
        self._thread = BareThread()

    async def ask(self, request: ModelRequest) -> ModelReply:
        for _ in range(2):
            await self._thread.do(lambda: None)
        return self._reply


MODEL = ConstantModel()


def ask_figures() -> list[Figure]:
    handing = HandingModel()
    with tempfile.TemporaryDirectory() as folder:
        rounds = [asyncio.run(_round(Path(folder), number, handing)) for number in range(ROUNDS)]
    bare, memory, handed, sqlite, many, many_on_file, admission = map(
        min, zip(*rounds, strict=True)
    )
    beyond = f"{many_on_file - many:.1f} µs"
    return [
        at_most(250, memory - bare, "µs", "an ask, traced, minus the bare call"),
        at_most(20, admission, "µs", "of it: lane, reserve, send, settle"),
        at_most(250, sqlite - memory, "µs", "the same on a SQLite file, beyond that"),
        Figure("of it: twice to a thread and back", f"{handed - memory:.1f} µs"),
        Figure(f"the same, {AT_ONCE} asks at once", beyond),
    ]


async def _round(folder: Path, number: int, handing: HandingModel) -> tuple[float, ...]:
    def file(name: str) -> SqliteLedger:
        return SqliteLedger(folder / f"{name}-{number}.db")

    return (
        await _cpu_us(_bare_calls),
        await ask_all(MemoryLedger(), folder),
        await ask_all(MemoryLedger(), folder, model=handing),
        await ask_all(file("one"), folder),
        await ask_all(MemoryLedger(), folder, at_once=AT_ONCE),
        await ask_all(file("many"), folder, at_once=AT_ONCE),
        await _cpu_us(_admissions),
    )


async def _cpu_us(work: Callable[[], Awaitable[None]]) -> float:
    started = time.process_time_ns()
    await work()
    return (time.process_time_ns() - started) / ASKS / 1_000


async def _bare_calls() -> None:
    request = ModelRequest(MODEL.name, (UserMessage((Text(PROMPT),)),), ModelSettings(1_000))
    for _ in range(ASKS):
        await MODEL.ask(request)


async def ask_all(
    ledger: Ledger, folder: Path, *, at_once: int = 1, model: ConstantModel = MODEL
) -> float:
    """Microseconds an ask, after the first."""
    agent, sink = Agent("asker", model=model), JsonLinesSink(folder / "trace.jsonl")
    async with Runtime("$1000", ledger=ledger, trace=sink) as rt:
        await rt.ask(agent, PROMPT)
        started = time.process_time_ns()
        for _ in range(ASKS // at_once):
            if at_once == 1:
                await rt.ask(agent, PROMPT)
            else:
                await rt.batch(*(rt.ask(agent, PROMPT) for _ in range(at_once)))
    return (time.process_time_ns() - started) / ASKS / 1_000


async def _admissions() -> None:
    clock, ledger, holder, scope = SteadyClock(), MemoryLedger(), HolderId("here"), ScopeId("all")
    limiter, now = Limiter(MODEL.name, LimiterRules(RateRule()), clock), clock.now()
    await ledger.renew(holder, now + 1_000_000)
    await ledger.open(scope, ScopeRule(Money(10**15)), now)
    for number in range(ASKS):
        await _admission(limiter, ledger, holder, scope, EffectKey(str(number)), now)


async def _admission(
    limiter: Limiter, ledger: Ledger, holder: HolderId, scope: ScopeId, key: EffectKey, now: int
) -> None:
    permit = await limiter.enter(key, 1_100, 2)
    verdict = await ledger.reserve(key, 1, scope, Money(5_100_000), holder, now)
    assert isinstance(verdict, Reserved)
    limiter.leave(key, permit, CallHealth.SUCCESS)
    await ledger.answer(key, 1, Money(27_000), now)
