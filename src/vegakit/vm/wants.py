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
    "Early",
    "End",
    "LinkBoth",
    "Older",
    "OpenScope",
    "Print",
    "SendTo",
    "SpawnAgent",
    "Taken",
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
    """Answered by the path of the process. `beside`: others of this fiber may spawn at the same
    time, so which comes first depends on what was answered first."""

    ticket: str
    agent: str
    wallet: int | None = None
    name: str = ""
    under: str = ""
    rules: dict[str, Any] | None = None
    scope: str = ""
    beside: bool = False


class CallHost(Struct, frozen=True, tag=True, omit_defaults=True):
    """A library function or tool that the host performs under rights number `rights`."""

    ticket: str
    function: str
    args: tuple[Any, ...]
    rights: int
    scope: str = ""


class Older(Struct, frozen=True, omit_defaults=True):
    """A send that comes earlier in the program and is not over: its money must still be there when
    it is asked for. `size` are the bytes of its message that are known, -1 without a bound,
    `answers` how many answers it holds besides; `budget` is what is written at the send; `flying`
    is the ticket of one that has begun, and holds what its present call may cost. `to` is the path
    of the process that it goes to, empty for an agent's name."""

    agent: str
    size: int = -1
    answers: int = 0
    typed: bool = False
    budget: int | None = None
    flying: str = ""
    to: str = ""
    scope: str = ""


class Early(Struct, frozen=True, tag=True, omit_defaults=True):
    """A call that the program will come to, wanted before its turn; it may be declined. `mine` is
    how a send itself is priced. `many`:
    there are more sends before it than can be counted."""

    of: SendTo | CallHost
    mine: Older | None = None
    older: tuple[Older, ...] = ()
    many: bool = False


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


class Taken(Struct, frozen=True, tag=True):
    """The program has come to what was begun early, and wants exactly this."""

    ticket: str
    of: SendTo | CallHost


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
    | Early
    | Print
    | LinkBoth
    | Watch
    | OpenScope
    | CloseScope
    | AskBudget
    | Drop
    | Taken
    | Cancel
    | End
)
