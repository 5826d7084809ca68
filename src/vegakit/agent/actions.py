"""The rule of a turn, its actions, how it fails, and what it has used of its bounds (pure).

`step` numbers the turn's model calls from 0; together with a call's index in the answer it names
every effect of a turn, whatever ids the provider gave.

| bound            | a model call fits while                 | tool calls fit while           |
|------------------|-----------------------------------------|--------------------------------|
| max_steps        | a step is left; for a summary, two      | a step is left for the results |
| max_total_tokens | used + input at most + max_tokens <= it | –                              |
| context_tokens   | input at most + max_tokens <= it        | –                              |
| max_tool_calls   | –                                       | made + wanted <= it            |

So a bound is never passed, and no call is bought whose fruit could not be used.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias, TypedDict

from msgspec import Meta, Struct, ValidationError, convert

from vegakit.conversation import (
    AssistantMessage,
    Effort,
    Finish,
    ModelReply,
    ModelRequest,
    ModelSettings,
    OutputSpec,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from vegakit.errors import (
    AgentFailed,
    CatchableError,
    ContractViolated,
    ErrorClass,
    InvalidRuleError,
    LimitReached,
    OutputTruncated,
    RateLimited,
    Timeout,
    ToolFailed,
)
from vegakit.events import Failed as CallFailed, Refused, Unknown
from vegakit.ids import EffectKey

# Actions: a turn asks its host for these, or ends.
#
# `step` numbers the turn's model calls from 0; together with a call's index in the answer it names
# every effect of a turn, whatever ids the provider gave.


class DroppedHistory(Struct, frozen=True):
    """A count of what the model no longer sees, or sees only as a summary."""

    messages: int = 0
    exchanges: int = 0


class CompactedHistory(Struct, frozen=True):
    """A count of what a compaction took out of sight: messages of the user, calls by tool, and the
    `path` arguments of those, by tool. `bytes_before` and `bytes_after` are of the conversation as
    JSON, without instructions and tools."""

    turns: int
    calls: dict[str, int]
    paths: dict[str, tuple[str, ...]]
    bytes_before: int
    bytes_after: int = 0

    def __str__(self) -> str:
        return ""  # as an event of a stream, whose texts are printed one after the other


class PlannedCall(Struct, frozen=True):
    """A tool call with its index in the answer."""

    index: int
    call: ToolCall


class ToolOutcome(Struct, frozen=True, omit_defaults=True):
    """`cause` are effects that an error comes from, where the tool asked for some itself."""

    content: str
    is_error: bool = False
    cause: tuple[EffectKey, ...] = ()


class AskModel(Struct, frozen=True, tag=True):
    """`tokens` is the most that its input is billed as, counted once: of a long conversation that
    takes as long as the rest of a step. `instead` is what the turn fails with if the answer before
    may not be asked for once more."""

    request: ModelRequest
    step: int
    tokens: int
    instead: "TurnFailed | None" = None


class Summarise(Struct, frozen=True, tag=True):
    """A model call like another; its reply goes to `on_summary`."""

    request: ModelRequest
    step: int
    tokens: int


class CallTools(Struct, frozen=True, tag=True):
    """Call these tools at once, in any order; calls that cannot be made are not among them."""

    calls: tuple[PlannedCall, ...]
    step: int


class Finished(Struct, frozen=True, tag=True):
    """`usage` is what the providers reported, summaries included."""

    output_text: str
    message: AssistantMessage
    usage: Usage
    steps: int
    dropped: DroppedHistory = DroppedHistory()


class TurnFailed(Struct, frozen=True, tag=True):
    """`error` is what the language calls it, such as `LimitReached`. `is_outage`: a provider could
    not be asked."""

    error: str
    reason: str
    is_outage: bool = False


TurnAction: TypeAlias = AskModel | Summarise | CallTools | Finished | TurnFailed


# The rule of a turn: its model, its tools, and its bounds.


class HistoryPolicy(StrEnum):
    """The choices when a conversation has outgrown the model's window."""

    ERROR = "error"
    DROP_OLDEST = "drop_oldest"
    SUMMARISE = "summarise"


