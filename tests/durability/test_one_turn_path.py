"""An ask is one thing: with a journal and without it the same requests, errors, waits and spans."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from vegakit.errors import ErrorClass, Phase, RateLimited, Timeout, UserError, WorldError
from vegakit.events import CallKind, CallTraced
from vegakit.host import Agent, LimiterRules, TextChunk, ToolCalled, ToolReturned, TurnEnded
from vegakit.money import dollars
from vegakit.policy import Backoff, BreakerRule, Rate, RateRule, RateStrategy, RetryRule
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

QUICK = RetryRule(max_attempts=3, backoff=Backoff(1, 1.0, 1))
MANY = LimiterRules(RateRule(), BreakerRule(threshold=1_000_000))


class Spans:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.calls: list[CallTraced] = []

    def record(self, call: CallTraced) -> None:
        self.calls.append(call)

    async def aclose(self) -> None:
        pass

    def shape(self) -> list[tuple[str, str, str, str, int]]:
        """Each span with what it is below, in the order they ended."""
        names = {str(call.span_id): call.name for call in self.calls}
        return [
            (call.kind, call.name, call.status, names.get(call.parent_span or "", ""), call.cost)
            for call in self.calls
        ]


Work = Callable[[Runtime, Agent[Any]], Awaitable[Any]]


def in_both(
    tmp_path: Path, work: Work, make: Callable[[], Agent[Any]], **options: Any
) -> list[tuple[Any, int, list[Any], int]]:
    """What came of it, how many requests were made, the spans, and what was spent: without a
    journal and with one."""

    async def once(journal: Path | None) -> tuple[Any, int, list[Any], int]:
        spans, agent = Spans(), make()
        async with Runtime(journal=journal, trace=spans, limits=lambda _: MANY, **options) as rt:
            try:
                came = await work(rt, agent)
            except UserError as error:
                came = type(error), str(error)
            assert isinstance(agent.model, ScriptedModel)
            return came, len(agent.model.requests), spans.shape(), await rt.spent()

    return [asyncio.run(once(journal)) for journal in (None, tmp_path / "run.db")]


async def ask(rt: Runtime, agent: Agent[Any]) -> str:
    return str(await rt.ask(agent, "hi"))


def failing(*failures: WorldError, **settings: Any) -> Callable[[], Agent[Any]]:
    script = [*failures, "at last"]
    settings = {"retry": QUICK} | settings
    return lambda: Agent("asker", model=ScriptedModel(script), max_tokens=100, **settings)


def fails(error_class: ErrorClass, phase: Phase) -> WorldError:
    return WorldError("as scripted", error_class, phase=phase)


BUSY = fails(ErrorClass.OVERLOADED, Phase.ANSWERED)
CUT = fails(ErrorClass.TIMEOUT, Phase.UNKNOWN)


@pytest.mark.parametrize(
    ("failures", "requests", "came"),
    [
        ([], 1, "at last"),
        ([BUSY, BUSY], 3, "at last"),
        ([CUT, CUT], 3, "at last"),
        ([BUSY, CUT], 3, "at last"),
        ([BUSY, CUT, BUSY], 3, None),
        ([CUT, BUSY, BUSY], 3, None),
        ([CUT] * 4, 3, None),
        ([fails(ErrorClass.REJECTED, Phase.ANSWERED)], 1, None),
    ],
)
def test_attempts_are_counted_once(
    failures: list[WorldError], requests: int, came: str | None, tmp_path: Path
) -> None:
    """Whoever decides the retry, three attempts are three requests on the wire."""
    plain, kept = in_both(tmp_path, ask, failing(*failures))
    assert plain == kept
    assert plain[1] == requests
    assert came is None or plain[0] == came


@pytest.mark.parametrize(
    ("error_class", "text"),
    [
        (ErrorClass.RATE_LIMIT, "RateLimited: agent asker: as scripted; it was asked 3 times"),
        (ErrorClass.TIMEOUT, "Timeout: agent asker: as scripted; it was asked 3 times"),
        (ErrorClass.CONTEXT_LENGTH, "LimitReached: agent asker: as scripted"),
        (ErrorClass.AUTH, "AgentFailed: agent asker: as scripted"),
    ],
)
def test_a_failure_has_one_class_and_one_text(
    error_class: ErrorClass, text: str, tmp_path: Path
) -> None:
    """The class that the language knows it by, and the agent that it happened to."""
    plain, kept = in_both(tmp_path, ask, failing(*[fails(error_class, Phase.ANSWERED)] * 3))
    assert plain == kept
    kind, said = plain[0]
    assert f"{kind.__name__}: {said}" == text


def test_a_timeout_has_one_text(tmp_path: Path) -> None:
    """It says how long was waited, and what to type. A second, since the request has to be on its
    way in both before it is over, on a busy machine too."""

    async def impatient(rt: Runtime, agent: Agent[Any]) -> Any:
        return await rt.ask(agent, "hi", timeout=1)

    def slow() -> Agent[Any]:
        return Agent("asker", model=ScriptedModel("late", latency_ms=60_000), max_tokens=100)

    plain, kept = in_both(tmp_path, impatient, slow)
    assert plain == kept
    said = "agent asker: no answer within 1 s; give it a longer timeout, or ask for less"
    assert plain[0] == (Timeout, said)


def test_a_budget_is_waited_for(tmp_path: Path) -> None:
    """Four at once where there is room for one: all are answered, and no budget is exceeded."""

    async def four(rt: Runtime, agent: Agent[Any]) -> list[str]:
        asks = (rt.ask(agent, f"question {n}") for n in range(4))
        return [str(reply) for reply in await rt.batch(*asks)]

    def make() -> Agent[Any]:
        return Agent("asker", model=ScriptedModel(["yes"] * 4, latency_ms=1), max_tokens=100)

    for came, requests, _, spent in in_both(tmp_path, four, make, budget="$0.0006"):
        assert (came, requests) == (["yes"] * 4, 4)
        assert 0 < spent <= dollars("$0.0006")


def test_a_rate_limit_of_an_agent_counts_once(tmp_path: Path) -> None:
    """Two are let through and the third is refused, wherever the agent was made."""
    twice = RateRule(requests=Rate(2, 3_600_000, 2), strategy=RateStrategy.REJECT)

    async def thrice(rt: Runtime, agent: Agent[Any]) -> list[Any]:
        came: list[Any] = []
        for number in range(3):
            again = Agent("asker", model=agent.model, max_tokens=100, rate=twice)
            try:
                came.append(str(await rt.ask(again, f"question {number}")))
            except RateLimited as refused:
                came.append(str(refused).partition(",")[0])
        return came

    def make() -> Agent[Any]:
        return Agent("asker", model=ScriptedModel(["one", "two"]), max_tokens=100, rate=twice)

    plain, kept = in_both(tmp_path, thrice, make)
    assert plain[:2] == kept[:2]
    refused = "agent asker takes no more calls now"
    assert plain[0] == ["one", "two", refused]


def with_a_tool() -> Agent[Any]:
    def double(n: int) -> int:
        return 2 * n

    script = [{"text": "let me see", "calls": [{"name": "double", "arguments": {"n": 21}}]}, "42"]
    return Agent("asker", model=ScriptedModel(script), max_tokens=100, tools=[double])


def test_spans_stand_alike(tmp_path: Path) -> None:
    """One ask, with its model and tool calls below it."""
    plain, kept = in_both(tmp_path, ask, with_a_tool)
    assert plain == kept
    kinds = [(kind, above) for kind, _, _, above, _ in plain[2]]
    assert kinds == [
        (CallKind.MODEL, "asker"),
        (CallKind.TOOL, "asker"),
        (CallKind.MODEL, "asker"),
        (CallKind.ASK, ""),
    ]


def test_a_stream_tells_the_same(tmp_path: Path) -> None:
    """Text and tools in the order they came."""

    async def streamed(rt: Runtime, agent: Agent[Any]) -> list[Any]:
        told: list[Any] = []
        async for event in rt.stream(agent, "hi"):
            match event:
                case TextChunk(text):
                    told.append(text)
                case ToolCalled(name) | ToolReturned(name):
                    told.append((type(event).__name__, name))
                case TurnEnded(reply):
                    told.append(("reply", reply.text))
                case _:
                    raise AssertionError(event)
        return told

    plain, kept = in_both(tmp_path, streamed, with_a_tool)
    assert plain == kept
    assert plain[0] == [
        "let",
        " me",
        " see",
        ("ToolCalled", "double"),
        ("ToolReturned", "double"),
        "42",
        ("reply", "42"),
    ]


def test_a_tool_sees_the_budget_of_who_asked(tmp_path: Path) -> None:
    """What it asks in turn is paid from there."""

    async def nested(rt: Runtime, agent: Agent[Any]) -> list[int]:
        inner = Agent("inner", model=agent.model, max_tokens=100)

        async def consult() -> str:
            return str(await rt.ask(inner, "and you?"))

        outer = Agent("outer", model=agent.model, max_tokens=100, tools=[consult])
        with rt.budget("$0.5") as scope:
            await rt.ask(outer, "hi")
        found = await rt._ledger.scope(scope)
        assert found is not None
        return [found.settled, await rt.spent()]

    def make() -> Agent[Any]:
        call = {"calls": [{"name": "consult", "arguments": {}}]}
        return Agent("shared", model=ScriptedModel([call, "inside", "outside"]))

    for (settled, spent), requests, _, _ in in_both(tmp_path, nested, make):
        assert settled == spent > 0
        assert requests == 3
