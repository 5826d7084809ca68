"""What a program asks of its host, and what it says to whoever listens."""

from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.agent import ToolOutcome
from vegakit.effects import HostAction
from vegakit.money import Money
from vegakit.policy import ExitReason
from vegakit.program.mail import Down, Outcome

__all__ = [
    "Action",
    "Answer",
    "BreakerClosed",
    "BreakerOpened",
    "CostAlert",
    "Ended",
    "Monitored",
    "News",
    "Noted",
    "Overlapped",
    "Printed",
    "ProcessExited",
    "ProcessRestarted",
    "ProcessSpawned",
    "ProcessStuck",
    "SpawnRefused",
    "Spawned",
    "ToolBegan",
    "ToolEnded",
    "Wasted",
]


class Spawned(Struct, frozen=True, tag=True):
    path: str


class SpawnRefused(Struct, frozen=True, tag=True):
    error: str
    reason: str


class Monitored(Struct, frozen=True, tag=True):
    ref: str


class Answer(Struct, frozen=True, tag=True):
    ask: str
    outcome: Outcome


class ToolBegan(Struct, frozen=True, tag=True):
    """For who hears the answer to `ask` piece by piece: its agent calls a tool."""

    ask: str
    name: str
    arguments: Any
    index: int


class ToolEnded(Struct, frozen=True, tag=True):
    ask: str
    name: str
    outcome: ToolOutcome
    index: int


class Ended(Struct, frozen=True, tag=True):
    """Nothing lives and nothing is under way."""


class ProcessSpawned(Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    path: str
    body: str
    spawner: str = ""


class ProcessRestarted(Struct, frozen=True, tag=True):
    path: str
    generation: int
    cause: ExitReason


class ProcessExited(Struct, frozen=True, tag=True):
    """For good: it is not restarted."""

    path: str
    generation: int
    reason: ExitReason
    spent: Money


class CostAlert(Struct, frozen=True, tag=True):
    path: str
    spent: Money
    alert_at: Money


class ProcessStuck(Struct, frozen=True, tag=True):
    """It has worked on one message for this long without any answer from the world."""

    path: str
    for_ms: int


class Printed(Struct, frozen=True, tag=True):
    """By a compiled program, for whoever reads its output."""

    path: str
    text: str


class Noted(Struct, frozen=True, tag=True):
    """By a compiled program, for its trace: `kind` is span, event or attribute."""

    path: str
    kind: str
    text: str


class Wasted(Struct, frozen=True, tag=True):
    """Spent by a compiled program on a call that it began early and did not come to."""

    path: str
    amount: Money


class Overlapped(Struct, frozen=True, tag=True):
    """A run of a compiled program is over: what its calls took one after another, and what the
    longest chain of them took of which each waited for the one before."""

    path: str
    sequential_ms: int
    critical_ms: int


class BreakerOpened(Struct, frozen=True, tag=True):
    """Of an agent's own breaker, or of a model's."""

    name: str


class BreakerClosed(Struct, frozen=True, tag=True):
    name: str


News: TypeAlias = (
    ProcessSpawned
    | ProcessRestarted
    | ProcessExited
    | ProcessStuck
    | CostAlert
    | BreakerOpened
    | BreakerClosed
    | Printed
    | Noted
    | Wasted
    | Overlapped
)

Action: TypeAlias = (
    HostAction
    | Spawned
    | SpawnRefused
    | Monitored
    | Answer
    | ToolBegan
    | ToolEnded
    | Down
    | Ended
    | News
)
