"""Requests of a fiber to its machine, as data (pure).

A ticket names a request by its place in the program, `main:3[0.2]/f:1`: the functions and the
ordinals of the sites on the way down, with the rounds of the loops around each. It never depends on
the order of events, so it also identifies the effect.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.lang import Type


class SendTo(Struct, frozen=True, tag=True, omit_defaults=True):
    """Send a message. `to` is the path of a process, or with `agent` the name of an agent. `answer`
    is the requested type, None for text. `scope` is the innermost budget scope of the fiber, `span`
    the innermost span of its trace."""

    ticket: str
    to: str
    message: Any
    agent: bool = False
    answer: Type | None = None
    timeout_ms: int | None = None
    budget: int | None = None
    stream: bool = False
    scope: str = ""
    span: str = ""


class SpawnAgent(Struct, frozen=True, tag=True, omit_defaults=True):
    """Start a process; answered by its path. `beside` says that other tasks of this fiber may spawn
    at the same time, so that their order depends on which result came first."""

    ticket: str
    agent: str
    wallet: int | None = None
    name: str = ""
    under: str = ""
    rules: dict[str, Any] | None = None
    scope: str = ""
    beside: bool = False


class CallHost(Struct, frozen=True, tag=True, omit_defaults=True):
    """Call a library function or tool of the host, with the capabilities number `rights` of the
    module."""

    ticket: str
    function: str
    args: tuple[Any, ...]
    rights: int
    scope: str = ""
    span: str = ""


class PriorSend(Struct, frozen=True, omit_defaults=True):
    """A send that comes earlier in the program and has no result: its money must still be there
    when it is made. `size` is the known number of bytes of its message, -1 without a bound;
    `answers` is how many unknown results the message contains besides; `budget` is the one written
    at the send. `in_flight` is the ticket of a send that has begun, which already holds what its
    current call may cost. `to` is the path of the receiving process, empty for the name of an
    agent."""

    agent: str
    size: int = -1
    answers: int = 0
    typed: bool = False
    budget: int | None = None
    in_flight: str = ""
    to: str = ""
    scope: str = ""


class SpeculativeCall(Struct, frozen=True, tag=True, omit_defaults=True):
    """A call that the program will make, requested before its turn. It may be declined. `mine` is
    how a send itself is priced; `many` says that the sends before it cannot be counted. A `guess`
    is made only if the program passes a guard that is not decided yet."""

    of: SendTo | CallHost
    mine: PriorSend | None = None
    older: tuple[PriorSend, ...] = ()
    many: bool = False
    guess: bool = False


class Print(Struct, frozen=True, tag=True):
    """Print a line."""

    ticket: str
    text: str


class LinkBoth(Struct, frozen=True, tag=True):
    """Link two processes: the abnormal end of one ends the other."""

    one: str
    other: str


class Watch(Struct, frozen=True, tag=True):
    """Watch a process; answered by the reason when it has ended."""

    ticket: str
    path: str


class OpenScope(Struct, frozen=True, tag=True, omit_defaults=True):
    """Open a budget scope; answered when the money is set aside, or fails with BudgetExceeded."""

    ticket: str
    amount: int
    inside: str = ""
    settings: dict[str, Any] | None = None


class CloseScope(Struct, frozen=True, tag=True):
    """Close a budget scope."""

    scope: str


class CloseSpan(Struct, frozen=True, tag=True, omit_defaults=True):
    """End a span of the trace; `error` is why the call that opened it failed."""

    span: str
    error: str = ""


class AskBudget(Struct, frozen=True, tag=True, omit_defaults=True):
    """Ask about the budget: `what` is 0 for remaining, 1 for used, 2 for the limit."""

    ticket: str
    what: int
    scope: str = ""


class EndProcesses(Struct, frozen=True, tag=True):
    """End these processes, because the call that spawned them has returned."""

    paths: tuple[str, ...]


class SpeculativeCallUsed(Struct, frozen=True, tag=True):
    """The program has reached a speculative call, and its request is equal."""

    ticket: str
    of: SendTo | CallHost


class CancelRequest(Struct, frozen=True, tag=True, omit_defaults=True):
    """Cancel a request: nobody waits for its result any more. What is `final` is not
    made again when the run is resumed."""

    ticket: str
    final: bool = False


class End(Struct, frozen=True, tag=True):
    """End the process of the program, with this reason."""

    reason: str


FiberRequest: TypeAlias = (
    SendTo
    | SpawnAgent
    | CallHost
    | SpeculativeCall
    | Print
    | LinkBoth
    | Watch
    | OpenScope
    | CloseScope
    | CloseSpan
    | AskBudget
    | EndProcesses
    | SpeculativeCallUsed
    | CancelRequest
    | End
)
