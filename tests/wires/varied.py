"""Requests that use every field of `ModelRequest`, streams cut anywhere, and bytes that are no
answer: what the tests of several wire formats have in common."""

import random
from collections.abc import Iterator

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Media,
    Message,
    ModelChunk,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Opaque,
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
from vegakit.errors import WorldError
from vegakit.wires import UNREADABLE, AnswerReader, ServedCall, ServedReply, Wire

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c636000000200010005fe02fea7350000000049454e44ae426082"
)
WEATHER = ToolSpec(
    "weather",
    "Weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = ToolSpec("clock", "", {"type": "object", "properties": {}})
SEARCH = ToolSpec(
    "search",
    "Find pages, grüß Gott.",
    {
        "type": "object",
        "properties": {
            "words": {"type": "array", "items": {"type": "string"}, "description": "What to find."},
            "most": {"type": "integer"},
            "order": {"type": "string", "enum": ["new", "old"]},
        },
        "required": ["words"],
    },
)
CITY = OutputSpec(
    "city",
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["name", "people"],
    },
)
LIST = OutputSpec(
    "list",
    {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "string"}}},
        "required": ["items"],
    },
)


def user(*parts: str | Media) -> UserMessage:
    """Return a message of the user."""
    return UserMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def ask(
    *messages: Message,
    temperature: float | None = None,
    max_tokens: int = 256,
    system: str = "",
    tools: tuple[ToolSpec, ...] = (),
    output: OutputSpec | None = None,
) -> ModelRequest:
    """Return a request."""
    settings = ModelSettings(max_tokens, temperature)
    return ModelRequest("some-model", messages, settings, system, tools, output)


def called(*results: ToolResult) -> tuple[Message, ...]:
    """Return a conversation in which a model called two tools."""
    calls = (
        ToolCall("call_1", "weather", {"city": "Paris"}),
        ToolCall("call_2", "weather", {"city": "Rome"}),
    )
    answered = (
        ToolResult("call_1", "weather", "sunny"),
        ToolResult("call_2", "weather", "no such city", is_error=True),
    )
    return (
        user("Weather in Paris and Rome?"),
        AssistantMessage((Text("Let me look."), *calls)),
        ToolMessage(results or answered),
    )


def requests() -> dict[str, ModelRequest]:
    """Return requests that every format can carry, by what they show."""
    hello = AssistantMessage((Text("Hello."),))
    clock = AssistantMessage((ToolCall("call_9", "clock", {}),))
    noon = ToolMessage((ToolResult("call_9", "clock", "noon"),))
    image = Media("image/png", PNG)
    nested = {"words": ["a", "ü"], "most": 3, "more": {"deep": [1, 2.5, None, True]}}
    search = AssistantMessage((ToolCall("call_7", "search", nested),))
    found = ToolMessage((ToolResult("call_7", "search", '{"pages": [1, 2]}'),))
    foreign = Reasoning("Hm.", Opaque("another", {"signature": "eHh4"}))
    thought = AssistantMessage((foreign, Text("Yes.")))
    return {
        "plain": ask(user("What is the capital of France?")),
        "system": ask(user("Hi"), system="You are terse."),
        "long system": ask(user("Hi"), system="Be kind. " * 500),
        "temperature 0": ask(user("Hi"), temperature=0.0),
        "temperature 0.7": ask(user("Hi"), temperature=0.7),
        "temperature 1": ask(user("Hi"), temperature=1.0),
        "one token": ask(user("Hi"), max_tokens=1),
        "many tokens": ask(user("Hi"), max_tokens=65_536),
        "unicode": ask(user('Grüße, 世界 🌍 \u2028 </script> "quoted" \\ \x7f')),
        "lines": ask(user("one\ntwo\r\nthree\ttab")),
        "long": ask(user("lorem ipsum " * 2_000), max_tokens=4_096),
        "history": ask(user("Hi"), hello, user("And now?")),
        "long history": ask(*(m for _ in range(20) for m in (user("Hi"), hello)), user("Now?")),
        "history and system": ask(user("Hi"), hello, user("And now?"), system="Be kind."),
        "tool": ask(user("Weather?"), tools=(WEATHER,)),
        "tool without text": ask(user("Time?"), tools=(CLOCK,)),
        "tools": ask(user("Weather?"), tools=(WEATHER, CLOCK, SEARCH), system="Be kind."),
        "tools, temperature": ask(user("Weather?"), tools=(WEATHER, CLOCK), temperature=0.3),
        "tool results": ask(*called(), tools=(WEATHER,)),
        "tool results, system": ask(*called(), tools=(WEATHER,), system="Be kind."),
        "call without arguments": ask(user("Time?"), clock, noon, tools=(CLOCK,)),
        "call without words": ask(user("Find."), search, found, tools=(SEARCH,)),
        "two rounds": ask(user("Time?"), clock, noon, search, found, tools=(CLOCK, SEARCH)),
        "three rounds": ask(*called(), clock, noon, search, found, tools=(WEATHER, CLOCK, SEARCH)),
        "answered, asked again": ask(*called(), hello, user("Well?"), tools=(WEATHER,)),
        "failed call": ask(
            *called(ToolResult("call_1", "weather", "it broke", is_error=True)), tools=(WEATHER,)
        ),
        "output": ask(user("Name a city."), output=CITY),
        "output, a list": ask(user("Name cities."), output=LIST, temperature=0.0),
        "output and system": ask(user("Name a city."), output=CITY, system="Be terse."),
        "output and history": ask(user("Hi"), hello, user("Name a city."), output=CITY),
        "image": ask(user(image, "What is this?")),
        "images": ask(user(image, image, "Compare.")),
        "jpeg": ask(user(Media("image/jpeg", b"\xff\xd8\xff\xe0 not quite"), "What is this?")),
        "image and tool": ask(user(image, "Where?"), tools=(WEATHER,)),
        "image in history": ask(user(image, "What?"), hello, user("Why?")),
        "another's reasoning": ask(user("Hi"), thought, user("?")),
    }


