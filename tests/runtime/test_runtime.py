"""The runtime as its users see it: ask, stream, batch, budgets, tools, traces."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.patience import PATIENCE_S
from vegakit.conversation import Media, UserMessage
from vegakit.errors import (
    AgentFailed,
    BudgetExceeded,
    ContractViolated,
    Timeout,
    ToolFailed,
    UserError,
)
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.host import Agent, Reply, TextChunk, ToolCalled, ToolReturned, TurnEnded
from vegakit.money import dollars
from vegakit.providers import ScriptedModel
from vegakit.sdk import Ask, Runtime
from vegakit.testing import VirtualClock, run_virtual

CHEAP = 16_000
"""One word in, three out."""


class Verdict(BaseModel):
    approved: bool
    why: str


class Recorder:
    def __init__(self) -> None:
        self.calls: list[CallTraced] = []

    def record(self, call: CallTraced) -> None:
        self.calls.append(call)

    async def aclose(self) -> None:
        self.calls.append(self.calls[-1])


def within(work: Callable[[Runtime], Awaitable[Any]], **options: Any) -> Any:
    async def opened() -> Any:
        async with Runtime(**options) as rt:
            return await work(rt)

    return asyncio.run(opened())


def within_virtual(work: Callable[[Runtime, VirtualClock], Awaitable[Any]]) -> Any:
    """On virtual time, in which only waiting takes any."""
    clock = VirtualClock()

    async def opened() -> Any:
        async with Runtime(clock=clock) as rt:
            return await work(rt, clock)

    return run_virtual(opened())


def agent(script: Any = "one two three", **options: Any) -> Agent[Any]:
    return Agent("reviewer", model=ScriptedModel(script), **options)


def calls(*names: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments} for name in names]}


def test_an_ask_gives_text_cost_usage_and_trace() -> None:
    """Printed, a reply is its text."""

    async def work(rt: Runtime) -> None:
        reply = await rt.ask(agent(), "hi")
        assert (str(reply), reply.output, reply.text) == ("one two three",) * 3
        assert (reply.cost, reply.usage.output_tokens, len(reply.trace_id)) == (CHEAP, 3, 32)
        assert await rt.spent() == CHEAP
        assert await rt.remaining() == dollars("$10") - CHEAP

    within(work)


def test_an_answer_of_a_type_is_checked_and_asked_for_again() -> None:
    """The model hears what was wrong."""
    script = [{"output": {"approved": True}}, {"output": {"approved": True, "why": "short"}}]
    judge = agent(script, output_type=Verdict)
    reply = within(lambda rt: rt.ask(judge, "Review"))
    assert reply.output == Verdict(approved=True, why="short")
    heard = judge.model.requests[1].messages[-1]  # pyright: ignore[reportAttributeAccessIssue]
    assert "why: Field required" in heard.parts[0].text


def test_an_answer_that_never_fits_is_a_broken_contract() -> None:
    """After two more tries."""
    with pytest.raises(ContractViolated, match="agent reviewer"):
        within(lambda rt: rt.ask(agent("no json", output_type=Verdict), "Review"))


@pytest.mark.parametrize(
    ("kind", "said", "value"), [(bool, "true", True), (list[int], "[1,2]", [1, 2])]
)
def test_a_plain_type_can_be_an_answer(kind: Any, said: str, value: object) -> None:
    """It travels as the field `result` of an object."""
    reply = within(lambda rt: rt.ask(agent(f'{{"result": {said}}}', output_type=kind), "?"))
    assert reply.output == value


def test_tools_run_at_once_and_their_failures_are_results() -> None:
    """Two calls of one answer start before either ends; what one raises, the model hears."""
    both = asyncio.Barrier(2)

    async def look(city: str) -> str:
        await both.wait()
        if city == "Atlantis":
            raise LookupError("no such city")
        return f"sun in {city}"

    asked = {
        "calls": [
            {"name": "look", "arguments": {"city": "Paris"}},
            {"name": "look", "arguments": {"city": "Atlantis"}},
        ]
    }
    reply = within(lambda rt: rt.ask(agent([asked, "done"], tools=[look]), "weather?"))
    results = reply.messages.messages[2].results
    assert [(r.content, r.is_error) for r in results] == [
        ("sun in Paris", False),
        ("LookupError: no such city", True),
    ]


def test_a_tool_that_takes_too_long_is_cancelled() -> None:
    """Its time-out is a result like another; the same failure three times ends the turn."""
    from vegakit.tools import FunctionTool

    ended = 0

    async def nap() -> str:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1
        return "never"

    slow = agent([calls("nap")] * 3, tools=[FunctionTool(nap, timeout_ms=5)])
    with pytest.raises(ToolFailed, match="timed out after 5 ms"):
        within(lambda rt: rt.ask(slow, "sleep"))
    assert ended == 3


def test_tools_get_the_deps_of_the_ask() -> None:
    """What the caller passes, the tool receives."""

    def whose(deps: str) -> str:
        return f"for {deps}"

    reply = within(lambda rt: rt.ask(agent([calls("whose"), "ok"], tools=[whose]), "?", deps="ann"))
    assert reply.messages.messages[2].results[0].content == "for ann"


def test_a_stream_tells_text_tools_and_the_reply() -> None:
    """Printed one after the other, the events are the text."""

    def add(a: int) -> int:
        return a + 1

    speaker = agent([calls("add", a=1), "it is two"], tools=[add])

    async def work(rt: Runtime) -> list[Any]:
        return [event async for event in rt.stream(speaker, "1 + 1?")]

    events = within(work)
    assert "".join(map(str, events)) == "it is two"
    assert events[0] == ToolCalled("add", {"a": 1}, 0)
    assert events[1] == ToolReturned("add", "2", is_error=False, index=0)
    assert events[2] == TextChunk("it")
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].reply.text == "it is two"


def test_a_batch_runs_at_once_and_answers_in_order() -> None:
    """Ten asks of 200 ms take 200 ms."""
    slow = [Agent(f"a{n}", model=ScriptedModel(f"{n}", latency_ms=200)) for n in range(10)]

    async def work(rt: Runtime, clock: VirtualClock) -> tuple[Any, int]:
        began = clock.now()
        return await rt.batch(*(rt.ask(a, "?") for a in slow)), clock.now() - began

    replies, took_ms = within_virtual(work)
    assert [str(reply) for reply in replies] == [str(n) for n in range(10)]
    assert took_ms == 200


def test_a_conversation_goes_on_with_its_history() -> None:
    """The second ask carries the first exchange."""
    talker = agent(["hello", "again"])

    async def work(rt: Runtime) -> int:
        first = await rt.ask(talker, "hi")
        second = await rt.ask(talker, "and now?", history=first.messages)
        return len(second.messages.messages)

    assert within(work) == 4


def test_files_travel_with_the_prompt(tmp_path: Path) -> None:
    """By their ending; what is no file says so."""
    picture = tmp_path / "a.png"
    picture.write_bytes(b"png")
    watcher = agent()
    within(lambda rt: rt.ask(watcher, "what is this?", files=[picture]))
    sent = watcher.model.requests[0].messages[0]  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(sent, UserMessage)
    assert sent.parts[1] == Media("image/png", b"png")
    for name, problem in (("b.png", "not a file"), ("c.unheard", "its ending")):
        with pytest.raises(UserError, match=problem):
            within(lambda rt, name=name: rt.ask(watcher, "?", files=[tmp_path / name]))


def test_a_timeout_is_a_deadline_for_the_whole_ask() -> None:
    """The call is cut off and charged as reserved."""
    slow = Agent("slow", model=ScriptedModel("x", latency_ms=5_000), max_tokens=10)

    async def work(rt: Runtime, _: VirtualClock) -> None:
        with pytest.raises(Timeout, match="no answer within 0\\.03 s"):
            await rt.ask(slow, "?", timeout=0.03)
        assert await rt.spent() == 1_000 + 10 * 5_000

    within_virtual(work)


def test_a_budget_block_caps_the_asks_written_in_it() -> None:
    """Also when they are awaited outside of it."""

    async def work(rt: Runtime) -> None:
        with rt.budget("$0.00001"):
            inside = rt.ask(agent(), "?")
            with pytest.raises(BudgetExceeded, match=r"could cost .* has \$0.00001 left"):
                await rt.ask(agent(), "?")
        with pytest.raises(BudgetExceeded):
            await inside
        assert str(await rt.ask(agent(), "?")) == "one two three"

    within(work)


def test_what_is_known_of_blocks_does_not_grow_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was used is forgotten when it is closed; of others the last ones are known."""
    monkeypatch.setattr("vegakit.host.budgets.MOST_UNUSED", 5)

    async def work(rt: Runtime) -> None:
        asker = agent()
        late = rt.ask(asker, "?")
        for _ in range(20):
            with rt.budget("$1"):
                await rt.ask(asker, "?")
            late.close()
            with rt.budget("$1"):
                late = rt.ask(asker, "?")
        await late
        known: Any = rt.budgets
        assert len(known._rules) <= 1 + 5 + 2
        assert len(known._opened) <= 1 + 5 + 2
        with rt.budget("$1"):
            early = rt.ask(asker, "?")
        for _ in range(6):
            with rt.budget("$1"):
                pass
        await rt.ask(asker, "?")
        with pytest.raises(BudgetExceeded, match="is closed; make the call inside its"):
            await early

    within(work, budget="$100")


