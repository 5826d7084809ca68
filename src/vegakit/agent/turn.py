"""The turn: ask, call what the answer wants called, ask again, until there is an answer.

| phase       | event                                   | next    | action                         |
|-------------|-----------------------------------------|---------|--------------------------------|
| new         | start                                   | asking  | AskModel                       |
| asking      | reply with calls that can be made       | calling | CallTools, those               |
| asking      | reply with calls, none can be made      | asking  | AskModel, told of the mistakes |
| asking      | reply with text that passes the check   | over    | Finished                       |
| asking      | reply with text that does not           | asking  | AskModel, told of the problem  |
| asking      | reply without text or calls, the first  | asking  | AskModel, told so              |
| asking      | reply with calls, no tools were offered | as one without text or calls             |
| asking      | reply cut off or filtered, model failed | over    | Failed                         |
| calling     | results of all of them                  | asking  | AskModel, told the results     |
| summarising | summary                                 | asking  | AskModel                       |
| summarising | the same, or an empty summary           | over    | Failed                         |

Where the table says AskModel, a bound that would be passed makes it Failed, and a conversation that
outgrew the window makes it, by the rule's policy, Failed, AskModel without the oldest exchanges, or
Summarise (then summarising). The bounds stand in `spent`, what is dropped in `history`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from vegakit.agent.actions import (
    AskModel,
    CallTools,
    Failed,
    Finished,
    Summarise,
    ToolOutcome,
    TurnAction,
)
from vegakit.agent.failures import (
    broken_contract,
    call_failed,
    keeps_failing,
    nothing_said,
    unusable,
)
from vegakit.agent.history import History, said_by_user
from vegakit.agent.rule import HistoryPolicy, TurnRule
from vegakit.agent.spent import Spent
from vegakit.agent.tool_round import failures_in_a_row, mistakes, planned, repeated, results_of
from vegakit.conversation import (
    AssistantMessage,
    Conversation,
    Message,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
)
from vegakit.errors import BugError
from vegakit.events import Failed as CallFailed
from vegakit.events import Refused, Unknown

__all__ = ["Check", "Count", "Turn", "TurnPhase"]

Count: TypeAlias = Callable[[ModelRequest], int]
"""No fewer tokens than the request will be billed as input."""
Check: TypeAlias = Callable[[str], str | None]
"""What is wrong with an answer, in words the model can act on."""

_SUMMARY_SYSTEM = (
    "You summarise the earlier part of a conversation for the assistant who goes on with it. Keep "
    "goals, decisions, facts, names, numbers and open questions. Answer with the summary only."
)
_EMPTY = "Your last answer was empty. Answer in words, or call a tool."
_NO_TOOLS = "Your last answer was empty. Answer in words; there are no tools here."


class TurnPhase(StrEnum):
    NEW = "new"
    ASKING = "asking"
    CALLING = "calling"
    SUMMARISING = "summarising"
    OVER = "over"


_CALLS = {AskModel: (TurnPhase.ASKING, 1), Summarise: (TurnPhase.SUMMARISING, 2)}
"""The phase that awaits the answer, and how many steps must be left: a summary is of use only to
the call after it."""


class Turn(Struct, omit_defaults=True):
    """`said` is what was said since `start`."""

    rule: TurnRule
    phase: TurnPhase = TurnPhase.NEW
    history: History = field(default_factory=History)
    said: tuple[Message, ...] = ()
    spent: Spent = field(default_factory=Spent)
    problems: int = 0
    empty_replies: int = 0
    failing: dict[str, int] = {}

    @property
    def conversation(self) -> Conversation:
        """All that the model sees now; once the turn is over, the history of the next."""
        return Conversation((*self.history.seen(), *self.said))

    def start(
        self, parts: Sequence[UserPart], history: Sequence[Message] = (), *, count: Count
    ) -> TurnAction:
        self._expect("start", TurnPhase.NEW)
        self.history = History(tuple(history))
        self.said = (UserMessage(tuple(parts)),)
        return self._ask(count)

    def on_reply(
        self, reply: ModelReply, check: Check | None = None, *, count: Count
    ) -> TurnAction:
        self._expect("on_reply", TurnPhase.ASKING)
        self.spent.on_answered(reply.usage)
        if failed := unusable(self.rule, reply):
            return self._fail(failed)
        if reply.message.tool_calls and self.rule.tools:
            return self._on_calls(reply.message, count)
        if reply.message.tool_calls or not reply.message.text.strip():
            return self._on_empty(count)
        return self._on_text(reply.message, check, count)

    def on_tools(self, results: Mapping[int, ToolOutcome], *, count: Count) -> TurnAction:
        """By index in the answer: all that were asked for, in any order."""
        self._expect("on_tools", TurnPhase.CALLING)
        due = {plan.index for plan in planned(self._open_calls(), self.rule.tools)}
        if set(results) != due:
            raise BugError(f"results of calls {sorted(due)} were due; got {sorted(results)}")
        return self._on_results(results, count)

    def tool_name(self, index: int) -> str:
        """Of a call in the answer that is being worked off."""
        return self._open_calls()[index].name

    def on_summary(self, reply: ModelReply, *, count: Count) -> TurnAction:
        self._expect("on_summary", TurnPhase.SUMMARISING)
        self.spent.on_answered(reply.usage)
        if failed := unusable(self.rule, reply):
            return self._fail(failed)
        text = reply.message.text.strip()
        if not text:
            return self._fail(nothing_said(self.rule))
        self.history.on_summary(text)
        return self._ask_as_it_is(count)

    def on_model_failed(self, outcome: CallFailed | Refused | Unknown) -> Failed:
        """The gate has no answer and, after its retries, will have none."""
        self._expect("on_model_failed", TurnPhase.ASKING, TurnPhase.SUMMARISING)
        return self._fail(call_failed(outcome))

    def _on_calls(self, message: AssistantMessage, count: Count) -> TurnAction:
        calls, rule = message.tool_calls, self.rule
        if failed := self.spent.begin_tools(rule, len(calls)):
            return self._fail(failed)
        self.said += (message,)
        if plan := planned(calls, rule.tools):
            self.phase = TurnPhase.CALLING
            return CallTools(plan, self.spent.steps - 1)
        return self._on_results({}, count)

    def _on_results(self, outcomes: Mapping[int, ToolOutcome], count: Count) -> TurnAction:
        calls, rule = self._open_calls(), self.rule
        results = results_of(calls, {**mistakes(calls, rule.tools), **outcomes})
        self.said += (ToolMessage(results),)
        self.failing = failures_in_a_row(self.failing, calls, results)
        if result := repeated(self.failing, rule.identical_failures, calls, results):
            return self._fail(keeps_failing(rule, result))
        return self._ask(count)

    def _on_empty(self, count: Count) -> TurnAction:
        """The answer is not kept: providers refuse a conversation with an empty message."""
        self.empty_replies += 1
        if self.empty_replies > 1:
            return self._fail(nothing_said(self.rule))
        return self._ask_again(_EMPTY if self.rule.tools else _NO_TOOLS, count)

    def _on_text(self, message: AssistantMessage, check: Check | None, count: Count) -> TurnAction:
        self.said += (message,)
        problem = check(message.text) if check else None
        if problem is None:
            self.phase = TurnPhase.OVER
            usage, steps = self.spent.usage, self.spent.steps
            return Finished(message.text, message, usage, steps, self.history.dropped)
        self.problems += 1
        if self.problems > self.rule.output_retries:
            return self._fail(broken_contract(self.rule, problem))
        return self._ask_again(f"Your answer does not fit: {problem}. Answer again.", count)

    def _ask_again(self, why: str, count: Count) -> TurnAction:
        self.said += (said_by_user(why),)
        return self._ask(count)

    def _ask(self, count: Count) -> TurnAction:
        def size(earlier: tuple[Message, ...]) -> int:
            return count(self._request(earlier))

        history, room, policy = self.history, self.rule.input_room, self.rule.history
        request = self._request(history.seen())
        tokens = count(request)
        if room is None or tokens <= room:
            return self._send(AskModel, request, tokens)
        if policy is HistoryPolicy.DROP_OLDEST:
            history.drop(history.excess(size, room))
        elif policy is HistoryPolicy.SUMMARISE and history.messages and size(()) <= room:
            # Down to half the room, so that not every step needs another summary.
            return self._ask_for_summary(history.excess(size, room // 2), count)
        return self._ask_as_it_is(count)

    def _ask_as_it_is(self, count: Count) -> TurnAction:
        request = self._request(self.history.seen())
        return self._send(AskModel, request, count(request))

    def _ask_for_summary(self, gone: int, count: Count) -> TurnAction:
        earlier = said_by_user(self.history.begin_folding(gone))
        request = ModelRequest(self.rule.model, (earlier,), self.rule.settings, _SUMMARY_SYSTEM)
        return self._send(Summarise, request, count(request))

    def _send(
        self, action: type[AskModel | Summarise], request: ModelRequest, tokens: int
    ) -> TurnAction:
        phase, steps = _CALLS[action]
        step = self.spent.begin_call(self.rule, tokens, steps)
        if isinstance(step, Failed):
            return self._fail(step)
        self.phase = phase
        return action(request, step, tokens)

    def _request(self, earlier: tuple[Message, ...]) -> ModelRequest:
        rule = self.rule
        return ModelRequest(
            rule.model, (*earlier, *self.said), rule.settings, rule.system, rule.tools, rule.output
        )

    def _open_calls(self) -> tuple[ToolCall, ...]:
        last = self.said[-1]
        return last.tool_calls if isinstance(last, AssistantMessage) else ()

    def _fail(self, failed: Failed) -> Failed:
        self.phase = TurnPhase.OVER
        return failed

    def _expect(self, event: str, *phases: TurnPhase) -> None:
        if self.phase not in phases:
            due = " or ".join(phases)
            raise BugError(f"{event} is for a turn that is {due}; this one is {self.phase}")
