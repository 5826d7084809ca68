"""What a reducer may do besides changing its state."""

from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.policy import ExitReason, InterruptKind
from vegakit.program.commands import ChildSpec

__all__ = ["After", "Ask", "AskPerson", "Do", "Exit", "Later", "Make", "Respond", "Tell"]


class Respond(Struct, frozen=True, tag=True, omit_defaults=True):
    """To the message at hand, or to one that was put off under a word."""

    value: Any
    to: str = ""


class Later(Struct, frozen=True, tag=True):
    """Put off the answer to the message at hand. Neither put off nor replied to, it is None."""

    word: str


class Tell(Struct, frozen=True, tag=True):
    to: str
    message: Any


class Ask(Struct, frozen=True, tag=True):
    """The answer comes as a message, `Heard(ask, outcome)`."""

    to: str
    message: Any
    ask: str
    timeout_ms: int | None = None


class AskPerson(Struct, frozen=True, tag=True, omit_defaults=True):
    """The answer comes as a message, `Heard(ask, outcome)`: whether it was approved, which silence
    never is; or, of a clarification, words, None if nobody answered in time. Without a timeout it
    waits as long as interrupts of its kind do. It is withdrawn when this life ends."""

    question: str
    ask: str
    kind: InterruptKind = InterruptKind.CONFIRMATION
    timeout_ms: int | None = None


class After(Struct, frozen=True, tag=True):
    """This message, to itself, when the time has passed."""

    ms: int
    message: Any


class Make(Struct, frozen=True, tag=True):
    """Spawn a child, which ends with this life."""

    spec: ChildSpec
    name: str


class Exit(Struct, frozen=True, tag=True):
    reason: ExitReason


Do: TypeAlias = Respond | Later | Tell | Ask | AskPerson | After | Make | Exit
