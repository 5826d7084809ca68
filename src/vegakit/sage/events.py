"""The modes of a session and its events: one vocabulary for terminal, JSON and Python."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from vegakit.agent import REPEATED, CompactedHistory
from vegakit.errors import BudgetExceeded, LimitReached, ToolFailed, UserError, VegaError
from vegakit.money import NANOS, to_usd
from vegakit.policy import PermissionMode
from vegakit.program import CallRetried, ProgramQuote

# Modes: what runs by itself, and what a person is asked about.


class SageMode(StrEnum):
    """The modes of a session: plan only reads, ask asks before each write and command, auto does
    both without questions, inside the workspace and the sandbox."""

    PLAN = "plan"
    ASK = "ask"
    AUTO = "auto"


POLICIES: dict[SageMode, tuple[PermissionMode, tuple[str, ...]]] = {
    SageMode.PLAN: (PermissionMode.READ_ONLY, ()),
    SageMode.ASK: (PermissionMode.ASK, ()),
    # Commands are in the sandbox; files are written by handles that do not leave the workspace.
    SageMode.AUTO: (PermissionMode.AUTO_IN_SANDBOX, ("allow fs::write",)),
}
MODES = {policy: mode for mode, (policy, _) in POLICIES.items()}
MODES_TOLD = {
    SageMode.PLAN: "Mode plan: read and answer; writes and commands are refused.",
    SageMode.ASK: "Mode ask: a person is asked before each write and command.",
    SageMode.AUTO: "Mode auto: writes and commands run unasked.",
}
"""What the agent is told of a mode, once; auto is what it takes for granted."""


def usual_mode(permissions: PermissionMode | None) -> SageMode:
    """Return the mode that the settings name, else auto."""
    return SageMode.AUTO if permissions is None else MODES[permissions]


def check_mode(wanted: SageMode, freest: SageMode) -> None:
    """Refuse a mode that allows more than whoever serves the session said."""
    freer = [*SageMode]
    if freer.index(wanted) > freer.index(freest):
        raise UserError(f"mode {wanted} allows more than {freest}, which is the freest here")


# Events: one vocabulary for the terminal, for JSON and for Python.


class EndReason(StrEnum):
    """The reasons for which a turn ends."""

    DONE = "done"
    BUDGET = "budget"
    """The next call might have cost more than is left, so it was not made."""
    LOOP = "loop"
    """The same call had the same result five times in a row."""
    LIMIT = "limit"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    """A signal stopped it, or it was cut off by a kill; the session goes on with it."""


class SageSession(Struct, frozen=True, tag="session"):
    """A session began, or goes on."""

    session: str
    run: str
    folder: str
    model: str
    mode: str
    budget_usd: float | None
    resumed: bool


class SageTurn(Struct, frozen=True, tag="turn"):
    """A turn began, or goes on."""

    turn: int
    prompt: str


class SageText(Struct, frozen=True, tag="text"):
    """The agent said something. `task` is the call of `task` whose sub-agent did, here and below;
    it is empty for the agent of the session."""

    text: str
    task: str = ""


class SageToolBegan(Struct, frozen=True, tag="tool_began"):
    """The agent called a tool. `id` is the same when the call has ended."""

    id: str
    name: str
    arguments: Any
    task: str = ""


class SageToolOutput(Struct, frozen=True, tag="tool_output"):
    """A command says something while it runs. Pieces that come quickly are told together, and of
    much only the last; its result has what the agent reads. `lines` counts all that were said."""

    id: str
    name: str
    text: str
    lines: int = 0
    task: str = ""


class SageToolEnded(Struct, frozen=True, tag="tool_ended"):
    """A tool call ended."""

    id: str
    name: str
    result: str
    is_error: bool
    task: str = ""


class SageQuote(Struct, frozen=True, tag="quote"):
    """The agent is about to start sub-agents, by the calls `tasks`, or to run a program that it
    wrote, by the call `program`: they spend at most `worst_usd`, and probably `typical_usd`, which
    is 0 where nobody knows."""

    tasks: tuple[str, ...]
    worst_usd: float
    typical_usd: float
    program: str = ""


class SageCompacted(Struct, frozen=True, tag="compacted"):
    """The conversation outgrew the window of the model, and a summary took the place of its earlier
    part. `dropped` counts what the agent no longer sees, the journal keeps it; `pinned` names what
    it still sees word by word."""

    dropped: dict[str, int]
    pinned: tuple[str, ...]
    bytes_before: int
    bytes_after: int


class SageWaiting(Struct, frozen=True, tag="waiting"):
    """Nothing was told for `waited_s`: the model says nothing, or tools are at work. A model that
    is silent for `limit_s` is asked again; of tools it is 0."""

    what: str
    waited_s: float
    limit_s: float = 0.0


class SageRetry(Struct, frozen=True, tag="retry"):
    """A model gave no answer, for the reason in `message`, and is asked again after `wait_s`."""

    model: str
    message: str
    attempt: int
    attempts: int
    wait_s: float
    task: str = ""


class SageQuestion(Struct, frozen=True, tag="question"):
    """A person is asked, by a door that can pass on the answer. `permits` says that it wants yes or
    no to exactly what `text` shows, once; other questions want words. `call` is the tool call that
    waits for it, and `tool` its name, if it is one."""

    id: str
    text: str
    permits: bool
    expires_ms: int | None = None
    call: str = ""
    tool: str = ""


class SageCost(Struct, frozen=True, tag="cost"):
    """The session has spent this much by now."""

    spent_usd: float | None
    left_usd: float | None


class SageEnd(Struct, frozen=True, tag="end"):
    """The turn ended. `text` is the answer; `error` and `message` say what went wrong. `changed` is
    how many paths the turn changed, which undo takes back; if not, or not all of them,
    `not_undoable` says why, and `unrecorded` is how many it leaves as they are.
    `lasting` is what it did that nobody can take back, such as requests to a server.
    `overspent_usd` is how far the session is over its budget: a provider billed more for a call
    than its request and the limit of its answer allow, which no budget can hold; no further call is
    made. `notes` tell of files in the folder: what a command made that other programs would act on
    has another name, and what you made meanwhile was left. `unbilled_usd` is the part of
    `spent_usd` that is of calls which were cut off: nobody knows their bill, and they count with
    the most that they may cost. `paths` names the first 200 paths that the turn changed, whoever
    wrote them: tools or commands."""

    reason: EndReason
    text: str = ""
    error: str = ""
    message: str = ""
    spent_usd: float | None = None
    refused: int = 0
    changed: int = 0
    not_undoable: str = ""
    lasting: tuple[str, ...] = ()
    overspent_usd: float = 0.0
    notes: tuple[str, ...] = ()
    unrecorded: int = 0
    unbilled_usd: float = 0.0
    paths: tuple[str, ...] = ()


UNBILLED = "is the most that calls may cost which were cut off; their bills are not known"
"""What is said to people of `unbilled_usd`."""


SageEvent: TypeAlias = (
    SageSession
    | SageTurn
    | SageText
    | SageToolBegan
    | SageToolOutput
    | SageToolEnded
    | SageQuote
    | SageCompacted
    | SageWaiting
    | SageRetry
    | SageQuestion
    | SageCost
    | SageEnd
)


def quote_text(quote: SageQuote, amount: Callable[[int], str]) -> str:
    """Return a quote for people, its amounts as the door that tells it shows them."""
    many = len(quote.tasks)
    what = "a program" if quote.program else f"{many} sub-agent{'s' * (many != 1)}"
    typical = f", typical {amount(_nanos(quote.typical_usd))}" if quote.typical_usd else ""
    return f"{what}: at most {amount(_nanos(quote.worst_usd))}{typical}"


def _nanos(usd: float) -> int:
    return round(usd * NANOS)


def call_id(above: int | str, step: int, index: int) -> str:
    """Return the name of a tool call: the turn, or the call of `task` whose sub-agent makes it; the
    model call that asked for it, the first is 1; and its index in that answer."""
    mark = "/" if isinstance(above, str) else "."
    return f"{above}{mark}{step + 1}.{index}"


TASK = "task"
"""The tool that starts a sub-agent."""
_TASK = re.compile(r"/[a-z0-9-]+ ([^/~]+)~[^/]*$")
"""The end of the path of a sub-agent, named for the call that started it."""


def task_of(path: str) -> str:
    """Return the call of `task` whose sub-agent a process is; empty for the session's agent."""
    found = _TASK.search(path)
    return found[1] if found else ""


