"""What a fiber wants of the world, as data, and what became of it.

A ticket names the asking by its place, `main:3[0.2]/f:1`: functions and the ordinals of sites on
the way down, with the rounds of the loops around each. It never depends on what happened first, so
it is also the identity of the effect.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.lang import Type

__all__ = [
    "AskBudget",
    "CallHost",
    "Cancel",
    "CloseScope",
    "Drop",
    "End",
    "LinkBoth",
    "OpenScope",
    "Print",
    "SendTo",
    "SpawnAgent",
    "Want",
    "Watch",
]


class SendTo(Struct, frozen=True, tag=True, omit_defaults=True):
    """`to` is the path of a process, or with `agent` the name of an agent. `answer` is the type
    asked for, None for text. Scopes are the fiber's, innermost last."""

    ticket: str
    to: str
    message: Any
    agent: bool = False
    answer: Type | None = None
    timeout_ms: int | None = None
    budget: int | None = None
    stream: bool = False
    scope: str = ""


class SpawnAgent(Struct, frozen=True, tag=True, omit_defaults=True):
    """Answered by the path of the process."""

    ticket: str
    agent: str
    wallet: int | None = None
    name: str = ""
    under: str = ""
    rules: dict[str, Any] | None = None
    scope: str = ""


class CallHost(Struct, frozen=True, tag=True, omit_defaults=True):
    """A library function or tool that the host performs under rights number `rights`."""

    ticket: str
    function: str
    args: tuple[Any, ...]
    rights: int
    scope: str = ""


class Print(Struct, frozen=True, tag=True):
    ticket: str
    text: str


class LinkBoth(Struct, frozen=True, tag=True):
    one: str
    other: str


class Watch(Struct, frozen=True, tag=True):
    """Answered by the reason, when the process is gone."""

    ticket: str
    path: str


class OpenScope(Struct, frozen=True, tag=True, omit_defaults=True):
    """Answered when the money is set aside, or refused with BudgetExceeded."""

    ticket: str
    amount: int
    inside: str = ""
    settings: dict[str, Any] | None = None


class CloseScope(Struct, frozen=True, tag=True):
    scope: str


class AskBudget(Struct, frozen=True, tag=True, omit_defaults=True):
    """0 remaining, 1 used, 2 limit."""

    ticket: str
    what: int
    scope: str = ""


class Drop(Struct, frozen=True, tag=True):
    """These processes end: the call that spawned them has returned."""

    paths: tuple[str, ...]


class Cancel(Struct, frozen=True, tag=True):
    """Nobody waits for it any more."""

    ticket: str


class End(Struct, frozen=True, tag=True):
    """The process ends itself, with this reason."""

    reason: str


Want: TypeAlias = (
    SendTo
    | SpawnAgent
    | CallHost
    | Print
    | LinkBoth
    | Watch
    | OpenScope
    | CloseScope
    | AskBudget
    | Drop
    | Cancel
    | End
)
