"""What a flow is made of: steps, links that say what waits for what and why, and the order."""

from enum import StrEnum

from msgspec import Struct

__all__ = ["Flow", "FlowLink", "FlowStep", "LinkKind", "Rounds", "StepKind"]


class StepKind(StrEnum):
    SEND = "send"
    SPAWN = "spawn"
    CALL = "call"  # of the library, at the host
    TOOL = "tool"
    FUNCTION = "function"
    PRINT = "print"
    LOOP = "loop"
    BRANCH = "branch"
    TRY = "try"
    HANDLER = "handler"
    SESSION = "session"
    PARALLEL = "parallel"
    MONITOR = "monitor"


class LinkKind(StrEnum):
    """The first is told where there are several."""

    NEEDS = "needs"
    CONFLICT = "conflict"
    SAME = "same process"
    BARRIER = "barrier"
    DECIDED = "decided"
    ORDER = "order"


class FlowStep(Struct, frozen=True):
    """`parent` is the loop, branch or other block it stands in. `order` says why it is kept in the
    order of the program; empty: it may start early. `lasts` is of what takes time; `later` of what
    is started and not waited for; `rare` of what runs only after a failure or an exit; nothing
    behind a `barrier` starts before it is done."""

    id: int
    kind: StepKind
    what: str
    file: str
    line: int
    parent: int | None = None
    order: str = ""
    lasts: bool = False
    later: bool = False
    rare: bool = False
    barrier: bool = False


class FlowLink(Struct, frozen=True):
    """`after` waits for `before` of the same round, or of an earlier one of the loop `round_of`."""

    before: int
    after: int
    why: LinkKind
    text: str
    round_of: int | None = None


class Rounds(Struct, frozen=True):
    """How the rounds of a loop lie: those of `serial` steps come one after another, because of
    what `because` says; those of all others at once."""

    loop: int
    serial: tuple[int, ...]
    because: str
    at_once: bool
    one_by_one: bool


class Flow(Struct, frozen=True):
    """Of one function, if nothing fails. `waves[n]` are the steps that may run side by side when
    those of all waves before are done; `chain` is the longest row of steps that wait for each
    other. A call of another function counts as one step. Of a function that is `too_large` nothing
    else is known."""

    name: str
    file: str
    line: int
    steps: tuple[FlowStep, ...]
    links: tuple[FlowLink, ...]
    waves: tuple[tuple[int, ...], ...]
    chain: tuple[int, ...]
    rounds: tuple[Rounds, ...]
    too_large: bool = False