def retry_event(news: CallRetried) -> SageRetry:
    """Return what is told of a call that is made again."""
    task, wait_s = task_of(news.path), news.wait_ms / 1000
    return SageRetry(news.model, news.reason, news.attempt, news.attempts, wait_s, task)


_WRITING = ("write", "edit", "apply_patch")


def progress_event(
    event: CompactedHistory | ProgramQuote, above: int | str, pinned: dict[str, str]
) -> SageEvent:
    """Return what is told of a program before it runs, or of a summary that was made."""
    if isinstance(event, CompactedHistory):
        return _compaction(event, pinned)
    call = call_id(above, event.step, event.index)
    return SageQuote((), to_usd(event.most) or 0.0, to_usd(event.typical) or 0.0, call)


def _compaction(history: CompactedHistory, pinned: dict[str, str]) -> SageCompacted:
    """Return what is told of a summary, and of what it took the place of."""
    read = set(history.paths.get("read", ()))
    written = {path for tool in _WRITING for path in history.paths.get(tool, ())}
    dropped = {
        "turns": history.turns,
        "tool_calls": sum(history.calls.values()),
        "files_read": len(read),
        "files_written": len(written),
    }
    return SageCompacted(dropped, tuple(pinned), history.bytes_before, history.bytes_after)


def event_line(event: SageEvent) -> str:
    """Return an event as a line of JSON."""
    return msgspec.json.encode(event).decode()


_OWN_PLACE = re.compile(r"^agent [^:]{1,80}: ")
_OWN_BUDGET = re.compile(r"budget 'runtime:[^'/]*/[^']*'")
"""Its own, and not one that sessions share, which has no run in its name."""


def message_of(error: VegaError) -> str:
    """Return what an error says to a person who sees one session: without the name of its agent,
    and of its budget on the ledger, which name the only ones there are."""
    return _OWN_BUDGET.sub("the budget of this session", _OWN_PLACE.sub("", str(error)))


def reason_of(error: VegaError) -> EndReason:
    """Return the reason for which an error ended a turn."""
    if isinstance(error, BudgetExceeded):
        return EndReason.BUDGET
    if isinstance(error, ToolFailed | LimitReached) and REPEATED in str(error):
        return EndReason.LOOP
    return EndReason.LIMIT if isinstance(error, LimitReached) else EndReason.ERROR
