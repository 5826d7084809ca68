"""Messages to processes and the results that come back (pure)."""

from base64 import b64decode
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, convert
from msgspec.structs import replace

from vegakit.agent import DroppedHistory, ToolOutcome
from vegakit.conversation import Conversation, Media, Message, OutputSpec, Text, Usage, UserPart
from vegakit.effects import SharedBudget
from vegakit.errors import ErrorClass, Timeout
from vegakit.events import (
    Answered,
    Crashed,
    EffectCancelled,
    EffectOutcome,
    Failed,
    Refused,
    Unknown,
)
from vegakit.ids import EffectKey, ScopeId
from vegakit.money import Money
from vegakit.policy import ExitReason
from vegakit.records import UNREADABLE_JSON, Json
from vegakit.value_types import RecordOf, Type

if TYPE_CHECKING:
    from vegakit.lang import Problem

# Messages to processes, and the results that are returned to their senders.


class Prompt(Struct, frozen=True, tag=True, omit_defaults=True):
    """A message to an agent. `scope` is the shared budget at the place of the send, `session` the
    budget inside the program; `budget` replaces the agent's own budget for this send; `answer` is
    the requested type; `shared` are the budgets of the agents whose tools send it. With
    `budget_wait_ms` its calls wait for money that others hold in the shared budget, until nothing
    has moved there for so long."""

    parts: tuple[UserPart, ...]
    history: tuple[Message, ...] = ()
    scope: ScopeId = ScopeId("")
    budget: Money | None = None
    stream: bool = False
    session: str = ""
    answer: Type | None = None
    budget_wait_ms: int = 0
    shared: tuple[SharedBudget, ...] = ()

    @property
    def question(self) -> "Prompt":
        """Return the prompt without its budgets and patience. A run that is resumed under another
        budget sends an equal question."""
        return replace(self, scope=ScopeId(""), session="", budget_wait_ms=0, shared=())


class ProcessMessage(Struct, frozen=True, omit_defaults=True, gc=False):
    """A message in a mailbox. `ask` identifies the result, and is empty if none is wanted; `sender`
    is the process that asks, empty for the host. Where results are recorded, `name` tells equal
    messages apart, so that their effects are found again in whatever order messages arrive.
    `session` is the budget that a tool spends from: the part of the send that called it.
    `timeout_ms` is how long the sender, or else the receiver, is prepared to wait. `span` is the
    span of the trace that a compiled program has opened around the send."""

    value: Any
    ask: str = ""
    sender: str = ""
    deadline_ms: int | None = None
    name: str = ""
    kind: str = ""
    session: str = ""
    timeout_ms: int = 0
    span: str = ""

    @property
    def content(self) -> Any:  # noqa: ANN401
        """Return what the receiver sees: system messages as records, also after they were stored as
        JSON."""
        kind = _SYSTEM_KINDS.get(self.kind)
        if kind is None or isinstance(self.value, kind):
            return self.value
        return convert(self.value, kind)


class AgentReply(Struct, frozen=True, tag=True, omit_defaults=True):
    """The answer of an agent, with the whole conversation, of which the last `new` messages belong
    to this send. `pieces` are the parts of the text as they were streamed."""

    text: str
    conversation: Conversation
    new: int = 0
    usage: Usage = Usage()
    steps: int = 1
    dropped: DroppedHistory = DroppedHistory()
    pieces: tuple[str, ...] = ()


class Returned(Struct, frozen=True, tag=True, omit_defaults=True):
    """The result of a message: an `AgentReply` from an agent, any value from other processes."""

    value: Any
    charged: Money = Money(0)


class MessageFailed(Struct, frozen=True, tag=True, omit_defaults=True):
    """The message failed. `error` is the name of the error in the language, such as `AgentFailed`.
    `pieces` are the parts of the text that were streamed before. `cause` are the effects whose
    outcomes led here: if the run fails because of it, they are asked again when the run is resumed.
    What the machine decided itself, such as a budget that is too small, has no cause, since it is
    decided anew. `messages` is the conversation until then, for who asked from outside. `is_outage`
    says that the provider of its model could not be asked."""

    error: str
    reason: str
    charged: Money = Money(0)
    pieces: tuple[str, ...] = ()
    cause: tuple[EffectKey, ...] = ()
    messages: tuple[Message, ...] = ()
    is_outage: bool = False


Outcome: TypeAlias = Returned | MessageFailed

VOID = MessageFailed("Void", "")
"""The result of a speculative call that has to be made again when its turn comes."""


LOST = MessageFailed("Cancelled", "another was the first in this race")
"""The result of a call that lost a race. That is recorded, since it is not asked again."""


def late(cause: tuple[EffectKey, ...], timeout_ms: int) -> MessageFailed:
    """Return the failure after a missed deadline. The text is made only here, because a run that is
    resumed has to see the same text again."""
    within = f"within {timeout_ms / 1000:g} s" if timeout_ms else "in time"
    why = f"no answer {within}; give it a longer timeout, or ask for less"
    return MessageFailed(Timeout.__name__, why, cause=cause)


