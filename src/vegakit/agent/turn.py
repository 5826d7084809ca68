"""One turn of an agent: what the model still sees of the conversation, and the machine that asks,
calls tools and finishes (pure).
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from vegakit.agent.actions import (
    AskModel,
    CallTools,
    CompactedHistory,
    CompactionRule,
    DroppedHistory,
    Finished,
    HistoryPolicy,
    PlannedCall,
    Summarise,
    ToolOutcome,
    TurnAction,
    TurnFailed,
    TurnRule,
    TurnUsage,
    broken_contract,
    call_failed,
    empty_answer,
    goes_in_a_circle,
    goes_round,
    keeps_failing,
    unusable,
)
from vegakit.agent.compaction import PROMPT_PIN, CompactionPlan, plan_compaction, transcript
from vegakit.conversation import (
    AssistantMessage,
    Conversation,
    Finish,
    Message,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    UserPart,
)
from vegakit.errors import BugError
from vegakit.events import Failed as CallFailed, Refused, Unknown
from vegakit.records import canonical, digest128

# The history is the part of the conversation that the model still sees.
#
#     [summary]  exchange  exchange  exchange  │  the turn, which is never dropped
#                ◀── the oldest go first
#
# An exchange is a user message with all that follows until the next one; only whole ones go, so a
# tool call is never parted from its result.


_Exchange: TypeAlias = tuple[Message, ...]


def user_message(text: str) -> UserMessage:
    """Return a message of the user."""
    return UserMessage((Text(text),))


class History(Struct, omit_defaults=True):
    """`folding` of the oldest exchanges are being summarised."""

    messages: tuple[Message, ...] = ()
    summary: str = ""
    folding: int = 0
    dropped: DroppedHistory = DroppedHistory()

    def seen(self, *, without: int = 0) -> tuple[Message, ...]:
        """Return what the model sees, or would see without so many of the oldest exchanges."""
        if not without:
            return self._opening() + self.messages  # where nothing opens it there is no copy
        return self._opening() + _join(_split(self.messages)[without:])

    def excess(self, size: Callable[[tuple[Message, ...]], int], room: int) -> int:
        """The fewest exchanges that must go until the rest fits; all, if it never does."""
        every = range(len(_split(self.messages)))
        return bisect_left(every, True, key=lambda gone: size(self.seen(without=gone)) <= room)

    def drop(self, gone: int) -> None:
        """Drop the oldest exchanges."""
        exchanges = _split(self.messages)
        self.messages = _join(exchanges[gone:])
        self.dropped = DroppedHistory(
            self.dropped.messages + len(_join(exchanges[:gone])),
            self.dropped.exchanges + gone,
        )

    def begin_folding(self, gone: int) -> str:
        """Return what there is to summarise, an earlier summary included."""
        self.folding = gone
        return transcript((*self._opening(), *_join(_split(self.messages)[:gone])))

    def on_summary(self, text: str) -> None:
        """Put the summary in the place of what it summarises."""
        self.drop(self.folding)
        self.summary, self.folding = text, 0

    def _opening(self) -> tuple[Message, ...]:
        if not self.summary:
            return ()
        return (user_message(f"Summary of the earlier conversation: {self.summary}"),)


def _split(messages: Iterable[Message]) -> list[_Exchange]:
    exchanges: list[list[Message]] = []
    for message in messages:
        if isinstance(message, UserMessage) or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return [tuple(exchange) for exchange in exchanges]


def _join(exchanges: Iterable[_Exchange]) -> tuple[Message, ...]:
    return tuple(chain.from_iterable(exchanges))


# The calls of one answer: which can be made, what came of each, and what fails again and again.
#
# A failure is a tool, its arguments and its error. It is repeated while every round of calls has
# it: a round without it ends the row, other calls beside it do not.
#
# A rule with `identical_results` compares whole rounds instead: all calls of an answer with their
# results, failed or not, in any order. Two results that differ in times and durations only are the
# same. The turn ends when one round, or two or three in turn (A, B, A, B …), came so often with
# nothing else in between. An edit next to a test, or between two runs of it, is something else,
# however often the test fails alike.


_SHOWN = 200
_LONGEST_CIRCLE = 3
_TIMES = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?\b"
    r"|\b\d{1,2}:[0-5]\d:[0-5]\d(?:[.,]\d+)?\b"
    r"|\b1\d{9}(?:\d{3}|\.\d+)?\b"
    r"|\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|min|minutes?)\b"
)
"""Dates, times of day, seconds since 1970, durations."""


def mistakes(calls: Sequence[ToolCall], tools: Sequence[ToolSpec]) -> dict[int, ToolOutcome]:
    """Return what the model is told at once of calls that nobody could make, by index."""
    known = [tool.name for tool in tools]
    problems = {index: _problem(call, known) for index, call in enumerate(calls)}
    return {index: ToolOutcome(text, True) for index, text in problems.items() if text}


def _problem(call: ToolCall, known: Sequence[str]) -> str:
    if call.name not in known:
        return f"there is no tool {call.name!r}; there is: {', '.join(known) or 'no tool at all'}"
    if not isinstance(call.arguments, dict):
        got = canonical(call.arguments).decode()[:_SHOWN]
        # A codec leaves what it cannot read, or what is nested too deep to be meant, as a text.
        unread = isinstance(call.arguments, str) and call.arguments.lstrip().startswith("{")
        why = ", which is broken or nested hundreds of levels deep" if unread else ""
        return f"the arguments of {call.name} must be one JSON object; got {got}{why}"
    return ""


def planned(calls: Sequence[ToolCall], tools: Sequence[ToolSpec]) -> tuple[PlannedCall, ...]:
    """Return the calls that can be made."""
    wrong = mistakes(calls, tools)
    return tuple(PlannedCall(i, call) for i, call in enumerate(calls) if i not in wrong)


def results_of(
    calls: Sequence[ToolCall], outcomes: Mapping[int, ToolOutcome]
) -> tuple[ToolResult, ...]:
    """Return the results in the order of the calls."""
    return tuple(
        ToolResult(call.id, call.name, _storable(outcomes[i].content), outcomes[i].is_error)
        for i, call in enumerate(calls)
    )


def _storable(text: str) -> str:
    """A tool may hand over half a surrogate pair, as from a file name, which JSON cannot hold."""
    return text.encode("utf-8", "replace").decode()


def failures_in_a_row(
    before: Mapping[str, int], calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> dict[str, int]:
    """Return how often each failure of this round has come by now, by its digest."""
    pairs = zip(calls, results, strict=True)
    now = Counter(_digest(call, result) for call, result in pairs if result.is_error)
    return {failure: before.get(failure, 0) + times for failure, times in now.items()}


def without_times(results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """Return results in which every time and duration is the same."""
    return tuple(replace(one, content=_TIMES.sub("<time>", one.content)) for one in results)


def round_digest(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    """Return a name of a whole round: its calls and their results, in any order."""
    return digest128(sorted(_digest(*pair) for pair in zip(calls, results, strict=True)))


def circle_of(rounds: Sequence[str], most: int) -> int:
    """Return how many rounds come back in turn, 1 for the same one each time, if the last of them
    was done `most` times so; 0 if none do."""
    for length in range(1, _LONGEST_CIRCLE + 1):
        row = rounds[-(most - 1) * length - 1 :]
        is_long_enough = len(row) > (most - 1) * length
        if is_long_enough and all(row[at] == row[at + length] for at in range(len(row) - length)):
            return length
    return 0


def repeated(
    row: Mapping[str, int], most: int, calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> ToolResult | None:
    """The first result of this round that came `most` times in a row."""
    pairs = zip(calls, results, strict=True)
    return next((r for c, r in pairs if row.get(_digest(c, r), 0) >= most), None)


def _digest(call: ToolCall, result: ToolResult) -> str:
    return digest128([call.name, call.arguments, result.content])


# The turn: ask, call what the answer wants called, ask again, until there is an answer.
#
# phase       | event                                   | next    | action
# ------------|-----------------------------------------|---------|-------------------------------
# new         | start                                   | asking  | AskModel
# asking      | reply with calls that can be made       | calling | CallTools, those
# asking      | reply with calls, none can be made      | asking  | AskModel, told of the mistakes
# asking      | reply with text that passes the check   | over    | Finished
# asking      | reply with text that does not           | asking  | AskModel, told of the problem
# asking      | reply without text or calls, the first  | asking  | AskModel, told so
# asking      | reply with calls, no tools were offered | as one without text or calls
# asking      | reply cut off, as often as is allowed   | asking  | AskModel, told so
# asking      | reply cut off or filtered, model failed | over    | Failed
# calling     | results of all of them                  | asking  | AskModel, told the results
# summarising | summary                                 | asking  | AskModel
# summarising | the same, or an empty summary           | over    | Failed
#
# Where the table says AskModel, a bound that would be passed makes it Failed, and a conversation
# that outgrew the window makes it, by the rule's policy, Failed, AskModel without the oldest
# exchanges, or Summarise (then summarising). The bounds stand in `spent`, what is dropped in
# `history`.


Count: TypeAlias = Callable[[ModelRequest], int]
"""No fewer tokens than the request will be billed as input."""
Check: TypeAlias = Callable[[str], str | None]
"""What is wrong with an answer, in words the model can act on."""

_SUMMARY_SYSTEM = (
    "You summarise the earlier part of a conversation for the assistant who goes on with it. Keep "
    "goals, decisions, facts, names, numbers and open questions. Answer with the summary only."
)
_COMPACTION_SYSTEM = (
    "You sum up the earlier part of the work of an agent. The agent goes on with it, and of that "
    "part it will see nothing but your words: the task, the list of steps and the instructions are "
    "kept beside them, so leave these out. Say what was decided and why, what was done and found, "
    "which files, functions, commands and figures matter, what failed and how, and what is still "
    "open. Answer with the summary only."
)
_SUMMARY_PART = 8
"""Of the room of a request, for a summary: with half of it for what is kept, much stays free."""
_EMPTY = "Your last answer was empty. Answer in words, or call a tool."
_NO_TOOLS = "Your last answer was empty. Answer in words; there are no tools here."
_CUT = (
    "[Your answer was cut at {most} tokens, the most that one may have{calls}. Go on where it "
    "ended, or do it in smaller steps{parts}.]"
)
_MISFIT = "Your answer does not fit: {}. Answer again."
MOST_TOLD = 240
"""The bytes of what is wrong with an answer that the model is told: a quote counts them."""
_CUT_CALLS = ", so none of its tool calls was made"
_CUT_PARTS = ", such as a long file in several parts"


class TurnPhase(StrEnum):
    """The phases of a turn."""

    NEW = "new"
    ASKING = "asking"
    CALLING = "calling"
    SUMMARISING = "summarising"
    OVER = "over"


_CALLS = {AskModel: (TurnPhase.ASKING, 1), Summarise: (TurnPhase.SUMMARISING, 2)}
"""The phase that awaits the answer, and how many steps must be left: a summary is of use only to
the call after it."""


class Turn(Struct, omit_defaults=True):
    """`messages` is what was said since `start`, or what is left of it after a compaction; `pins`
    are the last results of tools that stay; `compacted` tells of the last compaction. `truncated`
    counts answers in a row that were cut off, and `begun` is the text of them."""

    rule: TurnRule
    phase: TurnPhase = TurnPhase.NEW
    history: History = field(default_factory=History)
    messages: tuple[Message, ...] = ()
    spent: TurnUsage = field(default_factory=TurnUsage)
    problems: int = 0
    empty_replies: int = 0
    truncated: int = 0
    begun: str = ""
    failing: dict[str, int] = {}
    rounds: tuple[str, ...] = ()
    pins: dict[str, str] = {}
    compacting: CompactionPlan | None = None
    compacted: CompactedHistory | None = None

    @property
    def conversation(self) -> Conversation:
        """All that the model sees now; once the turn is over, the history of the next."""
        return Conversation(self.history.seen() + self.messages)

    def start(
        self, parts: Sequence[UserPart], history: Sequence[Message] = (), *, count: Count
    ) -> TurnAction:
        """Begin the turn with what the user says."""
        self._expect("start", TurnPhase.NEW)
        self.history = History(tuple(history))
        self.messages = (UserMessage(tuple(parts)),)
        return self._ask(count)

    def on_reply(
        self, reply: ModelReply, check: Check | None = None, *, count: Count
    ) -> TurnAction:
        """Take the model's answer: finish, call its tools, or ask again if it does not fit."""
        self._expect("on_reply", TurnPhase.ASKING)
        self.spent.on_answered(reply.usage)
        is_cut = reply.finish is Finish.LENGTH
        if is_cut and self.truncated < self.rule.truncated_replies:
            return self._on_truncated(reply, count)
        if failed := unusable(self.rule, reply):
            return self._fail(failed)
        self.truncated = 0
        if reply.message.tool_calls and self.rule.tools:
            return self._on_calls(reply.message, count)
        if reply.message.tool_calls or not reply.message.text.strip():
            return self._on_empty(count)
        return self._on_text(reply.message, check, count)

    def on_tools(self, results: Mapping[int, ToolOutcome], *, count: Count) -> TurnAction:
        """Take the results of all calls, by index in the answer, and ask the model again."""
        self._expect("on_tools", TurnPhase.CALLING)
        due = {plan.index for plan in planned(self._open_calls(), self.rule.tools)}
        if set(results) != due:
            raise BugError(f"results of calls {sorted(due)} were due; got {sorted(results)}")
        return self._on_results(results, count)

    def tool_name(self, index: int) -> str:
        """Return the tool of a call in the answer that is being worked off."""
        return self._open_calls()[index].name

    def on_summary(self, reply: ModelReply, *, count: Count) -> TurnAction:
        """Take the summary and ask the model again."""
        self._expect("on_summary", TurnPhase.SUMMARISING)
        self.spent.on_answered(reply.usage)
        text, plan = reply.message.text.strip(), self.compacting
        # A summary that was cut off is still one; a turn that ends here would help nobody.
        is_cut = plan is not None and text and reply.finish is Finish.LENGTH
        if not is_cut and (failed := unusable(self.rule, reply)):
            return self._fail(failed)
        if not text:
            return self._fail(empty_answer(self.rule))
        if plan is None:
            self.history.on_summary(text)
        else:
            self._on_compacted(plan, text)
        return self._ask_as_it_is(count)

    def _on_compacted(self, plan: CompactionPlan, summary: str) -> None:
        opening = user_message(plan.opening(summary))
        earlier = self.history.seen()
        line = (*earlier, *self.messages)
        if plan.cut <= len(earlier):
            kept = earlier[plan.cut :]
        else:
            kept, self.messages = (), line[plan.cut :]
            self.pins = self.pins | {PROMPT_PIN: plan.pinned[PROMPT_PIN]}
        gone = DroppedHistory(
            self.history.dropped.messages + plan.cut, self.history.dropped.exchanges + plan.turns
        )
        self.history = History((opening, *kept), dropped=gone)
        self.compacting, self.compacted = None, plan.facts(self.conversation.messages)

    def on_model_failed(self, outcome: CallFailed | Refused | Unknown) -> TurnFailed:
        """The gate has no answer and, after its retries, will have none."""
        self._expect("on_model_failed", TurnPhase.ASKING, TurnPhase.SUMMARISING)
        return self._fail(call_failed(outcome))

    def change_model(
        self, rule: TurnRule, request: ModelRequest, *, count: Count
    ) -> tuple[ModelRequest, int] | None:
        """Return the request in flight for another model, which is then asked for the rest of the
        turn, and the most that its input is billed as. None if it does not fit that model."""
        self._expect("change_model", TurnPhase.ASKING, TurnPhase.SUMMARISING)
        request = replace(request, model=rule.model, settings=rule.settings)
        tokens = count(request)
        if not self.spent.change_call(rule, tokens):
            return None
        self.rule = replace(rule, output=self.rule.output)
        return request, tokens

    def _on_calls(self, message: AssistantMessage, count: Count) -> TurnAction:
        calls, rule = message.tool_calls, self.rule
        self.begun = ""
        if failed := self.spent.begin_tools(rule, len(calls)):
            return self._fail(failed)
        self.messages += (message,)
        if plan := planned(calls, rule.tools):
            self.phase = TurnPhase.CALLING
            return CallTools(plan, self.spent.steps - 1)
        return self._on_results({}, count)

    def _on_results(self, outcomes: Mapping[int, ToolOutcome], count: Count) -> TurnAction:
        calls, rule = self._open_calls(), self.rule
        results = results_of(calls, {**mistakes(calls, rule.tools), **outcomes})
        self.messages += (ToolMessage(results),)
        if rule.compaction is not None:
            kept = (one for one in results if one.name in rule.compaction.tools)
            self.pins = self.pins | {one.name: one.content for one in kept if not one.is_error}
        if failed := self._stuck(calls, results):
            return self._fail(failed)
        return self._ask(count)

    def _stuck(
        self, calls: Sequence[ToolCall], results: tuple[ToolResult, ...]
    ) -> TurnFailed | None:
        """Return why the turn ends if it does the same again and again."""
        rule, most = self.rule, self.rule.identical_results
        if most is None:
            self.failing = failures_in_a_row(self.failing, calls, results)
            again = repeated(self.failing, rule.identical_failures, calls, results)
            return keeps_failing(rule, again) if again else None
        kept = (most - 1) * _LONGEST_CIRCLE + 1
        self.rounds = (*self.rounds, round_digest(calls, without_times(results)))[-kept:]
        length = circle_of(self.rounds, most)
        if length == 1 and len(results) == 1:
            return goes_round(rule, results[0])
        return goes_in_a_circle(rule, length, results[-1]) if length else None

    def _on_empty(self, count: Count) -> TurnAction:
        """The answer is not kept: providers refuse a conversation with an empty message."""
        self.empty_replies += 1
        if self.empty_replies > 1:
            return self._fail(empty_answer(self.rule))
        why = _EMPTY if self.rule.tools else _NO_TOOLS
        return self._ask_again(why, empty_answer(self.rule), count)

    def _on_truncated(self, reply: ModelReply, count: Count) -> TurnAction:
        """Only its text is kept: half a call has no arguments, and half a thought no signature."""
        message = reply.message
        self.truncated += 1
        if text := message.text.rstrip():
            # Without its last blanks, which some providers refuse at the end of an answer.
            self.messages += (AssistantMessage((Text(text),), message.model),)
            self.begun += message.text
        calls = _CUT_CALLS if message.tool_calls else ""
        parts = _CUT_PARTS if self.rule.tools else ""
        most = self.rule.settings.max_tokens
        why = _CUT.format(most=f"{most:,}", calls=calls, parts=parts)
        return self._ask_again(why, unusable(self.rule, reply), count)

    def _on_text(self, message: AssistantMessage, check: Check | None, count: Count) -> TurnAction:
        self.messages += (message,)
        text, self.begun = f"{self.begun}{message.text}", ""
        problem = check(text) if check else None
        if problem is None:
            self.phase = TurnPhase.OVER
            usage, steps = self.spent.usage, self.spent.steps
            return Finished(text, message, usage, steps, self.history.dropped)
        self.problems += 1
        failed = broken_contract(self.rule, problem, self.problems)
        if self.problems > self.rule.output_retries:
            return self._fail(failed)
        told = problem.encode(errors="replace")[:MOST_TOLD].decode(errors="ignore")
        return self._ask_again(_MISFIT.format(told), failed, count)

    def _ask_again(self, why: str, instead: TurnFailed | None, count: Count) -> TurnAction:
        self.messages += (user_message(why),)
        action = self._ask(count)
        return replace(action, instead=instead) if isinstance(action, AskModel) else action

    def _ask(self, count: Count) -> TurnAction:
        def size(earlier: tuple[Message, ...]) -> int:
            return count(self._request(earlier))

        history, policy = self.history, self.rule.history
        room = self.rule.unshortened_room
        request = self._request(history.seen())
        tokens = count(request)
        if room is None or (tokens <= room and not self._is_compaction_due()):
            return self._send(AskModel, request, tokens)
        if policy is HistoryPolicy.DROP_OLDEST:
            history.drop(history.excess(size, room))
        elif policy is HistoryPolicy.SUMMARISE and self.rule.compaction is not None:
            return self._compact(self.rule.compaction, room, count)
        elif policy is HistoryPolicy.SUMMARISE and history.messages and size(()) <= room:
            # Down to half the room, so that not every step needs another summary.
            return self._ask_for_summary(history.excess(size, room // 2), count)
        return self._ask_as_it_is(count)

    def _is_compaction_due(self) -> bool:
        rule = self.rule.compaction
        is_wanted = rule is not None and rule.is_due and self.compacted is None
        return is_wanted and bool(self.history.seen())

    def _ask_as_it_is(self, count: Count) -> TurnAction:
        request = self._request(self.history.seen())
        return self._send(AskModel, request, count(request))

    def _ask_for_summary(self, gone: int, count: Count) -> TurnAction:
        earlier = user_message(self.history.begin_folding(gone))
        request = ModelRequest(self.rule.model, (earlier,), self.rule.settings, _SUMMARY_SYSTEM)
        return self._send(Summarise, request, count(request))

    def _compact(self, compaction: CompactionRule, room: int, count: Count) -> TurnAction:
        earlier = self.history.seen()
        line = (*earlier, *self.messages)

        def size(messages: tuple[Message, ...]) -> int:
            return count(replace(self._request(()), messages=messages))

        pinned = {**compaction.pinned, **self.pins}
        plan = plan_compaction(
            line, len(earlier), pinned, size, room, compaction.path_patterns, compaction.is_due
        )
        left = (user_message(plan.opening("")), *line[plan.cut :])
        if self.rule.context_tokens is None and size(left) > room:
            # A summary would be bought before every call, and the model may well take all of it.
            return self._ask_as_it_is(count)
        self.compacting = plan
        most = min(self.rule.settings.max_tokens, max(1, room // _SUMMARY_PART))
        settings = replace(self.rule.settings, max_tokens=most)
        request = ModelRequest(self.rule.model, (), settings, _COMPACTION_SYSTEM)
        for text in plan.transcripts(line):
            request = replace(request, messages=(user_message(text),))
            if count(request) <= room:
                break
        return self._send(Summarise, request, count(request))

    def _send(
        self, action: type[AskModel | Summarise], request: ModelRequest, tokens: int
    ) -> TurnAction:
        phase, steps = _CALLS[action]
        step = self.spent.begin_call(self.rule, tokens, steps)
        if isinstance(step, TurnFailed):
            return self._fail(step)
        self.phase = phase
        return action(request, step, tokens)

    def _request(self, earlier: tuple[Message, ...]) -> ModelRequest:
        rule = self.rule
        return ModelRequest(
            rule.model,
            earlier + self.messages,
            rule.settings,
            rule.system,
            rule.tools,
            rule.output,
        )

    def _open_calls(self) -> tuple[ToolCall, ...]:
        last = self.messages[-1]
        return last.tool_calls if isinstance(last, AssistantMessage) else ()

    def _fail(self, failed: TurnFailed) -> TurnFailed:
        self.phase = TurnPhase.OVER
        return failed

    def _expect(self, event: str, *phases: TurnPhase) -> None:
        if self.phase not in phases:
            due = " or ".join(phases)
            raise BugError(f"{event} is for a turn that is {due}; this one is {self.phase}")
