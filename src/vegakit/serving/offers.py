"""The tools of the server: name, what a client sends, and what it is told about it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, ValidationError, convert

from vegakit.errors import Raised, VegaError, name_of
from vegakit.serving.desk import Desk, Told
from vegakit.serving.progress import Tell
from vegakit.serving.requests import (
    CardRequest,
    InterruptsRequest,
    KillRequest,
    ProgramRequest,
    PsRequest,
    Request,
    RunRequest,
)

__all__ = ["OFFERS", "Offer", "answer"]

R = TypeVar("R", bound=Request)


class Offer(Struct, Generic[R], frozen=True):
    """`changes`: more than looking. `tells`: it also hears how to tell what comes meanwhile."""

    kind: type[R]
    perform: Callable[..., Awaitable[Told]]
    says: str
    changes: bool = False
    tells: bool = False


OFFERS: dict[str, Offer[Any]] = {
    "card": Offer(
        CardRequest,
        Desk.card,
        "The whole language on one page. Read it before you write a program.",
    ),
    "check": Offer(
        ProgramRequest,
        Desk.check,
        "All that is wrong with a program, with lines and suggested edits. Calls no model.",
    ),
    "cost": Offer(
        ProgramRequest,
        Desk.cost,
        "What a program may cost at most, send by send, and what is left here. Calls no model.",
    ),
    "explain": Offer(
        ProgramRequest,
        Desk.explain,
        "What a program may ask, call and touch, what of it is not granted, what runs at once and "
        "what waits for what. Calls no model.",
    ),
    "run": Offer(
        RunRequest,
        Desk.run,
        "Run a program to its end: its result, what it printed and what it spent. It is checked "
        "and priced first; a refusal says what to change, and nothing was spent. To cancel the "
        "request ends the run.",
        changes=True,
        tells=True,
    ),
    "ps": Offer(PsRequest, Desk.ps, "What runs here now: each process, its state and its money."),
    "interrupts": Offer(
        InterruptsRequest,
        Desk.interrupts,
        "What runs here ask people, exactly and whole, and what a person types to answer. Show it "
        "to them as it is: only a person answers, at a terminal of this machine.",
    ),
    "kill": Offer(
        KillRequest,
        Desk.kill,
        "End a run or a process for good, with all that it started.",
        changes=True,
    ),
}


async def answer(
    desk: Desk, name: str, given: Mapping[str, Any] | None, tell: Tell | None = None
) -> Told:
    """What is wrong with a request is told like any refusal, so that a model can mend it."""
    offer = OFFERS.get(name)
    if offer is None:
        told = f"there is no tool {name[:80]!a}; there are: {', '.join(OFFERS)}"
        return Told(told, refused=True)
    try:
        asked = convert(dict(given or {}), offer.kind)
    except ValidationError as error:
        return Told(f"{name} does not take this: {error}", refused=True)
    try:
        return await offer.perform(desk, asked, *([tell] if offer.tells else []))
    except VegaError as error:
        name = f"{name_of(error)}: " if isinstance(error, Raised) else ""
        return Told(f"{name}{error}", refused=True)