def served(
    text: str = "",
    *calls: ServedCall,
    refusal: str = "",
    usage: Usage | None = Usage(120, 34, 20),  # noqa: B008 - it cannot change
    finish: Finish | None = None,
) -> ServedReply:
    """Return a reply for a server's end."""
    usual = Finish.TOOL_CALLS if calls else Finish.STOP
    return ServedReply(text, refusal, list(calls), usage, finish or usual)


SERVED: dict[str, ServedReply] = {
    "text": served("The capital of France is Paris, 世界 🌍."),
    "call": served("", ServedCall("1_0", "weather", '{"city":"Paris"}')),
    "text and calls": served(
        "Let me look.",
        ServedCall("1_0", "weather", '{"city":"Paris"}'),
        ServedCall("1_1", "clock", "{}"),
    ),
    "cut at the limit": served("Once upon a", finish=Finish.LENGTH),
    "no usage": served("Free of charge.", usage=None),
    "refused": served(refusal="I cannot help with that.", finish=Finish.CONTENT_FILTER),
}


class ServedAsk:
    """What a server repeats of a request."""

    n = 1
    model = "some-model"
    started_ms = 1_700_000_000_000
    stream_usage = True
    sent = 0


class Broken:
    """A failure that a server is told to answer with."""

    def __init__(self, cause: int | str, message: str = "") -> None:
        self.cause: int | str = cause
        self.message = message


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    """Return the data in pieces, cut at random places, now and then at every byte."""
    if rng.random() < 0.02:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(rng.sample(range(len(data) + 1), min(len(data), rng.randrange(10))))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def read(reader: AnswerReader, pieces: list[bytes]) -> tuple[ModelReply, list[ModelChunk]]:
    """Return the reply of a stream that ended, and its chunks."""
    chunks = [chunk for piece in pieces for chunk in reader.feed(piece)]
    assert reader.failure is None
    assert reader.ended
    return reader.reply(), chunks


def check_chunks(reply: ModelReply, chunks: list[ModelChunk]) -> None:
    """Check that the chunks of a stream add up to its reply."""
    texts = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    thoughts = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta))
    started = [(chunk.name, chunk.index) for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    message = reply.message
    assert texts == message.text
    assert thoughts == "".join(p.text for p in message.parts if isinstance(p, Reasoning))
    assert started == [(call.name, index) for index, call in enumerate(message.tool_calls)]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return data with some bytes changed, left out, doubled or put in."""
    text = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(text) or 1)
        match rng.randrange(5):
            case 0:
                text[at : at + 1] = rng.randbytes(1)
            case 1:
                del text[at : at + rng.randrange(1, 20)]
            case 2:
                text[at:at] = rng.randbytes(rng.randrange(1, 8))
            case 3:
                text[at:at] = text[at : at + rng.randrange(1, 30)]
            case _:
                text[at:at] = rng.choice([b"null", b"[]", b"{}", b"-1", b'"', b"}", b"1e999"])
    return bytes(text)


def check_damaged(wire: Wire, wholes: list[bytes], streams: list[bytes], times: int) -> int:
    """Check that damaged bytes give a reply or one of the errors that a codec may raise; return how
    many were refused."""
    rng, refused = random.Random(11), 0
    for _ in range(times):
        try:
            wire.decode(damaged(rng, rng.choice(wholes)), None)
        except (*UNREADABLE, WorldError):
            refused += 1
        reader = wire.reader(rng.choice([None, "weather"]))
        try:
            for piece in cut(rng, damaged(rng, rng.choice(streams))):
                reader.feed(piece)
            if reader.ended:
                reader.reply()
        except (*UNREADABLE, WorldError):
            refused += 1
        assert wire.failure(rng.choice([400, 429, 500]), damaged(rng, rng.choice(wholes))).kind
    return refused


def check_cuts(wire: Wire, streams: dict[str, bytes], times: int) -> None:
    """Check that where a stream is cut changes nothing, and that no beginning of it is whole."""
    rng = random.Random(5)
    for name, data in streams.items():
        whole = read(wire.reader(None), [data])
        check_chunks(*whole)
        for _ in range(times):
            assert read(wire.reader(None), cut(rng, data)) == whole, name


def ends_early(wire: Wire, data: bytes) -> Iterator[int]:
    """Yield the lengths of beginnings of a stream that are taken for its end."""
    reader = wire.reader(None)
    for at in range(len(data) - 1):
        reader.feed(data[at : at + 1])
        if reader.ended:
            yield at + 1
