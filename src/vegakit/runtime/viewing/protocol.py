"""What is said over the socket: one request a connection, answered by lines of JSON.

    {"v":1,"verb":"ps"}                             ▶
                                                    ◀  {"v":1,"value":{…}}     for each process
                                                    ◀  {"v":1,"end":true}
    {"v":1,"verb":"kill","id":"coder"}              ▶
                                                    ◀  {"v":1,"end":true,"error":"there is no …"}

A connection that closes before an `end` was cut off. Hanging up ends an answer.
"""

import msgspec
from msgspec import Raw, Struct

from vegakit.ids import Digest, ProgramId
from vegakit.money import Money

__all__ = ["MAX_LINE", "VIEW_VERSION", "Killed", "Line", "Request", "RuntimeView", "line_of"]

VIEW_VERSION = 1
MAX_LINE = 1 << 20

_NOTHING = Raw(b"null")


class Request(Struct, frozen=True, omit_defaults=True):
    """`id` is a process, by its path, the end of its path, or its pid; or a question, with the
    `answer` to it and the `action` that was shown."""

    v: int
    verb: str
    id: str = ""
    tree: bool = False
    follow: bool = False
    answer: str = ""
    action: Digest | None = None


class Line(Struct, frozen=True, omit_defaults=True):
    v: int
    value: Raw = _NOTHING
    error: str = ""
    end: bool = False


class RuntimeView(Struct, frozen=True):
    """`left` is of the runtime's own cap; `now_ms` is the runtime's clock, for what is in ms."""

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


class Killed(Struct, frozen=True):
    """What was ended, and what is left of it: nothing, unless a task refuses to be cancelled.
    `restarted` are those that their supervisor has started again."""

    ended: tuple[str, ...]
    processes_left: int = 0
    tasks_left: int = 0
    os_children_left: int = 0
    restarted: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not (self.processes_left or self.tasks_left or self.os_children_left)


def line_of(*, value: object = None, error: str = "", end: bool = False) -> bytes:
    told = _NOTHING if value is None else Raw(msgspec.json.encode(value))
    return msgspec.json.encode(Line(VIEW_VERSION, told, error, end)) + b"\n"
