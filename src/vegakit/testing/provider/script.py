"""What the provider answers: data, in a list, by text, or by a function.

    Provider("Paris")                                     always the same
    Provider([Failure(529), Failure(529), "Paris"])       in turn; the last one stays
    Provider({"France": "Paris", "Spain": [Drop(), "Madrid"], "": Failure(404)})
                                                          by what the last user message contains
    Provider(lambda request: Reply(request.text.upper())) worked out from the request

A string is short for a `Reply` with that text. Without a script the words of the last user message
choose, see `words`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from vegakit.conversation import Finish, Usage
from vegakit.testing.provider.requests import Request

__all__ = [
    "Answer",
    "Break",
    "Call",
    "Choose",
    "Drop",
    "Failure",
    "Hang",
    "Reply",
    "Script",
    "chooser",
]


class Call(Struct, frozen=True):
    """One tool call."""

    name: str
    arguments: Any = {}


class Drop(Struct, frozen=True):
    """The connection is closed, without a byte if no answer had begun."""

    delay_ms: int = 0


class Hang(Struct, frozen=True):
    """Nothing more comes until the client gives up."""


class Failure(Struct, frozen=True):
    """An HTTP status, or what each provider has its own way to say; in the provider's format."""

    cause: int | Literal["quota", "context_length"]
    message: str = ""
    retry_after_s: float | None = None
    delay_ms: int = 0
    headers: dict[str, str] = {}


class Break(Struct, frozen=True):
    """How a stream ends early: after so many pieces, by a drop, a stall or an error in it.

    An answer that is not streamed breaks off in the middle of its body; a failure comes in its
    place.
    """

    after: int
    by: Drop | Hang | Failure


class Reply(Struct, frozen=True):
    """`output` is JSON, sent as the client asked for it: as text or as a call of its output tool.

    `usage` not given is reckoned from the lengths of question and answer; None is not reported.
    `finish` follows from what is sent unless it is given. `refusal` stands instead of text.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    output: Any = UNSET
    refusal: str = ""
    usage: Usage | UnsetType | None = UNSET
    finish: Finish | None = None
    delay_ms: int = 0
    gap_ms: int = 0
    breaks: Break | None = None
    headers: dict[str, str] = {}


Answer: TypeAlias = str | Reply | Failure | Drop | Hang
Choose: TypeAlias = Callable[[Request], Answer]
Script: TypeAlias = Answer | Sequence[Answer] | Mapping[str, "Script"] | Choose


def chooser(script: Script) -> Choose:
    """Begins the script from its start; a list keeps its place in what is returned."""
    if callable(script):
        return script
    if isinstance(script, Mapping):
        return _by_text({key: chooser(inner) for key, inner in script.items()})
    if isinstance(script, str | Struct):
        return _in_turn([script])
    return _in_turn(script)


def _in_turn(answers: Sequence[Answer]) -> Choose:
    if not answers:
        raise ValueError("a script needs an answer; got an empty list, write ['…'] or leave it out")
    turns = chain(answers, repeat(answers[-1]))
    return lambda _: next(turns)


def _by_text(choosers: Mapping[str, Choose]) -> Choose:
    def choose(request: Request) -> Answer:
        for key, chosen in choosers.items():
            if key in request.text:
                return chosen(request)
        return Failure(
            400,
            f"the script has no answer for {request.text[:80]!r}; it knows {', '.join(choosers)}; "
            "add a key that the text contains, or '' for all others",
        )

    return choose