def test_an_agent_keeps_few_variants_of_itself() -> None:
    """One for each amount that is left of a quota would be one for each run."""
    asker: Any = agent()
    for cents in range(1, 200):
        assert asker.varied(cents / 100).cap == dollars(cents / 100)
    assert len(asker._variants) <= 64


def test_a_budget_with_a_period_goes_on_where_it_was_left() -> None:
    """Two blocks of $0.03 a day on one ledger share the day."""

    async def work(rt: Runtime) -> None:
        for _ in range(2):
            with rt.budget("$0.03/day"):
                await rt.ask(agent(), "?")
        with rt.budget("$0.03/day"):
            assert await rt.remaining() == dollars("$0.03") - 2 * CHEAP
        with rt.budget("$0.03"):
            assert await rt.remaining() == dollars("$0.03")

    within(work)


def test_the_budget_of_an_agent_holds_for_its_whole_tool_loop() -> None:
    """Each call is small; the third does not fit."""

    def more() -> str:
        return "more"

    dear = calls("more") | {"usage": {"input_tokens": 1, "output_tokens": 90}}
    greedy = agent([dear] * 9, tools=[more], budget="$0.0012", max_tokens=100)

    async def work(rt: Runtime) -> None:
        with pytest.raises(BudgetExceeded):
            await rt.ask(greedy, "go")
        assert await rt.spent() == 2 * (1_000 + 90 * 5_000)
        assert await rt.remaining() == dollars("$10") - await rt.spent()

    within(work)


