"""Looking at a program for somebody who asks: all of it under one count of steps.

| wish    | told                                                              |
|---------|-------------------------------------------------------------------|
| admit   | `Accepted` or `Refused`, of a program that a model wrote          |
| check   | what is wrong with it                                             |
| cost    | that, or its quote                                                |
| explain | that, or what it may touch, and what waits for what               |
| run     | that, or `Accepted` or `Refused`                                  |

Whoever looks may be another process. It has no models, only their names: `Counting` asks whoever
holds them how many tokens a request comes to.
"""

from collections.abc import Callable
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.authoring.admission import Accepted, Count, Leave, admit, judge
from vegakit.authoring.refusals import Refused, heavy
from vegakit.conversation import ModelRequest
from vegakit.lang import (
    Flow,
    Manifest,
    Quote,
    StepsSpentError,
    as_json,
    check,
    counted,
    flows_of,
    manifest_of,
    quote,
    render,
)

__all__ = [
    "MOST_LINKS",
    "Count",
    "Counting",
    "Looked",
    "Read",
    "Wish",
    "counts_by",
    "look",
    "too_much",
]

Read: TypeAlias = Callable[[str], str | None]

MOST_LINKS = 100
"""Of a flow, that are told: 400 sends to one process have 80,000."""

counts_by: ContextVar[Callable[[str, ModelRequest], int]] = ContextVar("counts_by")
"""How a name and a request become a number, where the models are elsewhere."""


class Wish(StrEnum):
    ADMIT = "admit"
    CHECK = "check"
    COST = "cost"
    EXPLAIN = "explain"
    RUN = "run"


class Counting(Struct, frozen=True):
    """Stands for the count of a model that is elsewhere."""

    name: str

    def __call__(self, request: ModelRequest) -> int:
        return counts_by.get()(self.name, request)


class Looked(Struct, frozen=True):
    """`shown` and `found` are the same diagnostics, for people and for programs; what was not
    wished for, or cannot be had of a program with mistakes, is None. `steps` is what it took."""

    is_sound: bool = True
    shown: str = ""
    found: tuple[Any, ...] = ()
    verdict: Accepted | Refused | None = None
    quoted: Quote | None = None
    manifest: Manifest | None = None
    flows: tuple[Flow, ...] | None = None
    steps: int = 0


def look(
    wish: Wish, text: str, name: str, leave: Leave, most: int, read: Read | None = None
) -> Looked | None:
    """None where it would take more than `most` steps. `name` is of the file, or for what is
    admitted of the language."""
    try:
        with counted(most) as steps:
            looked = _looked(wish, text, name, leave, read)
    except StepsSpentError:
        return None
    return None if steps.are_spent else replace(looked, steps=most - steps.left)


def _looked(wish: Wish, text: str, name: str, leave: Leave, read: Read | None) -> Looked:
    if wish is Wish.ADMIT:
        return Looked(verdict=admit(text, name, leave))
    texts = {name: text}

    def kept(used: str) -> str | None:
        found = None if read is None else read(used)
        if found is not None:
            texts[used] = found
        return found

    checked, found = check(text, name, kept)
    is_sound = checked is not None and all(one.severity != "error" for one in found)
    shown, page = render(found, texts), tuple(as_json(found, texts))
    if checked is None or not is_sound or wish is Wish.CHECK:
        return Looked(is_sound, shown, page)
    match wish:
        case Wish.COST:
            return Looked(is_sound, shown, page, quoted=quote(checked, leave.terms))
        case Wish.EXPLAIN:
            manifest, whole = manifest_of(checked), flows_of(checked)
            flows = tuple(replace(flow, links=flow.links[:MOST_LINKS]) for flow in whole)
            return Looked(is_sound, shown, page, manifest=manifest, flows=flows)
        case _:
            return Looked(is_sound, shown, page, judge(checked, leave))


def too_much(wish: Wish) -> Looked:
    """Told where it would take more steps than a program may."""
    refusal = heavy()
    if wish in (Wish.ADMIT, Wish.RUN):
        return Looked(verdict=refusal)
    return Looked(is_sound=False, shown=refusal.text)
