"""Our records in the provider's words and back."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Media,
    Message,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from vegakit.errors import WorldError
from vegakit.providers.access import parse_model_name
from vegakit.providers.conversion import (
    ChunkConverter,
    decode_message,
    decode_reply,
    encode_message,
)

ANTHROPIC, OPENAI = (parse_model_name(name) for name in ("claude-x", "gpt-x"))

texts = st.text(min_size=1, max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
kept = st.fixed_dictionaries(
    {"signature": texts},
    optional={"id": texts, "provider_details": st.dictionaries(texts, json_values, min_size=1)},
)
opaques = st.builds(Opaque, st.just("anthropic"), kept)
assistant_parts = (
    st.builds(Text, texts)
    | st.builds(Reasoning, texts, opaques)
    | st.builds(ToolCall, texts, texts, st.dictionaries(texts, json_values, max_size=3))
)
messages = (
    st.builds(
        UserMessage,
        st.lists(
            st.builds(Text, texts)
            | st.builds(Media, st.just("image/png"), st.binary(min_size=1, max_size=9))
            | st.builds(Media, st.just("image/png"), url=texts),
            min_size=1,
            max_size=4,
        ).map(tuple),
    )
    | st.builds(AssistantMessage, st.lists(assistant_parts, max_size=4).map(tuple))
    | st.builds(
        ToolMessage,
        st.lists(
            st.builds(ToolResult, texts, texts, texts, st.booleans()), min_size=1, max_size=3
        ).map(tuple),
    )
)


def _read_back(theirs: ModelRequest | ModelResponse) -> Message:
    if isinstance(theirs, ModelResponse):
        return decode_message(theirs, ANTHROPIC, None)
    first = theirs.parts[0]
    if isinstance(first, UserPromptPart):
        return UserMessage(tuple(_user_parts(first.content)))
    return ToolMessage(tuple(_results(theirs)))


def _user_parts(content: Any) -> Iterator[Text | Media]:
    for item in content:
        match item:
            case str():
                yield Text(item)
            case BinaryContent():
                yield Media(item.media_type, item.data)
            case ImageUrl():
                yield Media(item.media_type, url=item.url)
            case _:
                raise AssertionError(item)


def _results(theirs: ModelRequest) -> Iterator[ToolResult]:
    for part in theirs.parts:
        assert isinstance(part, ToolReturnPart)
        failed = part.outcome == "failed"
        yield ToolResult(part.tool_call_id, part.tool_name, str(part.content), failed)


@given(messages)
def test_there_and_back_is_the_same(message: Message) -> None:
    """For every kind of message, with what the provider wants back."""
    assert _read_back(encode_message(message, ANTHROPIC)) == message


def test_what_belongs_to_texts_goes_back_with_them() -> None:
    """Ids and phases, in their order; a text of another provider goes without."""
    parts = [TextPart("a", id="msg_1", provider_name="openai"), TextPart("b")]
    ours = decode_message(ModelResponse(parts, model_name="gpt-x"), OPENAI, None)
    (first, second) = encode_message(ours, OPENAI).parts
    assert isinstance(first, TextPart)
    assert isinstance(second, TextPart)
    assert (first.id, second.id) == ("msg_1", None)
    (foreign, _) = encode_message(ours, ANTHROPIC).parts
    assert isinstance(foreign, TextPart)
    assert foreign.id is None


def test_another_providers_reasoning_is_left_out() -> None:
    """Its signature means nothing there, and its text is no answer."""
    thought = Reasoning("hm", Opaque("anthropic", {"signature": "s"}))
    said = AssistantMessage((thought, Reasoning("unsigned"), Text("yes")))
    assert len(encode_message(said, ANTHROPIC).parts) == 2
    assert [part.part_kind for part in encode_message(said, OPENAI).parts] == ["text"]


@pytest.mark.parametrize(
    ("args", "ours"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ("[1]", [1]),
        ('{"a": ', '{"a": '),
    ],
)
def test_arguments_that_are_no_json_stay_as_they_are(args: Any, ours: object) -> None:
    """Whoever checks them tells the model."""
    message = decode_message(ModelResponse([ToolCallPart("f", args, "id")]), OPENAI, None)
    assert message.tool_calls[0].arguments == ours
    assert decode_message(encode_message(message, OPENAI), OPENAI, None) == message  # pyright: ignore[reportArgumentType]


def test_unknown_parts_are_left_out() -> None:
    """A file, or a tool that the provider ran itself."""
    picture = FilePart(BinaryContent(b"x", media_type="image/png"))
    response = ModelResponse(
        [picture, NativeToolCallPart("web_search", {}), TextPart("yes")], finish_reason="stop"
    )
    reply = decode_reply(response, OPENAI, None)
    assert reply.message.parts == (Text("yes"),)
    assert reply.finish is Finish.STOP


@pytest.mark.parametrize(
    "response",
    [
        ModelResponse([TextPart("ha")]),
        ModelResponse([TextPart("ha")], finish_reason="error"),
        ModelResponse([TextPart("ha")], finish_reason="stop", state="incomplete"),
    ],
)
def test_an_answer_without_an_end_is_none(response: ModelResponse) -> None:
    """It may be billed all the same."""
    with pytest.raises(WorldError, match="broke its answer off"):
        decode_reply(response, OPENAI, None)


def test_reasoning_streams_apart_from_text() -> None:
    """Beginnings and deltas alike; what is not known is passed over."""
    chunks = ChunkConverter(None)
    events = [
        PartStartEvent(index=0, part=ThinkingPart("h")),
        PartDeltaEvent(index=0, delta=ThinkingPartDelta(content_delta="m")),
        PartEndEvent(index=0, part=ThinkingPart("hm")),
        PartStartEvent(index=1, part=TextPart("")),
    ]
    heard = [chunk for event in events for chunk in chunks.of(event)]
    assert heard == [ReasoningDelta("h"), ReasoningDelta("m")]
