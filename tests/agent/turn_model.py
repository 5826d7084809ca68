"""The rules of a turn told from its log: no phases, only what happened so far.

The model looks at the whole log each time and says what must come next. It counts by summing the
log, drops exchanges one by one, and finds failures in a row by going backwards.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.agent.turns import letters, user
from vegakit.agent import HistoryPolicy, TurnRule
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Message,
    ModelReply,
    ToolCall,
    UserMessage,
)

SUMMARY_SIZE = 1
"""The tokens of a request for a summary, whatever it holds."""

Failure = tuple[str, str, str]


@dataclass(frozen=True)
class Expected:
    """`kind` is an action or the name of an error; `messages` what an AskModel holds."""

    kind: str
    messages: tuple[Message, ...] = ()
    indexes: tuple[int, ...] = ()


@dataclass
class Log:
    rule: TurnRule
    exchanges: list[list[Message]]
    messages: list[Message]
    summary: list[Message] = field(default_factory=list)
    kept_from: int = 0
    fold_to: int = 0
    sent: list[int] = field(default_factory=list)
    """The most tokens each model call could take."""
    used: list[int] = field(default_factory=list)
    called: list[int] = field(default_factory=list)
    rounds: list[list[Failure]] = field(default_factory=list)
    problems: int = 0
    empties: int = 0

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.rule.tools]

    def earlier(self, start: int) -> list[Message]:
        return [*self.summary, *(m for exchange in self.exchanges[start:] for m in exchange)]

    def size(self, start: int) -> int:
        return sum(letters(m) for m in [*self.earlier(start), *self.messages])

    def first_start(self, room: int) -> int:
        starts = range(self.kept_from, len(self.exchanges))
        return next((s for s in starts if self.size(s) <= room), len(self.exchanges))

    def ask(self, *, may_summarise: bool = True) -> Expected:
        window, most = self.rule.context_tokens, self.rule.settings.max_tokens
        if window is not None and self.size(self.kept_from) + most > window:
            room = window - most
            if self.rule.history is HistoryPolicy.DROP_OLDEST:
                self.kept_from = self.first_start(room)
            elif (
                self.rule.history is HistoryPolicy.SUMMARISE
                and may_summarise
                and self.kept_from < len(self.exchanges)
                and sum(map(letters, self.messages)) <= room
            ):
                self.fold_to = self.first_start(room // 2)
                return self.call("Summarise", SUMMARY_SIZE, steps=2)
        messages = (*self.earlier(self.kept_from), *self.messages)
        return self.call("AskModel", sum(map(letters, messages)), messages=messages)

    def call(
        self, kind: str, size: int, messages: tuple[Message, ...] = (), steps: int = 1
    ) -> Expected:
        rule, most = self.rule, size + self.rule.settings.max_tokens
        bounds = (
            (len(self.sent) + steps, rule.max_steps),
            (most, rule.context_tokens),
            (sum(self.used) + most, rule.max_total_tokens),
        )
        if any(limit is not None and amount > limit for amount, limit in bounds):
            return Expected("LimitReached")
        self.sent.append(most)
        return Expected(kind, messages)

    def answered(self, reply: ModelReply) -> Expected | None:
        usage = reply.usage
        self.used.append(
            self.sent[-1] if usage is None else usage.input_tokens + usage.output_tokens
        )
        endings = {Finish.LENGTH: "OutputTruncated", Finish.CONTENT_FILTER: "AgentFailed"}
        return Expected(endings[reply.finish]) if reply.finish in endings else None

    def reply(self, reply: ModelReply, problem: str | None) -> Expected:
        if (ended := self.answered(reply)) is not None:
            return ended
        calls = [part for part in reply.message.parts if isinstance(part, ToolCall)]
        if calls:
            return self.wants(reply.message, calls)
        if not reply.message.text.strip():
            self.empties += 1
            return Expected("AgentFailed") if self.empties == 2 else Expected("again")
        self.messages.append(reply.message)
        if problem is None:
            return Expected("Finished")
        self.problems += 1
        spent = self.problems > self.rule.output_retries
        return Expected("ContractViolated") if spent else Expected("again")

    def wants(self, message: AssistantMessage, calls: list[ToolCall]) -> Expected:
        if sum(self.called) + len(calls) > self.rule.max_tool_calls:
            return Expected("LimitReached")
        if len(self.sent) == self.rule.max_steps:
            return Expected("LimitReached")
        self.called.append(len(calls))
        self.messages.append(message)
        good = [i for i, c in enumerate(calls) if self.possible(c)]
        return Expected("CallTools", indexes=tuple(good)) if good else Expected("results")

    def possible(self, call: ToolCall) -> bool:
        return call.name in self.names and isinstance(call.arguments, dict)

    def results(self, failures: list[Failure]) -> Expected | None:
        self.rounds.append(failures)
        rows = [self.in_a_row(failure) for failure in failures]
        if max(rows, default=0) >= self.rule.identical_failures:
            return Expected("ToolFailed")
        return None

    def in_a_row(self, failure: Failure) -> int:
        times = 0
        for failures in reversed(self.rounds):
            if failure not in failures:
                break
            times += failures.count(failure)
        return times

    def summarised(self, reply: ModelReply, text: str) -> Expected:
        if (ended := self.answered(reply)) is not None:
            return ended
        if not text.strip():
            return Expected("AgentFailed")
        self.summary = [user(f"Summary of the earlier conversation: {text.strip()}")]
        self.kept_from = self.fold_to
        return self.ask(may_summarise=False)


def failure_of(call: ToolCall, content: str) -> Failure:
    return call.name, json.dumps(call.arguments, sort_keys=True), content


def exchanges_of(messages: Sequence[Message]) -> list[list[Message]]:
    starts = [i for i, m in enumerate(messages) if isinstance(m, UserMessage)]
    cuts = sorted({0, *starts, len(messages)})
    return [list(messages[a:b]) for a, b in pairwise(cuts)]
