"""The state of a virtual machine, which is JSON at any instruction, and its garbage collection
(pure).

A task is one line of execution: the program itself, a part of `parallel`, or the body of a
`monitor`. Names of tasks, groups and tickets come from places in the program, never from the order
of events. So a run that continues from a stored state is the same run.
"""

import copy
from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from vegakit.vm.requests import FiberRequest, PriorSend
from vegakit.vm.values import (
    Future,
    ListValue,
    MapValue,
    ProgramFault,
    StreamRef,
    Value,
    restored,
    stored,
    weight_of,
)

# The records of the state.


MAIN = "main"

TURN = 1_000
"""The fuel of one turn of a task."""

_Turned: TypeAlias = Callable[[Any], Any]


class Status(StrEnum):
    """The status of a run."""

    RUNNING = "running"
    WAITING = "waiting"
    FINISHED = "finished"
    CRASHED = "crashed"
    EXITED = "exited"


class VmLimits(Struct, frozen=True, omit_defaults=True):
    """Limits of a run. `registers` counts those of all active calls, `weight` all characters and
    items in them."""

    total_fuel: int = 1_000_000_000
    depth: int = 200
    tasks: int = 10_000
    registers: int = 4_000_000
    weight: int = 100_000_000


class Crash(Struct, frozen=True, omit_defaults=True):
    """An error that ended a task or the program. `stack` holds function, file and line of each
    call, innermost first. `cause` are the keys of the effects whose outcomes led to it, none if the
    program failed by itself."""

    error: str
    reason: str
    stack: tuple[tuple[str, str, int], ...] = ()
    cause: tuple[str, ...] = ()


class ActiveHandler(Struct, frozen=True, array_like=True):
    """A handler that is running: its instructions, and the cause of the error it handles. An error
    in the handler has that cause as well."""

    start: int
    end: int
    cause: tuple[str, ...]


class Step(Struct, frozen=True, omit_defaults=True):
    """The result of `run`. `value` is JSON."""

    status: Status
    requests: tuple[FiberRequest, ...] = ()
    value: Any = None
    error: Crash | None = None


