"""Hold what the terminal of the coding agent shows, as records: pure, without a screen.

The conversation is a list of items; an item that changes counts its `version` up, so that a screen
draws anew only what changed. All that may grow with a session is bounded here: the whole of a long
result stays in the journal.
"""

from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from vegakit.ids import Digest
from vegakit.sage import SageEnd, SageQuote

KEPT_RESULT, KEPT_OUTPUT = 4_000, 64_000
"""Characters of a result, and of what a tool says while it works, that are kept to be shown."""
ARMED_AFTER_MS = 300
"""An approval takes keys after it was on the screen for so long, and no key was pressed."""


class Item(Struct, eq=False):
    """A part of the conversation on the screen."""

    version: int = 0


class PromptItem(Item):
    """A prompt of a person."""

    turn: int = 0
    text: str = ""
    images: tuple[str, ...] = ()


class TextItem(Item):
    """A text of the agent. `is_open` while more of it may come; `is_cut` if it broke off, and is
    said anew."""

    text: str = ""
    is_open: bool = True
    is_cut: bool = False


class ToolState(StrEnum):
    """The states of a tool call."""

    WORKING = "working"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    STOPPED = "stopped"


class ToolItem(Item):
    """A tool call with what it says while it works, and its result."""

    id: str = ""
    name: str = ""
    arguments: Any = None
    state: ToolState = ToolState.WORKING
    began_ms: int = 0
    ended_ms: int | None = None
    output: str = ""
    """The last of what it says while it works."""
    output_lines: int = 0
    result: str = ""
    result_lines: int = 0
    activity: str = ""
    """Of a task: what its sub-agent does now."""
    is_expanded: bool = False


class ApprovalState(StrEnum):
    """The states of a question to a person."""

    OPEN = "open"
    YES = "yes"
    ALWAYS = "always"
    NO = "no"
    ANSWERED = "answered"
    GONE = "gone"
    """It was answered elsewhere, withdrawn, or its time is over."""


class ApprovalItem(Item):
    """A question to a person, whole. `permits` says that it wants yes or no; others want text.
    `shown_ms` is when its last line came on the screen, None until then."""

    id: str = ""
    process: str = ""
    text: str = ""
    permits: bool = True
    action: Digest | None = None
    expires_ms: int | None = None
    state: ApprovalState = ApprovalState.OPEN
    shown_ms: int | None = None
    reason: str = ""
    explains: bool = False


class NoteItem(Item):
    """Something to know, with the name of a sign."""

    kind: str = "note"
    text: str = ""


class QuoteItem(Item):
    """The price of sub-agents that are about to start."""

    quote: SageQuote | None = None


class EndItem(Item):
    """The end of a turn."""

    end: SageEnd | None = None
    took_ms: int = 0


ChatItem: TypeAlias = (
    PromptItem | TextItem | ToolItem | ApprovalItem | NoteItem | QuoteItem | EndItem
)


class AgentView(Struct):
    """A sub-agent in the tree: what it was started for, how far it is, and what it may spend."""

    task: str
    kind: str
    prompt: str
    state: ToolState = ToolState.WORKING
    calls: int = 0
    activity: str = ""
    at_most: int = 0
    spent: int = 0


class ChangedFile(Struct):
    """The lines that tools have added to a file and removed from it; of what a command changed
    nobody has counted them."""

    path: str
    added: int = 0
    removed: int = 0
    is_deleted: bool = False

    @property
    def by_command(self) -> bool:
        """Whether no tool has said what it changed there."""
        return not self.added and not self.removed and not self.is_deleted


class JobView(Struct):
    """A command that runs beside the rest of a turn."""

    id: str
    command: str
    began_ms: int
    is_running: bool = True


class TodoStep(Struct, frozen=True):
    """A step of the plan of the agent."""

    text: str
    done: bool


class MoneyView(Struct):
    """The figures of a session in nano-dollars. What nobody limits has no `at_most`. `unbilled` is
    the part of `spent` that is of calls which were cut off, and may have cost less."""

    at_most: int | None = None
    spent: int = 0
    left: int | None = None
    unbilled: int = 0

    @property
    def reserved(self) -> int:
        """Return what is neither spent nor left: it is held for calls in flight."""
        if self.at_most is None or self.left is None:
            return 0
        return max(0, self.at_most - self.spent - self.left)


class TypedPrompt(Struct, frozen=True):
    """A prompt as it is sent."""

    text: str
    images: tuple[str, ...] = ()


class TurnState(StrEnum):
    """The states of the turn of a session."""

    IDLE = "idle"
    WORKING = "working"
    STOPPING = "stopping"


class ViewState(Struct):
    """All that is shown of one session."""

    name: str = ""
    run: str = ""
    folder: str = ""
    model: str = ""
    mode: str = ""
    turn: int = 0
    turn_state: TurnState = TurnState.IDLE
    began_ms: int = 0
    items: list[ChatItem] = []
    todo: list[TodoStep] = []
    agents: dict[str, AgentView] = {}
    changed: dict[str, ChangedFile] = {}
    jobs: dict[str, JobView] = {}
    money: MoneyView = field(default_factory=MoneyView)
    context_share: float | None = None
    queue: list[TypedPrompt] = []
    """Prompts that were typed while a turn works."""
    waiting: list[ApprovalItem] = []
    """The questions that wait for a person, the oldest first."""
    tools: dict[str, ToolItem] = {}
    """The tool calls that go on."""
    always: set[str] = set()
    """The exact actions that this person allows for the rest of the session."""
    last_key_ms: int = -ARMED_AFTER_MS
    replying_to: str = ""
    """The question that the prompt line answers now, with a reason or text."""
    is_editing: bool = False
    """The prompt line holds what to do instead of an action."""
    has_focus_on_approval: bool = False
    last_stop_ms: int | None = None

    @property
    def is_working(self) -> bool:
        """Whether a turn goes on."""
        return self.turn_state is not TurnState.IDLE

    @property
    def asked(self) -> ApprovalItem | None:
        """The question that is answered next."""
        return self.waiting[0] if self.waiting else None


# What the screen is asked to do.


class AnswerQuestion(Struct, frozen=True):
    """Give an answer to exactly the question that was on the screen."""

    id: str
    answer: bool | str
    action: Digest | None


class BeginTurn(Struct, frozen=True):
    """Say a prompt to the agent."""

    prompt: TypedPrompt


class StopTurn(Struct, frozen=True):
    """Stop the turn; the session stays."""


class EndTree(Struct, frozen=True):
    """End all that the session runs, and leave."""


class EditText(Struct, frozen=True):
    """Put a text into the prompt line."""

    text: str


Action: TypeAlias = AnswerQuestion | BeginTurn | StopTurn | EndTree | EditText
