"""A turn from its prompt to its answer."""

from typing import Any

import pytest

from tests.agent.turns import PROMPT, begin, call, calls, count, failure, rule, said, text, user
from vegakit import errors
from vegakit.agent import (
    AskModel,
    CallTools,
    DroppedHistory,
    Finished,
    ToolOutcome,
    Turn,
    TurnFailed,
)
from vegakit.conversation import (
    Conversation,
    Finish,
    ModelReply,
    ModelRequest,
    OutputSpec,
    Reasoning,
    Text,
    ToolMessage,
    ToolResult,
    Usage,
)
from vegakit.errors import BugError, ErrorClass, InvalidRuleError
from vegakit.events import Failed as CallFailed, Refused, Unknown
from vegakit.money import Money

NO_ERROR = ToolOutcome("3")


def test_the_first_request_holds_all_that_the_rule_says() -> None:
    """System, tools, output and settings go along with history and prompt."""
    output = OutputSpec("Sum", {"type": "object"})
    made = rule(system="Add.", output=output)
    action = Turn(made).start(PROMPT, [user("before"), said("yes")], count=count)
    messages = (user("before"), said("yes"), user("go"))
    expected = ModelRequest("test:m", messages, made.settings, "Add.", made.tools, output)
    assert action == AskModel(expected, 0, count(expected))


def test_a_text_finishes_the_turn() -> None:
    """The answer, its message, what was used and how many calls it took."""
    action = begin().on_reply(text("done"), count=count)
    assert action == Finished("done", said("done"), Usage(10, 5), 1, DroppedHistory())


def test_results_go_back_by_index_whatever_came_first() -> None:
    """Two calls without ids of the same tool: order is all that tells them apart."""
    turn = begin()
    wanted = calls(call("add", {"a": 1}), call("add", {"a": 2}))
    action = turn.on_reply(wanted, count=count)
    assert isinstance(action, CallTools)
    assert [(plan.index, plan.call.arguments) for plan in action.calls] == [
        (0, {"a": 1}),
        (1, {"a": 2}),
    ]
    asked = turn.on_tools({1: ToolOutcome("two"), 0: ToolOutcome("one")}, count=count)
    told = ToolMessage((ToolResult("", "add", "one"), ToolResult("", "add", "two")))
    assert isinstance(asked, AskModel)
    assert (asked.request.messages[-2:], asked.step, action.step) == ((wanted.message, told), 1, 0)


def test_calls_come_before_text() -> None:
    """A model that speaks while it calls is not done, whatever it gives as its reason to stop."""
    turn = begin()
    reply = calls(call(), finish=Finish.STOP)
    spoken = ModelReply(
        type(reply.message)((Text("Let me add."), *reply.message.parts)), reply.usage, Finish.STOP
    )
    assert isinstance(turn.on_reply(spoken, count=count), CallTools)


def test_the_conversation_is_the_next_turns_history() -> None:
    """All that was said, the answer last."""
    turn = begin(history=(user("before"), said("yes")))
    turn.on_reply(calls(call(ref="c1")), count=count)
    turn.on_tools({0: NO_ERROR}, count=count)
    turn.on_reply(text("3"), count=count)
    told = ToolMessage((ToolResult("c1", "add", "3"),))
    before = (user("before"), said("yes"))
    asked = (user("go"), calls(call(ref="c1")).message)
    assert turn.conversation == Conversation((*before, *asked, told, said("3")))


def test_usage_is_summed_over_all_calls() -> None:
    """A call the provider said nothing about adds nothing to what was reported."""
    turn = begin()
    turn.on_reply(calls(call()), count=count)
    turn.on_tools({0: NO_ERROR}, count=count)
    turn.on_reply(calls(call()), count=count)
    turn.on_tools({0: NO_ERROR}, count=count)
    action = turn.on_reply(text("done", usage=None), count=count)
    assert isinstance(action, Finished)
    assert (action.usage, action.steps) == (Usage(20, 10), 3)


@pytest.mark.parametrize("reply", [text("half a"), calls(call())], ids=["text", "tool call"])
def test_a_reply_cut_by_its_limit_is_no_answer(reply: ModelReply) -> None:
    """Neither is half of a tool call a call; the error says what the limit was and what to do."""
    cut = ModelReply(reply.message, reply.usage, Finish.LENGTH)
    turn = begin()
    error, reason = failure(turn.on_reply(cut, count=count))
    assert error == "OutputTruncated"
    assert "max_tokens=100; set max_tokens higher, for example 200" in reason
    assert turn.messages == (user("go"),)


