"""The scripted model."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Media,
    ModelChunk,
    ModelReply,
    ModelRequest,
    ModelSettings,
    OutputSpec,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from vegakit.errors import ErrorClass, Phase, UserError, WorldError
from vegakit.ports import Model
from vegakit.prices import bill, worst_case
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.testing import FakeClock

T = TypeVar("T")


def run(waiting: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(waiting)


def asking(text: str, max_tokens: int = 100, **more: Any) -> ModelRequest:
    messages = (UserMessage((Text(text),)),)
    return ModelRequest("scripted", messages, ModelSettings(max_tokens), **more)


def ask(model: ScriptedModel, text: str = "Hello there") -> ModelReply:
    return run(model.ask(asking(text)))


async def chunks(model: ScriptedModel, seen: list[ModelChunk]) -> None:
    async for chunk in model.stream(asking("Hello there")):
        seen.append(chunk)  # noqa: PERF401  (what came before an error is kept)


def streamed(model: ScriptedModel) -> list[ModelChunk]:
    seen: list[ModelChunk] = []
    run(chunks(model, seen))
    return seen


def test_replies_come_in_turn_and_requests_are_kept() -> None:
    """Text is short for a reply; words are tokens."""
    model = ScriptedModel(["one", "two words"])
    said = AssistantMessage((Text("one"),), "scripted")
    assert ask(model) == ModelReply(said, Usage(2, 1), Finish.STOP)
    assert ask(model, "And now?").usage == Usage(2, 2)
    assert model.requests == [asking("Hello there"), asking("And now?")]


def test_running_out_shows_what_was_asked() -> None:
    """And how many replies there were."""
    model = ScriptedModel(["one"])
    ask(model)
    with pytest.raises(WorldError, match=r"had 1 replies and all are used.* says 'One more'; add"):
        ask(model, "One more")


def test_a_single_reply_is_given_every_time() -> None:
    """It cannot run out."""
    model = ScriptedModel("same")
    assert [ask(model).message.text for _ in range(3)] == ["same"] * 3


def test_a_table_answers_by_the_last_user_text() -> None:
    """The first text that it contains; lists go in turn; '' is for all others."""
    model = ScriptedModel({"France": "Paris", "Spain": ["Hm.", "Madrid"], "": "No idea"})
    asked = ["Spain?", "France?", "Spain!", "Peru?"]
    assert [ask(model, text).message.text for text in asked] == [
        "Hm.",
        "Paris",
        "Madrid",
        "No idea",
    ]


def test_a_table_without_an_answer_says_what_it_knows() -> None:
    """Also to a request in which no user speaks."""
    model = ScriptedModel({"France": "Paris"})
    with pytest.raises(WorldError, match="no reply to 'Peru'; it knows 'France'; add a text"):
        ask(model, "Peru")
    with pytest.raises(WorldError, match="no reply to ''"):
        run(model.ask(ModelRequest("scripted", (), ModelSettings(1))))


def test_the_rounds_after_a_question_keep_its_text() -> None:
    """Tool results are not what the user said."""
    model = ScriptedModel({"add": [{"calls": [{"name": "add"}]}, "3"]})
    first = ask(model, "add them").message
    told = ToolMessage((ToolResult("", "add", "3"),))
    messages = (*asking("add them").messages, first, told)
    reply = run(model.ask(ModelRequest("scripted", messages, ModelSettings(100))))
    assert reply.message.text == "3"


def test_a_function_works_the_reply_out() -> None:
    """As the whole script or as one reply of it."""
    assert ask(ScriptedModel(lambda request: request.model)).message.text == "scripted"
    model = ScriptedModel(["one", lambda _: {"output": {"n": 2}}])
    assert [ask(model).message.text, ask(model).message.text] == ["one", '{"n":2}']


@pytest.mark.parametrize(
    "scripted",
    [
        {"text": "Look:", "calls": [{"name": "add", "arguments": {"a": 1}}, {"name": "find"}]},
        ScriptedReply("Look:", (ScriptedCall("add", {"a": 1}), ScriptedCall("find"))),
    ],
    ids=["dict", "struct"],
)
def test_calls_get_ids_of_their_own(scripted: Any) -> None:
    """By request and place; the model then stops to call tools."""
    reply = ask(ScriptedModel([scripted]))
    assert reply.message.parts == (
        Text("Look:"),
        ToolCall("call_1_0", "add", {"a": 1}),
        ToolCall("call_1_1", "find", {}),
    )
    assert (reply.finish, reply.usage) == (Finish.TOOL_CALLS, Usage(2, 5))


def test_usage_and_finish_may_be_given() -> None:
    """None is a provider that does not say."""
    usage = {"input_tokens": 7, "output_tokens": 9}
    reply = ask(ScriptedModel([{"text": "cut", "usage": usage, "finish": "length"}]))
    assert (reply.usage, reply.finish) == (Usage(7, 9), Finish.LENGTH)
    assert ask(ScriptedModel([{"text": "x", "usage": None}])).usage is None


def test_a_whole_reply_is_handed_on_as_it_is() -> None:
    """For what a script has no words for."""
    reply = ModelReply(AssistantMessage((Reasoning("hm"), Text("so"))), None)
    assert ask(ScriptedModel([reply])) is reply


@pytest.mark.parametrize(
    ("scripted", "phase", "wait_ms"),
    [
        ({"error": "rate_limit", "retry_after_ms": 500}, Phase.ANSWERED, 500),
        ({"error": "timeout"}, Phase.UNKNOWN, None),
        ({"error": "connection", "phase": "nothing_sent"}, Phase.NOTHING_SENT, None),
        (WorldError("x", ErrorClass.SERVER, retry_after_ms=1), Phase.UNKNOWN, 1),
    ],
)
def test_errors_are_raised_with_class_phase_and_wait(
    scripted: Any, phase: Phase, wait_ms: int | None
) -> None:
    """A phase that is not given follows from the class: what the provider said, or silence."""
    with pytest.raises(WorldError) as caught:
        ask(ScriptedModel([scripted]))
    assert (caught.value.phase, caught.value.retry_after_ms) == (phase, wait_ms)


@pytest.mark.parametrize("wrong", [{"txt": "x"}, {"finish": "later"}, {"calls": [{"nam": "x"}]}])
def test_a_misspelled_reply_is_refused_when_the_model_is_made(wrong: dict[str, Any]) -> None:
    """Not in the middle of a test."""
    with pytest.raises(UserError, match=r"is no reply of a script.*some of text, calls, output"):
        ScriptedModel(["fine", wrong])


def test_a_stream_speaks_word_by_word_and_ends_with_the_whole() -> None:
    """The pieces are the text, blanks and all."""
    parts = (Reasoning("let me"), Text(" Hello,  you\n"), ToolCall("", "add", {}))
    reply = ModelReply(AssistantMessage((*parts, ToolCall("", "find", {}))), None)
    assert streamed(ScriptedModel([reply])) == [
        *(ReasoningDelta("let"), ReasoningDelta(" me")),
        *(TextDelta(" Hello,"), TextDelta("  you"), TextDelta("\n")),
        *(ToolCallStarted("add", 0), ToolCallStarted("find", 1)),
        reply,
    ]


def test_a_stream_may_break_after_some_words() -> None:
    """The error comes after what was said; no reply follows."""
    seen: list[ModelChunk] = []
    model = ScriptedModel([{"text": "half a", "error": "connection"}])
    with pytest.raises(WorldError, match="connection, as scripted"):
        run(chunks(model, seen))
    assert seen == [TextDelta("half"), TextDelta(" a")]


def test_latency_is_waited_for_on_the_clock_given() -> None:
    """A test that moves the clock waits no real time."""

    async def late() -> list[bool]:
        clock = FakeClock()
        model: Model = ScriptedModel("late", latency_ms=500, clock=clock)
        asked = asyncio.ensure_future(model.ask(asking("x")))
        ready: list[bool] = []
        for ms in (0, 499, 1):
            clock.advance(ms)
            for _ in range(5):
                await asyncio.sleep(0)
            ready.append(asked.done())
        await asked
        return ready

    assert run(late()) == [False, False, True]


def test_the_bound_counts_every_word_of_a_request() -> None:
    """System, tools, output, media and results too, so that no bill is above it."""
    messages = (
        UserMessage((Text("look here"), Media("image/png", b"x"))),
        AssistantMessage((ToolCall("", "add", {"a": 1}),)),
        ToolMessage((ToolResult("", "add", "is one"),)),
    )
    tools, output = (ToolSpec("add", "Add two.", {}),), OutputSpec("Sum", {})
    request = ModelRequest("scripted", messages, ModelSettings(9), "Be brief.", tools, output)
    assert ScriptedModel("x").bound_input(request) == 2 + 2 + 1 + 2 + 1 + 2 + 2


def test_a_bill_is_never_above_the_worst_case() -> None:
    """A talkative script is billed up to max_tokens; $1 and $5 a million."""
    model = ScriptedModel("one two three")
    request = asking("Hello there", max_tokens=2)
    usage = run(model.ask(request)).usage
    assert (model.price, usage) != (None, None)
    assert bill(model.price, usage) == worst_case(model.price, 2, 2) == 12_000  # pyright: ignore[reportArgumentType]


def test_a_model_without_a_price_can_be_made() -> None:
    """To see it refused."""
    assert ScriptedModel("x", price=None).price is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.json", '["Hello", {"calls": [{"name": "add"}]}]'),
        ("s.json", '{"replies": ["Hello", {"calls": [{"name": "add"}]}]}'),
        ("s.json", '{"matches": {"Hello": ["Hello", {"calls": [{"name": "add"}]}]}}'),
        ("s.toml", 'replies = ["Hello", { calls = [{ name = "add" }] }]'),
        ("s.toml", '[matches]\n"there" = ["Hello", { calls = [{ name = "add" }] }]'),
    ],
)
def test_a_script_may_be_a_file(name: str, content: str, tmp_path: Path) -> None:
    """JSON or TOML, replies in turn or by text."""
    (tmp_path / name).write_text(content)
    model = ScriptedModel.from_file(tmp_path / name, name="scripted:s")
    assert ask(model).message == AssistantMessage((Text("Hello"),), "scripted:s")
    assert ask(model).message.tool_calls == (ToolCall("call_2_0", "add", {}),)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("s.json", "{", "cannot be used"),
        ("s.toml", "replies = [", "cannot be used"),
        ("s.json", "5", "cannot be used: Expected"),
        ("s.json", '{"reply": ["x"]}', "unknown field `reply`"),
        ("s.json", '{"replies": ["x"], "matches": {"a": "b"}}', "either `replies` or `matches`"),
        ("s.json", "{}", "either `replies` or `matches`"),
        ("s.json", '["x", {"txt": "y"}]', "is no reply of a script"),
        ("other.json", "[]", "s.json cannot be read: No such file"),
    ],
)
def test_a_file_that_is_no_script_says_why(
    name: str, content: str, problem: str, tmp_path: Path
) -> None:
    """With its path and what a script looks like."""
    (tmp_path / name).write_text(content)
    path = tmp_path / ("s.json" if name == "other.json" else name)
    with pytest.raises(UserError, match=problem):
        ScriptedModel.from_file(path)


def test_answers_from_a_file_take_their_time(tmp_path: Path) -> None:
    """The file says how long an answer takes, and a reply may say otherwise."""
    path = tmp_path / "script.json"
    path.write_text('{"latency_ms": 300, "replies": ["a", {"text": "b", "latency_ms": 7}]}')

    async def twice() -> None:
        clock = FakeClock()
        model = ScriptedModel.from_file(path, clock=clock)
        for takes_ms in (300, 7):
            asked = asyncio.ensure_future(model.ask(asking("hello")))
            await asyncio.sleep(0)
            clock.advance(takes_ms - 1)
            await asyncio.sleep(0)
            assert not asked.done()
            clock.advance(1)
            await asked

    run(twice())