def test_an_ask_takes_a_part_of_what_is_there() -> None:
    """An agent's budget above the runtime's is refused before anything is sent."""

    async def work(rt: Runtime) -> None:
        with pytest.raises(BudgetExceeded, match="give the agent a smaller one"):
            await rt.ask(agent(budget="$2"), "?")

    within(work, budget="$1")


def test_every_call_is_traced_below_its_ask() -> None:
    """With tokens and cost; refused and failed ones too."""
    recorder = Recorder()

    def tool() -> str:
        return "x"

    async def work(rt: Runtime) -> None:
        with rt.tracer.span("my block"):
            rt.tracer.set_attribute("user", "ann")
            await rt.ask(agent([calls("tool"), "one two three"], tools=[tool]), "hi")
        rt.tracer.event("between")
        with rt.budget("$0"), pytest.raises(BudgetExceeded):
            await rt.ask(agent(), "?")
        with pytest.raises(AgentFailed, match="rejected, as scripted"):
            await rt.ask(agent([{"error": "rejected"}]), "?")

    within(work, trace=recorder)
    rows = [(c.kind, c.status, c.cost > 0) for c in recorder.calls[:-1]]
    assert rows == [
        (CallKind.MODEL, CallStatus.OK, True),
        (CallKind.TOOL, CallStatus.OK, False),
        (CallKind.MODEL, CallStatus.OK, True),
        (CallKind.ASK, CallStatus.OK, True),
        (CallKind.SPAN, CallStatus.OK, False),
        (CallKind.EVENT, CallStatus.OK, False),
        (CallKind.MODEL, CallStatus.REFUSED, False),
        (CallKind.ASK, CallStatus.FAILED, False),
        (CallKind.MODEL, CallStatus.FAILED, False),
        (CallKind.ASK, CallStatus.FAILED, False),
    ]
    model, _, _, ask, span = recorder.calls[:5]
    assert model.parent_span == ask.span_id
    assert ask.parent_span == span.span_id
    assert span.attributes == {"user": "ann"}
    assert (model.agent, model.model, model.output_tokens) == ("reviewer", "scripted", 2)


