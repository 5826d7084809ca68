"""A history that outgrew the model's window. Every message here has ten letters unless it says."""

from tests.agent.turns import call, calls, count, failure, rule, said, text, user
from vegakit.agent import (
    AskModel,
    DroppedHistory,
    Finished,
    HistoryPolicy,
    Summarise,
    ToolOutcome,
    Turn,
    TurnAction,
)
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Media,
    Message,
    ModelRequest,
    Reasoning,
    Text,
    ToolMessage,
    ToolResult,
    UserMessage,
)

TEN = "0123456789"
EXCHANGE = (user("question 1"), said("answer no1"))
TOOLS = (
    user("question 2"),
    AssistantMessage((call("find", {"a": 1}, ref="c"), Text("Hm. "))),
    ToolMessage((ToolResult("c", "find", TEN),)),
    said("answer no2"),
)
LAST = (user("question 3"), said("answer no3"))
HISTORY = (*EXCHANGE, *TOOLS, *LAST)
"""20, 38 and 20 letters: 88 with the prompt of ten."""
PROMPT = (Text("the prompt"),)


def start(
    policy: HistoryPolicy, room: int, *, history: tuple[Message, ...] = HISTORY
) -> tuple[Turn, TurnAction]:
    turn = Turn(rule(history=policy, context_tokens=room + 100))
    return turn, turn.start(PROMPT, history, count=count)


def small(request: ModelRequest) -> int:
    """So that a transcript fits where its messages do not."""
    return 1 if request.system.startswith("You summarise") else count(request)


def messages(action: TurnAction) -> tuple[Message, ...]:
    assert isinstance(action, AskModel)
    return action.request.messages


def test_what_fits_is_counted_once() -> None:
    """Counting reads the whole conversation, so a long one is not read twice for one call."""
    counted: list[ModelRequest] = []

    def noting(request: ModelRequest) -> int:
        counted.append(request)
        return count(request)

    turn = Turn(rule(history=HistoryPolicy.DROP_OLDEST, context_tokens=188))
    action = turn.start(PROMPT, HISTORY, count=noting)
    assert isinstance(action, AskModel)
    assert counted == [action.request]


def test_a_window_holds_question_and_answer() -> None:
    """88 letters and 100 tokens of answer fit a window of 188 just so."""
    _, action = start(HistoryPolicy.ERROR, 88)
    assert messages(action) == (*HISTORY, user("the prompt"))


def test_error_says_the_sizes_and_what_to_do() -> None:
    """Nothing is dropped unasked."""
    _, action = start(HistoryPolicy.ERROR, 87)
    error, reason = failure(action)
    assert error == "LimitReached"
    assert "may take 88 tokens and its answer 100, but the window of test:m holds 187" in reason
    assert "set history to drop_oldest or summarise" in reason


def test_an_unknown_window_is_not_guessed() -> None:
    """The provider will say."""
    turn = Turn(rule(history=HistoryPolicy.DROP_OLDEST))
    assert len(messages(turn.start(PROMPT, HISTORY, count=count))) == 9


def test_the_oldest_exchanges_go_whole() -> None:
    """A tool call and its result go together; no more goes than must."""
    _, action = start(HistoryPolicy.DROP_OLDEST, 87)
    assert messages(action) == (*TOOLS, *LAST, user("the prompt"))
    _, action = start(HistoryPolicy.DROP_OLDEST, 67)
    assert messages(action) == (*LAST, user("the prompt"))
    _, action = start(HistoryPolicy.DROP_OLDEST, 29)
    assert messages(action) == (user("the prompt"),)


def test_what_was_dropped_is_told_at_the_end() -> None:
    """Two messages, then four more when the turn itself has grown."""
    turn, _ = start(HistoryPolicy.DROP_OLDEST, 87)
    turn.on_reply(calls(call()), count=count)
    asked = turn.on_tools({0: ToolOutcome(TEN * 3)}, count=count)
    assert messages(asked)[:2] == LAST
    action = turn.on_reply(text("done"), count=count)
    assert isinstance(action, Finished)
    assert action.dropped == DroppedHistory(messages=6, exchanges=2)


def test_the_current_prompt_is_never_dropped() -> None:
    """Rather the turn fails."""
    _, action = start(HistoryPolicy.DROP_OLDEST, 9)
    error, reason = failure(action)
    assert (error, "may take 10 tokens" in reason) == ("LimitReached", True)
    assert "drop_oldest or" not in reason


