"""A conversation that outgrew the window under a rule of compaction: what stays, what goes."""

import msgspec

from tests.agent.turns import call, calls, count, failure, rule, said, text, user
from vegakit.agent import (
    AskModel,
    CompactionRule,
    HistoryPolicy,
    Summarise,
    ToolOutcome,
    Turn,
    TurnAction,
)
from vegakit.conversation import AssistantMessage, Finish, Message, Text, ToolMessage, UserMessage

PROMPT = (Text("fix the parser, please"),)
PINS = {"Goal": "make it work"}


def begin(room: int, history: tuple[Message, ...] = ()) -> Turn:
    made = rule(
        history=HistoryPolicy.SUMMARISE,
        context_tokens=room + 100,
        compaction=CompactionRule(PINS, ("todo",)),
        tools=tuple(msgspec.structs.replace(rule().tools[0], name=n) for n in ("find", "todo")),
        max_steps=100,
    )
    turn = Turn(made)
    assert isinstance(turn.start(PROMPT, history, count=count), AskModel)
    return turn


def grow(turn: Turn, letters: int, path: str = "a.py") -> TurnAction:
    """A round: one call, and a result of so many letters."""
    turn.on_reply(calls(call("find", {"path": path})), count=count)
    return turn.on_tools({0: ToolOutcome("r" * letters)}, count=count)


def until_summary(turn: Turn, letters: int = 300) -> Summarise:
    for number in range(50):
        action = grow(turn, letters + number, f"file{number}.py")
        if isinstance(action, Summarise):
            return action
    raise AssertionError("it never came")


def opening(action: TurnAction) -> str:
    assert isinstance(action, AskModel)
    first = action.request.messages[0]
    assert isinstance(first, UserMessage)
    (part,) = first.parts
    assert isinstance(part, Text)
    return part.text


def test_a_turn_that_outgrows_the_window_by_itself_goes_on() -> None:
    turn = begin(4_000)
    asked = until_summary(turn)
    assert asked.request.tools == ()
    action = turn.on_summary(text("It went well."), count=count)
    told = opening(action)
    for kept in ("make it work", "fix the parser, please", "It went well.", "file0.py"):
        assert kept in told
    assert isinstance(action, AskModel)
    assert count(action.request) <= 4_000
    assert isinstance(action.request.messages[1], AssistantMessage)
    assert isinstance(action.request.messages[-1], ToolMessage)


def test_no_call_is_parted_from_its_result() -> None:
    for letters in (90, 300, 900):
        turn = begin(3_000, (user("question 1"), said("answer no1")))
        until_summary(turn, letters)
        action = turn.on_summary(text("s"), count=count)
        assert isinstance(action, AskModel)
        open_calls = False
        for message in action.request.messages:
            assert isinstance(message, ToolMessage) == open_calls
            open_calls = isinstance(message, AssistantMessage) and bool(message.tool_calls)


def test_the_last_list_of_steps_stays_word_by_word() -> None:
    """Also through a second compaction, long after the call was dropped."""
    turn = begin(4_000)
    for steps in ("[ ] old", "[x] one\n[ ] two"):
        turn.on_reply(calls(call("todo", {"items": []})), count=count)
        turn.on_tools({0: ToolOutcome(steps)}, count=count)
    for _ in range(2):
        until_summary(turn)
        told = opening(turn.on_summary(text("s"), count=count))
        assert "[x] one\n[ ] two" in told
        assert "[ ] old" not in told


def test_the_prompt_stays_through_every_compaction() -> None:
    turn = begin(4_000)
    for _ in range(4):
        until_summary(turn)
        assert opening(turn.on_summary(text("s"), count=count)).count(PROMPT[0].text) == 1


def test_what_went_is_counted() -> None:
    turn = begin(4_000, (user("question 1"), said("answer no1")))
    until_summary(turn)
    turn.on_summary(text("s"), count=count)
    gone = turn.compacted
    assert gone is not None
    assert gone.turns == 2
    assert gone.calls["find"] == len(gone.paths["find"]) > 1
    assert gone.bytes_after < gone.bytes_before


def test_earlier_turns_go_before_the_turn_itself() -> None:
    """Then the prompt stays where it is, and is not told twice."""
    earlier = (user("q" * 1_500), said("a" * 1_500))
    turn = begin(4_000, earlier)
    action = grow(turn, 1_200)
    assert isinstance(action, Summarise)
    told = opening(asked := turn.on_summary(text("s"), count=count))
    assert PROMPT[0].text not in told
    assert isinstance(asked, AskModel)
    assert asked.request.messages[1] == UserMessage(PROMPT)


def test_results_too_long_for_any_window_go_too() -> None:
    """Otherwise nothing could be asked any more. The summary is made of their ends."""
    turn = begin(4_000)
    asked = grow(turn, 90_000)
    assert isinstance(asked, Summarise)
    assert count(asked.request) <= 4_000
    action = turn.on_summary(text("s"), count=count)
    assert isinstance(action, AskModel)
    assert len(action.request.messages) == 1
    assert "fix the parser" in opening(action)


def test_pins_are_never_dropped() -> None:
    """Rather the turn fails, and says why."""
    turn = begin(4_000)
    turn.rule = msgspec.structs.replace(turn.rule, compaction=CompactionRule({"Goal": "g" * 5_000}))
    until_summary(turn)
    error, reason = failure(turn.on_summary(text("s"), count=count))
    assert error == "LimitReached"
    assert "window" in reason


def test_a_summary_that_was_cut_off_is_used() -> None:
    turn = begin(4_000)
    until_summary(turn)
    cut = msgspec.structs.replace(text("It went"), finish=Finish.LENGTH)
    assert "It went" in opening(turn.on_summary(cut, count=count))


def test_a_turn_is_a_record_in_the_middle_of_it() -> None:
    turn = begin(4_000)
    until_summary(turn)
    again = msgspec.json.decode(msgspec.json.encode(turn), type=Turn)
    assert turn.on_summary(text("s"), count=count) == again.on_summary(text("s"), count=count)


def assume(turn: Turn, pins: dict[str, str]) -> None:
    """Nobody knows the window; as much as `begin` gave it is assumed."""
    assumed = CompactionRule(pins, ("todo",), turn.rule.context_tokens)
    turn.rule = msgspec.structs.replace(turn.rule, context_tokens=None, compaction=assumed)


def test_a_window_that_nobody_knows_is_assumed() -> None:
    turn = begin(4_000)
    assume(turn, PINS)
    until_summary(turn)
    assert "It went well." in opening(turn.on_summary(text("It went well."), count=count))


def test_what_an_assumed_window_cannot_hold_is_sent_all_the_same() -> None:
    """No summary is bought that would not help, and nothing is refused."""
    turn = begin(4_000)
    assume(turn, {"Goal": "g" * 5_000})
    for number in range(20):
        assert isinstance(grow(turn, 300 + number), AskModel)


def test_paths_in_a_text_are_counted_by_their_pattern() -> None:
    """Of a tool that changes several files by one text."""
    turn = begin(4_000)
    named = CompactionRule(PINS, path_patterns={"find": "^file (.+)$"})
    turn.rule = msgspec.structs.replace(turn.rule, compaction=named)
    turn.on_reply(
        calls(call("find", {"text": "file a.py\n+file no.py\nfile b c.py\n"})), count=count
    )
    assert isinstance(turn.on_tools({0: ToolOutcome("r" * 4_000)}, count=count), Summarise)
    told = opening(turn.on_summary(text("s"), count=count))
    assert "Paths given to find: a.py, b c.py." in told