def test_an_overrun_is_an_event_below_its_call() -> None:
    """With the scope and by how much."""
    recorder = Recorder()
    dear = {"text": "x", "usage": {"input_tokens": 1, "output_tokens": 1_000}}
    within(lambda rt: rt.ask(agent([dear], max_tokens=10), "hi"), trace=recorder, budget="$0.004")
    event, model = recorder.calls[:2]
    assert (event.kind, event.name) == (CallKind.EVENT, "CapOverrun")
    assert event.parent_span == model.span_id
    assert event.attributes == {"scope": "runtime:default", "by": 1_001_000}


def test_models_by_name_come_from_outside() -> None:
    """A name that neither the program nor the settings know is refused with what to write."""
    named = Agent("named", model="smart")
    reply = within(lambda rt: rt.ask(named, "?"), models=lambda name: ScriptedModel(f"I am {name}"))
    assert str(reply) == "I am smart"
    with pytest.raises(UserError, match=r"no model or alias|provider"):
        within(lambda rt: rt.ask(Agent("named", model="nobody"), "?"))


def test_a_runtime_is_opened_first() -> None:
    """The error shows the line to write."""
    with pytest.raises(UserError, match="async with Runtime"):
        Runtime().ask(agent(), "?")


def test_a_thousand_asks_at_once_stay_exact() -> None:
    """Every nano-dollar is accounted for, and no task is left."""

    async def work(rt: Runtime) -> None:
        asker = agent()
        await rt.batch(*(rt.ask(asker, "hi") for _ in range(1_000)))
        assert await rt.spent() == 1_000 * CHEAP
        assert await rt.remaining() == dollars("$100") - 1_000 * CHEAP
        assert len(asyncio.all_tasks()) == 2

    within(work, budget="$100")


async def _grouped(ask: Ask[str]) -> Reply[str]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ask)
    return task.result()


async def _gathered(ask: Ask[str]) -> Reply[str]:
    [reply] = await asyncio.gather(ask)
    return reply


WAYS: dict[str, Callable[[Ask[str]], Awaitable[Reply[str]]]] = {
    "await": lambda ask: ask,
    "create_task": asyncio.create_task,
    "ensure_future": asyncio.ensure_future,
    "gather": _gathered,
    "wait_for": lambda ask: asyncio.wait_for(ask, PATIENCE_S),
    "TaskGroup": _grouped,
    "shield": asyncio.shield,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_asyncio_takes_a_question_as_a_coroutine(
    way: Callable[[Ask[str]], Awaitable[Reply[str]]],
) -> None:
    """Also in the debug mode of asyncio, which looks closer."""

    async def work() -> None:
        async with Runtime() as rt:
            assert (await way(rt.ask(agent("yes"), "?"))).text == "yes"

    asyncio.run(work(), debug=True)


def test_a_task_of_a_question_is_cancelled_as_any_other() -> None:
    """Before its first step, too; and a question that nobody awaits is no fault."""

    async def work() -> None:
        async with Runtime() as rt:
            rt.ask(agent("yes"), "?").close()
            for steps in range(4):
                task = asyncio.create_task(rt.ask(agent("yes"), "?"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(work())
