"""The states of a process and the one table of moves between them.

| from       | to                                   |
|------------|--------------------------------------|
| new        | ready, terminated                    |
| ready      | running, terminated                  |
| running    | ready, waiting, blocked, terminated  |
| waiting    | ready, running, terminated           |
| blocked    | ready, running, terminated           |
| terminated | zombie                               |
| zombie     |                                      |

A running process goes back to ready when it yields. Waiting is for an answer, a message or a timer;
blocked is by a limit or a person. A terminated process is a zombie once its result was told; then
it is only left to be reaped.
"""

from enum import StrEnum

from msgspec import Struct

__all__ = ["MoveRefused", "ProcessState", "move"]


class ProcessState(StrEnum):
    NEW = "new"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    BLOCKED = "blocked"
    TERMINATED = "terminated"
    ZOMBIE = "zombie"

    @property
    def is_living(self) -> bool:
        return ProcessState.TERMINATED in _MOVES[self]


class MoveRefused(Struct, frozen=True):
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
    allowed = _MOVES[state]
    if to in allowed:
        return to
    places = " or ".join(f"to {place.name}" for place in allowed) or "nowhere"
    return MoveRefused(f"from {state.name} a process may go {places}; {to.name} was asked for")
