"""The tools of a turn: mistakes, failures, repetition."""

from typing import Any

import pytest

from tests.agent.turns import begin, call, calls, count, failure, restored, results, rule, text
from vegakit.agent import AskModel, CallTools, ToolOutcome, Turn, TurnAction, TurnFailed
from vegakit.conversation import ToolCall
from vegakit.errors import BugError

FAILED = ToolOutcome("no such file", is_error=True)
FINE = ToolOutcome("found")


def round_of(turn: Turn, *pairs: tuple[ToolCall, ToolOutcome]) -> TurnAction:
    turn.on_reply(calls(*(pair[0] for pair in pairs)), count=count)
    return turn.on_tools({i: pair[1] for i, pair in enumerate(pairs)}, count=count)


def test_a_tool_that_does_not_exist_is_answered_with_those_that_do() -> None:
    """Without troubling the host, when no other call is to be made."""
    turn = begin()
    assert isinstance(turn.on_reply(calls(call("ad")), count=count), AskModel)
    (result,) = results(turn)
    assert (result.is_error, result.content) == (True, "there is no tool 'ad'; there is: add, find")


def test_calls_where_no_tools_were_offered_are_an_empty_answer() -> None:
    """Asked again once, as after one: else a model that makes tools up is asked up to max_steps."""
    turn = begin(rule(tools=()))
    asked = turn.on_reply(calls(call("add")), count=count)
    assert isinstance(asked, AskModel)
    assert "there are no tools here" in str(asked.request.messages[-1])
    assert failure(turn.on_reply(calls(call("add")), count=count))[0] == "AgentFailed"


@pytest.mark.parametrize("wrong", ["{'a': 1", [1], 5, True])
def test_arguments_that_are_no_object_are_told_to_the_model(wrong: Any) -> None:
    """The tool is not called with them."""
    turn = begin()
    assert isinstance(turn.on_reply(calls(call("add", wrong)), count=count), AskModel)
    assert "the arguments of add must be one JSON object; got" in results(turn)[0].content


def test_mistakes_and_calls_of_one_answer_keep_their_places() -> None:
    """The host makes the one call there is; the results stand in the order of the calls."""
    turn = begin()
    reply = calls(call("ad", ref="x"), call("add", ref="y"), call("add", [], ref="z"))
    action = turn.on_reply(reply, count=count)
    assert isinstance(action, CallTools)
    assert [plan.index for plan in action.calls] == [1]
    turn.on_tools({1: FINE}, count=count)
    assert [(r.id, r.is_error) for r in results(turn)] == [("x", True), ("y", False), ("z", True)]


@pytest.mark.parametrize("given", [{}, {0: FINE, 1: FINE}, {1: FINE}])
def test_exactly_the_results_asked_for_are_taken(given: dict[int, ToolOutcome]) -> None:
    """One missing or one too many is the host's bug."""
    turn = begin()
    turn.on_reply(calls(call()), count=count)
    with pytest.raises(BugError, match=r"results of calls \[0\] were due; got"):
        turn.on_tools(given, count=count)


def test_a_failing_tool_is_seen_by_the_model_and_then_ends_the_turn() -> None:
    """Three times the same tool, arguments (in any order of keys) and error."""
    turn = begin()
    assert isinstance(round_of(turn, (call("find", {"a": 1, "b": 2}), FAILED)), AskModel)
    assert isinstance(round_of(turn, (call("find", {"b": 2, "a": 1}), FAILED)), AskModel)
    error, reason = failure(round_of(turn, (call("find", {"a": 1, "b": 2}), FAILED)))
    assert error == "ToolFailed"
    assert "tool find failed 3 times in a row with the same arguments: no such file" in reason
    assert len(results(turn)) == 1


@pytest.mark.parametrize(
    "other",
    [
        (call("find", {"a": 2}), FAILED),
        (call("add", {"a": 1}), FAILED),
        (call("find", {"a": 1}), ToolOutcome("disk on fire", is_error=True)),
        (call("find", {"a": 1}), ToolOutcome("no such file")),
    ],
    ids=["arguments", "tool", "error", "success"],
)
def test_another_call_or_outcome_ends_the_row(other: tuple[ToolCall, ToolOutcome]) -> None:
    """Two, something else, two: no third."""
    turn = begin()
    same = (call("find", {"a": 1}), FAILED)
    for pair in (same, same, other, same, same):
        assert isinstance(round_of(turn, pair), AskModel)


def test_other_calls_beside_it_do_not_end_the_row() -> None:
    """A model that hides a failing call among good ones is found too."""
    turn = begin()
    both = ((call("add"), FINE), (call("find"), FAILED))
    assert isinstance(round_of(turn, *both), AskModel)
    assert isinstance(round_of(turn, *reversed(both)), AskModel)
    assert isinstance(round_of(turn, *both), TurnFailed)


def test_the_same_failure_thrice_in_one_answer_is_three() -> None:
    """They are in a row."""
    turn = begin()
    assert isinstance(round_of(turn, *[(call("find"), FAILED)] * 3), TurnFailed)


def test_made_up_tools_count_as_failures() -> None:
    """A model that insists on one ends the turn."""
    turn = begin()
    turn.on_reply(calls(call("ad")), count=count)
    turn.on_reply(calls(call("ad")), count=count)
    assert failure(turn.on_reply(calls(call("ad")), count=count))[0] == "ToolFailed"


