"""Requests to a running runtime, and the records and lines that answer them.

One request a connection, answered by lines of JSON; a connection that closes before an `end` was
cut off. Questions to people are shown everywhere by one function, so that no text of theirs can
pass for another question.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from vegakit.errors import UserError
from vegakit.ids import Digest, InterruptId, Pid, ProgramId, parse_pid
from vegakit.money import Money
from vegakit.policy import (
    Approved,
    Declined,
    Interrupt,
    InterruptAnswer,
    InterruptKind,
    InterruptRefusal,
    Replied,
    escape_for_terminal,
    quote_name,
    wrap_escaped,
)
from vegakit.records import digest128

# A question as people see it, what they may answer, and why an answer is refused.
#
# Everywhere it is shown it is shown by `render_question`, whole:
#
#     9c01f4a2be77  confirmation, asked by buyer, 59 m left
#       | buyer: pay {"amount":30} does {"capability":"net::post","type":"Use"}: no rule
#       | allows it, and mode ask asks first
#       $ vega answer 9c01f4a2be77 yes|no
#
# Each line of its text stands behind the fence, in narrower lines than the screen has, so that
# none of it can be taken for another question or for how to answer one. To put the lines together
# and to undo the escapes gives what was asked, letter by letter.


_SHOWN = 12
_FENCE = "  | "
_ANY_WIDTH = 80
_NARROWEST = 12
_HEAD = 54
"""Columns of the first line but for the name of who asks, at most."""
_SHORTEST_NAME, _LONGEST_NAME = 8, 40
_YES: Final = frozenset({"yes", "y"})
_NO: Final = frozenset({"no", "n"})


class Question(Struct, frozen=True):
    """`id` stands for the place in the program and for exactly what is asked: another action is
    another question. `permits` says whether it wants yes or no, or words."""

    id: str
    kind: InterruptKind
    process: str
    text: str
    opened_ms: int
    expires_ms: int | None
    permits: bool
    action: Digest | None = None


def short_id(interrupt_id: InterruptId) -> str:
    return digest128(interrupt_id)[:_SHOWN]


def question_of(interrupt: Interrupt, *, permits: bool) -> Question:
    ask = interrupt.ask
    return Question(
        short_id(ask.id),
        ask.kind,
        _process_of(ask.owner),
        ask.text,
        interrupt.opened_ms,
        interrupt.expires_ms,
        permits,
        ask.action,
    )


def render_question(
    question: Question, *, left: str = "", width: int | None = None, ascii_only: bool = False
) -> list[str]:
    """Lines for people. Where the `width` is not known they fit on any screen."""
    width = width or _ANY_WIDTH
    who = _shortened(question.process, max(_SHORTEST_NAME, min(_LONGEST_NAME, width - _HEAD)))
    head = f"{question.id}  {question.kind}, asked by {who}{f', {left}' if left else ''}"
    text = escape_for_terminal(question.text, ascii_only=ascii_only)
    lines = wrap_escaped(text, max(_NARROWEST, width - len(_FENCE) - 1))
    return [head, *(f"{_FENCE}{line}" for line in lines), f"  $ {answer_command(question)}"]


def answer_command(question: Question) -> str:
    wants = "yes|no" if question.permits else "'WORDS'"
    return f"vega answer {question.id} {wants}"


def _shortened(process: str, longest: int) -> str:
    """It stands before the fence, where it may not push a line beyond the screen."""
    name, half = quote_name(process), longest // 2 - 1
    return name if len(name) <= longest else f"{name[:half]}..{name[-half:]}"


def answer_from(given: bool | str, *, permits: bool) -> InterruptAnswer:
    """Words permit nothing, and nobody is taken to have meant yes."""
    if not permits:
        return Replied(given if isinstance(given, str) else ("yes" if given else "no"))
    if isinstance(given, bool):
        return Approved() if given else Declined()
    word, _, why = given.strip().partition(" ")
    if word.lower().rstrip(",:;.") in _NO:
        return Declined(why.strip())
    if word.lower() in _YES and not why:
        return Approved()
    raise UserError(f"this question wants yes or no, with nothing after yes; got {given[:80]!r}")


_REFUSALS: Final[Mapping[InterruptRefusal, str]] = {
    InterruptRefusal.UNKNOWN: "it is not known here; to see what is asked, type: vega interrupts",
    InterruptRefusal.SETTLED: "it was answered, withdrawn or expired before; it is asked once",
    InterruptRefusal.LATE: "its time is over, so it counts as declined; ask the agent again",
    InterruptRefusal.ANONYMOUS: "nobody is named who answers; give by= a name",
    InterruptRefusal.OWN_QUESTION: "a program does not answer its own question; ask a person",
    InterruptRefusal.WRONG_ACTION: "what would be done is not what was shown to you; look again "
    "with: vega interrupts",
    InterruptRefusal.WRONG_ANSWER: "it wants another kind of answer: yes or no, or words",
    InterruptRefusal.MISLEADING_TEXT: "its text holds characters that would show something else",
    InterruptRefusal.TOO_LONG: "it is longer than what people are shown at once, and nobody "
    "approves what they do not see; ask about less at a time",
    InterruptRefusal.TOO_MANY: "too many questions are open already; answer some: vega interrupts",
}


def refusal_text(refusal: InterruptRefusal) -> str:
    return _REFUSALS.get(refusal, refusal.value.replace("_", " "))


def _process_of(owner: Pid) -> str:
    return parse_pid(owner)[1]


# What is said over the socket: one request a connection, answered by lines of JSON.
#
#     {"v":1,"verb":"ps"}                             ▶
#                                                     ◀  {"v":1,"value":{…}}     for each process
#                                                     ◀  {"v":1,"end":true}
#     {"v":1,"verb":"kill","id":"coder"}              ▶
#                                                     ◀  {"v":1,"end":true,"error":"there is no …"}
#
# A connection that closes before an `end` was cut off. Hanging up ends an answer.


CONTROL_VERSION = 1
MAX_LINE = 1 << 20

_NOTHING = Raw(b"null")


class ControlRequest(Struct, frozen=True, omit_defaults=True):
    """`id` is a process, by its path, the end of its path, or its pid; or a question, with the
    `answer` to it and the `action` that was shown."""

    v: int
    verb: str
    id: str = ""
    tree: bool = False
    follow: bool = False
    answer: str = ""
    action: Digest | None = None


class ControlReply(Struct, frozen=True, omit_defaults=True):
    v: int
    value: Raw = _NOTHING
    error: str = ""
    end: bool = False


class RuntimeView(Struct, frozen=True):
    """`left` is of the runtime's own cap; `now_ms` is the runtime's clock, for what is in ms."""

    name: str
    os_pid: int
    version: str
    now_ms: int
    since_ms: int
    program: ProgramId
    processes: int = 0
    tasks: int = 0
    os_children: int = 0
    spent: Money = Money(0)
    left: Money | None = None


class KillResult(Struct, frozen=True):
    """What was ended, and what is left of it: nothing, unless a task refuses to be cancelled.
    `restarted` are those that their supervisor has started again."""

    ended: tuple[str, ...]
    processes_left: int = 0
    tasks_left: int = 0
    os_children_left: int = 0
    restarted: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not (self.processes_left or self.tasks_left or self.os_children_left)


def encode_reply(*, value: object = None, error: str = "", end: bool = False) -> bytes:
    encoded = _NOTHING if value is None else Raw(msgspec.json.encode(value))
    return msgspec.json.encode(ControlReply(CONTROL_VERSION, encoded, error, end)) + b"\n"


class LogEntry(Struct, frozen=True):
    """`what` is the kind of a traced call, or what became of the process."""

    number: int
    at_ms: int
    process: str
    what: str
    name: str = ""
    status: str = ""
    took_ms: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Money = Money(0)
    note: str = ""


def is_within(path: str, above: str) -> bool:
    """`team#2/coder` is within `team`."""
    rest = path.removeprefix(above)
    return path.startswith(above) and (not rest or rest[0] in "/#")
