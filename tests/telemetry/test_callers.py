"""Our spans in the trace of whoever calls us with OpenTelemetry."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import get_current_span

from tests.telemetry.calls import MemorySink
from vegakit import Agent, Runtime
from vegakit.cli.progress import RunTotals
from vegakit.config import load
from vegakit.errors import AgentFailed, ErrorClass, WorldError
from vegakit.events import CallKind, CallTraced
from vegakit.providers import ScriptedModel
from vegakit.telemetry import (
    FanOutSink,
    Redactor,
    Tracer,
    calling_span,
    load_runs,
    open_sink,
    trace,
)
from vegakit.telemetry.otel import OtelSink
from vegakit.telemetry.spans import SampledSink
from vegakit.testing import FakeClock

REQUESTS = TracerProvider().get_tracer("requests")


def asker(script: Any = "yes", **options: Any) -> Agent[Any]:
    return Agent("asker", model=ScriptedModel(script), **options)


@contextmanager
def request(name: str = "GET /") -> Generator[tuple[str, str]]:
    """A span of the caller: its trace and its id, as our records have them."""
    with REQUESTS.start_as_current_span(name) as span:
        ids = span.get_span_context()
        yield f"{ids.trace_id:032x}", f"{ids.span_id:016x}"


def recorded(work: Callable[[Runtime], Awaitable[Any]], **options: Any) -> list[CallTraced]:
    sink = MemorySink()

    async def opened() -> None:
        async with Runtime(trace=sink, **options) as rt:
            await work(rt)

    asyncio.run(opened())
    return sink.calls


def asks(calls: list[CallTraced]) -> list[tuple[str, str | None]]:
    return [(call.trace_id, call.parent_span) for call in calls if call.kind is CallKind.ASK]


@pytest.mark.parametrize("journal", [None, "run.db"])
def test_asks_are_below_the_span_they_are_called_in(journal: str | None, tmp_path: Path) -> None:
    """Recorded or not, streamed or not, in tasks and after a wait; each request has its own."""
    expected: list[tuple[str, str]] = []

    async def work(rt: Runtime) -> None:
        for name in ("first", "second"):
            with request(name) as ids:
                await rt.ask(asker(), "plain")
                await rt.batch(rt.ask(asker(), "one"), rt.ask(asker(), "two"))
                await asyncio.create_task(_awaited(rt.ask(asker(), "in a task")))
                async for _ in rt.stream(asker(), "streamed"):
                    pass
                later = rt.ask(asker(), "asked here, awaited outside")
            await later
            expected.extend([ids] * 6)
        await rt.ask(asker(), "alone")

    options = {} if journal is None else {"journal": tmp_path / journal}
    *below, (_, alone) = asks(recorded(work, **options))
    assert below == expected
    assert alone is None


async def _awaited(ask: Any) -> None:
    await ask


def test_processes_are_below_the_span_they_are_asked_in() -> None:
    """Though they were started elsewhere, and though they were busy when they were asked."""
    expected: list[tuple[str, str]] = []
    inside: list[tuple[str, str | None]] = []

    async def work(rt: Runtime) -> None:
        async def relay(message: str) -> str:
            await asyncio.sleep(0)
            return str(await rt.ask(asker(), message))

        agent, function = rt.spawn(asker()), rt.spawn(relay)
        for _ in range(2):
            with request() as ids:
                await agent.ask("?")
                await asyncio.gather(function.ask("a"), function.ask("b"))
                expected.extend([ids] * 3)

    inside = asks(recorded(work))
    assert inside == expected


def test_what_a_tool_asks_is_below_the_tool() -> None:
    """And not directly below the request, which is around both."""
    ids: list[tuple[str, str]] = []

    async def work(rt: Runtime) -> None:
        async def consult() -> str:
            return str(await rt.ask(asker(), "?"))

        calling = [{"calls": [{"name": "consult", "arguments": {}}]}, "done"]
        with request() as found:
            ids.append(found)
            await rt.ask(asker(calling, tools=[consult]), "go")

    calls = recorded(work)
    (tool,) = (call for call in calls if call.kind is CallKind.TOOL)
    inner, outer = (call for call in calls if call.kind is CallKind.ASK)
    assert (outer.trace_id, outer.parent_span) == ids[0]
    assert (tool.parent_span, inner.parent_span) == (outer.span_id, tool.span_id)
    assert {call.trace_id for call in calls} == {ids[0][0]}


def test_spans_of_other_code_inside_a_tool_are_below_it() -> None:
    """Where ours go to a collector, and what is asked within them is below them."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    theirs = provider.get_tracer("driver")

    async def work() -> None:
        async with Runtime(trace=OtelSink(provider)) as rt:

            async def query() -> str:
                with theirs.start_as_current_span("SELECT"), trace.span("rows"):
                    return str(await rt.ask(asker(), "?"))

            calling = [{"calls": [{"name": "query", "arguments": {}}]}, "done"]
            with theirs.start_as_current_span("GET /"):
                await rt.ask(asker(calling, tools=[query]), "go")
                assert get_current_span().get_span_context().is_valid
            assert not get_current_span().get_span_context().is_valid

    asyncio.run(work())
    spans = [*memory.get_finished_spans()]
    names = {span.context.span_id: span.name for span in spans if span.context}
    above = {(span.name, span.parent and names[span.parent.span_id]) for span in spans}
    assert above == {
        ("GET /", None),
        ("invoke_agent asker", "GET /"),
        ("chat scripted", "invoke_agent asker"),
        ("execute_tool query", "invoke_agent asker"),
        ("SELECT", "execute_tool query"),
        ("rows", "SELECT"),
        ("invoke_agent asker", "rows"),
    }
    assert len({span.context.trace_id for span in spans if span.context}) == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_spans_of_other_code_have_a_parent_that_is_sent(share: float) -> None:
    """Below a tool of a run that is not recorded they stay below the caller's span."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    theirs = provider.get_tracer("driver")

    async def query() -> str:
        with theirs.start_as_current_span("SELECT"):
            return "rows"

    async def work() -> None:
        sink = RunTotals().around(SampledSink(FanOutSink([OtelSink(provider)]), share))
        async with Runtime(trace=sink) as rt:
            calling = [{"calls": [{"name": "query", "arguments": {}}]}, "done"]
            with theirs.start_as_current_span("GET /"):
                await rt.ask(asker(calling, tools=[query]), "go")

    asyncio.run(work())
    spans = {span.context.span_id: span for span in memory.get_finished_spans() if span.context}
    (select,) = (span for span in spans.values() if span.name == "SELECT")
    assert select.parent
    above = spans[select.parent.span_id].name
    assert above == ("execute_tool query" if share else "GET /")


def test_a_trace_that_its_owner_does_not_sample_is_not_exported() -> None:
    """It would arrive without its beginning; other sinks record it as any."""
    memory, provider, sink = InMemorySpanExporter(), TracerProvider(), MemorySink()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    unsampled = TracerProvider(ALWAYS_OFF).get_tracer("requests")

    async def work() -> None:
        async with Runtime(trace=FanOutSink([sink, OtelSink(provider)])) as rt:
            with unsampled.start_as_current_span("GET /"):
                await rt.ask(asker(), "?")
            await rt.ask(asker(), "?")

    asyncio.run(work())
    assert len(sink.calls) == 4
    assert [span.name for span in memory.get_finished_spans()] == [
        "chat scripted",
        "invoke_agent asker",
    ]


def test_one_question_without_a_loop_is_below_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, and in a runtime that was opened for several before the span began."""
    monkeypatch.setenv("VEGA_DATA_DIR", str(tmp_path))
    with request() as alone:
        asker().run_sync("?")
    with Runtime.from_config() as rt, request() as among_others:
        rt.run_sync(asker(), "?")
    runs = load_runs(tmp_path / "traces.jsonl")
    assert [asked for one in runs for asked in asks(one.calls)] == [alone, among_others]
    assert [(one.agent, one.status) for one in runs] == [("asker", "ok")] * 2


