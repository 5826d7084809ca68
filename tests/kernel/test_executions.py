"""Pipelines and agents that a server runs: events, money, people, takeover."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.kernel.kernels import ANN, BOB, OTHER, refused
from tests.patience import PATIENCE_S, until
from tests.store.postgres import own_schema, url_of
from vegakit import Agent, Runtime
from vegakit.concurrency import SteadyClock
from vegakit.control import (
    AgentAnswer,
    CheckRateLimitRequest,
    CreateProcessRequest,
    EmptyRequest,
    ExecuteAgentRequest,
    ExecutePipelineRequest,
    InferenceRequest,
    KernelEventKind,
    ListTenantsRequest,
    NextRunnableRequest,
    NumberedPipelineEvent,
    OperationError,
    PidRequest,
    PipelineEventKind,
    RefusalCode,
    ResolveInterruptRequest,
    SetTenantBudgetRequest,
    TenantRequest,
    TerminateProcessRequest,
    WatchRequest,
)
from vegakit.conversation import ModelRequest
from vegakit.errors import UserError
from vegakit.ids import TenantId
from vegakit.kernel import Kernel, KernelCaller, TenantKernel, processes
from vegakit.money import Money, dollars
from vegakit.policy import AgentDefinition, PipelineDefinition, ProcessState, QuotaRule, Replied
from vegakit.ports import TenantStore
from vegakit.records import from_json, to_json
from vegakit.server import RuntimeAgents, TokenRole, Tokens
from vegakit.store import open_tenants
from vegakit.testing import ScriptedModel

Said = list[str]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Site:
    """A store, and servers on it; `said` are the prompts that models were asked."""

    def __init__(self, rt: Runtime, answers: Any) -> None:
        self.store: TenantStore = open_tenants(":memory:")
        self.clock, self.rt, self.said = SteadyClock(), rt, list[str]()
        self.model = ScriptedModel(answers)
        self.helper = Agent("helper", model=self.model, max_tokens=100)

    def kernel(self, **options: Any) -> Kernel:
        agents = RuntimeAgents(self.rt, [self.helper], models=["fast"], tools=[add], **options)
        return Kernel(self.store, self.clock, agents)

    def of(self, caller: KernelCaller = ANN) -> TenantKernel:
        return TenantKernel(self.kernel(), caller)


@asynccontextmanager
async def a_site(answers: Any = "done") -> AsyncGenerator[Site]:
    found: list[Site] = []
    async with Runtime("$5", models=lambda _: found[0].model, observable=False) as rt:
        found.append(Site(rt, answers))
        yield found[0]


def pipeline(stages: list[Any], agents: Mapping[str, Any] | None = None, **more: Any) -> Any:
    given = {name: {"model": "fast", "max_tokens": 100} for name in "abc"} | dict(agents or {})
    used = {stage["agent"] for stage in stages}
    kept = {name: agent for name, agent in given.items() if name in used or name in (agents or {})}
    text = to_json({"stages": stages, "agents": kept, **more})
    return from_json(PipelineDefinition, text)


TWO = [
    {"name": "plan", "agent": "a", "default_next": "write"},
    {"name": "write", "agent": "b"},
]


async def walked(
    kernel: TenantKernel, request: ExecutePipelineRequest, most: int = 1_000
) -> list[NumberedPipelineEvent]:
    found: list[NumberedPipelineEvent] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(kernel.execute_pipeline(request)) as events:
        async for event in events:
            found.append(event)
            if len(found) == most:
                break
    return found


def kinds(events: list[NumberedPipelineEvent]) -> list[str]:
    return [f"{told.event.kind} {told.event.stage}".strip() for told in events]


WALK = [
    "stage_started plan",
    "stage_completed plan",
    "stage_started write",
    "stage_completed write",
    "completed",
]


def by_prompt(request: ModelRequest) -> str:
    text = request.messages[-1].parts[0].text  # type: ignore[union-attr]
    return f"<{text}>"


async def test_a_pipeline_runs_and_its_events_are_told_in_order() -> None:
    agents = {
        "a": {"model": "fast", "prompt": "Plan {input}.", "max_tokens": 100},
        "b": {"model": "fast", "prompt": "Write {plan}", "max_tokens": 100},
    }
    async with a_site(by_prompt) as site:
        kernel = site.of()
        request = ExecutePipelineRequest("p", pipeline(TWO, agents), "owls")
        events = await walked(kernel, request)
        assert kinds(events) == WALK
        assert events[1].event.detail["output"] == "<Plan owls.>"
        assert events[3].event.detail["output"] == "<Write <Plan owls.>>"
        process = await kernel.get_process(PidRequest("p"))
        used = process.quota.used
        assert (process.state, process.reason) == (ProcessState.TERMINATED, "completed")
        assert (used.model_calls, used.agent_hops) == (2, 2)
        assert used.money == int(await site.rt.spent()) > 0


async def test_whoever_comes_back_with_a_number_misses_nothing_and_hears_nothing_twice() -> None:
    async with a_site() as site:
        request = ExecutePipelineRequest("p", pipeline(TWO), "owls")
        first = await walked(site.of(), request, 2)
        cursor = first[-1].number
        later = await walked(site.of(BOB), ExecutePipelineRequest("p", after=cursor))
        assert kinds([*first, *later]) == WALK
        whole = await walked(site.of(), request)
        assert whole == [*first, *later]
        assert await walked(site.of(), ExecutePipelineRequest("p", after=later[-1].number)) == []
        # Nothing was run a second time.
        assert (await site.of().get_process(PidRequest("p"))).quota.used.model_calls == 2
        with refused(RefusalCode.NOT_FOUND, "no pipeline of process 'p'"):
            await walked(site.of(OTHER), ExecutePipelineRequest("p", after=cursor))
        with refused(
            RefusalCode.CONFLICT,
            "'p' is there already, with another pipeline and another input and another agents",
        ):
            await walked(site.of(), ExecutePipelineRequest("p", pipeline(TWO[1:])))


async def test_another_request_under_the_pid_of_a_pipeline_is_refused_with_what_differs() -> None:
    async with a_site() as site:
        request = ExecutePipelineRequest("p", pipeline(TWO), "owls", QuotaRule(model_calls=9))
        whole = await walked(site.of(), request)
        others = {
            "input": replace(request, input="hawks"),
            "quota": replace(request, quota=QuotaRule(model_calls=10)),
            "idle_ms": replace(request, idle_ms=5_000),
            "chunks": replace(request, chunks=True),
        }
        for field, other in others.items():
            for asked in (other, replace(other, pipeline=None)):
                text = f"pipeline 'p' is there already, with another {field};"
                with refused(RefusalCode.CONFLICT, text):
                    await walked(site.of(), asked)
        with refused(RefusalCode.CONFLICT, "another user;"):
            await walked(site.of(BOB), request)
        assert await walked(site.of(), request) == whole
        assert await walked(site.of(BOB), ExecutePipelineRequest("p")) == whole


async def test_a_process_of_others_is_not_taken_over() -> None:
    async with a_site() as site:
        await site.of().submit(CreateProcessRequest("p"))
        with refused(RefusalCode.CONFLICT, "is there already"):
            await walked(site.of(), ExecutePipelineRequest("p", pipeline(TWO)))


async def test_what_a_server_runs_is_in_no_queue() -> None:
    gate = asyncio.Event()

    async with a_site() as site:
        model = site.model = Slow(gate)
        kernel = site.of()
        walking = asyncio.ensure_future(
            walked(kernel, ExecutePipelineRequest("p", pipeline(TWO[1:])))
        )
        await until(lambda: model.asked)
        assert (await kernel.get_next_runnable(NextRunnableRequest("w"))).process is None
        gate.set()
        assert kinds(await walking)[-1] == "completed"


class Slow(ScriptedModel):
    """Answers when it is let go."""

    def __init__(self, gate: asyncio.Event) -> None:
        super().__init__("done")
        self.gate, self.asked, self.ended = gate, 0, 0

    async def ask(self, request: ModelRequest) -> Any:
        self.asked += 1
        try:
            await self.gate.wait()
        finally:
            self.ended += 1
        return await super().ask(request)


async def test_stages_run_side_by_side() -> None:
    stages = [
        {"name": "one", "agent": "a"},
        {"name": "two", "agent": "b"},
        {"name": "join", "agent": "c", "requires": ["one", "two"]},
    ]
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        request = ExecutePipelineRequest("p", pipeline(stages, start=["one", "two"]))
        walking = asyncio.ensure_future(walked(site.of(), request))
        await until(lambda: model.asked == 2)
        gate.set()
        assert kinds(await walking)[-2:] == ["stage_completed join", "completed"]


async def test_a_stage_is_routed_by_a_field_of_its_answer() -> None:
    stages = [
        {
            "name": "check",
            "agent": "judge",
            "routing": [
                {"target": "good", "condition": "equals", "field": "verdict", "value": "ok"}
            ],
            "default_next": "bad",
        },
        {"name": "good", "agent": "a"},
        {"name": "bad", "agent": "a"},
    ]
    judge = {
        "model": "fast",
        "max_tokens": 100,
        "output": {"verdict": "text", "score": "integer"},
    }
    answers = [{"output": {"verdict": "ok", "score": 3}}, "fine"]
    async with a_site(answers) as site:
        request = ExecutePipelineRequest("p", pipeline(stages, {"judge": judge}))
        events = await walked(site.of(), request)
        assert events[1].event.detail["output"] == {"verdict": "ok", "score": 3}
        assert kinds(events)[2:] == ["stage_started good", "stage_completed good", "completed"]


async def test_a_person_answers_a_stage_and_no_server_waits_meanwhile() -> None:
    stages = [
        {"name": "draft", "agent": "a", "default_next": "review"},
        {"name": "review", "agent": "person", "default_next": "send"},
        {"name": "send", "agent": "b"},
    ]
    agents = {
        "person": {"asks": "clarification", "prompt": "May this be sent? {draft}"},
        "b": {"model": "fast", "prompt": "Send after: {review}", "max_tokens": 100},
    }
    async with a_site(by_prompt) as site:
        asking = site.of()
        request = ExecutePipelineRequest("p", pipeline(stages, agents), "hi")
        first = await walked(asking, request, 4)
        assert kinds(first)[2:] == ["stage_started review", "interrupt_created"]
        key = first[-1].event.detail["id"]
        walks = asking._kernel.executions._walks  # pyright: ignore[reportPrivateUsage]
        await until(lambda: not walks)
        asked = await asking.get_pending_interrupt(PidRequest("p"))
        assert asked.interrupt is not None
        assert asked.interrupt.interrupt.ask.text == "May this be sent? <hi>"
        # Another server, as the first may be gone by then.
        other = site.of(BOB)
        await other.resolve_interrupt(ResolveInterruptRequest(key, Replied("yes, today")))
        rest = await walked(other, ExecutePipelineRequest("p", after=first[-1].number))
        assert kinds(rest) == [
            "interrupt_resolved",
            "stage_started review",
            "stage_completed review",
            "stage_started send",
            "stage_completed send",
            "completed",
        ]
        assert rest[-2].event.detail["output"] == "<Send after: yes, today>"


async def test_text_is_told_as_it_comes() -> None:
    async with a_site("one two three") as site:
        request = ExecutePipelineRequest("p", pipeline(TWO[1:]), chunks=True)
        events = await walked(site.of(), request)
        chunks = [told.event for told in events if told.event.kind == "chunk"]
        assert "".join(chunk.detail["text"] for chunk in chunks) == "one two three"
        assert {chunk.task for chunk in chunks} == {events[0].event.task}
        assert kinds(events)[-2:] == ["stage_completed write", "completed"]


async def test_a_bound_is_told_and_ends_it() -> None:
    loop = [{"name": "again", "agent": "a", "default_next": "again"}]
    bounded = pipeline(loop, bounds={"max_iterations": 2})
    async with a_site() as site:
        events = await walked(site.of(), ExecutePipelineRequest("p", bounded))
        assert kinds(events)[-2:] == ["bound_reached", "terminated"]
        assert events[-2].event.detail == {"resource": "max_iterations", "limit": 2}
        assert events[-1].event.detail["reason"] == "max_iterations"
        assert kinds(events).count("stage_started again") == 2


async def test_a_stage_beyond_the_money_of_its_process_is_refused_before_it_is_sent() -> None:
    """Two calls fit, each of at most $0.0005 and some input; the third does not."""
    loop = [{"name": "again", "agent": "a", "default_next": "again"}]
    bounded = pipeline(loop, bounds={"max_iterations": 9})
    reply = {"text": "x", "usage": {"input_tokens": 10, "output_tokens": 100}}
    async with a_site([reply] * 9) as site:
        quota = QuotaRule(money=dollars("$0.0015"))
        events = await walked(site.of(), ExecutePipelineRequest("p", bounded, quota=quota))
        failed = events[-2].event
        assert kinds(events)[-2:] == ["stage_failed again", "terminated"]
        assert failed.detail["failure"] == "resource_exhausted"
        assert re.search(
            r"BudgetExceeded: .* could .* process 'p' had .* left of the \$0.0015 of its quota",
            failed.detail["error"],
        )
        assert "wallet" not in failed.detail["error"]
        process = await site.of().get_process(PidRequest("p"))
        assert process.quota.used.money == int(await site.rt.spent())
        assert 0 < process.quota.used.money <= dollars("$0.0015")
        assert process.quota.used.model_calls == kinds(events).count("stage_completed again") >= 2


async def test_stages_side_by_side_share_the_money_of_their_process() -> None:
    stages = [{"name": name, "agent": "a"} for name in ("one", "two", "three")]
    both = pipeline(stages, start=["one", "two", "three"])
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        quota = QuotaRule(money=dollars("$0.0008"))
        walking = asyncio.ensure_future(
            walked(site.of(), ExecutePipelineRequest("p", both, quota=quota))
        )
        # Each alone would fit, but what one has reserved is not there for the others: they wait
        # for what it does not use.
        await until(lambda: model.asked == 1)
        spent = (await site.of().get_process(PidRequest("p"))).quota.used
        assert (spent.money, model.asked) == (0, 1)
        gate.set()
        events = await walking
        assert events[-1].event.detail["reason"] == "completed"
        assert model.asked == 3
        used = (await site.of().get_process(PidRequest("p"))).quota.used.money
        assert 0 < used <= dollars("$0.0008")


async def test_a_stage_waits_for_money_no_longer_than_it_may_take() -> None:
    """Who calls without a pipeline is told at once, in words of those who call a kernel."""
    timed = pipeline([{"name": "one", "agent": "a", "timeout_ms": 200}])
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        kernel = TenantKernel(site.kernel(tenant_budget="$0.0008"), ANN)
        request = InferenceRequest("fast", "x", max_tokens=100)
        holding = asyncio.ensure_future(kernel.dispatch_inference(request))
        await until(lambda: model.asked == 1)
        with refused(
            RefusalCode.BUDGET_EXCEEDED, "try again when a call under way has ended"
        ) as caught:
            await kernel.dispatch_inference(request)
        assert "set_tenant_budget" in str(caught.value)
        assert not re.search("wait_for_budget|raise the budget", str(caught.value))
        events = await walked(kernel, ExecutePipelineRequest("p", timed))
        assert (kinds(events)[-1], model.asked) == ("terminated", 1)
        gate.set()
        await holding


@pytest.mark.parametrize("limit", ["quota", "bound"])
async def test_stages_side_by_side_share_the_model_calls_of_their_process(limit: str) -> None:
    """Each has tools, and so may want all; together they make no more than there are."""
    names = ["one", "two", "three", "four"]
    more = {"bounds": {"max_llm_calls": 3}} if limit == "bound" else {}
    tooled = {"a": {"model": "fast", "max_tokens": 100, "tools": ["add"]}}
    stages = [{"name": name, "agent": "a"} for name in names]
    side_by_side = pipeline(stages, tooled, start=names, **more)
    async with a_site(lambda _: "done") as site:
        quota = QuotaRule(model_calls=3 if limit == "quota" else 100)
        request = ExecutePipelineRequest("p", side_by_side, quota=quota)
        events = await walked(site.of(), request)
        assert kinds(events)[-1] == "terminated"
        assert sum(kind.startswith("stage_completed") for kind in kinds(events)) == 3
        assert (await site.of().get_process(PidRequest("p"))).quota.used.model_calls == 3
        assert len(site.model.requests) == 3, "no call was made beyond"


async def test_runs_side_by_side_share_the_model_calls_of_their_process() -> None:
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        await site.of().submit(CreateProcessRequest("p", quota=QuotaRule(model_calls=2)))
        request = InferenceRequest("fast", "x", max_tokens=50, pid="p")
        both = [asyncio.ensure_future(site.of().dispatch_inference(request)) for _ in range(2)]
        await until(lambda: model.asked == 2)
        with refused(RefusalCode.EXHAUSTED, "no model call free: 2 are reserved by runs under way"):
            await site.of().dispatch_inference(request)
        both[0].cancel()
        await asyncio.wait({both[0]})
        gate.set()
        await both[1]
        used = (await site.of().get_process(PidRequest("p"))).quota.used.model_calls
        assert used <= 2
        for _ in range(2 - used):
            await site.of().dispatch_inference(request)
        with refused(RefusalCode.BUDGET_EXCEEDED, "has used 2 of 2 model_calls"):
            await site.of().dispatch_inference(request)


async def test_calls_that_a_server_had_reserved_when_it_was_killed_come_back() -> None:
    async with a_site() as site:
        kernel = site.of()
        await kernel.submit(CreateProcessRequest("p", quota=QuotaRule(model_calls=1)))
        now = site.clock.now()
        await site.kernel().transact(
            ANN.tenant, lambda it: processes.reserve_calls(it, "p", "gone", 1, now + 300)
        )
        request = InferenceRequest("fast", "x", max_tokens=50, pid="p")
        with refused(RefusalCode.EXHAUSTED, "1 are reserved"):
            await kernel.dispatch_inference(request)
        await site.clock.wait_until(now + 300)
        assert (await kernel.dispatch_inference(request)).text == "done"


async def test_who_ends_the_process_ends_what_runs() -> None:
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        kernel = site.of()
        walking = asyncio.ensure_future(
            walked(kernel, ExecutePipelineRequest("p", pipeline(TWO[1:])))
        )
        await until(lambda: model.asked)
        await kernel.terminate_process(TerminateProcessRequest("p", "enough"))
        events = await walking
        assert events[-1].event.detail == {"reason": "user_cancelled", "message": "enough"}
        await until(lambda: model.ended)


async def test_a_server_that_stops_hands_over() -> None:
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        first = site.kernel()
        walking = asyncio.ensure_future(
            walked(TenantKernel(first, ANN), ExecutePipelineRequest("p", pipeline(TWO[1:])))
        )
        await until(lambda: model.asked)
        await first.executions.aclose()
        walking.cancel()
        gate.set()
        events = await walked(site.of(), ExecutePipelineRequest("p"))
        assert kinds(events) == [
            "stage_started write",
            "stage_started write",
            "stage_completed write",
            "completed",
        ]
        assert events[0].event.task != events[1].event.task


async def test_one_server_has_it_and_another_goes_on_when_its_lease_has_ended() -> None:
    """The first one lives on without renewing, as one that was frozen; its report is refused."""
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        first, second = site.kernel(), site.kernel()
        first.executions.lease_ms = 300
        request = ExecutePipelineRequest("p", pipeline(TWO[1:]))
        walking = asyncio.ensure_future(walked(TenantKernel(first, ANN), request))
        await until(lambda: model.asked)
        await second.executions.start_due()
        assert not second.executions._walks  # pyright: ignore[reportPrivateUsage]
        frozen = first.transact

        async def forget(*_: Any) -> Any:
            await asyncio.Event().wait()

        first.transact = forget  # type: ignore[method-assign]
        sweeping = asyncio.ensure_future(second.keep_sweeping(50))
        await until(lambda: model.asked == 2)
        first.transact = frozen  # type: ignore[method-assign]
        gate.set()
        events = await walked(TenantKernel(second, ANN), request)
        assert kinds(events).count("stage_completed write") == 1
        walking.cancel()
        sweeping.cancel()
        await first.executions.aclose()
        await asyncio.wait({sweeping})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"x": {"model": "fast"}}, "agents.x: no stage names it"),
    ({"a": {"model": "slow"}}, "model 'slow' is not granted here"),
    ({"a": {"model": "fast", "tools": ["ad"]}}, "tool 'ad' is not granted here; did you mean add"),
    ({"a": {"model": "fast", "prompt": "{pla}"}}, "{pla} is no stage; did you mean plan"),
    ({"a": {"model": "fast", "asks": "clarification"}}, "one of the two"),
    ({"a": {"asks": "timeout", "prompt": "?"}}, "timeout is no question to a person"),
    ({"a": {"asks": "confirmation"}}, "prompt: write the question"),
    ({"a": {"model": "fast", "budget": "much"}}, "agents.a.budget"),
    ({"a": {"model": "fast", "output": {"a b": "text"}}}, "is no name of a field"),
]


@pytest.mark.parametrize(("agents", "problem"), WRONG, ids=[text for _, text in WRONG])
async def test_a_definition_that_cannot_run_is_refused_with_what_to_write(
    agents: dict[str, Any], problem: str
) -> None:
    async with a_site() as site:
        with refused(RefusalCode.INVALID, re.escape(problem)):
            await walked(site.of(), ExecutePipelineRequest("p", pipeline(TWO, agents)))


async def test_an_agent_the_server_knows_needs_no_definition() -> None:
    async with a_site() as site:
        known = [{"name": "only", "agent": "helper"}]
        events = await walked(site.of(), ExecutePipelineRequest("p", pipeline(known)))
        assert kinds(events)[-1] == "completed"
        unknown = [{"name": "only", "agent": "helpr"}]
        with refused(RefusalCode.INVALID, "did you mean helper"):
            await walked(site.of(), ExecutePipelineRequest("q", pipeline(unknown)))


async def test_one_agent_answers_and_is_counted() -> None:
    calls = [{"calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}, "It is 5."]
    async with a_site(calls) as site:
        kernel = site.of()
        await kernel.create_process(CreateProcessRequest("p", quota=QuotaRule(model_calls=2)))
        definition = from_json(
            PipelineDefinition,
            b'{"stages": [], "agents": {"a": {"model": "fast", "tools": ["add"]}}}',
        ).agents["a"]
        request = ExecuteAgentRequest("adder", "2 + 3?", definition, "p")
        answer = await kernel.execute_agent(request)
        assert (answer.text, answer.finish, answer.failure) == ("It is 5.", "stop", "")
        assert (answer.metrics.llm_calls, answer.metrics.tool_calls) == (2, 1)
        used = (await kernel.get_process(PidRequest("p"))).quota.used
        assert (used.model_calls, used.tool_calls) == (2, 1)
        assert used.money == answer.metrics.cost == int(await site.rt.spent())
        with refused(RefusalCode.BUDGET_EXCEEDED, "has used 2 of 2 model_calls"):
            await kernel.execute_agent(request)


async def test_a_model_is_called_once_within_what_is_left() -> None:
    async with a_site(by_prompt) as site:
        kernel = site.of()
        request = InferenceRequest("fast", "Hello", max_tokens=50)
        answer = await kernel.dispatch_inference(request)
        assert isinstance(answer, AgentAnswer)
        assert (answer.text, answer.metrics.llm_calls) == ("<Hello>", 1)
        poor = CreateProcessRequest("p", quota=QuotaRule(money=Money(1_000)))
        await kernel.create_process(poor)
        with refused(RefusalCode.BUDGET_EXCEEDED, "BudgetExceeded"):
            await kernel.dispatch_inference(
                InferenceRequest("fast", "Hello", max_tokens=50, pid="p")
            )
        with refused(RefusalCode.INVALID, "nothing to answer"):
            await kernel.dispatch_inference(InferenceRequest("fast"))
        with refused(RefusalCode.INVALID, "model 'scripted:/etc/passwd' is not granted"):
            await kernel.dispatch_inference(InferenceRequest("scripted:/etc/passwd", "Hello"))


async def test_a_refusal_names_the_budget_that_refused() -> None:
    """Callers know agents, processes and tenants, but no wallets."""
    small = AgentDefinition("fast", max_tokens=100, budget="$0.0001")
    large = AgentDefinition("fast", max_tokens=100, budget="$1")
    async with a_site() as site:
        poor = TenantKernel(site.kernel(tenant_budget="$0.0001"), ANN)
        await site.of().submit(CreateProcessRequest("p", quota=QuotaRule(money=dollars("$0.0004"))))
        for kernel, definition, pid, text in (
            (site.of(), small, "", "more than is left of the agent's own budget; raise that"),
            (site.of(), small, "p", "more than is left of the agent's own budget; raise that"),
            (site.of(), large, "p", "process 'p' had \\$0.0004 left of the \\$0.0004 of its quota"),
            (poor, large, "", "the budget of tenant 'acme' has only"),
        ):
            with refused(RefusalCode.BUDGET_EXCEEDED, text) as caught:
                await kernel.execute_agent(ExecuteAgentRequest("a", "x", definition, pid))
            assert not re.search("wallet|send|runtime:", str(caught.value))


async def test_a_tool_that_needs_an_approval_is_refused_and_does_not_hang() -> None:
    calls = {"calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}
    model = ScriptedModel(lambda _: calls)
    asks = ExecutePipelineRequest(
        "p", pipeline(TWO[1:], {"b": {"model": "fast", "max_tokens": 100, "tools": ["add"]}})
    )
    async with Runtime("$5", models=lambda _: model, observable=False, mode="ask") as rt:
        agents = RuntimeAgents(rt, models=["fast"], tools=[add])
        kernel = TenantKernel(Kernel(open_tenants(":memory:"), SteadyClock(), agents), ANN)
        definition = AgentDefinition("fast", tools=("add",), max_tokens=100)
        async with asyncio.timeout(PATIENCE_S):
            answer = await kernel.execute_agent(ExecuteAgentRequest("a", "?", definition))
        assert answer.failure == "policy_violation"
        assert "'add' needs a person's approval, and nobody approves while" in answer.error
        failed = (await walked(kernel, asks))[-2].event
        assert failed.detail["failure"] == "policy_violation"
        assert rt.interrupts() == []
        assert len(model.requests) == 2, "one for each run: it ends there"


async def test_a_process_named_as_its_user_or_tenant_shares_nothing_with_them() -> None:
    """Nor with one of the same name of a tenant that is named as a user of this one."""
    quota = QuotaRule(money=dollars("$0.0006"), model_calls=5)
    pids = [ANN.user, ANN.tenant, f"tenant {ANN.tenant}", f"{ANN.tenant} p", "a/b", "a%2Fb"]
    reply = {"text": "x", "usage": {"input_tokens": 1, "output_tokens": 100}}
    twin = KernelCaller(TenantId(ANN.user), ANN.tenant)
    async with a_site(lambda _: reply) as site:
        await site.of().check_rate_limit(CheckRateLimitRequest())
        for caller in (ANN, twin):
            kernel = site.of(caller)
            for pid in pids:
                await kernel.submit(CreateProcessRequest(pid, quota=quota))
                request = InferenceRequest("fast", "x", max_tokens=100, pid=pid)
                assert (await kernel.dispatch_inference(request)).failure == ""
                with refused(RefusalCode.BUDGET_EXCEEDED, re.escape(f"process {pid!r} had ")):
                    await kernel.dispatch_inference(request)
                assert (await kernel.get_process(PidRequest(pid))).quota.used.model_calls == 1
        status = await site.of().get_system_status(EmptyRequest())
        assert {*status.rate_limits} == {ANN.user}
        assert (await site.of(twin).get_system_status(EmptyRequest())).rate_limits == {}


async def test_a_tenant_that_nobody_knows_is_told() -> None:
    """A name that is misspelt gets a budget that nobody has."""
    async with a_site() as site:
        await Tokens(site.store, site.clock).create("acme", "ann", TokenRole.WORKER)
        admin = site.of(KernelCaller(TenantId("servers"), "root"))
        for tenant, known in (("acme", True), ("acne", False)):
            assert (await admin.get_tenant_budget(TenantRequest(tenant))).known is known
            setting = SetTenantBudgetRequest(tenant, "$1")
            assert (await admin.set_tenant_budget(setting)).known is known
        for wrong in (" acme", "acme "):
            with refused(RefusalCode.INVALID, "write 'acme'"):
                await admin.set_tenant_budget(SetTenantBudgetRequest(wrong, "$1"))


async def test_names_in_two_pairs_of_braces_are_text() -> None:
    """Other braces stay as they are, as those of JSON in a prompt do."""
    prompt = 'Say {input} as {{input}} in {"a": {"b": 1}}'
    said = pipeline(TWO[1:], {"b": {"model": "fast", "max_tokens": 100, "prompt": prompt}})
    async with a_site(by_prompt) as site:
        events = await walked(site.of(), ExecutePipelineRequest("p", said, "owls"))
        told = [one.event.detail.get("output") for one in events]
        assert '<Say owls as {input} in {"a": {"b": 1}}>' in told


async def test_each_tenant_has_a_cap() -> None:
    reply = {"text": "x", "usage": {"input_tokens": 10, "output_tokens": 100}}
    async with a_site([reply] * 9) as site:
        kernel = site.kernel(tenant_budget="$0.001/day")
        request = InferenceRequest("fast", "Hello", max_tokens=100)
        await TenantKernel(kernel, ANN).dispatch_inference(request)
        with refused(RefusalCode.BUDGET_EXCEEDED, "the budget of tenant 'acme'"):
            await TenantKernel(kernel, BOB).dispatch_inference(request)
        await TenantKernel(kernel, OTHER).dispatch_inference(request)


async def test_a_budget_that_is_set_holds_at_every_server_at_once(tmp_path: Path) -> None:
    """For one agent, one call and pipelines, also where it is set back; other tenants keep theirs.
    What is spent is the same wherever one looks."""
    reply = {"text": "x", "usage": {"input_tokens": 10, "output_tokens": 100}}
    store, clock, ledger = open_tenants(":memory:"), SteadyClock(), tmp_path / "ledger.db"
    small, large = "$0.001/day", "$3/day"
    async with AsyncExitStack() as stack:
        servers: list[Kernel] = []
        for _ in range(2):
            model = ScriptedModel([reply] * 99)
            rt = Runtime("$5", models=lambda _, it=model: it, observable=False, ledger=ledger)
            agents = RuntimeAgents(
                await stack.enter_async_context(rt), models=["fast"], tenant_budget=large
            )
            servers.append(Kernel(store, clock, agents))
        admins = [TenantKernel(one, KernelCaller(TenantId("servers"), "root")) for one in servers]
        request = InferenceRequest("fast", "Hello", max_tokens=100)
        run = ExecuteAgentRequest("a", "Hello", AgentDefinition("fast", max_tokens=100))

        async def ask(server: int, caller: KernelCaller = ANN) -> int:
            kernel = TenantKernel(servers[server], caller)
            await kernel.dispatch_inference(request)
            await kernel.execute_agent(run)
            return (await kernel.get_budget(EmptyRequest())).spent or 0

        async def is_refused(server: int) -> None:
            kernel = TenantKernel(servers[server], ANN)
            for asked in (kernel.dispatch_inference(request), kernel.execute_agent(run)):
                with refused(RefusalCode.BUDGET_EXCEEDED, "tenant 'acme'"):
                    await asked
            walk = ExecutePipelineRequest(f"p{secrets.token_hex(4)}", pipeline(TWO[1:]))
            assert (await walked(kernel, walk))[-1].event.kind is PipelineEventKind.TERMINATED

        spent = [await ask(0), await ask(1)]
        assert 0 < spent[0] < spent[1]
        for server in (0, 1, 0):
            for budget in (small, large, small):
                setting = SetTenantBudgetRequest("acme", budget)
                shown = await admins[server].set_tenant_budget(setting)
                assert (shown.budget, shown.is_set) == (budget, True)
                if budget == large:
                    assert await ask(1 - server)
                else:
                    await is_refused(1 - server)
                    assert (await ask(1 - server, OTHER)) > 0
        views = [await admin.get_tenant_budget(TenantRequest("acme")) for admin in admins]
        assert views[0] == views[1]
        assert views[0].remaining == 0
        await admins[0].set_tenant_budget(SetTenantBudgetRequest("acme", ""))
        assert await ask(1) > spent[1]
        for wrong in ("much", "$-1", "$1/century"):
            with pytest.raises(UserError):
                await admins[0].set_tenant_budget(SetTenantBudgetRequest("acme", wrong))
        page = await admins[1].list_tenants(ListTenantsRequest())
        assert [(one.tenant, one.set_by) for one in page.tenants] == [("acme", "root")]


async def test_calls_of_a_token_spend_its_wallet_and_no_more(tmp_path: Path) -> None:
    """In all, at two servers: one agent, one call, pipelines, with a process and without one; other
    tokens of the tenant are not held to it, also not for their own processes."""
    reply = {"text": "x", "usage": {"input_tokens": 10, "output_tokens": 100}}
    store, clock, ledger = open_tenants(":memory:"), SteadyClock(), tmp_path / "ledger.db"
    tokens = Tokens(store, clock)
    token = await tokens.create("acme", "ann", TokenRole.WORKER, wallet=dollars("$0.0026"))
    found = await tokens.authenticate(token)
    assert found is not None
    poor = found.caller
    request = InferenceRequest("fast", "Hello", max_tokens=100)
    run = ExecuteAgentRequest("a", "Hello", AgentDefinition("fast", max_tokens=100))
    async with AsyncExitStack() as stack:
        servers: list[Kernel] = []
        for _ in range(2):
            model = ScriptedModel([reply] * 99)
            rt = Runtime("$5", models=lambda _, it=model: it, observable=False, ledger=ledger)
            opened = await stack.enter_async_context(rt)
            servers.append(Kernel(store, clock, RuntimeAgents(opened, models=["fast"])))
        one, other = (TenantKernel(server, poor) for server in servers)
        rich = TenantKernel(servers[0], ANN)
        # With money of its own, as a process has an account inside of the wallet's.
        quota = QuotaRule(money=dollars("$1"))
        made = await one.create_process(CreateProcessRequest(pid="p", quota=quota))
        assert (made.wallet, made.wallet_cap) == (poor.wallet, dollars("$0.0026"))
        await rich.create_process(CreateProcessRequest(pid="q"))
        costs = [
            (await other.dispatch_inference(request)).metrics.cost,
            (await one.execute_agent(replace(run, pid="p"))).metrics.cost,
        ]
        # A process made with another token would spend what nobody counts here.
        for asked in (replace(request, pid="q"), replace(run, pid="q")):
            with refused(RefusalCode.FORBIDDEN, "this token has a wallet"):
                if isinstance(asked, InferenceRequest):
                    await one.dispatch_inference(asked)
                else:
                    await one.execute_agent(asked)
        walk = ExecutePipelineRequest("w", pipeline(TWO[1:]))
        assert (await walked(other, walk))[-1].event.kind is PipelineEventKind.COMPLETED
        spent = sum(costs)
        for _ in range(9):  # until what is left holds no further call
            spent += await cost_of(one, request)
        assert 0 < spent < dollars("$0.0026")
        shown = await one.get_budget(EmptyRequest())
        cap = dollars("$0.0026")
        assert shown.wallet == cap
        assert shown.wallet_spent is not None
        assert spent < shown.wallet_spent <= cap, "with that of the pipeline"
        assert shown.wallet_remaining == cap - shown.wallet_spent
        assert (await rich.get_budget(EmptyRequest())).wallet is None
        for kernel in (one, other):
            for asked in (kernel.dispatch_inference(request), kernel.execute_agent(run)):
                with refused(RefusalCode.BUDGET_EXCEEDED, poor.wallet):
                    await asked
        with refused(RefusalCode.BUDGET_EXCEEDED, poor.wallet):  # its process, by whomever
            await rich.execute_agent(replace(run, pid="p"))
        walk = ExecutePipelineRequest("v", pipeline(TWO[1:]))
        assert (await walked(one, walk))[-1].event.kind is PipelineEventKind.TERMINATED
        await rich.execute_agent(run)
        await rich.execute_agent(replace(run, pid="q"))


async def cost_of(kernel: TenantKernel, request: InferenceRequest) -> int:
    """Nothing if it is refused."""
    try:
        return (await kernel.dispatch_inference(request)).metrics.cost
    except OperationError:
        return 0


async def test_a_kernel_without_agents_says_so() -> None:
    kernel = TenantKernel(Kernel(open_tenants(":memory:"), SteadyClock()), ANN)
    with refused(RefusalCode.NOT_FOUND, "this server runs no agents"):
        await kernel.execute_agent(ExecuteAgentRequest("a", "b"))


async def test_events_of_chunks_are_told_to_who_watches_too() -> None:
    async with a_site("words") as site:
        await walked(site.of(), ExecutePipelineRequest("p", pipeline(TWO[1:]), chunks=True))
        watching = site.of().watch_events(WatchRequest(kinds=(KernelEventKind.STAGE_CHUNK,)))
        assert [told.event.detail["text"] async for told in watching] == ["words"]


async def test_what_a_server_spent_and_could_not_report_counts_for_the_next(
    tmp_path: Path,
) -> None:
    """On a ledger that both have: a call that was cut off is charged, and leaves room for one."""
    ledger = tmp_path / "ledger.db"
    store, clock, gate = open_tenants(":memory:"), SteadyClock(), asyncio.Event()
    reply = {"text": "x", "usage": {"input_tokens": 10, "output_tokens": 100}}
    model = Slow(gate)
    loop = [{"name": "again", "agent": "a", "default_next": "again"}]
    quota = QuotaRule(money=dollars("$0.0013"))
    request = ExecutePipelineRequest("p", pipeline(loop, bounds={"max_iterations": 9}), quota=quota)

    @asynccontextmanager
    async def a_kernel(model: ScriptedModel) -> AsyncGenerator[Kernel]:
        async with Runtime("$5", ledger=ledger, models=lambda _: model, observable=False) as rt:
            yield Kernel(store, clock, RuntimeAgents(rt, models=["fast"]))

    async with a_kernel(model) as first:
        walking = asyncio.ensure_future(walked(TenantKernel(first, ANN), request))
        await until(lambda: model.asked)
        await first.executions.aclose()
        walking.cancel()
        await asyncio.wait({walking})
    async with a_kernel(ScriptedModel([reply] * 9)) as second:
        caller = TenantKernel(second, ANN)
        events = await walked(caller, request)
        process = await caller.get_process(PidRequest("p"))
    assert kinds(events)[-2:] == ["stage_failed again", "terminated"]
    assert events[-1].event.detail["reason"] == "resource_exhausted"
    assert kinds(events).count("stage_completed again") == 1, "two would fit what was reported"
    assert dollars("$0.001") < process.quota.used.money <= dollars("$0.0013"), "both were counted"


async def test_a_server_that_was_granted_less_does_not_run_what_another_began() -> None:
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        first = site.kernel()
        request = ExecutePipelineRequest("p", pipeline(TWO[1:]))
        walking = asyncio.ensure_future(walked(TenantKernel(first, ANN), request))
        await until(lambda: model.asked)
        await first.executions.aclose()
        walking.cancel()
        without = Kernel(site.store, site.clock)
        watching = asyncio.ensure_future(
            walked(TenantKernel(without, ANN), ExecutePipelineRequest("p"), 3)
        )
        less = Kernel(site.store, site.clock, RuntimeAgents(site.rt))
        events = await walked(TenantKernel(less, ANN), ExecutePipelineRequest("p"))
        assert events[-1].event.detail["reason"] == "policy_violation"
        assert "is not granted here" in events[-2].event.detail["error"]
        assert await watching == events[:3], "who runs no agents shows what others run"
        assert model.asked == 1


async def check_numbers(url: str) -> None:
    async with a_site() as site, aclosing(open_tenants(url)) as store:
        site.store = store
        await site.of().submit(CreateProcessRequest("other"))
        events = await walked(site.of(), ExecutePipelineRequest("p", pipeline(TWO)))
        assert kinds(events) == WALK
        assert [told.number for told in events] == [6, 7, 8, 9, 10]
        assert not any(told.missed for told in events)


async def test_a_file_gives_a_pipeline_its_first_number(tmp_path: Path) -> None:
    await check_numbers(str(tmp_path / "kernel.db"))


async def test_postgresql_gives_a_pipeline_its_first_number() -> None:
    with own_schema() as schema:
        await check_numbers(url_of(schema))


async def test_a_run_that_is_cut_off_counts_for_its_process() -> None:
    """By a caller that waits no longer, by a sibling that failed, by a server that ends."""
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        of = site.of()
        await of.submit(CreateProcessRequest("p", quota=QuotaRule(model_calls=9)))
        request = ExecuteAgentRequest("a", "?", AgentDefinition("fast"), pid="p")
        waiting = asyncio.ensure_future(of.execute_agent(request))
        await until(lambda: model.asked)
        waiting.cancel()
        await asyncio.wait({waiting})
        used = (await of.get_process(PidRequest("p"))).quota.used
        assert (used.model_calls, used.money > 0) == (1, True)
        first = site.kernel()
        walking = asyncio.ensure_future(
            walked(TenantKernel(first, ANN), ExecutePipelineRequest("q", pipeline(TWO[1:])))
        )
        asked = model.asked
        await until(lambda: model.asked > asked)
        await first.executions.aclose()
        walking.cancel()
        used = (await of.get_process(PidRequest("q"))).quota.used
        assert (used.model_calls, used.money > 0) == (1, True)
        gate.set()


async def test_a_server_that_drains_lets_its_stages_end() -> None:
    """No stage is begun, the one that runs is reported, and another server goes on."""
    gate = asyncio.Event()
    async with a_site() as site:
        model = site.model = Slow(gate)
        first = site.kernel()
        walking = asyncio.ensure_future(
            walked(TenantKernel(first, ANN), ExecutePipelineRequest("p", pipeline(TWO)))
        )
        await until(lambda: model.asked)
        first.drain()
        finishing = asyncio.ensure_future(first.executions.finish(PATIENCE_S))
        gate.set()
        await finishing
        await first.executions.aclose()
        with pytest.raises(OperationError, match="this server ends"):
            await walking
        events = await walked(site.of(), ExecutePipelineRequest("p"))
        assert kinds(events) == [
            "stage_started plan",
            "stage_completed plan",
            "stage_started write",
            "stage_completed write",
            "completed",
        ]
