"""What a turn asks its host to do, and how it ends.

`step` numbers the turn's model calls from 0; together with a call's index in the answer it names
every effect of a turn, whatever ids the provider gave.
"""

from typing import TypeAlias

from msgspec import Struct

from vegakit.conversation import AssistantMessage, ModelRequest, ToolCall, Usage
from vegakit.ids import EffectKey

__all__ = [
    "AskModel",
    "CallTools",
    "Dropped",
    "Failed",
    "Finished",
    "PlannedCall",
    "Summarise",
    "ToolOutcome",
    "TurnAction",
]


class Dropped(Struct, frozen=True):
    """What the model no longer sees, or sees only as a summary."""

    messages: int = 0
    exchanges: int = 0


class PlannedCall(Struct, frozen=True):
    index: int
    call: ToolCall


class ToolOutcome(Struct, frozen=True, omit_defaults=True):
    """`cause` are effects that an error comes from, where the tool asked for some itself."""

    content: str
    is_error: bool = False
    cause: tuple[EffectKey, ...] = ()


class AskModel(Struct, frozen=True, tag=True):
    """`tokens` is the most that its input is billed as, counted once: of a long conversation that
    takes as long as the rest of a step."""

    request: ModelRequest
    step: int
    tokens: int


class Summarise(Struct, frozen=True, tag=True):
    """A model call like another; its reply goes to `on_summary`."""

    request: ModelRequest
    step: int
    tokens: int


class CallTools(Struct, frozen=True, tag=True):
    """At once, in any order; what cannot be called at all is not among them."""

    calls: tuple[PlannedCall, ...]
    step: int


class Finished(Struct, frozen=True, tag=True):
    """`usage` is what the providers reported, summaries included."""

    output_text: str
    message: AssistantMessage
    usage: Usage
    steps: int
    dropped: Dropped = Dropped()


class Failed(Struct, frozen=True, tag=True):
    """`error` is what the language calls it, such as `LimitReached`."""

    error: str
    reason: str


TurnAction: TypeAlias = AskModel | Summarise | CallTools | Finished | Failed
