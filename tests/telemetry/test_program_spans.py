"""What a program writes to its trace, and where its calls stand there."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from tests.telemetry.calls import MemorySink
from vegakit import Runtime
from vegakit.cli.trace import render_calls
from vegakit.errors import CatchableError
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.providers import ScriptedModel
from vegakit.telemetry import trace

REQUESTS = TracerProvider().get_tracer("requests")

AGENTS = """
agent A { model fast }
agent B { model fast }
"""


def traced(
    text: str,
    folder: Path,
    *,
    script: Callable[[], Any] = lambda: ScriptedModel("yes"),
    tools: tuple[Any, ...] = (),
    **options: Any,
) -> list[CallTraced]:
    file, sink = folder / "program.vega", MemorySink()
    file.write_text(AGENTS + text)

    async def work() -> None:
        async with Runtime(trace=sink, models=lambda _: script(), **options) as rt:
            await rt.load(file, tools=tools).main()

    asyncio.run(work())
    return sink.calls


def below(calls: list[CallTraced]) -> list[tuple[str, str]]:
    """Each call with the name of what is above it, in the order they began."""
    names: dict[str, str] = {call.span_id: call.name for call in calls}
    ordered = sorted(calls, key=lambda call: (call.at_ms, call.kind is not CallKind.SPAN))
    return sorted((call.name, names.get(call.parent_span or "", "")) for call in ordered)


@pytest.mark.parametrize("window", [0, 8])
@pytest.mark.parametrize("journal", [None, "run.db"])
def test_a_span_is_above_the_calls_in_its_function(
    window: int, journal: str | None, tmp_path: Path
) -> None:
    """Also above those that it calls, until it returns; and where calls are begun early."""
    text = """
    fn main() {
        print(A <- "before");
        work();
        print(B <- "after");
    }
    fn work() {
        trace::span("work");
        print(A <- "one");
        inner();
        print(A <- "three");
    }
    fn inner() {
        trace::span("inner");
        trace::event("half done");
        trace::set_attribute("files", 3);
        trace::set_attribute("names", ["a"]);
        print(B <- "two");
    }
    """
    options: dict[str, Any] = {} if journal is None else {"journal": tmp_path / journal}
    calls = traced(text, tmp_path, lookahead=window, **options)
    assert below(calls) == sorted(
        [
            ("main", ""),
            ("work", "main"),
            ("inner", "work"),
            ("half done", "inner"),
            ("scripted", "main"),
            ("scripted", "work"),
            ("scripted", "inner"),
            ("scripted", "work"),
            ("scripted", "main"),
        ]
    )
    (inner,) = (call for call in calls if call.name == "inner")
    assert inner.attributes == {"files": 3, "names": '["a"]'}
    assert inner.kind is CallKind.SPAN
    assert {call.status for call in calls} == {CallStatus.OK}
    assert len({call.trace_id for call in calls}) == 1


def test_each_round_and_each_task_has_its_own(tmp_path: Path) -> None:
    """A span does not hold the one of the next round."""
    text = """
    fn main() {
        for i in range(2) {
            trace::span("round {i}");
            print(A <- "{i}");
        }
        parallel {
            { trace::span("left"); let a = A <- "l"; }
            { trace::span("right"); let b = B <- "r"; }
        }
    }
    """
    calls = traced(text, tmp_path)
    assert below(calls) == sorted(
        [
            ("main", ""),
            ("round 0", "main"),
            ("round 1", "main"),
            ("left", "round 1"),
            ("right", "round 1"),
            *(("scripted", name) for name in ("round 0", "round 1", "left", "right")),
        ]
    )


def test_outside_of_its_spans_a_program_speaks_of_the_run(tmp_path: Path) -> None:
    """Its function has a span of its own."""
    calls = traced(
        'fn main() { trace::set_attribute("ticket", "T-1"); trace::event("started"); }', tmp_path
    )
    event, main = calls
    assert (main.name, main.attributes) == ("main", {"ticket": "T-1"})
    assert (event.kind, event.parent_span) == (CallKind.EVENT, main.span_id)


def test_a_span_that_is_left_by_an_error_says_which(tmp_path: Path) -> None:
    """And one in which it is caught goes on."""
    text = """
    fn main() {
        trace::span("outer");
        try { risky(); } catch Failed { trace::event("caught"); }
    }
    fn risky() { trace::span("risky"); fail("no luck"); }
    """
    by_name = {call.name: call for call in traced(text, tmp_path)}
    assert (by_name["risky"].status, by_name["risky"].error) == (
        CallStatus.FAILED,
        "Failed: no luck",
    )
    assert by_name["outer"].status is by_name["main"].status is CallStatus.OK
    assert by_name["caught"].parent_span == by_name["outer"].span_id


def test_a_run_that_fails_says_so_at_every_level(tmp_path: Path) -> None:
    """Nothing stays open."""
    sink, file = MemorySink(), tmp_path / "program.vega"
    file.write_text('fn main() { trace::span("outer"); fail("no luck"); }')

    async def work() -> None:
        async with Runtime(trace=sink) as rt:
            with pytest.raises(CatchableError, match="no luck"):
                await rt.load(file).main()

    asyncio.run(work())
    assert [(call.name, call.status) for call in sink.calls] == [
        ("outer", CallStatus.FAILED),
        ("main", CallStatus.FAILED),
    ]


def test_a_run_that_is_cancelled_ends_its_spans(tmp_path: Path) -> None:
    """As cancelled, with the call that was in flight."""
    sink, file = MemorySink(), tmp_path / "program.vega"
    file.write_text(AGENTS + 'fn main() { trace::span("outer"); print(A <- "?"); }')

    async def work() -> None:
        asked = asyncio.Event()

        class Slow(ScriptedModel):
            async def ask(self, request: Any) -> Any:
                asked.set()
                await asyncio.Event().wait()

        async with Runtime(trace=sink, models=lambda _: Slow("late")) as rt:
            running = asyncio.ensure_future(rt.load(file).main())
            await asked.wait()
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(work())
    assert {(call.name, call.status) for call in sink.calls} == {
        (name, CallStatus.CANCELLED) for name in ("scripted", "outer", "main")
    }


def test_runs_and_their_tools_are_below_the_span_they_are_called_in(tmp_path: Path) -> None:
    """Of each request its own, at the same time; a tool's spans are below the tool."""

    async def look(city: str) -> str:
        with trace.span("index"):
            await asyncio.sleep(0)
        return city

    file, sink = tmp_path / "program.vega", MemorySink()
    file.write_text(
        AGENTS + 'fn main(city: str) { trace::span("s"); print(A <- "?"); print(look(city)); }'
    )
    requests: list[tuple[str, str]] = []

    async def handle(program: Any, city: str) -> None:
        with REQUESTS.start_as_current_span("GET /") as span:
            ids = span.get_span_context()
            requests.append((f"{ids.trace_id:032x}", f"{ids.span_id:016x}"))
            await program.main(city)

    async def work() -> None:
        async with Runtime(trace=sink, models=lambda _: ScriptedModel("yes")) as rt:
            program = rt.load(file, tools=[look])
            await asyncio.gather(*(handle(program, f"city {n}") for n in range(3)))

    asyncio.run(work())
    mains = [call for call in sink.calls if call.name == "main"]
    assert sorted((call.trace_id, call.parent_span or "") for call in mains) == sorted(requests)
    for main in mains:
        own = [call for call in sink.calls if call.trace_id == main.trace_id]
        assert render_calls(own).count("\n") == 5
        assert [(name, above) for name, above in below(own) if name != "main"] == [
            ("index", "look"),
            ("look", "s"),
            ("s", "main"),
            ("scripted", "s"),
        ]