class ResultMessage(Struct, frozen=True, tag=True):
    """A message that carries the result of an earlier ask of this process."""

    ask: str
    outcome: Outcome


class ExitMessage(Struct, frozen=True, tag=True):
    """A message to a process that traps exits."""

    sender: str
    reason: ExitReason


class Down(Struct, frozen=True, tag=True):
    """A message that tells that a monitored process has ended."""

    ref: str
    target: str
    reason: ExitReason


_SYSTEM_KINDS: dict[str, type[ResultMessage | ExitMessage | Down]] = {
    kind.__name__: kind for kind in (ResultMessage, ExitMessage, Down)
}


def system_message(value: ResultMessage | ExitMessage | Down) -> ProcessMessage:
    """Return a message that the machine itself sends."""
    return ProcessMessage(value, kind=type(value).__name__)


# Outcomes of effects as results.


T = TypeVar("T")


_CUT_OFF = (
    "outcome unknown: it was cut off, and nobody knows whether it was done; check whether it took "
    "effect before you call it again"
)


def tool_outcome(outcome: EffectOutcome) -> ToolOutcome:
    """Return the outcome of a tool call as the model is told it."""
    match outcome:
        case Answered(value):
            return as_record(ToolOutcome, value)
        case Refused(error, reason):
            return ToolOutcome(f"{error}: {reason}", is_error=True)
        case Failed(_, reason) | Crashed(reason):
            return ToolOutcome(reason, is_error=True)
        case Unknown():
            return ToolOutcome(_CUT_OFF, is_error=True)
        case EffectCancelled():
            return ToolOutcome("was cancelled", is_error=True)


def plain_outcome(outcome: EffectOutcome, *cause: EffectKey) -> Outcome:
    """Return the outcome as a result; `cause` are the effects behind a failure."""
    match outcome:
        case Answered(value):
            return Returned(value)
        case Refused(error, reason):
            return MessageFailed(error, reason, cause=cause)
        case EffectCancelled():
            return MessageFailed("Cancelled", "it was cancelled", cause=cause)
        case Failed(ErrorClass.TIMEOUT, reason):
            return MessageFailed("Timeout", reason, cause=cause)
        case _:
            return MessageFailed("AgentFailed", str(outcome), cause=cause)


def as_record(kind: type[T], value: object) -> T:
    """Return the value as a record: an outcome is a record already, or plain JSON if it was read
    from a journal."""
    return value if isinstance(value, kind) else msgspec.convert(value, kind)


# The parts of a message that a program sends: text, and files by their content.


_ADDRESS = "data:"


def parts_of(message: Json) -> tuple[UserPart, ...]:
    """Return the parts of a message. A list that holds files is sent part by part; everything else
    is one text."""
    if isinstance(message, list) and any(map(_content, message)):
        return tuple(map(_part, message))
    return (_part(message),)


def _part(value: Json) -> UserPart:
    """Return a value as one part. A value that only looks like a file that was read is text."""
    if isinstance(value, str):
        return Text(value)
    kind, _, content = _content(value).partition(";base64,")
    try:
        data = b64decode(content, validate=True)
    except ValueError:
        data = b""
    if data:
        return Media(kind, data)
    from vegakit.vm import restored, text_of

    return Text(text_of(restored(value)))


def _content(value: Json) -> str:
    """Return the content of a file, which the host stored in the file's address when it read it."""
    path = value.get("of") if isinstance(value, dict) and value.get("$") == "file" else None
    is_read = isinstance(path, str) and path.startswith(_ADDRESS)
    return path.removeprefix(_ADDRESS) if is_read and isinstance(path, str) else ""


# Answers of a declared type: the schema for the model, and the check of its answer. Only compiled
# programs ask for them, so the language is loaded when the first one does.


def output_of(answer: Type) -> OutputSpec:
    """Return the schema that a typed answer must fit."""
    from vegakit.lang import answer_schema

    name = answer.name.rpartition("::")[2] if isinstance(answer, RecordOf) else "Answer"
    return OutputSpec(name, answer_schema(answer))


def problem_of(answer: Type, text: str) -> str | None:
    """Return what is wrong with an answer in words that the model can act on, or None."""
    from vegakit.lang import Problem

    read = _read(answer, text)
    return str(read) if isinstance(read, Problem) else None


def value_in(answer: Type, text: str) -> Json:
    """Return the value of an answer that was checked before."""
    from vegakit.lang import Problem

    read = _read(answer, text)
    return None if isinstance(read, Problem) else read


def _read(answer: Type, text: str) -> "Json | Problem":
    from vegakit.lang import Problem, answer_of

    try:
        return answer_of(answer, msgspec.json.decode(text))
    except UNREADABLE_JSON:
        return Problem("it is not JSON")
