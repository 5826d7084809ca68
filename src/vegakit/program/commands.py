"""What a program is told to do by its host, beside the events that the world sends."""

from typing import TypeAlias

from msgspec import Struct

from vegakit.conversation import Conversation
from vegakit.events import HostEvent
from vegakit.ids import ScopeId
from vegakit.money import Money
from vegakit.policy import ChildType, ExitReason, RestartRule
from vegakit.program.mail import Mail

__all__ = [
    "AskOnce",
    "CancelAsk",
    "ChildSpec",
    "Demonitor",
    "EndProcess",
    "Event",
    "GroupSpec",
    "Link",
    "Monitor",
    "Post",
    "ProcessSpec",
    "Remember",
    "SendExit",
    "ShutDown",
    "Spawn",
    "TrapExits",
    "Unlink",
]

_RULE = RestartRule()


class ProcessSpec(Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """`rule` is its private supervisor's; inside a group the group's holds."""

    body: str
    kind: ChildType = ChildType.TRANSIENT
    rule: RestartRule = _RULE
    wallet: Money | None = None
    alert_at: Money | None = None
    stuck_after_ms: int | None = None
    stop_within_ms: int = 5_000


class GroupSpec(Struct, frozen=True, tag=True, omit_defaults=True):
    """A supervisor and its children, in the order they are started in."""

    rule: RestartRule
    children: dict[str, "ProcessSpec | GroupSpec"]
    kind: ChildType = ChildType.PERMANENT


ChildSpec: TypeAlias = ProcessSpec | GroupSpec


class Spawn(Struct, frozen=True, tag=True, omit_defaults=True):
    """Answered by `Spawned` or `SpawnRefused`, once for each of `count`. Without a name it gets the
    body's, with a number if that is taken. What a process spawns ends with the life that spawned
    it. Its wallet is a part of `session`, or else of its spawner's wallet. A compiled program's
    calls are reserved in the ledger's `scope`, or else in the host's own."""

    spec: ChildSpec
    name: str = ""
    spawner: str = ""
    count: int = 1
    session: str = ""
    scope: ScopeId = ScopeId("")


class AskOnce(Struct, frozen=True, tag=True, omit_defaults=True):
    """A process for one question, which is over when that is answered, given up, or fails.
    Answered by `SpawnRefused` if it cannot be, and then not asked."""

    spec: ProcessSpec
    name: str
    mail: Mail
    spawner: str = ""


class Post(Struct, frozen=True, tag=True, omit_defaults=True):
    to: str
    mail: Mail
    dedupe: str | None = None


class CancelAsk(Struct, frozen=True, tag=True):
    """Nobody waits for this answer any more: what it set going is cancelled."""

    ask: str


class SendExit(Struct, frozen=True, tag=True, omit_defaults=True):
    """An exit signal: the receiver's supervisor may start it again."""

    to: str
    reason: ExitReason
    sender: str = ""


class EndProcess(Struct, frozen=True, tag=True, omit_defaults=True):
    """For good, with all it spawned; `kill` does not wait for anything."""

    path: str
    kill: bool = False


class Link(Struct, frozen=True, tag=True):
    path: str
    other: str


class Unlink(Struct, frozen=True, tag=True):
    path: str
    other: str


class Monitor(Struct, frozen=True, tag=True, omit_defaults=True):
    """Answered by `Monitored`; `watcher` is empty for the host."""

    target: str
    watcher: str = ""


class Demonitor(Struct, frozen=True, tag=True, omit_defaults=True):
    ref: str
    watcher: str = ""


class Remember(Struct, frozen=True, tag=True):
    """What an agent with memory knew in an earlier program; for one that was asked nothing yet."""

    path: str
    conversation: Conversation


class TrapExits(Struct, frozen=True, tag=True):
    path: str


class ShutDown(Struct, frozen=True, tag=True):
    """End everything, the last started first; `Ended` follows when nothing is left."""


Event: TypeAlias = (
    HostEvent
    | AskOnce
    | Spawn
    | Post
    | CancelAsk
    | SendExit
    | EndProcess
    | Link
    | Unlink
    | Monitor
    | Demonitor
    | TrapExits
    | Remember
    | ShutDown
)