def test_a_result_that_json_cannot_hold_is_made_to_fit() -> None:
    """Half a surrogate pair, as from a file name in another encoding."""
    turn = begin()
    round_of(turn, (call(), ToolOutcome("caf\udce9", is_error=True)))
    assert results(restored(turn))[0].content == "caf?"


def test_the_same_good_call_over_and_over_is_bounded() -> None:
    """By max_tool_calls: the call that would pass it is not made."""
    turn = begin(rule(max_tool_calls=2))
    for _ in range(2):
        assert isinstance(round_of(turn, (call(), FINE)), AskModel)
    error, reason = failure(turn.on_reply(calls(call()), count=count))
    assert error == "LimitReached"
    assert "2 tool calls were made and the model wants 1 more, above max_tool_calls=2" in reason
    assert turn.spent.tool_calls == 2


def test_tools_are_not_called_when_no_step_is_left_for_their_results() -> None:
    """An effect whose result nobody would see is not performed."""
    turn = begin(rule(max_steps=2))
    round_of(turn, (call(), FINE))
    error, reason = failure(turn.on_reply(calls(call()), count=count))
    assert (error, "needs more than max_steps=2; raise max_steps" in reason) == (
        "LimitReached",
        True,
    )


def test_the_last_step_may_answer() -> None:
    """max_steps calls are made, no more and no fewer."""
    turn = begin(rule(max_steps=2))
    round_of(turn, (call(), FINE))
    assert turn.on_reply(text("done"), count=count) is not None
    assert turn.spent.steps == 2


@pytest.mark.parametrize("outcome", [FINE, FAILED])
def test_the_same_result_ends_a_turn_that_counts_results(outcome: ToolOutcome) -> None:
    """At the fifth time in a row, failed or not; another result begins anew."""
    turn = begin(rule(identical_results=5, max_steps=20))
    for _ in range(4):
        assert isinstance(round_of(turn, (call("add"), outcome)), AskModel)
    assert isinstance(round_of(turn, (call("add"), ToolOutcome("other"))), AskModel)
    for _ in range(4):
        assert isinstance(round_of(turn, (call("add"), outcome)), AskModel)
    name, reason = failure(round_of(turn, (call("add"), outcome)))
    assert name == ("ToolFailed" if outcome.is_error else "LimitReached")
    assert "5 times in a row with the same arguments" in reason


@pytest.mark.parametrize("length", [2, 3])
def test_rounds_that_come_back_in_turn_end_it(length: int) -> None:
    """A, B, A, B …: when the first of them is done for the fifth time."""
    turn = begin(rule(identical_results=5, max_steps=99))
    wanted = [call("add", {"n": at % length}) for at in range(4 * length + 1)]
    *before, last = [round_of(turn, (one, FAILED)) for one in wanted]
    assert all(isinstance(action, AskModel) for action in before)
    name, reason = failure(last)
    assert name == "ToolFailed"
    assert f"the same {length} rounds" in reason
    assert "5 times in a row" in reason


def test_something_else_in_between_is_no_circle() -> None:
    """A test that fails alike after each of many different edits."""
    turn = begin(rule(identical_results=5, max_steps=99))
    for number in range(30):
        assert isinstance(round_of(turn, (call("add", {"edit": number}), FINE)), AskModel)
        assert isinstance(round_of(turn, (call("find"), FAILED)), AskModel)


def test_something_else_in_the_same_answer_is_no_circle() -> None:
    """The same test, each time in one answer with another edit."""
    turn = begin(rule(identical_results=5, max_steps=99))
    for number in range(30):
        other = (call("add", {"edit": number}), FINE)
        assert isinstance(round_of(turn, other, (call("find"), FAILED)), AskModel)


def test_the_same_round_ends_a_turn_in_any_order_of_its_calls() -> None:
    turn = begin(rule(identical_results=5, max_steps=99))
    both = [(call("add"), FINE), (call("find"), FAILED)]
    for _ in range(2):
        assert isinstance(round_of(turn, *both), AskModel)
        assert isinstance(round_of(turn, *reversed(both)), AskModel)
    name, reason = failure(round_of(turn, *both))
    assert name == "ToolFailed"
    assert "the same round of tool calls was made 5 times in a row" in reason


@pytest.mark.parametrize(
    "said",
    [
        "at 2026-11-17T10:00:{:02}Z: no such host",
        "[10:00:{:02}.123] no such host",
        "1 failed in 0.{:02}s",
        "waited {} ms",
        "17631234{:02}: down",
    ],
)
def test_results_that_differ_by_a_time_only_are_the_same(said: str) -> None:
    turn = begin(rule(identical_results=5, max_steps=99))
    for number in range(10, 14):
        outcome = ToolOutcome(said.format(number))
        assert isinstance(round_of(turn, (call("add"), outcome)), AskModel)
    _, reason = failure(round_of(turn, (call("add"), ToolOutcome(said.format(14)))))
    assert said.format(14) in reason, "it is told as it was"


@pytest.mark.parametrize("said", ["{} failed", "a.py:{}:12: E1", "0x{}", "v1.{}.3", "line {}"])
def test_results_that_differ_by_a_number_are_not(said: str) -> None:
    turn = begin(rule(identical_results=5, max_steps=99))
    for number in range(10, 30):
        outcome = ToolOutcome(said.format(number))
        assert isinstance(round_of(turn, (call("add"), outcome)), AskModel)
