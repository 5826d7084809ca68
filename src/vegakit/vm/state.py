"""All state of a machine. It is JSON at any instruction; what runs on from it is the same run.

A strand is one line of execution: the program itself, a part of `parallel`, the body of a
`monitor`. Names of strands, groups and tickets come from places in the program, never from what
happened first.
"""

import copy
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from vegakit.vm.faults import Fault
from vegakit.vm.values import Value, restored, stored
from vegakit.vm.wants import Older, Want

__all__ = [
    "MAIN",
    "TURN",
    "Asked",
    "Crash",
    "Frame",
    "Group",
    "Handling",
    "Limits",
    "Member",
    "Status",
    "Step",
    "Strand",
    "VmState",
    "fault_of",
    "opened",
    "packed",
]

MAIN = "main"

TURN = 1_000
"""The fuel of a strand's turn."""

_Turned: TypeAlias = Callable[[Any], Any]


class Status(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    FINISHED = "finished"
    CRASHED = "crashed"
    EXITED = "exited"


class Limits(Struct, frozen=True, omit_defaults=True):
    """`registers` counts those of all live calls; `weight` all characters and items they hold."""

    total_fuel: int = 1_000_000_000
    depth: int = 200
    strands: int = 10_000
    registers: int = 4_000_000
    weight: int = 100_000_000


class Crash(Struct, frozen=True, omit_defaults=True):
    """`stack`: function, file, line; innermost first. `cause`: the keys of the effects whose
    outcomes it comes from, none if the program failed by itself."""

    error: str
    reason: str
    stack: tuple[tuple[str, str, int], ...] = ()
    cause: tuple[str, ...] = ()


class Handling(Struct, frozen=True, array_like=True):
    """A handler that a call is in: its instructions, and what the failure that it handles comes
    from. A failure in there comes from the handled one, too."""

    start: int
    end: int
    cause: tuple[str, ...]


class Step(Struct, frozen=True, omit_defaults=True):
    """What a run came to. `value` is JSON."""

    status: Status
    wants: tuple[Want, ...] = ()
    value: Any = None
    error: Crash | None = None


class Frame(Struct, omit_defaults=True):
    """One call. `pc` is the next instruction, `into` the caller's register for the result.

    `outer` is the budget scope the call began in and `scopes` those it opened, of which the first
    `kept` are of the call this strand split from. `spawned` are tickets of processes that end with
    the call. `handling` are the handlers it is in, the outermost first; one it has left may still
    be there, and is told apart by `pc`.
    """

    function: int
    pc: int
    registers: list[Any]
    place: str
    into: int = -1
    outer: str = ""
    scopes: list[str] = field(default_factory=list[str])
    kept: int = 0
    spawned: list[str] = field(default_factory=list[str])
    groups: list[str] = field(default_factory=list[str])
    monitors: list[str] = field(default_factory=list[str])
    handling: tuple[Handling, ...] = ()


class Strand(Struct, omit_defaults=True):
    """`waits` is what it waits for, kept until it goes on. `depth` is how many calls lie below its
    first frame, `watch` the ticket of a monitor, `number` its place in its group; `changes` counts
    what it did that a read may see."""

    name: str
    frames: list[Frame]
    waits: str = ""
    group: str = ""
    number: int = -1
    watch: str = ""
    depth: int = 0
    made: int = 0
    changes: int = 0


class Member(Struct, omit_defaults=True):
    """One strand of a group; `values` are what its registers `brings` came to."""

    strand: str
    brings: tuple[int, ...]
    values: list[Any] | None = None


class Group(Struct, omit_defaults=True):
    """`failed` is the first member in program order that failed, with its error."""

    owner: str
    frame: int
    members: list[Member] = field(default_factory=list[Member])
    running: int = 0
    failed: int = -1
    error: Crash | None = None


class Asked(Struct, omit_defaults=True):
    """What was asked of the world under a ticket: a future, a stream, or what a strand waits for.

    `kind` is send, spawn, stream, host, scope, budget or watch; `answer` the type asked for;
    `orphan` a process that ends as soon as it is there; `of` the agent or host function. `early`
    is what the program has not come to yet, with the digest of what was wanted; `taken` says that
    the program has met its error.
    """

    kind: str
    strand: str
    done: bool = False
    value: Any = None
    error: Crash | None = None
    answer: int = -1
    chunks: list[str] = field(default_factory=list[str])
    orphan: bool = False
    of: str = ""
    older: Older | None = None
    early: bool = False
    digest: str = ""
    taken: bool = False


class VmState(Struct, omit_defaults=True):
    """`turn` is the fuel left in the turn of the first ready strand. `spawned` maps tickets to
    paths, empty while unknown; `scopes` are the open ones and what each is inside of. `window` is
    how many calls may be begun early, 0 for none; `stirred` says that there is something new to
    look ahead from, `agents` which agent a process is, `given_up` what was begun speculatively and
    is not begun so again, `heard` how many messages a process that remembers was sent."""

    strands: dict[str, Strand]
    ready: list[str]
    limits: Limits = Limits()
    turn: int = 0
    groups: dict[str, Group] = field(default_factory=dict[str, Group])
    asked: dict[str, Asked] = field(default_factory=dict[str, Asked])
    scopes: dict[str, str] = field(default_factory=dict[str, str])
    spawned: dict[str, str] = field(default_factory=dict[str, str])
    outbox: list[Want] = field(default_factory=list[Want])
    fuel_used: int = 0
    weighed: int = 0
    sweep_at: int = 64
    window: int = 0
    stirred: bool = False
    agents: dict[str, str] = field(default_factory=dict[str, str])
    given_up: dict[str, None] = field(default_factory=dict[str, None])
    heard: dict[str, int] = field(default_factory=dict[str, int])
    status: Status = Status.RUNNING
    value: Any = None
    error: Crash | None = None
    format: int = 1


def fault_of(crash: Crash) -> Fault:
    """The same error, raised again where it is taken up."""
    return Fault(crash.error, crash.reason, crash.stack, crash.cause)


def packed(state: VmState) -> VmState:
    """A copy that JSON can hold and that nobody else changes."""
    return _copied(state, stored)


def opened(state: VmState) -> VmState:
    """A copy with live values."""
    return _copied(state, restored)


def _copied(state: VmState, turned: _Turned) -> VmState:
    made = copy.copy(state)
    made.strands = {name: _strand(strand, turned) for name, strand in state.strands.items()}
    made.groups = {name: _group(group, turned) for name, group in state.groups.items()}
    made.asked = {ticket: _asked(asked, turned) for ticket, asked in state.asked.items()}
    made.ready, made.outbox = [*state.ready], [*state.outbox]
    made.scopes, made.spawned = {**state.scopes}, {**state.spawned}
    made.agents, made.heard = {**state.agents}, {**state.heard}
    made.given_up = {**state.given_up}
    made.value = turned(state.value)
    return made


def _strand(strand: Strand, turned: _Turned) -> Strand:
    made = copy.copy(strand)
    made.frames = [_frame(frame, turned) for frame in strand.frames]
    return made


def _frame(frame: Frame, turned: _Turned) -> Frame:
    made = copy.copy(frame)
    made.registers = _values(frame.registers, turned)
    made.scopes, made.spawned = [*frame.scopes], [*frame.spawned]
    made.groups, made.monitors = [*frame.groups], [*frame.monitors]
    return made


def _group(group: Group, turned: _Turned) -> Group:
    made = copy.copy(group)
    made.members = [copy.copy(member) for member in group.members]
    for member in made.members:
        if member.values is not None:
            member.values = _values(member.values, turned)
    return made


def _asked(asked: Asked, turned: _Turned) -> Asked:
    made = copy.copy(asked)
    made.value, made.chunks = turned(asked.value), [*asked.chunks]
    return made


def _values(values: list[Value], turned: _Turned) -> list[Value]:
    return [turned(value) for value in values]
