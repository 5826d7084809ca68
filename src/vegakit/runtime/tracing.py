"""What a model call came to, as its trace record: refused, failed and cancelled ones too."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import structs

from vegakit.conversation import ModelReply
from vegakit.errors import Raised, WorldError
from vegakit.events import CallKind, CallStatus
from vegakit.money import Money
from vegakit.policy import Notice
from vegakit.runtime.gate import Account
from vegakit.telemetry import Span, Tracer

__all__ = ["TracedCall", "traced_call"]


class TracedCall:
    """`reply` is set by whoever makes the call; without one it was cut off."""

    reply: ModelReply | None = None


@contextmanager
def traced_call(
    tracer: Tracer, agent: str, model: str, account: Account, above: Span
) -> Generator[TracedCall]:
    """One record when the block is left, however it is left."""
    span, call = tracer.begin(CallKind.MODEL, model, above), TracedCall()
    status, error = CallStatus.CANCELLED, ""
    try:
        yield call
    except Raised as refused:
        status, error = CallStatus.REFUSED, f"{type(refused).__name__}: {refused}"
        raise
    except WorldError as failed:
        status, error = CallStatus.FAILED, f"{failed.error_class}: {failed}"
        raise
    finally:
        if call.reply is not None:
            status = CallStatus.OK
        facts = _facts(agent, model, account, call.reply, span)
        tracer.end(span, status, error=error, **facts)
        _tell_notices(tracer, account.notices, span)


def _facts(
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


def _tell_notices(tracer: Tracer, notices: Sequence[Notice], span: Span) -> None:
    """A budget that went over, or reached a mark, is an event below the call that did it."""
    for notice in notices:
        event = tracer.begin(CallKind.EVENT, type(notice).__name__, span)
        event.attributes.update(structs.asdict(notice))
        tracer.end(event)
