"""What a model call came to, as the fields of its trace record."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from vegakit.conversation import ModelReply
from vegakit.events import CallKind
from vegakit.money import Money
from vegakit.policy import Notice
from vegakit.runtime.gate import Account
from vegakit.telemetry import Span, Tracer

__all__ = ["tell_notices", "traced_facts"]


def traced_facts(
    agent: str, model: str, account: Account, reply: ModelReply | None, span: Span
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "agent": agent,
        "model": model,
        "cost": Money(account.charged),
        "reserved": Money(account.reserved),
        "retries": max(0, account.attempts - 1),
    }
    if account.first_chunk_ms is not None:
        facts["first_token_ms"] = float(account.first_chunk_ms - span.at_ms)
    if reply is not None:
        facts["finish"] = str(reply.finish)
        if reply.usage is not None:
            facts |= {
                "input_tokens": reply.usage.input_tokens,
                "output_tokens": reply.usage.output_tokens,
                "cache_read_tokens": reply.usage.cache_read_tokens,
                "cache_write_tokens": reply.usage.cache_write_tokens,
            }
    return facts


def tell_notices(tracer: Tracer, notices: Sequence[Notice], span: Span) -> None:
    """A budget that went over, or reached a mark, is an event below the call that did it."""
    for notice in notices:
        event = tracer.begin(CallKind.EVENT, type(notice).__name__, span)
        event.attributes.update(structs.asdict(notice))
        tracer.end(event)