class CompactionRule(Struct, frozen=True, omit_defaults=True):
    """The parts of a conversation that a summary never replaces. `pinned` are texts by what they
    are called; of each of `tools` the last result stays, such as a list of steps; so does the
    prompt of the turn. With such a rule a summary may also replace calls and results of the turn
    that is under way, which may be far longer than all before it. `assumed_tokens` stands for a
    window that nobody knows: a conversation is summed up there, but nothing is refused, since the
    model may take more. `path_patterns` find the paths in the text arguments of tools that have no
    `path`, as the first group of a regular expression with `^` and `$` for lines. With `is_due` all
    that was said before the turn is summed up first, though it would fit: somebody wants it so."""

    pinned: dict[str, str] = {}
    tools: tuple[str, ...] = ()
    assumed_tokens: int | None = None
    path_patterns: dict[str, str] = {}
    is_due: bool = False


_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0)]


class _Settings(TypedDict):
    """What people write of an agent."""

    name: Annotated[str, Meta(min_length=1)]
    instructions: str
    max_tokens: _Count | None
    max_steps: _Count
    temperature: _Amount | None
    priority: Annotated[int, Meta(ge=0)] | str
    timeout: _Amount | str | None
    max_wait: _Amount | str | None
    history: HistoryPolicy
    memory: Literal["conversation"] | None
    effort: Effort | None


SETTING_FORMS = {
    **dict.fromkeys(["name", "instructions"], "a text"),
    **dict.fromkeys(["max_tokens", "max_steps"], "a whole number of at least 1"),
    **dict.fromkeys(["timeout", "max_wait"], 'a number of seconds, or "30s"'),
    "temperature": "a number such as 0.7",
    "priority": "0, the most urgent, or above",
    "history": f"one of: {', '.join(HistoryPolicy)}",
    "memory": '"conversation"',
    "effort": f"one of: {', '.join(Effort)}",
}
"""How what a setting may be is said."""


def check_settings(agent: str, settings: Mapping[str, object]) -> None:
    """Raise `InvalidRuleError` if one of the settings of an agent cannot be meant."""
    try:
        convert(settings, _Settings)
    except ValidationError as error:
        _, _, name = str(error).strip("`").rpartition("$.")  # … - at `$.max_tokens`
        raise InvalidRuleError(
            f"{name} of agent {agent} is {settings[name]!r}; write {SETTING_FORMS[name]}"
        ) from None


_LEAST = {
    "max_steps": 1,
    "max_tool_calls": 0,
    "max_total_tokens": 1,
    "identical_failures": 1,
    "identical_results": 2,
    "output_retries": 0,
    "truncated_replies": 0,
    "context_tokens": 1,
}


