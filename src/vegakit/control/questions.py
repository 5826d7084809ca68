"""Questions to people: how they are shown, and what answers are taken (pure).

Everywhere a question is shown it is shown by `render_question`, whole:

    9c01f4a2be77  confirmation, asked by buyer, 59 m left
      | buyer: pay {"amount":30} does {"capability":"net::post","type":"Use"}: no rule
      | allows it, and mode ask asks first
      $ vega answer 9c01f4a2be77 yes|no

Each line of its text stands behind the fence, in narrower lines than the screen has, so that none
of it can be taken for another question or for how to answer one. To put the lines together and to
undo the escapes gives what was asked, character by character.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from vegakit.errors import UserError
from vegakit.ids import Digest, InterruptId, parse_pid
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
    """A question as a person is shown it. `id` stands for the place in the program and for exactly
    what is asked: another action is another question. `permits` says that it wants yes or no; other
    questions want text."""

    id: str
    kind: InterruptKind
    process: str
    text: str
    opened_ms: int
    expires_ms: int | None
    permits: bool
    action: Digest | None = None


def short_id(interrupt_id: InterruptId) -> str:
    """Return the id that people see and type."""
    return digest128(interrupt_id)[:_SHOWN]


def question_of(interrupt: Interrupt, *, permits: bool) -> Question:
    """Return an interrupt as a person is shown it."""
    ask = interrupt.ask
    return Question(
        short_id(ask.id),
        ask.kind,
        parse_pid(ask.owner)[1],
        ask.text,
        interrupt.opened_ms,
        interrupt.expires_ms,
        permits,
        ask.action,
    )


def render_question(
    question: Question, *, left: str = "", width: int | None = None, ascii_only: bool = False
) -> list[str]:
    """Return the lines that people are shown. Without a `width` they fit any screen."""
    width = width or _ANY_WIDTH
    who = _shortened(question.process, max(_SHORTEST_NAME, min(_LONGEST_NAME, width - _HEAD)))
    head = f"{question.id}  {question.kind}, asked by {who}{f', {left}' if left else ''}"
    text = escape_for_terminal(question.text, ascii_only=ascii_only)
    lines = wrap_escaped(text, max(_NARROWEST, width - len(_FENCE) - 1))
    return [head, *(f"{_FENCE}{line}" for line in lines), f"  $ {answer_command(question)}"]


def answer_command(question: Question) -> str:
    """Return what a person types to answer."""
    wants = "yes|no" if question.permits else "'WORDS'"
    return f"vega answer {question.id} {wants}"


def _shortened(process: str, longest: int) -> str:
    """Return the name of a process, cut so that the line before the fence fits on the screen."""
    name, half = quote_name(process), longest // 2 - 1
    return name if len(name) <= longest else f"{name[:half]}..{name[-half:]}"


def answer_from(given: bool | str, *, permits: bool) -> InterruptAnswer:
    """Return what was answered. Only a plain yes approves."""
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
    """Return why an answer was refused and what to do, for people."""
    return _REFUSALS.get(refusal, refusal.value.replace("_", " "))
