"""What is sent to a process, and what comes back to those who asked."""

from typing import Any, TypeAlias

from msgspec import Struct, convert

from vegakit.agent import Dropped
from vegakit.conversation import Conversation, Message, Usage, UserPart
from vegakit.ids import ScopeId
from vegakit.lang import Type
from vegakit.money import Money
from vegakit.policy import ExitReason

__all__ = [
    "VOID",
    "Down",
    "Exited",
    "Fell",
    "Heard",
    "Mail",
    "Outcome",
    "Prompt",
    "Said",
    "Told",
    "ours",
]


class Prompt(Struct, frozen=True, tag=True, omit_defaults=True):
    """A message to an agent. `scope` is the shared budget of the place it was written at, `session`
    the one inside the program; `budget` replaces the agent's own for this send; `answer` is the
    type that is asked for."""

    parts: tuple[UserPart, ...]
    history: tuple[Message, ...] = ()
    scope: ScopeId = ScopeId("")
    budget: Money | None = None
    stream: bool = False
    session: str = ""
    answer: Type | None = None


class Mail(Struct, frozen=True, omit_defaults=True, gc=False):
    """`ask` is the word that the answer will carry, empty if none is wanted; `sender` is the
    process that asks, empty for the host. `name`, where answers are recorded, says which of its
    equals it is, so that its effects are found again whatever order messages arrive in. `session`
    is the budget that a tool spends from: the part of the send that called it."""

    value: Any
    ask: str = ""
    sender: str = ""
    deadline_ms: int | None = None
    name: str = ""
    kind: str = ""
    session: str = ""

    @property
    def content(self) -> Any:  # noqa: ANN401
        """What its receiver sees: ours as records again, also after a way through JSON."""
        kind = _OURS.get(self.kind)
        if kind is None or isinstance(self.value, kind):
            return self.value
        return convert(self.value, kind)


class Said(Struct, frozen=True, tag=True, omit_defaults=True):
    """What an agent answered, with the whole conversation; its last `new` messages are of this
    send. `pieces` are the text as it came, if it was streamed."""

    text: str
    conversation: Conversation
    new: int = 0
    usage: Usage = Usage()
    steps: int = 1
    dropped: Dropped = Dropped()
    pieces: tuple[str, ...] = ()


class Told(Struct, frozen=True, tag=True, omit_defaults=True):
    """The answer of a process: `Said` by an agent, any value by others."""

    value: Any
    charged: Money = Money(0)


class Fell(Struct, frozen=True, tag=True, omit_defaults=True):
    """No answer; `error` is what the language calls it, such as `AgentFailed`. `pieces` are what
    came before, if it was streamed."""

    error: str
    reason: str
    charged: Money = Money(0)
    pieces: tuple[str, ...] = ()


Outcome: TypeAlias = Told | Fell

VOID = Fell("Void", "")
"""To a call that was begun early: its turn has to come first."""


class Heard(Struct, frozen=True, tag=True):
    """A message: the answer to what this process asked."""

    ask: str
    outcome: Outcome


class Exited(Struct, frozen=True, tag=True):
    """A message to a process that traps exits."""

    sender: str
    reason: ExitReason


class Down(Struct, frozen=True, tag=True):
    """A message: who was watched is gone."""

    ref: str
    target: str
    reason: ExitReason


_OURS: dict[str, type[Heard | Exited | Down]] = {
    kind.__name__: kind for kind in (Heard, Exited, Down)
}


def ours(value: Heard | Exited | Down) -> Mail:
    return Mail(value, kind=type(value).__name__)
