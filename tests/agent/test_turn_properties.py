"""Turns of random models, tools and faults, one after the other, against the model of the log."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.agent import turns
from tests.agent.turn_model import SUMMARY_SIZE, Expected, Log, exchanges_of, failure_of
from tests.agent.turns import restored, user
from vegakit.agent import (
    AskModel,
    CallTools,
    DroppedHistory,
    Finished,
    HistoryPolicy,
    Summarise,
    ToolOutcome,
    Turn,
    TurnAction,
    TurnFailed,
    TurnRule,
)
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Message,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
)
from vegakit.errors import BugError, ErrorClass
from vegakit.events import Failed as CallFailed, Refused

MAX_TOKENS = 20

RULES = st.builds(
    TurnRule,
    model=st.just("test:m"),
    settings=st.just(ModelSettings(MAX_TOKENS)),
    tools=st.just((turns.ADD, turns.FIND)),
    max_steps=st.integers(1, 12),
    max_tool_calls=st.integers(0, 24),
    max_total_tokens=st.none() | st.none() | st.integers(30, 3000),
    identical_failures=st.integers(1, 3),
    output_retries=st.integers(0, 2),
    history=st.sampled_from(HistoryPolicy),
    context_tokens=st.none() | st.integers(40, 400),
)
TEXTS = st.sampled_from(["ok", "a longer answer", "the longest answer of them all"])
CALLS = st.builds(
    ToolCall,
    id=st.sampled_from(["", "c1", "c2"]),
    name=st.sampled_from(["add", "add", "find", "made_up"]),
    arguments=st.sampled_from([{}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2}, [1], "{"]),
)
OUTCOMES = st.sampled_from(
    [
        *[ToolOutcome("no such file", is_error=True)] * 3,
        ToolOutcome("too late", is_error=True),
        ToolOutcome("no such file"),
        ToolOutcome("12345" * 8),
    ]
)
SUMMARIES = st.sampled_from(["Short.", "It went on and on.", "12345" * 8, " "])
ENDS = st.sampled_from([*[Finish.STOP] * 20, *Finish])
FAULTS = st.sampled_from(
    [*[None] * 8, Refused("BudgetExceeded", ""), CallFailed(ErrorClass.SERVER, "")]
)
SHARES = st.none() | st.tuples(st.integers(0, 4), st.integers(0, 4))
"""How much of what a call may take it took, in quarters of input and output; None is unsaid."""
PROBLEMS = st.sampled_from([None, None, "too short"])


def count(request: ModelRequest) -> int:
    if request.system.startswith("You summarise"):
        return SUMMARY_SIZE
    return turns.count(request)


class TurnAgainstLog(RuleBasedStateMachine):
    turn: Turn
    log: Log
    action: TurnAction
    endings: int

    @initialize(made=RULES, prompt=TEXTS)
    def first_turn(self, made: TurnRule, prompt: str) -> None:
        self.begin(made, prompt, ())

    @precondition(lambda self: isinstance(self.action, Finished | TurnFailed))
    @rule(made=RULES, prompt=TEXTS)
    def next_turn(self, made: TurnRule, prompt: str) -> None:
        """Whatever became of the last one: a failed turn's conversation is whole too."""
        self.begin(made, prompt, self.turn.conversation.messages)

    def begin(self, made: TurnRule, prompt: str, history: tuple[Message, ...]) -> None:
        self.turn = Turn(made)
        self.log = Log(made, exchanges_of(history), [user(prompt)])
        self.endings = 0
        self.tell(lambda turn: turn.start((Text(prompt),), history, count=count), self.log.ask())

    def tell(self, event: Callable[[Turn], TurnAction], expected: Expected) -> None:
        """A turn that was stored and loaded does the same and becomes the same."""
        copy = restored(self.turn)
        self.action = event(self.turn)
        assert event(copy) == self.action
        assert copy == self.turn
        kind = (
            self.action.error if isinstance(self.action, TurnFailed) else type(self.action).__name__
        )
        assert kind == expected.kind
        if isinstance(self.action, AskModel):
            assert self.action.request.messages == expected.messages
        if isinstance(self.action, CallTools):
            assert tuple(plan.index for plan in self.action.calls) == expected.indexes
        if isinstance(self.action, AskModel | Summarise):
            assert self.action.step == len(self.log.sent) - 1
        self.endings += isinstance(self.action, Finished | TurnFailed)

    def tell_reply(self, reply: ModelReply, problem: str | None = None) -> None:
        expected = self.log.reply(reply, problem)
        probe = restored(self.turn)
        probe.on_reply(reply, lambda _: problem, count=count)
        added = probe.messages[len(self.log.messages) :]
        if expected.kind == "again":
            (why,) = added
            assert problem is None or problem in str(why)
            self.log.messages.append(why)
            expected = self.log.ask()
        elif expected.kind == "results":
            (told,) = added
            expected = self.recorded(told, reply.message.tool_calls, {})
        self.tell(lambda turn: turn.on_reply(reply, lambda _: problem, count=count), expected)

    def recorded(
        self, told: Message, calls: tuple[ToolCall, ...], given: dict[int, ToolOutcome]
    ) -> Expected:
        """Each call has its one result in its place: what the tool gave, or a mistake."""
        assert isinstance(told, ToolMessage)
        assert [(r.id, r.name) for r in told.results] == [(c.id, c.name) for c in calls]
        for index, result in enumerate(told.results):
            wanted = given.get(index, ToolOutcome(result.content, True))
            assert (result.content, result.is_error) == (wanted.content, wanted.is_error)
        pairs = zip(calls, told.results, strict=True)
        self.log.messages.append(told)
        ended = self.log.results([failure_of(c, r.content) for c, r in pairs if r.is_error])
        return ended or self.log.ask()

    def usage(self, shares: tuple[int, int] | None) -> Usage | None:
        if shares is None:
            return None
        room = self.log.sent[-1] - MAX_TOKENS
        return Usage(room * shares[0] // 4, MAX_TOKENS * shares[1] // 4)

    @precondition(lambda self: isinstance(self.action, AskModel))
    @rule(text=TEXTS, problem=PROBLEMS, finish=ENDS, shares=SHARES)
    def model_speaks(self, text: str, problem: str | None, finish: Finish, shares: Any) -> None:
        message = AssistantMessage((Text(text),))
        self.tell_reply(ModelReply(message, self.usage(shares), finish), problem)

    @precondition(lambda self: isinstance(self.action, AskModel))
    @rule(blank=st.sampled_from([(), (Text(" "),)]), shares=SHARES)
    def model_says_nothing(self, blank: tuple[Text, ...], shares: Any) -> None:
        self.tell_reply(ModelReply(AssistantMessage(blank), self.usage(shares)))

    @precondition(lambda self: isinstance(self.action, AskModel))
    @rule(calls=st.lists(CALLS, min_size=1, max_size=4), finish=ENDS, shares=SHARES)
    def model_calls(self, calls: list[ToolCall], finish: Finish, shares: Any) -> None:
        self.tell_reply(ModelReply(AssistantMessage(tuple(calls)), self.usage(shares), finish))

    @precondition(lambda self: isinstance(self.action, AskModel) and self.log.called)
    @rule(back=st.integers(0, 2), shares=SHARES)
    def model_calls_the_same_again(self, back: int, shares: Any) -> None:
        """The last calls, or some before them, so that a row of failures is broken and resumed."""
        rounds = [m for m in self.log.messages if isinstance(m, AssistantMessage) and m.tool_calls]
        self.tell_reply(ModelReply(rounds[-1 - back % len(rounds)], self.usage(shares)))

    @precondition(lambda self: isinstance(self.action, CallTools))
    @rule(data=st.data(), backwards=st.booleans())
    def tools_answer(self, data: st.DataObject, backwards: bool) -> None:
        assert isinstance(self.action, CallTools)
        order = sorted((plan.index for plan in self.action.calls), reverse=backwards)
        given = {index: data.draw(OUTCOMES) for index in order}
        probe = restored(self.turn)
        probe.on_tools(given, count=count)
        message = self.turn.messages[-1]
        assert isinstance(message, AssistantMessage)
        expected = self.recorded(probe.messages[len(self.log.messages)], message.tool_calls, given)
        self.tell(lambda turn: turn.on_tools(given, count=count), expected)

    @precondition(lambda self: isinstance(self.action, Summarise))
    @rule(text=SUMMARIES, finish=ENDS, shares=SHARES)
    def summary_comes(self, text: str, finish: Finish, shares: Any) -> None:
        reply = ModelReply(AssistantMessage((Text(text),)), self.usage(shares), finish)
        expected = self.log.summarised(reply, text)
        self.tell(lambda turn: turn.on_summary(reply, count=count), expected)

    @precondition(lambda self: isinstance(self.action, AskModel | Summarise))
    @rule(fault=FAULTS)
    def gate_fails(self, fault: Refused | CallFailed | None) -> None:
        """Now and then."""
        if fault is not None:
            name = fault.error if isinstance(fault, Refused) else "AgentFailed"
            self.tell(lambda turn: turn.on_model_failed(fault), Expected(name))

    @precondition(lambda self: isinstance(self.action, Finished | TurnFailed))
    @rule()
    def nothing_comes_after_the_end(self) -> None:
        reply = ModelReply(AssistantMessage((Text("late"),)), None)
        for event in (
            lambda: self.turn.start((), count=count),
            lambda: self.turn.on_reply(reply, count=count),
            lambda: self.turn.on_tools({}, count=count),
            lambda: self.turn.on_summary(reply, count=count),
        ):
            with pytest.raises(BugError):
                event()

    @invariant()
    def bounds_hold(self) -> None:
        made, spent = self.turn.rule, self.turn.spent
        assert spent.steps == len(self.log.sent) <= made.max_steps
        assert spent.tool_calls == sum(self.log.called) <= made.max_tool_calls
        assert spent.tokens == sum(self.log.used)
        assert made.max_total_tokens is None or spent.tokens <= made.max_total_tokens

    @invariant()
    def every_call_has_its_result(self) -> None:
        messages = [*self.turn.conversation.messages]
        if isinstance(self.action, CallTools):
            messages.pop()
        for message, following in zip(messages, [*messages[1:], None], strict=True):
            if isinstance(message, AssistantMessage) and message.tool_calls:
                assert isinstance(following, ToolMessage)
                assert [r.name for r in following.results] == [c.name for c in message.tool_calls]

    @invariant()
    def what_was_dropped_is_counted(self) -> None:
        gone = self.log.exchanges[: self.log.kept_from]
        assert self.turn.history.dropped == DroppedHistory(sum(map(len, gone)), len(gone))

    @invariant()
    def it_ends_once(self) -> None:
        assert self.endings == isinstance(self.action, Finished | TurnFailed)


TestTurn = TurnAgainstLog.TestCase