def test_a_history_may_begin_with_an_answer() -> None:
    """As one that was cut elsewhere does: it is the first exchange."""
    history = (said("answer no0"), *LAST)
    _, action = start(HistoryPolicy.DROP_OLDEST, 39, history=history)
    assert messages(action) == (*LAST, user("the prompt"))


def test_a_summary_is_asked_for_as_plain_text() -> None:
    """No tools are offered, so there are none in it; thoughts are left out, media named."""
    opening = (
        UserMessage((Text("look"), Media("image/png", b"x"))),
        AssistantMessage((Reasoning("hmmmm"), call("find", {"a": 1}))),
        ToolMessage((ToolResult("", "find", "one file"),)),
    )
    turn = Turn(rule(history=HistoryPolicy.SUMMARISE, context_tokens=166))
    action = turn.start(PROMPT, (*opening, *LAST, *LAST), count=small)
    assert isinstance(action, Summarise)
    request = action.request
    assert (request.tools, request.output, len(request.messages)) == ((), None, 1)
    assert request.messages[0] == user(
        "User: look\nUser: [image/png]\n"
        'Assistant: [calls find with {"a":1}]\nResult of find: one file\n'
        "User: question 3\nAssistant: answer no3"
    )


def summarising(room: int = 87) -> Turn:
    turn = Turn(rule(history=HistoryPolicy.SUMMARISE, context_tokens=room + 100))
    assert isinstance(turn.start(PROMPT, HISTORY, count=small), Summarise)
    return turn


def test_a_summary_stands_for_what_was_dropped() -> None:
    """Down to half the window: of 87 letters 43, so two exchanges go."""
    turn = summarising()
    asked = turn.on_summary(text(" It was said. "), count=small)
    opening = user("Summary of the earlier conversation: It was said.")
    assert messages(asked) == (opening, *LAST, user("the prompt"))
    action = turn.on_reply(text("done"), count=small)
    assert isinstance(action, Finished)
    assert (action.dropped, action.steps) == (DroppedHistory(6, 2), 2)
    assert turn.conversation.messages == (opening, *LAST, user("the prompt"), said("done"))


def test_a_later_summary_takes_in_the_earlier_one() -> None:
    """Each message is counted as dropped once, the summary never."""
    turn = summarising()
    turn.on_summary(text("First."), count=small)
    turn.on_reply(calls(call()), count=small)
    action = turn.on_tools({0: ToolOutcome(TEN * 3)}, count=small)
    assert isinstance(action, Summarise)
    assert action.request.messages[0] == user(
        "User: Summary of the earlier conversation: First.\nUser: question 3\nAssistant: answer no3"
    )
    asked = turn.on_summary(text("Second."), count=small)
    assert messages(asked)[0] == user("Summary of the earlier conversation: Second.")
    assert turn.history.dropped == DroppedHistory(8, 3)


def test_a_summary_that_does_not_fit_either_is_an_error() -> None:
    """Another one would be no shorter."""
    turn = summarising()
    error, reason = failure(turn.on_summary(text(TEN * 9), count=small))
    assert (error, "holds 187" in reason) == ("LimitReached", True)


def test_when_only_a_summary_is_left_it_is_not_summarised() -> None:
    """Nothing can give way any more."""
    turn = summarising(room=58)
    asked = turn.on_summary(text("First."), count=small)
    assert len(messages(asked)) == 2
    turn.on_reply(calls(call()), count=small)
    assert failure(turn.on_tools({0: ToolOutcome(TEN)}, count=small))[0] == "LimitReached"


def test_no_summary_is_bought_that_could_not_help() -> None:
    """The prompt alone is too long; or what is to be summarised is; or no step is left after it."""
    for turn in (
        Turn(rule(history=HistoryPolicy.SUMMARISE, context_tokens=109)),
        Turn(rule(history=HistoryPolicy.SUMMARISE, context_tokens=150)),
    ):
        assert failure(turn.start(PROMPT, HISTORY, count=count))[0] == "LimitReached"
    turn = Turn(rule(history=HistoryPolicy.SUMMARISE, context_tokens=187, max_steps=1))
    assert "max_steps=1" in failure(turn.start(PROMPT, HISTORY, count=small))[1]


def test_a_summary_that_is_no_answer_ends_the_turn() -> None:
    """Cut off or empty: facts would be lost in silence."""
    cut = text("It was", finish=Finish.LENGTH)
    assert failure(summarising().on_summary(cut, count=small))[0] == "OutputTruncated"
    assert failure(summarising().on_summary(text(" "), count=small))[0] == "AgentFailed"