class TurnRule(Struct, frozen=True, omit_defaults=True):
    """`max_steps` counts model calls, summaries too; `context_tokens` is the model's window, which
    question and answer share, None if nobody knows it. `identical_results` is how often the same
    rounds of calls may come in turn with the same results, failed or not; no other limit on
    repeated calls then holds. None counts failures only.
    `truncated_replies` is how many answers in a row may be cut at `max_tokens` before the turn
    fails: the model is told so and goes on. `compaction` is for `HistoryPolicy.SUMMARISE`."""

    model: str
    settings: ModelSettings
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    max_steps: int = 8
    max_tool_calls: int = 64
    max_total_tokens: int | None = None
    identical_failures: int = 3
    identical_results: int | None = None
    output_retries: int = 2
    truncated_replies: int = 0
    history: HistoryPolicy = HistoryPolicy.ERROR
    context_tokens: int | None = None
    compaction: CompactionRule | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidRuleError(f"{name} is at least {least}; got {value}")
        if self.settings.max_tokens < 1:
            raise InvalidRuleError(f"max_tokens is at least 1; got {self.settings.max_tokens}")
        names = [tool.name for tool in self.tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRuleError(
                f"a model calls tools by name, so each name stands for one tool; "
                f"got two or more called {', '.join(twice)}; rename them"
            )

    @property
    def input_room(self) -> int | None:
        """Return what the window leaves for a request when its answer is as long as it may be."""
        return self._room_in(self.context_tokens)

    @property
    def unshortened_room(self) -> int | None:
        """Return up to which size a request is sent as it is; of a window that nobody knows, what
        is assumed, if anything is."""
        assumed = None if self.compaction is None else self.compaction.assumed_tokens
        return self._room_in(self.context_tokens or assumed)

    def _room_in(self, window: int | None) -> int | None:
        return None if window is None else window - self.settings.max_tokens


# Failures of a turn: each bound and fault has its name in the language and its text.


_NAMES: dict[ErrorClass, type[CatchableError]] = {
    ErrorClass.TIMEOUT: Timeout,
    ErrorClass.RATE_LIMIT: RateLimited,
    ErrorClass.CONTEXT_LENGTH: LimitReached,
}
"""Whatever else the world does is `AgentFailed`."""


def _failed(kind: type[CatchableError], reason: str) -> TurnFailed:
    return TurnFailed(kind.__name__, reason)


def call_failed(outcome: CallFailed | Refused | Unknown) -> TurnFailed:
    """Return the error for a model call that failed."""
    match outcome:
        case Refused():
            return TurnFailed(outcome.error, outcome.reason)
        case CallFailed():
            kind = _NAMES.get(outcome.error_class, AgentFailed)
            return TurnFailed(kind.__name__, outcome.reason, outcome.error_class.is_outage)
        case Unknown():
            return TurnFailed(
                AgentFailed.__name__,
                "the call was cut off when the run was, so its answer is lost; it is charged in "
                "full, and its rule says not to send it again",
                is_outage=True,
            )


def unusable(rule: TurnRule, reply: ModelReply) -> TurnFailed | None:
    """An answer that was not brought to its end is not looked into, its tool calls neither."""
    match reply.finish:
        case Finish.LENGTH:
            most = rule.settings.max_tokens
            what = "a tool call" if reply.message.tool_calls else "the answer"
            return _failed(
                OutputTruncated,
                f"{what} of {rule.model} was cut off at max_tokens={most}; "
                f"set max_tokens higher, for example {2 * most}, or ask for less",
            )
        case Finish.CONTENT_FILTER:
            return _failed(
                AgentFailed,
                f"the content filter of {rule.model} stopped the answer; "
                "change what is asked, or ask another model",
            )
        case Finish.STOP | Finish.TOOL_CALLS:
            return None


def empty_answer(rule: TurnRule) -> TurnFailed:
    """Return the error for an answer with nothing in it."""
    return _failed(
        AgentFailed,
        f"{rule.model} answered with neither text nor a tool call that it could make; "
        "make the prompt say what answer is wanted, or ask another model",
    )


def broken_contract(rule: TurnRule, problem: str, count: int) -> TurnFailed:
    """Return the error for so many answers that do not fit the schema."""
    wanted = f"the schema {rule.output.name}" if rule.output else "what was asked for"
    return _failed(
        ContractViolated,
        f"{count} answer{'s' * (count != 1)} of {rule.model} did not fit {wanted}; "
        f"the last one: {problem}; make the schema simpler, or ask a stronger model",
    )


REPEATED = "times in a row with the same arguments"
"""In the text of a failure by repetition, for who tells it from others of its kind."""


def goes_round(rule: TurnRule, result: ToolResult) -> TurnFailed:
    """Return the error for a call that is made again and again and always has the same result."""
    said = result.content if len(result.content) <= _SAID else f"{result.content[:_SAID]}…"
    return _failed(
        ToolFailed if result.is_error else LimitReached,
        f"tool {result.name} was called {rule.identical_results} {REPEATED}, and the result was "
        f"always: {said}; the turn is stopped, since one more would change nothing; say what to "
        "do differently",
    )


def goes_in_a_circle(rule: TurnRule, length: int, result: ToolResult) -> TurnFailed:
    """Return the error for rounds of calls that are made in turn again and again, with the same
    results."""
    said = result.content if len(result.content) <= _SAID else f"{result.content[:_SAID]}…"
    rounds = (
        "round of tool calls was made"
        if length == 1
        else (f"{length} rounds of tool calls were made in turn")
    )
    return _failed(
        ToolFailed if result.is_error else LimitReached,
        f"the same {rounds} {rule.identical_results} {REPEATED}, and the results were always the "
        f"same; that of {result.name}: {said}; the turn is stopped, since one more would change "
        "nothing; say what to do differently",
    )


_SAID = 200


def keeps_failing(rule: TurnRule, result: ToolResult) -> TurnFailed:
    """Return the error for a tool that fails again and again with the same arguments."""
    return _failed(
        ToolFailed,
        f"tool {result.name} failed {rule.identical_failures} {REPEATED}: {result.content}; "
        "repair the tool, say in its description what it takes, "
        "or raise identical_failures",
    )


def too_many_steps(rule: TurnRule, steps: int) -> TurnFailed:
    """Return the error for too many model calls."""
    return _failed(
        LimitReached,
        f"{steps} model calls were made and the answer needs more than max_steps={rule.max_steps}; "
        "raise max_steps, or ask for less at once",
    )


def too_many_calls(rule: TurnRule, made: int, wanted: int) -> TurnFailed:
    """Return the error for too many tool calls."""
    return _failed(
        LimitReached,
        f"{made} tool calls were made and the model wants {wanted} more, above "
        f"max_tool_calls={rule.max_tool_calls}; raise max_tool_calls, or ask for less at once",
    )


def too_many_tokens(rule: TurnRule, used: int, tokens: int) -> TurnFailed:
    """Return the error for too many tokens in all."""
    return _failed(
        LimitReached,
        f"{used} tokens are used and the next model call may take {tokens} for its input and "
        f"{rule.settings.max_tokens} for its answer, above max_total_tokens="
        f"{rule.max_total_tokens}; raise max_total_tokens, or lower max_tokens",
    )


def too_long(rule: TurnRule, tokens: int) -> TurnFailed:
    """Return the error for a request that does not fit the window."""
    hint = "set history to drop_oldest or summarise, " * (rule.history is HistoryPolicy.ERROR)
    return _failed(
        LimitReached,
        f"a request may take {tokens} tokens and its answer {rule.settings.max_tokens}, but the "
        f"window of {rule.model} holds {rule.context_tokens}; {hint}shorten the prompt or the "
        "tools' results, lower max_tokens, or take a model with a larger window",
    )


# The usage of a turn says whether the next call still fits its bounds.
#
# | bound            | a model call fits while                 | tool calls fit while           |
# |------------------|-----------------------------------------|--------------------------------|
# | max_steps        | a step is left; for a summary, two      | a step is left for the results |
# | max_total_tokens | used + input at most + max_tokens <= it | –                              |
# | context_tokens   | input at most + max_tokens <= it        | –                              |
# | max_tool_calls   | –                                       | made + wanted <= it            |
#
# So a bound is never passed, and no call is bought whose fruit could not be used.


class TurnUsage(Struct, omit_defaults=True):
    """`usage` is what providers reported; `tokens` takes a call they kept silent about at its most,
    which is `at_risk` while the call is out."""

    steps: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    tokens: int = 0
    at_risk: int = 0

    def begin_call(self, rule: TurnRule, input_tokens: int, steps: int) -> int | TurnFailed:
        """The number of the call, if `steps` are left and it fits."""
        most = input_tokens + rule.settings.max_tokens
        if self.steps + steps > rule.max_steps:
            return too_many_steps(rule, self.steps)
        if rule.input_room is not None and input_tokens > rule.input_room:
            return too_long(rule, input_tokens)
        if rule.max_total_tokens is not None and self.tokens + most > rule.max_total_tokens:
            return too_many_tokens(rule, self.tokens, input_tokens)
        self.at_risk = most
        self.steps += 1
        return self.steps - 1

    def change_call(self, rule: TurnRule, input_tokens: int) -> bool:
        """Whether the call in flight fits another model; then that is the one in flight."""
        most = input_tokens + rule.settings.max_tokens
        if rule.input_room is not None and input_tokens > rule.input_room:
            return False
        if rule.max_total_tokens is not None and self.tokens + most > rule.max_total_tokens:
            return False
        self.at_risk = most
        return True

    def begin_tools(self, rule: TurnRule, calls: int) -> TurnFailed | None:
        """Count tool calls, or return why they are too many."""
        if self.tool_calls + calls > rule.max_tool_calls:
            return too_many_calls(rule, self.tool_calls, calls)
        if self.steps >= rule.max_steps:
            return too_many_steps(rule, self.steps)
        self.tool_calls += calls
        return None

    def on_answered(self, usage: Usage | None) -> None:
        """Count what a call used; without a figure from the provider, all that it may have."""
        if usage is None:
            self.tokens += self.at_risk
        else:
            self.tokens += usage.input_tokens + usage.output_tokens
            self.usage += usage
        self.at_risk = 0