def test_nothing_of_opentelemetry_is_loaded_for_it() -> None:
    """A plain ask finds no span of the caller, and imports nothing to look for one."""
    code = """
import asyncio, sys
from vegakit import Agent, Runtime
from vegakit.providers import ScriptedModel
async def main():
    async with Runtime() as rt:
        await rt.ask(Agent("a", model=ScriptedModel("yes")), "?")
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_module_that_is_being_imported_has_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be in the middle of it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", type(sys)("opentelemetry.trace"))
    assert calling_span() is None
    sink = MemorySink()
    Tracer(sink, FakeClock()).event("x")
    assert sink.calls[0].parent_span is None


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_a_share_of_calls_that_cost_money_is_recorded(share: float, tmp_path: Path) -> None:
    """As large as the settings say: of 400 runs within nine standard deviations of it."""
    settings = load({"telemetry.jsonl": str(tmp_path / "t"), "telemetry.sample": share})

    async def work() -> None:
        async with Runtime(trace=open_sink(settings, Redactor())) as rt:
            await rt.batch(*(rt.ask(asker(), "?") for _ in range(400)))
            assert await rt.spent() > 0

    asyncio.run(work())
    runs = load_runs(tmp_path / "t") if share else []
    assert share or not (tmp_path / "t").exists()
    assert abs(len(runs) - share * 400) <= 90
    assert {len(one.calls) for one in runs} <= {2}


RESUMED = """
import asyncio, os, sys
from pathlib import Path
from vegakit import Agent, Runtime
from vegakit.providers import ScriptedModel
from vegakit.telemetry import SqliteSink

folder, dies = Path(sys.argv[1]), sys.argv[2] == "dies"