class Frame(Struct, omit_defaults=True):
    """One call. `pc` is the next instruction, `into` the caller's register for the result.

    `outer` is the budget scope in which the call began and `scopes` are those it opened; the first
    `kept` of them belong to the call that this task was split from. `spawned` are the tickets of
    processes that end with the call. `handling` are the handlers that are running, the outermost
    first. A handler that has ended may still be listed: `pc` is then outside of it. `within` is the
    span of the trace in which the call began, `spans` are those that it opened.
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
    handling: tuple[ActiveHandler, ...] = ()
    within: str = ""
    spans: tuple[str, ...] = ()


class ProgramTask(Struct, omit_defaults=True):
    """One task. `waits` is the key it waits for, kept until it continues. `depth` is the number of
    calls below its first frame, `watch` the ticket of a monitor, `number` its position in its
    group; `changes` counts the effects of this task that a later read may see."""

    name: str
    frames: list[Frame]
    waits: str = ""
    group: str = ""
    number: int = -1
    watch: str = ""
    depth: int = 0
    made: int = 0
    changes: int = 0


class GroupMember(Struct, omit_defaults=True):
    """One task of a group. `values` are the final values of the registers `brings`."""

    task: str
    brings: tuple[int, ...]
    values: list[Any] | None = None


class Group(Struct, omit_defaults=True):
    """A group of tasks. `failed` is the first member in program order that failed, with its
    error. In a `race`, `first` is the member that was the first, once that is recorded, `won` says
    that it has its value, and `failures` counts the members that failed."""

    owner: str
    frame: int
    members: list[GroupMember] = field(default_factory=list[GroupMember])
    running: int = 0
    failed: int = -1
    error: Crash | None = None
    race: bool = False
    first: int = -1
    won: bool = False
    failures: int = 0


class TicketState(Struct, omit_defaults=True):
    """The state of a request: a future, a stream, or what a task waits for.

    `kind` is send, spawn, stream, host, scope, budget or watch; `answer` the requested type;
    `orphan` marks a process that ends as soon as it has started; `of` is the agent or host
    function, and `path` the one that a file function was given. `speculative` marks a call that the
    program has not reached yet, with the `digest` of its request; a `guess` is one behind a guard
    that was not decided when it began. `taken` says that the error was raised in the program.
    """

    kind: str
    task: str
    done: bool = False
    value: Any = None
    error: Crash | None = None
    answer: int = -1
    chunks: list[str] = field(default_factory=list[str])
    orphan: bool = False
    of: str = ""
    path: str = ""
    older: PriorSend | None = None
    speculative: bool = False
    digest: str = ""
    guess: bool = False
    taken: bool = False


class VmState(Struct, omit_defaults=True):
    """The whole state. `turn` is the fuel left in the turn of the first ready task. `spawned` maps
    tickets to paths, empty while unknown; `scopes` maps each open scope to the one around it.
    `window` is how many speculative calls are allowed, 0 for none, and `guesses` says whether one
    may begin behind a guard that is not decided; `walks` counts the lookaheads
    and `reach` is how far the next one goes; `lookahead_due` says that something has changed since
    the last lookahead; `agents` maps a process to its agent; `given_up` are speculative calls that
    were cancelled and are not begun speculatively again; `messages_sent` counts the messages to
    each process with memory."""

    tasks: dict[str, ProgramTask]
    ready: list[str]
    limits: VmLimits = VmLimits()
    turn: int = 0
    groups: dict[str, Group] = field(default_factory=dict[str, Group])
    asked: dict[str, TicketState] = field(default_factory=dict[str, TicketState])
    scopes: dict[str, str] = field(default_factory=dict[str, str])
    spawned: dict[str, str] = field(default_factory=dict[str, str])
    outbox: list[FiberRequest] = field(default_factory=list[FiberRequest])
    fuel_used: int = 0
    weighed: int = 0
    sweep_at: int = 64
    window: int = 0
    guesses: bool = False
    walks: int = 0
    reach: int = 0
    lookahead_due: bool = False
    agents: dict[str, str] = field(default_factory=dict[str, str])
    given_up: dict[str, None] = field(default_factory=dict[str, None])
    messages_sent: dict[str, int] = field(default_factory=dict[str, int])
    status: Status = Status.RUNNING
    value: Any = None
    error: Crash | None = None
    format: int = 1


def fault_of(crash: Crash) -> ProgramFault:
    """Return the error as a fault, to raise it where its result is awaited."""
    return ProgramFault(crash.error, crash.reason, crash.stack, crash.cause)


def packed(state: VmState) -> VmState:
    """Return a copy that JSON can hold, and that shares nothing mutable."""
    return _copied(state, stored)


def opened(state: VmState) -> VmState:
    """Return a copy with values in place of their JSON forms."""
    return _copied(state, restored)


def _copied(state: VmState, turned: _Turned) -> VmState:
    made = copy.copy(state)
    made.tasks = {name: _task(task, turned) for name, task in state.tasks.items()}
    made.groups = {name: _group(group, turned) for name, group in state.groups.items()}
    made.asked = {ticket: _asked(asked, turned) for ticket, asked in state.asked.items()}
    made.ready, made.outbox = [*state.ready], [*state.outbox]
    made.scopes, made.spawned = {**state.scopes}, {**state.spawned}
    made.agents, made.messages_sent = {**state.agents}, {**state.messages_sent}
    made.given_up = {**state.given_up}
    made.value = turned(state.value)
    return made


def _task(task: ProgramTask, turned: _Turned) -> ProgramTask:
    made = copy.copy(task)
    made.frames = [_frame(frame, turned) for frame in task.frames]
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


def _asked(asked: TicketState, turned: _Turned) -> TicketState:
    made = copy.copy(asked)
    made.value, made.chunks = turned(asked.value), [*asked.chunks]
    return made


def _values(values: list[Value], turned: _Turned) -> list[Value]:
    return [turned(value) for value in values]


# Garbage collection of results that no register can reach, and the weight of a state.


_HELD = frozenset({"send", "spawn", "stream"})
"""Results that registers refer to. All others are dropped when their instruction continues."""


def sweep(state: VmState) -> None:
    """Drop results that cannot be reached, and set when to sweep next: the more values a program
    holds, the later, so that all sweeps together take no more time than its calls."""
    reached, size = _reached(state)
    gone = [
        ticket
        for ticket, asked in state.asked.items()
        if asked.done and asked.kind in _HELD and ticket not in reached and not asked.speculative
    ]
    for ticket in gone:
        del state.asked[ticket]
    state.sweep_at = max(64, 2 * len(state.asked), size // 8)


def _reached(state: VmState) -> tuple[set[str], int]:
    """Return the tickets of all results that values refer to, and the number of values. With many
    results it goes through many lists of them in one step, so each list is gone through as a whole,
    where it lies."""
    seen: set[int] = set()
    size = 0
    reached: set[str] = set()
    rest: list[Collection[Value]] = [[*_roots(state)]]
    while rest:
        values = rest.pop()
        size += len(values)
        reached.update([value.ticket for value in values if type(value) in _REFERENCES])
        for inner in [value for value in values if type(value) in _CONTAINERS]:
            if id(inner) not in seen:
                seen.add(id(inner))
                rest.append(inner if type(inner) is ListValue else inner.values())
    return reached, size


_REFERENCES, _CONTAINERS = frozenset({Future, StreamRef}), frozenset({ListValue, MapValue})


def _roots(state: VmState) -> Iterator[Value]:
    for task in state.tasks.values():
        for frame in task.frames:
            yield from frame.registers
    for group in state.groups.values():
        for member in group.members:
            yield from member.values or ()
    for asked in state.asked.values():
        yield asked.value


def task_weight(task: ProgramTask) -> int:
    """Return the number of characters and items that the registers of a task hold."""
    return sum(sum(map(weight_of, frame.registers)) for frame in task.frames)


def state_weight(state: VmState) -> int:
    """Return the number of characters and items that a state would store."""
    chunks = sum(len(chunk) for asked in state.asked.values() for chunk in asked.chunks)
    return chunks + sum(map(weight_of, _roots(state)))
