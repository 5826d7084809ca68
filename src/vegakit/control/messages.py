"""Requests and replies of the control operations, as records (pure).

This module is light on purpose: `vega ps` loads it, and must not load the program machine. A
request refuses fields it does not know, so that a caller with a newer version is told so and
nothing is done by half; a reply may grow.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from vegakit.ids import Digest, Pid, ProgramId
from vegakit.money import Money

# Requests. `operations` says which operation takes which.


Language: TypeAlias = Literal["vega", "python"]
_ProcessId: TypeAlias = Annotated[
    str, Meta(description="as ps shows it", min_length=1, max_length=1_000)
]


class EmptyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The request of an operation that needs nothing but its name."""


class LogsRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`id` is a process: its path, the end of its path, or its pid."""

    id: _ProcessId
    follow: bool = False


class KillRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`id` is a process, as in `LogsRequest`. With `tree` it ends for good, with all below it."""

    id: _ProcessId
    tree: bool = False


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`id` is a question, and `action` is what was shown with it. There is no field for who
    answers: whoever carries the request to the system has authenticated the caller."""

    id: str
    answer: bool | str
    action: Digest | None = None


class ProgramRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program, given by either `source` or `path`."""

    source: Annotated[str, Meta(description="the text of a program")] = ""
    path: Annotated[
        str, Meta(description="or its file, from the folder of the project", max_length=1_000)
    ] = ""
    language: Annotated[Language, Meta(description="of `source`; a file says it by its name")] = (
        "vega"
    )


class RunRequest(ProgramRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program to run, with the arguments of its `main` and the most it may spend."""

    arguments: Annotated[
        tuple[Any, ...], Meta(description='of its main, as JSON; money is text like "$1.50"')
    ] = ()
    budget: Annotated[
        str, Meta(description="what this run may spend at most, such as $0.50", max_length=40)
    ] = ""


class CardRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The front end whose language card is wanted."""

    language: Annotated[Language, Meta(description="to write programs in")] = "vega"


# Replies on processes, and on the runtime that has them.


class ProcessKind(StrEnum):
    """The kinds of process, by what its body is."""

    AGENT = "agent"
    REDUCER = "reducer"
    FUNCTION = "function"
    SERVICE = "service"
    PROGRAM = "program"
    SUPERVISOR = "supervisor"


class ProcessStatus(StrEnum):
    """The states of a process; `process_views` has their table."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    OVER = "over"


class Health(StrEnum):
    """The health of a process; `process_views` has its table."""

    OK = "ok"
    SLOW = "slow"
    STUCK = "stuck"
    FAILING = "failing"


class ProcessView(Struct, frozen=True):
    """One process as people see it. `left` is None where no wallet limits it; `strategy` is that of
    the supervisor above a process, or of the supervisor that it is; `mailbox` counts the messages
    that wait to be read. `reserved` is held for its model calls in flight."""

    path: str
    pid: Pid
    kind: ProcessKind
    state: ProcessStatus
    parent: str = ""
    body: str = ""
    strategy: str = ""
    restarts: int = 0
    last_exit: str = ""
    spent: Money = Money(0)
    left: Money | None = None
    tokens_per_s: float = 0.0
    waiting_for: str = ""
    until_ms: int | None = None
    since_ms: int = 0
    mailbox: int = 0
    os_children: int = 0
    health: Health = Health.OK
    reserved: Money = Money(0)


class RuntimeView(Struct, frozen=True):
    """A runtime as a whole. `left` is what remains of its own cap, `reserved` is held for its model
    calls in flight; `now_ms` is its clock, by which the times of its processes are read. `at_most`
    is what a quoted run may come to by now."""

    name: str
    os_pid: int
    version: str
    now_ms: int
    since_ms: int
    program: ProgramId
    processes: int = 0
    tasks: int = 0
    os_children: int = 0
    spent: Money = Money(0)
    left: Money | None = None
    reserved: Money = Money(0)
    at_most: Money | None = None


class KillResult(Struct, frozen=True):
    """The processes that were ended, and what is left of them: nothing, unless a task refuses to be
    cancelled. `restarted` are those that their supervisor has started again."""

    ended: tuple[str, ...]
    processes_left: int = 0
    tasks_left: int = 0
    os_children_left: int = 0
    restarted: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left."""
        return not (self.processes_left or self.tasks_left or self.os_children_left)


class LogEntry(Struct, frozen=True):
    """One thing that happened. `what` is the kind of a traced call, or what became of a process."""

    number: int
    at_ms: int
    process: str
    what: str
    name: str = ""
    status: str = ""
    took_ms: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Money = Money(0)
    note: str = ""


def is_within(path: str, above: str) -> bool:
    """Return whether `path` is `above` or lies below it: `team#2/coder` is within `team`."""
    rest = path.removeprefix(above)
    return path.startswith(above) and (not rest or rest[0] in "/#")


# Replies on programs. Amounts of money are text, as in programs, because models read these too.


class CheckReply(Struct, frozen=True):
    """The diagnostics of a program, for programs and, as `text`, for people."""

    in_order: bool
    diagnostics: tuple[Any, ...]
    text: str = ""


class CostLine(Struct, frozen=True):
    """A line of a program that sends, and the most it may cost."""

    file: str
    line: int
    what: str
    calls: int | None
    at_most: str | None


class UnboundedLine(Struct, frozen=True):
    """A line of a program whose cost nothing bounds but, if there is one, a budget."""

    file: str
    line: int
    why: str
    capped_by: str | None


class CostReply(Struct, frozen=True):
    """A quote, line by line. A figure is None where nothing sets a bound; `left` is what the asked
    system may still spend. `calls` counts each send once, and `paid_repeats` how many of them may
    be made and paid once more."""

    at_most: str | None
    calls: int | None
    processes: int | None
    lines: tuple[CostLine, ...]
    unbounded: tuple[UnboundedLine, ...]
    left: str
    paid_repeats: int | None = None


class FlowReply(Struct, frozen=True):
    """One function of a program: what may run side by side, wave by wave, and what waits for
    what."""

    function: str
    at_once: tuple[tuple[str, ...], ...]
    waits: tuple[str, ...]


class ExplainReply(Struct, frozen=True):
    """The manifest of a program, the part of it that is not granted, and its dataflow."""

    manifest: dict[str, Any]
    not_granted: tuple[str, ...]
    flows: tuple[FlowReply, ...]


class RunReply(Struct, frozen=True):
    """A run that has ended. `error` is empty if it came to its end; `left` is what the asked system
    may still spend."""

    id: str
    result: Any
    error: str
    printed: str
    spent: str
    left: str
