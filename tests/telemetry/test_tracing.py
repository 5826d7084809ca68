"""Which call belongs to which, across tasks and generators."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator

import pytest

from tests.telemetry.calls import MemorySink, run
from vegakit.events import CallKind, CallStatus
from vegakit.telemetry import Tracer, current_span, trace
from vegakit.testing import FakeClock


def tracer() -> tuple[Tracer, MemorySink, FakeClock]:
    sink, clock = MemorySink(), FakeClock()
    return Tracer(sink, clock), sink, clock


def test_spans_nest() -> None:
    """An inner block has the outer one as parent, and its trace."""
    tracing, sink, clock = tracer()
    with tracing.span("outer") as outer:
        clock.advance(5)
        with tracing.span("inner"):
            clock.advance(7)
    inner, first = sink.calls
    assert (inner.parent_span, inner.trace_id) == (outer.span_id, outer.trace_id)
    assert (inner.latency_ms, first.latency_ms) == (7, 12)
    assert first.parent_span is None
    assert current_span() is None


def test_ids_fit_open_telemetry() -> None:
    """16 and 8 random bytes in hex."""
    tracing, _, _ = tracer()
    spans = [tracing.begin(CallKind.SPAN, "x") for _ in range(100)]
    assert {(len(s.trace_id), len(s.span_id)) for s in spans} == {(32, 16)}
    assert len({s.trace_id for s in spans}) == 100


def test_a_block_that_fails_says_why() -> None:
    """The exception goes on."""
    tracing, sink, _ = tracer()
    with pytest.raises(ValueError, match="bad"), tracing.span("x"):
        raise ValueError("bad")
    assert (sink.calls[0].status, sink.calls[0].error) == (CallStatus.FAILED, "ValueError: bad")


def test_a_cancelled_block_is_cancelled() -> None:
    """Not failed."""
    tracing, sink, _ = tracer()
    with pytest.raises(asyncio.CancelledError), tracing.span("x"):
        raise asyncio.CancelledError
    assert sink.calls[0].status is CallStatus.CANCELLED


def test_tasks_inherit_and_do_not_disturb() -> None:
    """Two tasks below one span each have their own."""
    tracing, sink, _ = tracer()

    async def child(name: str) -> None:
        with tracing.span(name):
            await asyncio.sleep(0)
            tracing.event(f"in {name}")

    async def parent() -> None:
        with tracing.span("parent"):
            await asyncio.gather(child("a"), child("b"))

    run(parent())
    by_name = {call.name: call for call in sink.calls}
    assert by_name["a"].parent_span == by_name["b"].parent_span == by_name["parent"].span_id
    assert by_name["in a"].parent_span == by_name["a"].span_id
    assert by_name["in b"].parent_span == by_name["b"].span_id


def test_a_generator_may_be_closed_elsewhere() -> None:
    """The context that closes it keeps its own span, and nothing is raised."""
    tracing, sink, _ = tracer()

    async def stream() -> AsyncGenerator[int]:
        with tracing.span("stream"):
            yield 1

    async def work() -> None:
        opened = stream()
        await asyncio.create_task(anext(opened), context=contextvars.copy_context())  # pyright: ignore[reportArgumentType]
        with tracing.span("other") as other:
            await opened.aclose()
            assert current_span() is other

    run(work())
    assert [(c.name, c.status) for c in sink.calls] == [
        ("stream", CallStatus.CANCELLED),
        ("other", CallStatus.OK),
    ]


def test_attributes_are_copied() -> None:
    """What the user changes later, or a record of theirs, cannot harm who writes it."""
    tracing, sink, _ = tracer()
    files = [1]
    with tracing.span("x") as span:
        tracing.set_attribute("files", files)
        tracing.set_attribute("who", object())
        files.append(2)
    span.attributes["late"] = 1
    assert sink.calls[0].attributes == {"files": [1], "who": "<object>"}


def test_facts_become_fields() -> None:
    """As the gate knows them."""
    tracing, sink, _ = tracer()
    tracing.end(tracing.begin(CallKind.MODEL, "m"), CallStatus.REFUSED, retries=2)
    assert (sink.calls[0].status, sink.calls[0].retries) == (CallStatus.REFUSED, 2)


def test_users_reach_the_trace_they_are_in() -> None:
    """Without holding a tracer, as in a tool."""
    tracing, sink, _ = tracer()
    with tracing.within(tracing.begin(CallKind.TOOL, "tool")) as tool, trace.span("index"):
        trace.set_attribute("files", 12)
        trace.event("half done")
    event, index = sink.calls
    assert (event.kind, event.name) == (CallKind.EVENT, "half done")
    assert (index.parent_span, index.attributes) == (tool.span_id, {"files": 12})


def test_outside_of_a_run_they_do_nothing() -> None:
    """A tool can be tested alone."""
    with trace.span("x") as span:
        trace.event("y")
        trace.set_attribute("a", 1)
    assert span is None
    tracer()[0].set_attribute("a", 1)
