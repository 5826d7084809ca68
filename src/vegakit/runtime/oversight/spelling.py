"""A question as people see it, what they may answer, and why an answer is refused."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from vegakit.errors import UserError
from vegakit.ids import Digest, InterruptId, Pid, parse_pid
from vegakit.policy import (
    Answer,
    Approved,
    Declined,
    Interrupt,
    InterruptKind,
    InterruptRefusal,
    Replied,
)
from vegakit.records import digest128

__all__ = ["Question", "answer_from", "question_of", "refusal_in_words", "shown_id"]

_SHOWN = 12
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


def shown_id(interrupt_id: InterruptId) -> str:
    return digest128(interrupt_id)[:_SHOWN]


def question_of(interrupt: Interrupt, *, permits: bool) -> Question:
    ask = interrupt.ask
    return Question(
        shown_id(ask.id),
        ask.kind,
        _process_of(ask.owner),
        ask.text,
        interrupt.opened_ms,
        interrupt.expires_ms,
        permits,
        ask.action,
    )


def answer_from(given: bool | str, *, permits: bool) -> Answer:
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
    InterruptRefusal.TOO_MANY: "too many questions are open already; answer some: vega interrupts",
}


def refusal_in_words(refusal: InterruptRefusal) -> str:
    return _REFUSALS.get(refusal, refusal.value.replace("_", " "))


def _process_of(owner: Pid) -> str:
    return parse_pid(owner)[1]