async def look() -> str:
    return "seen"

class Dying(ScriptedModel):
    async def ask(self, request):
        if dies and len(request.messages) > 1:
            sink._writer.flush()
            os.kill(os.getpid(), 9)
        return await super().ask(request)

def script(request):
    return "done" if len(request.messages) > 1 else {"calls": [{"name": "look", "arguments": {}}]}

sink = SqliteSink(folder / "traces.db")

async def main():
    async with Runtime(journal=folder / "run.db", trace=sink) as rt:
        print(await rt.ask(Agent("asker", model=Dying(script), tools=[look]), "go"))

asyncio.run(main())
"""


def test_a_run_that_goes_on_has_one_trace(tmp_path: Path) -> None:
    """What it left behind when it was killed is below the ask that ends in its next life, and
    answers that it had are not recorded again."""
    command = [sys.executable, "-c", RESUMED, str(tmp_path)]
    assert subprocess.run([*command, "dies"], check=False, timeout=100).returncode == -9
    (before,) = load_runs(tmp_path / "traces.db")
    assert [call.kind for call in before.calls] == [CallKind.MODEL, CallKind.TOOL]
    done = subprocess.run([*command, "lives"], check=True, capture_output=True, timeout=100)
    assert done.stdout == b"done\n"
    (after,) = load_runs(tmp_path / "traces.db")
    assert after.trace_id == before.trace_id
    kinds = sorted(call.kind for call in after.calls)
    assert kinds == [CallKind.ASK, CallKind.MODEL, CallKind.MODEL, CallKind.TOOL]
    (ask,) = after.tops
    assert {call.parent_span for call in after.calls if call is not ask} == {ask.span_id}


@pytest.mark.parametrize("content", [False, True])
def test_prompts_and_answers_are_recorded_only_when_asked_for(
    content: bool, tmp_path: Path
) -> None:
    """In each file, with what tools are given and return; `vega logs` keeps none of it."""
    files = {"telemetry.jsonl": str(tmp_path / "t"), "telemetry.sqlite": str(tmp_path / "t.db")}
    settings = load({**files, "telemetry.content": content})
    key = "sk-ant-api03-" + "a" * 80

    async def look(city: str) -> str:
        return f"sun in {city}"

    async def work() -> None:
        redactor = Redactor(content=settings.telemetry.content)
        async with Runtime(trace=open_sink(settings, redactor)) as rt:
            script = [{"calls": [{"name": "look", "arguments": {"city": "Bern"}}]}, "Take a hat."]
            await rt.ask(asker(script, tools=[look]), f"What shall I wear? {key}")
            kept = [what for _, _, _, what in rt.activity._kept]
            assert not [one for one in kept if getattr(one, "content", None) is not None]

    asyncio.run(work())
    for name in ("t", "t.db"):
        ((found,),) = [load_runs(tmp_path / name)]
        told = str([call.content for call in found.calls])
        for text in ("What shall I wear?", "Take a hat.", "sun in Bern", "'city': 'Bern'"):
            assert (text in told) is content
        assert key not in told


@pytest.mark.parametrize("content", [False, True])
def test_what_a_failure_says_is_recorded_only_when_asked_for(content: bool, tmp_path: Path) -> None:
    """A provider may quote the prompt, a tool what it was given, and we an answer of no use."""
    files = {"telemetry.jsonl": str(tmp_path / "t"), "telemetry.sqlite": str(tmp_path / "t.db")}
    settings = load({**files, "telemetry.content": content})

    async def look(city: str) -> str:
        raise ValueError(f"no row for {city}")

    async def work(rt: Runtime) -> None:
        refused = WorldError("no place for: my prompt", ErrorClass.REJECTED)
        with pytest.raises(AgentFailed, match="my prompt"):
            await rt.ask(asker([refused]), "my prompt")
        script = [{"calls": [{"name": "look", "arguments": {"city": "Bern"}}]}, "no idea"]
        await rt.ask(asker(script, tools=[look]), "?")
        with pytest.raises(RuntimeError, match="my word"), rt.tracer.span("block"):
            raise RuntimeError("my word")

    async def opened() -> None:
        redactor = Redactor(content=content)
        async with Runtime(trace=open_sink(settings, redactor)) as rt:
            await work(rt)

    asyncio.run(opened())
    names = ["AgentFailed", "RuntimeError", "ValueError", "rejected"]
    for name in ("t", "t.db"):
        raw = b"".join(file.read_bytes() for file in tmp_path.glob(f"{name}*"))
        for text in (b"my prompt", b"no row for Bern", b"my word"):
            assert (text in raw) is content
        calls = [call for found in load_runs(tmp_path / name) for call in found.calls]
        errors = sorted(call.error for call in calls if call.error)
        assert [error.partition(":")[0] for error in errors] == names
        assert (errors == names) is not content
