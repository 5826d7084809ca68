"""Scheduling of processes: their priority, their states, and which one runs next (pure)."""

from enum import StrEnum

from msgspec import Struct

from vegakit.errors import InvalidRuleError

# Priorities have the five names that the language shows.
#
# It orders the ready queue, the gate's slots, rate queues and budget waits.


class Priority(StrEnum):
    """The most urgent first."""

    REALTIME = "realtime"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    IDLE = "idle"

    @property
    def level(self) -> int:
        """0 for the most urgent; an effect carries this number."""
        return _LEVELS[self]


_LEVELS = {priority: level for level, priority in enumerate(Priority)}


# The states of a process and the one table of moves between them.
#
# | from       | to                                   |
# |------------|--------------------------------------|
# | new        | ready, terminated                    |
# | ready      | running, terminated                  |
# | running    | ready, waiting, blocked, terminated  |
# | waiting    | ready, running, terminated           |
# | blocked    | ready, running, terminated           |
# | terminated | zombie                               |
# | zombie     |                                      |
#
# A running process goes back to ready when it yields. Waiting is for an answer, a message or a
# timer; blocked is by a limit or a person. A terminated process is a zombie once its result was
# told; then it is only left to be reaped.


class ProcessState(StrEnum):
    """The states of a process."""

    NEW = "new"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    BLOCKED = "blocked"
    TERMINATED = "terminated"
    ZOMBIE = "zombie"

    @property
    def is_living(self) -> bool:
        """Return whether the process can still be terminated."""
        return ProcessState.TERMINATED in _MOVES[self]


class MoveRefused(Struct, frozen=True):
    """The process may not go from its state to that one."""

    reason: str


_MOVES = {
    ProcessState.NEW: (ProcessState.READY, ProcessState.TERMINATED),
    ProcessState.READY: (ProcessState.RUNNING, ProcessState.TERMINATED),
    ProcessState.RUNNING: (
        ProcessState.READY,
        ProcessState.WAITING,
        ProcessState.BLOCKED,
        ProcessState.TERMINATED,
    ),
    ProcessState.WAITING: (ProcessState.READY, ProcessState.RUNNING, ProcessState.TERMINATED),
    ProcessState.BLOCKED: (ProcessState.READY, ProcessState.RUNNING, ProcessState.TERMINATED),
    ProcessState.TERMINATED: (ProcessState.ZOMBIE,),
    ProcessState.ZOMBIE: (),
}


def move(state: ProcessState, to: ProcessState) -> ProcessState | MoveRefused:
    """Return the next state of a process, or say where it may go instead."""
    allowed = _MOVES[state]
    if to in allowed:
        return to
    places = " or ".join(f"to {place.name}" for place in allowed) or "nowhere"
    return MoveRefused(f"from {state.name} a process may go {places}; {to.name} was asked for")


# The ready queue goes by priority, then by waiting time, and nobody starves.
#
# Waiting lifts an entry by one level per `aging_ms`, smoothly:
#
#     standing at `now`  =  level - (now - since_ms) / aging_ms        the least goes first
#
# Everybody's standing falls at the same speed, so the order of two entries never changes while
# they wait. It is that of `since_ms + level * aging_ms`, known when an entry arrives: an index of
# a database with a fixed key suffices, and taking the first one needs no clock.
#
# | two entries                             | the first to go                                      |
# |-----------------------------------------|------------------------------------------------------|
# | one is REALTIME                         | that one: nobody ages into REALTIME or past it       |
# | of one level                            | the one that came first                              |
# | `d` levels apart                        | the upper, unless the lower came `d * aging_ms` or   |
# |                                         | more before it                                       |
# | of equal standing                       | the one that came first                              |
#
# So an entry is overtaken only by REALTIME and by what comes less than `d * aging_ms` after it: a
# LOW one in a stream of HIGH waits 2 * aging_ms behind them, then goes before every later one.


_BEFORE_ALL = 1 << 60
"""Longer than any time: REALTIME goes before everybody else, whoever came first."""


class AgingRule(Struct, frozen=True):
    """A process that waits rises by one priority after each `aging_ms`."""

    aging_ms: int = 10_000

    def __post_init__(self) -> None:
        if self.aging_ms < 1:
            raise InvalidRuleError(
                f"aging needs at least 1 ms a level; got {self.aging_ms}; "
                "a shorter time lets the low ones go sooner"
            )


def ready_rank(rule: AgingRule, priority: Priority, since_ms: int) -> int:
    """Return the place of an entry in the order of the queue, the lowest first. It does not change
    while the entry waits, so that a database can keep it in an index."""
    if priority is Priority.REALTIME:
        return since_ms - _BEFORE_ALL
    return since_ms + priority.level * rule.aging_ms
