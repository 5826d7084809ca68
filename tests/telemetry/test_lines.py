"""The file format of traces."""

import json

import pytest
from hypothesis import given, strategies as st

from tests.telemetry.calls import call, paid
from vegakit.events import CallKind, CallStatus
from vegakit.ids import SpanId
from vegakit.money import Money
from vegakit.telemetry import call_of, line_of


def test_a_line_has_the_names_of_the_language() -> None:
    """Those of its observability chapter, then ours."""
    line = json.loads(line_of(paid(parent_span=SpanId("c" * 16), first_token_ms=210.0)))
    assert line == {
        "v": 1,
        "trace_id": "a" * 32,
        "span_id": "0" * 15 + "1",
        "parent_span": "c" * 16,
        "kind": "model",
        "name": "anthropic:claude",
        "agent": "Coder",
        "model": "anthropic:claude",
        "at": "2025-06-15T15:06:40.124000Z",
        "latency_ms": 2341,
        "status": "ok",
        "input_tokens": 150,
        "output_tokens": 892,
        "cost_usd": 0.0043,
        "retries": 0,
        "first_token_ms": 210,
    }


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, b"0"),
        (1, b"0.000000001"),
        (4_300_000, b"0.0043"),
        (10**10, b"10"),
        (10**15 + 1, b"1000000.000000001"),
        (-5 * 10**8, b"-0.5"),
    ],
)
def test_dollars_are_exact(nanos: int, text: bytes) -> None:
    """To the last of nine decimals, and never with an exponent."""
    assert b'"cost_usd":' + text + b"," in line_of(call(cost=Money(nanos)))


@given(st.integers(-(10**18), 10**18), st.integers(0, 10**18), st.text(max_size=20))
def test_there_and_back(cost: int, reserved: int, text: str) -> None:
    """A line gives the same record again."""
    before = call(
        cost=Money(cost),
        reserved=Money(reserved),
        kind=CallKind.TOOL,
        cached=True,
        status=CallStatus.FAILED,
        error=text,
        attributes={text: [1, None]},
        content={"prompt": text},
    )
    assert call_of(line_of(before)) == before


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{}",
        line_of(call())[:-9],
        line_of(call()).replace(b'"model"', b'"later"', 1),
        line_of(call()).replace(b'"cost_usd":0', b'"cost_usd":null'),
        line_of(call()).replace(b"40.124000Z", b"40.124000"),
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_no_call(damaged: bytes) -> None:
    """Torn, damaged, or of a kind that a later version writes."""
    assert call_of(damaged) is None


def test_fields_of_a_later_version_are_ignored() -> None:
    """The format grows by adding."""
    assert call_of(line_of(call()).replace(b'{"v":1', b'{"colour":[],"v":2')) == call()
