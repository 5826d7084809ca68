"""One call as one line of JSON, there and back: the file format of `vega trace`.

The names are the language's. Dollars are written as exact numbers, up to nine decimals.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import Raw, Struct

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.money import NANOS, Money

__all__ = ["LINE_VERSION", "call_of", "line_of"]

LINE_VERSION = 1

_NOTHING = Raw(b"0")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class _Line(Struct, omit_defaults=True):
    v: int
    trace_id: TraceId
    span_id: SpanId
    parent_span: SpanId | None
    kind: CallKind
    name: str
    agent: str
    model: str
    at: datetime
    latency_ms: float
    status: CallStatus
    input_tokens: int
    output_tokens: int
    cost_usd: Raw
    retries: int
    reserved_usd: Raw = _NOTHING
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    first_token_ms: float | None = None
    finish: str = ""
    error: str = ""
    attributes: dict[str, Any] = {}
    content: Any = None


_SAME = tuple({*_Line.__struct_fields__} & {*CallTraced.__struct_fields__})
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def line_of(call: CallTraced) -> bytes:
    same = {name: getattr(call, name) for name in _SAME}
    line = _Line(
        v=LINE_VERSION,
        at=_EPOCH + call.at_ms * _MILLISECOND,
        cost_usd=_dollars(call.cost),
        reserved_usd=_dollars(call.reserved) if call.reserved else _NOTHING,
        **same,
    )
    return _encoder.encode(line) + b"\n"


def call_of(text: bytes) -> CallTraced | None:
    """None for a line that is torn, damaged, or of a kind that a later version writes."""
    try:
        line = _decoder.decode(text)
        cost, reserved = _money(line.cost_usd), _money(line.reserved_usd)
        at_ms = (line.at - _EPOCH) // _MILLISECOND
    except (msgspec.DecodeError, InvalidOperation, UnicodeError, RecursionError, TypeError):
        return None
    same = {name: getattr(line, name) for name in _SAME}
    return CallTraced(at_ms=at_ms, cost=cost, reserved=reserved, **same)


def _dollars(amount: Money) -> Raw:
    sign, nanos = ("-", -amount) if amount < 0 else ("", int(amount))
    whole, fraction = divmod(nanos, NANOS)
    return Raw(f"{sign}{whole}.{fraction:09d}".rstrip("0").rstrip(".").encode())


def _money(number: Raw) -> Money:
    return Money(int(Decimal(bytes(number).decode()).scaleb(9)))