def test_a_cut_reply_is_told_to_the_model_as_often_as_the_rule_says() -> None:
    """Its text stays and is a part of the answer; half a call is not made."""
    turn = begin(rule(truncated_replies=2))
    asked = turn.on_reply(text("one, ", finish=Finish.LENGTH), count=count)
    assert isinstance(asked, AskModel)
    assert asked.request.messages[1:-1] == (said("one,"),)
    cut = calls(call())
    asked = turn.on_reply(ModelReply(cut.message, cut.usage, Finish.LENGTH), count=count)
    assert isinstance(asked, AskModel)
    assert "cut at 100 tokens" in str(asked.request.messages[-1])
    assert "none of its tool calls was made" in str(asked.request.messages[-1])
    action = turn.on_reply(text("two"), count=count)
    assert isinstance(action, Finished)
    assert action.output_text == "one, two"


def test_cut_replies_in_a_row_fail_the_turn() -> None:
    """A whole answer in between begins the count anew."""
    turn = begin(rule(truncated_replies=1))
    cut = text("half a", finish=Finish.LENGTH)
    turn.on_reply(cut, count=count)
    turn.on_reply(calls(call()), count=count)
    turn.on_tools({0: NO_ERROR}, count=count)
    assert isinstance(turn.on_reply(cut, count=count), AskModel)
    assert failure(turn.on_reply(cut, count=count))[0] == "OutputTruncated"


def test_a_filtered_reply_fails_the_turn() -> None:
    """Even if it has text."""
    reply = text("I cannot", finish=Finish.CONTENT_FILTER)
    error, reason = failure(begin().on_reply(reply, count=count))
    assert (error, "content filter of test:m" in reason) == ("AgentFailed", True)


@pytest.mark.parametrize("nothing", [text(""), text(" \n")], ids=["no part", "blank"])
def test_an_empty_reply_is_asked_for_once_more(nothing: ModelReply) -> None:
    """It is not kept, since no provider takes an empty message back; the second one fails."""
    turn = begin()
    asked = turn.on_reply(nothing, count=count)
    assert isinstance(asked, AskModel)
    assert asked.request.messages == (
        user("go"),
        user("Your last answer was empty. Answer in words, or call a tool."),
    )
    error, reason = failure(turn.on_reply(nothing, count=count))
    assert (error, "neither text nor a tool call" in reason) == ("AgentFailed", True)


def test_thoughts_alone_are_an_empty_reply() -> None:
    """A model that only thought has said nothing."""
    reply = text("")
    thought = ModelReply(type(reply.message)((Reasoning("hm"),)), reply.usage)
    assert isinstance(begin().on_reply(thought, count=count), AskModel)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Refused("BudgetExceeded", "no money"), TurnFailed("BudgetExceeded", "no money")),
        (CallFailed(ErrorClass.TIMEOUT, "slow"), TurnFailed("Timeout", "slow", is_outage=True)),
        (
            CallFailed(ErrorClass.RATE_LIMIT, "429"),
            TurnFailed("RateLimited", "429", is_outage=True),
        ),
        (CallFailed(ErrorClass.CONTEXT_LENGTH, "long"), TurnFailed("LimitReached", "long")),
        (CallFailed(ErrorClass.SERVER, "500"), TurnFailed("AgentFailed", "500", is_outage=True)),
    ],
)
def test_a_failed_call_ends_the_turn_by_its_name(
    outcome: Refused | CallFailed, expected: TurnFailed
) -> None:
    """Refusals keep their name; the world's failures get the language's."""
    turn = begin()
    assert turn.on_model_failed(outcome) == expected
    assert issubclass(getattr(errors, expected.error), errors.CatchableError)


def test_a_call_that_was_cut_off_says_that_it_is_charged() -> None:
    """Nobody knows its answer."""
    error, reason = failure(begin().on_model_failed(Unknown(Money(5))))
    assert (error, "charged in full" in reason) == ("AgentFailed", True)


def test_an_event_out_of_place_is_a_bug() -> None:
    """Also after the end, which comes once."""
    turn = begin()
    with pytest.raises(BugError, match="on_tools is for a turn that is calling; this one is aski"):
        turn.on_tools({}, count=count)
    turn.on_reply(text("done"), count=count)
    with pytest.raises(BugError, match="this one is over"):
        turn.on_reply(text("again"), count=count)
    with pytest.raises(BugError, match="asking or summarising; this one is over"):
        turn.on_model_failed(Unknown(Money(0)))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"max_steps": 0}, "max_steps is at least 1; got 0"),
        ({"max_tool_calls": -1}, "max_tool_calls is at least 0"),
        ({"max_total_tokens": 0}, "max_total_tokens is at least 1"),
        ({"identical_failures": 0}, "identical_failures is at least 1"),
        ({"output_retries": -1}, "output_retries is at least 0"),
        ({"context_tokens": 0}, "context_tokens is at least 1"),
        ({"max_tokens": 0}, "max_tokens is at least 1"),
        ({"tools": rule().tools * 2}, "two or more called add, find"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused(broken: dict[str, Any], message: str) -> None:
    """When it is made."""
    with pytest.raises(InvalidRuleError, match=message):
        rule(**broken)
