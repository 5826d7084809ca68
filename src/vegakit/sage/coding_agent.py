"""Make the agent of a turn or of a task: its bounds, its patience, and what it never forgets; and
tell who waits for it that nothing comes."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from vegakit.agent import CompactionRule, TurnRule
from vegakit.concurrency import run_to_completion
from vegakit.conversation import Message, ModelRequest
from vegakit.host import Agent, ProgramRun, StreamBuffer, StreamEvent
from vegakit.ids import EffectKey
from vegakit.policy import TRANSIENT, Backoff, BreakerRule, RetryRule
from vegakit.ports import Clock, Model, Tool
from vegakit.sage.events import (
    SageCost,
    SageEvent,
    SageRetry,
    SageToolBegan,
    SageToolEnded,
    SageToolOutput,
    SageWaiting,
    call_id,
    task_of,
)
from vegakit.sage.patches import PATCHED_PATH
from vegakit.sage.sessions import SageRecord
from vegakit.sdk import Ask, Runtime

_MOST_STEPS = _MOST_CALLS = 4_000
"""Far beyond what a task needs: what ends a turn is its budget, or that it goes in a circle."""
_SAME_RESULTS = 5
"""A test that is run again after each edit may fail alike a few times; an agent that learns nothing
from five equal results learns nothing from the sixth."""
_CUT_ANSWERS = 3
"""In a row: a model that is told so writes a long file in parts, and each try is paid for."""

_ASSUMED_WINDOW = 128_000
"""Tokens of a window that nobody knows. A request counts as the most tokens that its bytes can be,
so what is summed up here is in truth about a quarter of it, and fits the windows of small models,
too."""
SILENT_S = 300
"""A model that says nothing for this long is asked again. Models that think first, and slow ones
at home with a long prompt, take a minute or two; who takes longer has most often lost the call."""
PINNED_TOOL, PATCH_TOOL = "todo", "apply_patch"


@dataclass(frozen=True)
class CodingAgent(Agent[str]):
    """An agent that may call many tools in a turn, is stopped when it goes in a circle, and keeps
    what is `pinned` when its conversation is summed up, which is done at once if it `compacts`. Its
    model may be silent for `silent_ms`."""

    pinned: tuple[tuple[str, str], ...] = ()
    silent_ms: int = 1000 * SILENT_S
    compacts: bool = False

    def rule_for(self, model: Model) -> TurnRule:
        """Return the rule of a turn, with the bounds of a coding agent."""
        rule = super().rule_for(model)
        most = rule.settings.max_tokens
        if rule.context_tokens is not None:  # an answer leaves room for what it answers to
            most = min(most, max(1, rule.context_tokens // 4))
        return replace(
            rule,
            settings=replace(rule.settings, max_tokens=most, timeout_ms=self.silent_ms),
            max_tool_calls=_MOST_CALLS,
            identical_results=_SAME_RESULTS,
            truncated_replies=_CUT_ANSWERS,
            compaction=CompactionRule(
                dict(self.pinned),
                (PINNED_TOOL,),
                _ASSUMED_WINDOW,
                {PATCH_TOOL: PATCHED_PATH},
                self.compacts,
            ),
        )


PATIENT = RetryRule(
    max_attempts=8,
    backoff=Backoff(200, 2.0, 20_000),
    on=tuple(sorted(TRANSIENT)),
    total_ms=3_000 * SILENT_S,
    speak_again=True,
)
"""Nobody sits beside a session to start it again, so it waits out a storm of refusals, and asks
again for an answer that broke off; one that may have been billed stays charged."""
STEADY = BreakerRule(threshold=1_000)
"""Of a session, in place of its model's: that one opens at the fifth failure in a row, and a
session would end before it has tried as often as its patience says."""


def coding_agent(
    name: str,
    model: str,
    instructions: str,
    tools: Sequence[Tool],
    tokens: int,
    *,
    retry: RetryRule | None,
    breaker: BreakerRule | None,
    silent_ms: int,
    pinned: Mapping[str, str] | None = None,
    compacts: bool = False,
) -> CodingAgent:
    """Return the agent of a turn or of a task. What it may spend is said by the budgets around it,
    and not by a usual amount for one question."""
    return CodingAgent(
        name,
        model=model,
        instructions=instructions,
        tools=tools,
        max_tokens=tokens,
        max_steps=_MOST_STEPS,
        history="summarise",
        on_exceed="allow",
        retry=retry,
        breaker=breaker,
        pinned=tuple((pinned or {}).items()),
        silent_ms=silent_ms,
        compacts=compacts,
    )


_SOONEST_TOLD_MS = 1_000


class Silence:
    """Counts how long nothing was told in a turn, and tells so at a tenth of what a model may be
    silent, but not before a second, then at twice that, and so on. Until a model is asked again
    nobody waits for it."""

    def __init__(self, model: str, limit_ms: int, now: int) -> None:
        self._model, self._limit_ms, self._since = model, limit_ms, now
        self._tools: dict[str, str] = {}
        self._told = 0

    @property
    def due_ms(self) -> int:
        """Return when to tell next, if nothing comes before."""
        return self._since + max(_SOONEST_TOLD_MS, self._limit_ms // 10) * 2**self._told

    def heard(self, event: SageEvent, now: int) -> None:
        """Begin anew: something was told. What a tool is at, it need not say."""
        match event:
            case SageWaiting() | SageCost():
                return
            case SageToolBegan():
                self._tools[event.id] = event.name
            case SageToolEnded():
                self._tools.pop(event.id, None)
            case SageRetry():
                now += round(1000 * event.wait_s)
            case _:
                pass
        self._since, self._told = now, 0

    def tell(self, now: int) -> SageWaiting:
        """Return what is waited for: the tools at work, or else the model."""
        self._told += 1
        at_work = sorted({name for name in self._tools.values() if name != "task"})
        waited_s, limit_s = (now - self._since) / 1000, self._limit_ms / 1000
        if at_work:
            return SageWaiting(", ".join(at_work), waited_s)
        return SageWaiting(self._model, waited_s, limit_s)

    async def watch(self, clock: Clock, put: Callable[[SageEvent], object]) -> None:
        """Tell each time that it is due, until cancelled."""
        while True:
            await clock.wait_until(self.due_ms)
            if (now := clock.now()) >= self.due_ms:
                put(self.tell(now))


async def told_with(
    ask: Ask[str],
    told: StreamBuffer[StreamEvent[str] | SageEvent],
    silence: Silence,
    clock: Clock,
) -> AsyncGenerator[StreamEvent[str] | SageEvent]:
    """Yield what is told of an ask, and what else is put there meanwhile, as it comes."""

    async def pass_on() -> None:
        try:
            async with aclosing(ask.events(stream=True, live=True)) as events:
                async for event in events:
                    await told.put(event)
        finally:
            told.close()

    passing = asyncio.create_task(pass_on())
    watching = asyncio.create_task(silence.watch(clock, told.push))
    try:
        async for event in told:
            yield event
        await passing
    finally:
        told.close()
        for task in (passing, watching):
            task.cancel()
        await run_to_completion(asyncio.wait([passing, watching]))


def output_event(
    program: ProgramRun, turn: int, effect: str, text: str, lines: int
) -> SageToolOutput | None:
    """Return what is told of a command that says something, by the effect that it is; None if its
    call has just ended."""
    key = EffectKey(effect)
    flight = program.machine.state.effects_in_flight.get(key)
    if flight is None:
        return None
    task, (step, index, answers) = task_of(flight.path), program.round_of(key)
    call, name = call_id(task or turn, step, index), answers[-1][index].name
    return SageToolOutput(call, name, text, lines, task)


class ConversingSession(Protocol):
    """The parts of a session that its next request is made of."""

    runtime: Runtime
    record: SageRecord
    history: list[Message]

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Its tools, in their order."""
        ...


async def context_share(session: ConversingSession) -> float:
    """Return how much of the window the conversation takes, as the turn counts it: at 1 it is
    summed up before the next call."""
    record, registry = session.record, session.runtime.model_registry
    tools = tuple(session.tools.values())
    agent = coding_agent(
        "sage",
        record.model,
        record.system,
        tools,
        record.max_tokens,
        retry=None,
        breaker=None,
        silent_ms=1,
    )
    await registry.prepare_for(agent)
    model = registry.models_of(agent)[0]
    rule, specs = agent.rule_for(model), tuple(tool.spec for tool in tools)
    request = ModelRequest(
        model.name, tuple(session.history), rule.settings, agent.instructions, specs
    )
    room = (rule.context_tokens or _ASSUMED_WINDOW) - rule.settings.max_tokens
    return min(1.0, model.bound_input(request) / max(1, room))
