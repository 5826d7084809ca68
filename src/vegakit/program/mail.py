"""What is sent to a process, and what comes back to those who asked."""

from typing import Any, TypeAlias

from msgspec import Struct, convert
from msgspec.structs import replace

from vegakit.agent import Dropped
from vegakit.conversation import Conversation, Message, Usage, UserPart
from vegakit.errors import Timeout
from vegakit.ids import EffectKey, ScopeId
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
    "late",
    "ours",
]


class Prompt(Struct, frozen=True, tag=True, omit_defaults=True):
    """A message to an agent. `scope` is the shared budget of the place it was written at, `session`
    the one inside the program; `budget` replaces the agent's own for this send; `answer` is the
    type that is asked for. With `wait_for_budget` its calls wait until the shared budget has room
    for them."""

    parts: tuple[UserPart, ...]
    history: tuple[Message, ...] = ()
    scope: ScopeId = ScopeId("")
    budget: Money | None = None
    stream: bool = False
    session: str = ""
    answer: Type | None = None
    wait_for_budget: bool = False

    @property
    def question(self) -> "Prompt":
        """What is asked, without who pays for it and how patiently: a run that is taken up under
        another budget asks the same."""
        return replace(self, scope=ScopeId(""), wait_for_budget=False)


class Mail(Struct, frozen=True, omit_defaults=True, gc=False):
    """`ask` is the word that the answer will carry, empty if none is wanted; `sender` is the
    process that asks, empty for the host. `name`, where answers are recorded, says which of its
    equals it is, so that its effects are found again whatever order messages arrive in. `session`
    is the budget that a tool spends from: the part of the send that called it. `timeout_ms` is how
    long its sender, or else its receiver, said that it waits."""

    value: Any
    ask: str = ""
    sender: str = ""
    deadline_ms: int | None = None
    name: str = ""
    kind: str = ""
    session: str = ""
    timeout_ms: int = 0

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
    came before, if it was streamed. `cause` are the effects whose outcomes it comes from: should
    it fail the run, they are asked again when the run goes on. What the machine decided by itself,
    such as that a budget is too small, has none, since that is decided anew."""

    error: str
    reason: str
    charged: Money = Money(0)
    pieces: tuple[str, ...] = ()
    cause: tuple[EffectKey, ...] = ()


Outcome: TypeAlias = Told | Fell

VOID = Fell("Void", "")
"""To a call that was begun early: its turn has to come first."""


def late(cause: tuple[EffectKey, ...], timeout_ms: int) -> Fell:
    """A deadline has passed. Said in one place: a run that goes on is told the same again."""
    within = f"within {timeout_ms / 1000:g} s" if timeout_ms else "in time"
    why = f"no answer {within}; give it more with timeout=, or ask for less"
    return Fell(Timeout.__name__, why, cause=cause)


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
