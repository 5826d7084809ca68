"""Events, in one envelope for journal, kernel and telemetry (base, pure).

A program is told of the world by `HostEvent`s; the events of one wake-up are sorted by call
path, so that a program's meaning never depends on which answer came first. What is stored or
sent travels in an `Envelope`; it grows by adding only, and readers ignore what they do not know.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.effects import EffectPath
from vegakit.errors import ErrorClass, Phase
from vegakit.ids import EffectKey, ProgramId, SpanId, TenantId, TraceId
from vegakit.money import Money

__all__ = [
    "ENVELOPE_VERSION",
    "Answered",
    "CallKind",
    "CallStatus",
    "CallTraced",
    "CancelRequested",
    "ChunkArrived",
    "Crashed",
    "EffectCancelled",
    "EffectOutcome",
    "Envelope",
    "Failed",
    "HostEvent",
    "MessageArrived",
    "OutcomeArrived",
    "ProgramEnded",
    "Refused",
    "Unknown",
    "charged_for",
    "in_program_order",
    "is_over_budget",
    "reopened",
]


ENVELOPE_VERSION = 1


class Answered(Struct, frozen=True, tag=True, omit_defaults=True):
    """`pieces` are the text of a streamed answer as it came. One that is `kept` was bought by
    another run, whose request was the same."""

    value: Any
    charged: Money = Money(0)
    pieces: tuple[str, ...] = ()
    kept: bool = False


class Failed(Struct, frozen=True, tag=True, omit_defaults=True):
    """The world said no, after every retry known to be unbilled; `pieces` came before that.
    `final`: all who call this model have used up the retries that they share, or no time was left
    for another."""

    error_class: ErrorClass
    reason: str
    phase: Phase = Phase.UNKNOWN
    charged: Money = Money(0)
    attempts: int = 1
    retry_after_ms: int | None = None
    pieces: tuple[str, ...] = ()
    final: bool = False


class Refused(Struct, frozen=True, tag=True):
    """Nothing was sent: a shared budget, limit or capability said no."""

    error: str
    reason: str
    wait_ms: int | None = None


class Unknown(Struct, frozen=True, tag=True, omit_defaults=True):
    """Sent, and no answer was recorded: charged at its reservation. With `again` it is asked again
    whatever the retry rule says: it failed a run that goes on, or the program had not come to it.
    It was `cut` if our own death cut it off, by which a run may cost more than it was quoted."""

    charged: Money
    again: bool = False
    cut: bool = False


class EffectCancelled(Struct, frozen=True, tag=True, omit_defaults=True):
    """The effect was cancelled as the program wanted; what may be billed is charged. One that was
    `late` was given up by a deadline, which its asker was told: that is recorded, since it must be
    told the same again."""

    charged: Money = Money(0)
    late: bool = False


class Crashed(Struct, frozen=True, tag=True, omit_defaults=True):
    """The code that carried it out raised what it should not: the process it was for crashes.
    `cause` are other effects that this comes from, where that code asked for some itself."""

    reason: str
    charged: Money = Money(0)
    cause: tuple[EffectKey, ...] = ()


EffectOutcome: TypeAlias = Answered | Failed | Refused | Unknown | EffectCancelled | Crashed


def charged_for(outcome: EffectOutcome) -> Money:
    """Return what an outcome costs."""
    return Money(0) if isinstance(outcome, Refused) else outcome.charged


def is_over_budget(outcome: EffectOutcome | None) -> bool:
    """Whether a budget refused the call."""
    return isinstance(outcome, Refused) and outcome.error == "BudgetExceeded"


def reopened(outcome: EffectOutcome) -> Unknown | None:
    """Return what is left of the outcome of a model call that failed its run: what it cost, if
    anything, since the program's own budgets count it in when the run goes on."""
    charged = charged_for(outcome)
    cut = isinstance(outcome, Unknown) and outcome.cut
    return Unknown(charged, again=True, cut=cut) if charged else None


class OutcomeArrived(Struct, frozen=True, tag=True):
    """The outcome of an effect."""

    key: EffectKey
    path: EffectPath
    outcome: EffectOutcome


class ChunkArrived(Struct, frozen=True, tag=True):
    """One recorded group of a stream."""

    key: EffectKey
    path: EffectPath
    sequence: int
    value: Any


class MessageArrived(Struct, frozen=True, tag=True):
    """A message from outside the program; `dedupe` makes a second delivery harmless."""

    to: str
    value: Any
    dedupe: str


class CancelRequested(Struct, frozen=True, tag=True):
    """Somebody asked for the end of the program."""

    to: str
    reason: str


class ProgramEnded(Struct, frozen=True, tag=True):
    """A watched program is terminal; `noproc` when it was never known."""

    program: ProgramId
    reason: str


HostEvent: TypeAlias = (
    OutcomeArrived | ChunkArrived | MessageArrived | CancelRequested | ProgramEnded
)


class Envelope(Struct, frozen=True):
    """An envelope carries one event of any kind. Used by the kernel, which is not here yet."""

    v: int
    id: str
    at: int
    tenant: TenantId
    program: ProgramId
    path: str
    kind: str
    body: Any


class CallKind(StrEnum):
    """The kinds of calls in a trace."""

    ASK = "ask"
    MODEL = "model"
    TOOL = "tool"
    SPAN = "span"
    EVENT = "event"


class CallStatus(StrEnum):
    """The ways in which a call ends."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class CallTraced(Struct, frozen=True, omit_defaults=True):
    """One record per call, refused and cancelled ones too: what telemetry writes.

    `name` is the model's or tool's; `content` is there only when the user asked for it. `sampled`
    is False if the trace is of a caller who does not export it. `request_id` is the provider's name
    of the last attempt, `run` the recorded run, and `cached` says that nothing was sent, because
    the reply to the same request was in the cache of replies.
    """

    trace_id: TraceId
    span_id: SpanId
    kind: CallKind
    name: str
    at_ms: int
    latency_ms: float
    status: CallStatus = CallStatus.OK
    parent_span: SpanId | None = None
    agent: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reserved: Money = Money(0)
    cost: Money = Money(0)
    retries: int = 0
    first_token_ms: float | None = None
    finish: str = ""
    error: str = ""
    attributes: dict[str, Any] = {}
    content: Any = None
    sampled: bool = True
    request_id: str = ""
    run: str = ""
    cached: bool = False

    @property
    def was_made(self) -> bool:
        """Whether it was more than a wish: nothing was reserved for a call that was refused."""
        return self.status is not CallStatus.REFUSED or self.reserved > 0


def in_program_order(events: Iterable[HostEvent]) -> list[HostEvent]:
    """Answers and chunks by call path, then messages, which keep the order they came in."""
    return sorted(events, key=_place)


_NOWHERE = (1,)


def _place(event: HostEvent) -> tuple[object, ...]:
    if isinstance(event, OutcomeArrived):
        return (0, event.path, 1 << 62)  # after the chunks of its answer
    return (0, event.path, event.sequence) if isinstance(event, ChunkArrived) else _NOWHERE
