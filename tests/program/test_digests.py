"""The digest of a conversation that grows is the digest of all of it, however it was reached."""

from hypothesis import given, strategies as st

from vegakit.conversation import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelSettings,
    Text,
    ToolCall,
    UserMessage,
)
from vegakit.effects import CallModel, digest_of
from vegakit.ids import ScopeId
from vegakit.money import Money
from vegakit.records import digest128


def _said(number: int) -> Message:
    if number % 3 == 0:
        return AssistantMessage((ToolCall(str(number), "f", {"a": number}),), "m")
    return UserMessage((Text(f"question {number}"),))


def _digest(messages: tuple[Message, ...], model: str = "m", *, stream: bool = False) -> str:
    request = ModelRequest(model, messages, ModelSettings(100), system="s")
    expected = digest128(["CallModel", request, stream])
    assert digest_of(CallModel(request, Money(1), ScopeId(""), stream)) == expected
    return expected


@given(st.lists(st.tuples(st.sampled_from("grow drop fork".split()), st.integers(1, 30))))
def test_it_is_the_digest_of_the_whole(turns: list[tuple[str, int]]) -> None:
    messages, number = tuple(map(_said, range(20))), 20
    for what, count in turns:
        if what == "drop":
            messages = (*messages[:1], *messages[1 + count :])
        elif what == "fork":
            messages = messages[:-count]
        new = tuple(map(_said, range(number, number + count)))
        messages, number = (*messages, *new), number + count
        _digest(messages)
        _digest(messages, "other", stream=True)


def test_equal_messages_that_are_spelled_otherwise_have_another_digest() -> None:
    """1 and 1.0 are equal, and are not the same JSON."""
    first, rest = _said(1), tuple(map(_said, range(40)))
    whole, parted = (AssistantMessage((ToolCall("1", "f", {"a": one}),), "m") for one in (1, 1.0))
    assert whole == parted
    assert _digest((first, whole, *rest)) != _digest((first, parted, *rest))
