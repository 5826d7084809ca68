"""What clients, the workflow of a program and its activities say to each other."""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from vegakit.effects import Effect
from vegakit.events import EffectOutcome
from vegakit.ids import Digest
from vegakit.money import Money
from vegakit.policy import Interrupts
from vegakit.program import (
    Authored,
    Event,
    Fell,
    Printed,
    Program,
    Said,
    Spawned,
    SpawnRefused,
    Told,
)

__all__ = [
    "BETWEEN_TASKS",
    "Call",
    "Command",
    "Given",
    "Launch",
    "NotYet",
    "Performed",
    "Reply",
    "Spoken",
    "Work",
]

BETWEEN_TASKS = "the program is between two tasks; ask again"
"""Why a query failed that came at a bad moment."""


class Call(StrEnum):
    """The activities. `AFTERMATH` asks what became of a call whose worker did not say."""

    MODEL = "call_model"
    TOOL = "call_tool"
    AFTERMATH = "aftermath"


class Spoken(Struct, frozen=True, tag=True, omit_defaults=True):
    """The answer of an agent."""

    said: Said
    charged: Money = Money(0)


class NotYet(Struct, frozen=True, tag=True):
    """It was obeyed, and its answer is still to come."""


Reply: TypeAlias = Told | Fell | Spoken | Spawned | SpawnRefused | NotYet


class Command(Struct, frozen=True, omit_defaults=True):
    """The same `id` is obeyed once. A post that wants an answer carries it as its `ask`."""

    id: str
    event: Event
    timeout_ms: int | None = None


class Given(Struct, frozen=True, omit_defaults=True):
    """A person's answer to a question, by its id or the beginning of it; `action` is what they were
    shown with it."""

    question: str
    answer: bool | str
    by: str
    action: Digest | None = None


class Launch(Struct, frozen=True, omit_defaults=True):
    """What one run of the workflow begins with. `queue` names the code. After `longest` events of
    history it moves to a next run; `replies` go with it, for those who have not heard them, and
    `interrupts`, the questions that people have not answered, and the last that was `printed`."""

    state: Program
    queue: str
    heartbeat_ms: int = 10_000
    longest: int = 10_000
    replies: dict[str, Reply] = {}
    interrupts: Interrupts | None = None
    printed: list[Printed] = []


class Work(Struct, frozen=True, omit_defaults=True):
    """One effect for an activity: `body` names the agent that it is for, `authored` is the program
    that declares it, if a model wrote that."""

    effect: Effect
    body: str
    path: str
    cancelled: bool = False
    authored: Authored | None = None


class Performed(Struct, frozen=True):
    """`digest` is of the request that this is the outcome of."""

    digest: Digest
    outcome: EffectOutcome