def test_agents_and_tools_written_in_vega_are_in_the_trace_of_their_asker(tmp_path: Path) -> None:
    """However many processes are between."""
    text = """
    agent Outer {
        model calls
        tool look() -> str "Look." {
            trace::event("looking");
            trace::span("in the tool");
            return B <- "deeper";
        }
    }
    fn main() { trace::span("s"); print(Outer <- "go"); }
    """
    script = [{"calls": [{"name": "look", "arguments": {}}]}, "deep", "done"]
    model = ScriptedModel(script)
    calls = traced(text, tmp_path, script=lambda: model)
    assert below(calls) == sorted(
        [
            ("main", ""),
            ("s", "main"),
            ("looking", "s"),
            ("in the tool", "s"),
            *(("scripted", above) for above in ("s", "in the tool", "s")),
        ]
    )


def test_an_id_is_that_of_the_span(tmp_path: Path) -> None:
    """To be written to a log, say; it is the same when the run goes on."""
    printed: list[str] = []

    async def tell(span: str) -> str:
        printed.append(span)
        return span

    calls = traced(
        'fn main() { let id = trace::span("s"); print(tell(id)); }', tmp_path, tools=(tell,)
    )
    assert printed == [call.span_id for call in calls if call.name == "s"]


def test_early_calls_are_not_paid_twice_for_their_span(tmp_path: Path) -> None:
    """A branch that may open a span does not make the calls behind it others."""
    text = """
    fn main() {
        let first = A <- "first";
        if len(first) > 100 { trace::span("long"); } else { trace::span("short"); }
        print(B <- "second");
    }
    """
    calls = traced(text, tmp_path, lookahead=8)
    assert [call.status for call in calls if call.kind is CallKind.MODEL] == [CallStatus.OK] * 2
