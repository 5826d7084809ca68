"""Reading what came of an effect."""

from typing import TypeVar

import msgspec

from vegakit.agent import ToolOutcome
from vegakit.errors import ErrorClass
from vegakit.events import Answered, Cancelled, Crashed, EffectOutcome, Failed, Refused, Unknown
from vegakit.ids import EffectKey
from vegakit.program.mail import Fell, Outcome, Told

__all__ = ["as_record", "plain_outcome", "tool_outcome"]

T = TypeVar("T")


def tool_outcome(outcome: EffectOutcome) -> ToolOutcome:
    match outcome:
        case Answered(value):
            return as_record(ToolOutcome, value)
        case Refused(error, reason):
            return ToolOutcome(f"{error}: {reason}", is_error=True)
        case Failed(_, reason) | Crashed(reason):
            return ToolOutcome(reason, is_error=True)
        case Unknown():
            return ToolOutcome("was cut off; nobody knows whether it was done", is_error=True)
        case Cancelled():
            return ToolOutcome("was cancelled", is_error=True)


def plain_outcome(outcome: EffectOutcome, *cause: EffectKey) -> Outcome:
    """Whatever value it came to; a failure comes from `cause`."""
    match outcome:
        case Answered(value):
            return Told(value)
        case Refused(error, reason):
            return Fell(error, reason, cause=cause)
        case Cancelled():
            return Fell("Cancelled", "it was cancelled", cause=cause)
        case Failed(ErrorClass.TIMEOUT, reason):
            return Fell("Timeout", reason, cause=cause)
        case _:
            return Fell("AgentFailed", str(outcome), cause=cause)


def as_record(kind: type[T], value: object) -> T:
    """Answers come as records, or as plain JSON from a journal."""
    return value if isinstance(value, kind) else msgspec.convert(value, kind)
