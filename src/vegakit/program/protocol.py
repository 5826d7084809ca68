"""The protocol of the program machine: commands and events in, actions and news out (pure).

`Machine.step` takes a command of the host in the same way as an event of the world.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.agent import CompactedHistory, ToolOutcome
from vegakit.conversation import Conversation
from vegakit.effects import HostAction
from vegakit.events import HostEvent
from vegakit.ids import ScopeId
from vegakit.money import Money
from vegakit.policy import ChildType, ExitReason, InterruptKind, RestartRule, WaitReason
from vegakit.program.messages import Down, Outcome, ProcessMessage

# Commands of the host.


_RULE = RestartRule()


class ProcessSpec(Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The way to start a process. `rule` is for its private supervisor; inside a group the group's
    rule is used. `quoted`: the wallet it spends from is the quote of its program."""

    body: str
    kind: ChildType = ChildType.TRANSIENT
    rule: RestartRule = _RULE
    wallet: Money | None = None
    alert_at: Money | None = None
    stuck_after_ms: int | None = None
    stop_within_ms: int = 5_000
    quoted: bool = False


class GroupSpec(Struct, frozen=True, tag=True, omit_defaults=True):
    """A supervisor and its children, in the order they are started in."""

    rule: RestartRule
    children: dict[str, "ProcessSpec | GroupSpec"]
    kind: ChildType = ChildType.PERMANENT


ChildSpec: TypeAlias = ProcessSpec | GroupSpec


class Spawn(Struct, frozen=True, tag=True, omit_defaults=True):
    """Start processes; answered by `Spawned` or `SpawnRefused`, once for each of `count`. Without a
    name a process gets the name of its body, with a number if that is taken. A process ends with
    the incarnation that spawned it. Its wallet is a part of `session`, or else of its spawner's
    wallet. The calls of a compiled program are reserved in the ledger's `scope`, or else in the
    host's own."""

    spec: ChildSpec
    name: str = ""
    spawner: str = ""
    count: int = 1
    session: str = ""
    scope: ScopeId = ScopeId("")


class AskOnce(Struct, frozen=True, tag=True, omit_defaults=True):
    """Start a process for one message; it ends when that is answered, cancelled, or fails. Answered
    by `SpawnRefused` if the process cannot be started; then nothing is asked."""

    spec: ProcessSpec
    name: str
    message: ProcessMessage
    spawner: str = ""


class Post(Struct, frozen=True, tag=True, omit_defaults=True):
    """Post a message to a process."""

    to: str
    message: ProcessMessage
    dedupe: str | None = None


class CancelAsk(Struct, frozen=True, tag=True):
    """Nobody waits for this result any more: cancel what the ask started."""

    ask: str


class SendExitSignal(Struct, frozen=True, tag=True, omit_defaults=True):
    """Send an exit signal. The receiver's supervisor may restart it."""

    to: str
    reason: ExitReason
    sender: str = ""


class TerminateProcess(Struct, frozen=True, tag=True, omit_defaults=True):
    """End a process for good, with everything it spawned. `kill` waits for nothing."""

    path: str
    kill: bool = False


class Link(Struct, frozen=True, tag=True):
    """Link two processes."""

    path: str
    other: str


class Unlink(Struct, frozen=True, tag=True):
    """Remove a link."""

    path: str
    other: str


class Monitor(Struct, frozen=True, tag=True, omit_defaults=True):
    """Watch a process; answered by `Monitored`. `watcher` is empty for the host."""

    target: str
    watcher: str = ""


class Demonitor(Struct, frozen=True, tag=True, omit_defaults=True):
    """Remove a monitor."""

    ref: str
    watcher: str = ""


class Remember(Struct, frozen=True, tag=True):
    """Give an agent the memory that it had in an earlier program. It must not have been asked
    anything yet."""

    path: str
    conversation: Conversation


class TrapExits(Struct, frozen=True, tag=True):
    """Turn exit signals to this process into messages."""

    path: str


class ShutDown(Struct, frozen=True, tag=True):
    """End all processes, the last started first. `MachineEnded` follows when nothing is left."""


Event: TypeAlias = (
    HostEvent
    | AskOnce
    | Spawn
    | Post
    | CancelAsk
    | SendExitSignal
    | TerminateProcess
    | Link
    | Unlink
    | Monitor
    | Demonitor
    | TrapExits
    | Remember
    | ShutDown
)


# Actions of a reducer, besides changing its state.


class Respond(Struct, frozen=True, tag=True, omit_defaults=True):
    """Reply to the current message, or to an earlier one that was deferred under the word `to`."""

    value: Any
    to: str = ""


class DeferReply(Struct, frozen=True, tag=True):
    """Defer the reply to the current message. A message that is neither deferred nor replied to
    returns None."""

    word: str


class Tell(Struct, frozen=True, tag=True):
    """Send a message and expect no answer."""

    to: str
    message: Any


class AskProcess(Struct, frozen=True, tag=True):
    """Ask another process. The result arrives as a `ResultMessage`."""

    to: str
    message: Any
    ask: str
    timeout_ms: int | None = None


class AskPerson(Struct, frozen=True, tag=True, omit_defaults=True):
    """Ask a person. The result arrives as a `ResultMessage`: for an approval True or False, where
    silence is False; for a clarification text, or None if nobody answered in time. Without a
    timeout it waits as long as interrupts of its kind do. The question is withdrawn when this
    incarnation ends."""

    question: str
    ask: str
    kind: InterruptKind = InterruptKind.CONFIRMATION
    timeout_ms: int | None = None


class SendAfter(Struct, frozen=True, tag=True):
    """Send a message to itself after `ms`."""

    ms: int
    message: Any


class SpawnChild(Struct, frozen=True, tag=True):
    """Spawn a child, which ends with this incarnation."""

    spec: ChildSpec
    name: str


class Exit(Struct, frozen=True, tag=True):
    """End the process for this reason."""

    reason: ExitReason


ReducerAction: TypeAlias = (
    Respond | DeferReply | Tell | AskProcess | AskPerson | SendAfter | SpawnChild | Exit
)


# Actions for the host, and news for observers.


class Spawned(Struct, frozen=True, tag=True):
    """The process was started."""

    path: str


class SpawnRefused(Struct, frozen=True, tag=True):
    """The process was not started."""

    error: str
    reason: str


class Monitored(Struct, frozen=True, tag=True):
    """The monitor is set."""

    ref: str


class Answer(Struct, frozen=True, tag=True):
    """The outcome of an ask from outside."""

    ask: str
    outcome: Outcome


class ToolBegan(Struct, frozen=True, tag=True):
    """An agent calls a tool; told to the reader of the streamed answer to `ask`."""

    ask: str
    name: str
    arguments: Any
    index: int
    step: int = 0
    """Of the turn: which of its answers has called."""


class ProgramQuote(Struct, frozen=True):
    """A quote says what a program of a model may spend and typically does; None if that is not
    known. It is run as the call with this index of one answer of the turn, that of this step."""

    name: str
    most: Money
    typical: Money | None
    index: int
    step: int

    def __str__(self) -> str:
        return ""  # as an event of a stream, whose texts are printed one after the other


class ProgramAdmitted(Struct, frozen=True, tag=True):
    """A program that a model wrote is about to run; told to the reader of the streamed answer to
    `ask`."""

    ask: str
    quote: ProgramQuote


class ToolEnded(Struct, frozen=True, tag=True):
    """A tool call has ended."""

    ask: str
    name: str
    outcome: ToolOutcome
    index: int
    step: int = 0


class HistoryCompacted(Struct, frozen=True, tag=True):
    """A summary has taken the place of a part of the conversation of a streamed answer."""

    ask: str
    history: CompactedHistory


class MachineEnded(Struct, frozen=True, tag=True):
    """No process is left and no effect is in flight."""


class ProcessSpawned(Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A process was started."""

    path: str
    body: str
    spawner: str = ""


class ProcessRestarted(Struct, frozen=True, tag=True):
    """A process was restarted."""

    path: str
    generation: int
    cause: ExitReason


class ProcessExited(Struct, frozen=True, tag=True):
    """The process has ended and is not restarted."""

    path: str
    generation: int
    reason: ExitReason
    spent: Money


class CostAlert(Struct, frozen=True, tag=True):
    """A wallet has spent as much as its alert says."""

    path: str
    spent: Money
    alert_at: Money


class ProcessStuck(Struct, frozen=True, tag=True):
    """The process has worked on one message for this long without any outcome of an effect."""

    path: str
    for_ms: int


class Printed(Struct, frozen=True, tag=True):
    """A compiled program has printed a text."""

    path: str
    text: str


class TraceNote(Struct, frozen=True, tag=True, omit_defaults=True):
    """A compiled program has written to its trace: `kind` is span, event or attribute. `ask` is the
    ask from outside that it works for, `span` the id of the span that a program has opened around
    it, empty if there is none; `id` is that of a new span; `key` and `value` are those of an
    attribute."""

    path: str
    kind: str
    text: str
    ask: str = ""
    span: str = ""
    id: str = ""
    key: str = ""
    value: str | int | float | bool | None = None


class TraceSpanEnded(Struct, frozen=True, tag=True, omit_defaults=True):
    """A compiled program has left a span; `error` is why, if it failed."""

    id: str
    error: str = ""


class WastedCost(Struct, frozen=True, tag=True):
    """A compiled program has spent this on a speculative call that it did not use."""

    path: str
    amount: Money


class OverlapReport(Struct, frozen=True, tag=True):
    """A run of a compiled program has ended. `sequential_ms` is how long its calls took in sum,
    `critical_ms` the longest chain of calls that each waited for the one before."""

    path: str
    sequential_ms: int
    critical_ms: int


class CallQueued(Struct, frozen=True, tag=True):
    """A call of `model` waits for its turn at a limit: that of the model, or of the agent. It takes
    about `wait_ms`; for slots that is when it looks again, since nobody knows when one is free."""

    path: str
    model: str
    limit: str
    wait_ms: int
    reason: WaitReason


class CallRetried(Struct, frozen=True, tag=True):
    """A call of `model` failed for this reason, and is made for the `attempt`-th time in
    `wait_ms`; at most `attempts` are made."""

    path: str
    model: str
    reason: str
    attempt: int
    attempts: int
    wait_ms: int


class BreakerOpened(Struct, frozen=True, tag=True):
    """The breaker of an agent or of a model has opened."""

    name: str


class BreakerClosed(Struct, frozen=True, tag=True):
    """The breaker of an agent closed."""

    name: str


News: TypeAlias = (
    ProcessSpawned
    | ProcessRestarted
    | ProcessExited
    | ProcessStuck
    | CostAlert
    | BreakerOpened
    | BreakerClosed
    | CallQueued
    | CallRetried
    | Printed
    | TraceNote
    | WastedCost
    | OverlapReport
)

Action: TypeAlias = (
    HostAction
    | Spawned
    | SpawnRefused
    | Monitored
    | Answer
    | ToolBegan
    | ToolEnded
    | HistoryCompacted
    | ProgramAdmitted
    | Down
    | MachineEnded
    | TraceSpanEnded
    | News
)
