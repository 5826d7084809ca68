"""Requests that use every field of `ModelRequest`, for both formats of OpenAI."""

from typing import Any

from vegakit.conversation import (
    AssistantMessage,
    Media,
    Message,
    ModelRequest,
    ModelSettings,
    Opaque,
    OutputSpec,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63600000"
    "0200010005fe02fea7350000000049454e44ae426082"
)
CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
OPEN_CITY = {key: value for key, value in CITY.items() if key != "additionalProperties"}
NESTED = {
    "title": "Trip",
    "type": "object",
    "$defs": {"City": {"title": "City", **OPEN_CITY}},
    "properties": {
        "start": {"$ref": "#/$defs/City"},
        "end": {"$ref": "#/$defs/City", "description": "Where it ends."},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/City"}, "title": "Stops"},
        "mode": {"anyOf": [{"enum": ["foot", "bike"], "type": "string"}, {"type": "null"}]},
        "title": {"type": "string", "format": "date"},
    },
    "required": ["start", "end", "stops", "mode", "title"],
}
WEATHER = ToolSpec(
    "weather",
    "Weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
OPEN_WEATHER = ToolSpec(
    "forecast",
    "Weather to come.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def user(*parts: str | Media) -> UserMessage:
    return UserMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def ask(
    *messages: Message,
    model: str = "gpt-4o",
    temperature: float | None = None,
    max_tokens: int = 256,
    **rest: Any,
) -> ModelRequest:
    return ModelRequest(model, messages, ModelSettings(max_tokens, temperature), **rest)


def called(*arguments: Any, ids: tuple[str, ...] = ("call_1",), error: bool = False) -> Any:
    calls = tuple(ToolCall(i, "weather", a) for i, a in zip(ids, arguments, strict=True))
    results = tuple(ToolResult(i, "weather", f"sunny {i}", is_error=error) for i in ids)
    return (user("Weather?"), AssistantMessage(calls), ToolMessage(results))


_TWO_CALLS: tuple[Message, ...] = (
    user("Weather in Paris and Rome?"),
    AssistantMessage(
        (
            Text("Let me look."),
            ToolCall("call_1", "weather", {"city": "Paris"}),
            ToolCall("call_2", "weather", {"city": "Rome"}),
        )
    ),
    ToolMessage(
        (
            ToolResult("call_1", "weather", "sunny"),
            ToolResult("call_2", "weather", 'no such "city" ä', is_error=True),
        )
    ),
)
_FOREIGN = Reasoning("Hm.", Opaque("anthropic", {"signature": "c2ln"}))

REQUESTS: dict[str, ModelRequest] = {
    "plain": ask(user("What is the capital of France?")),
    "system": ask(user("Hi"), system="You are terse."),
    "system of many lines": ask(user("Hi"), system="One.\n\nTwo.\n\tThree."),
    "temperature 0": ask(user("Hi"), temperature=0.0),
    "temperature 0.7": ask(user("Hi"), temperature=0.7),
    "one token": ask(user("Hi"), max_tokens=1),
    "many tokens": ask(user("Hi"), max_tokens=128_000),
    "unicode": ask(user('Grüße, 世界 🌍 \u2028 \x00 </script> "quoted" \\ \x7f')),
    "unicode in the system": ask(user("Hi"), system="Sprich Deutsch: äöü ß €"),
    "long": ask(user("lorem ipsum " * 2_000), max_tokens=4_096),
    "empty text": ask(user("")),
    "no parts": ask(UserMessage(())),
    "two parts": ask(user("One.", "Two.")),
    "two user turns": ask(user("One."), user("Two.")),
    "history": ask(user("Hi"), AssistantMessage((Text("Hello."),)), user("And now?")),
    "long history": ask(
        *(turn for n in range(5) for turn in (user(f"{n}"), AssistantMessage((Text(f"n{n}"),)))),
        user("Sum?"),
        system="Count.",
    ),
    "empty answer in history": ask(user("Hi"), AssistantMessage((Text(""),)), user("Hm?")),
    "no answer in history": ask(user("Hi"), AssistantMessage(()), user("Hm?")),
    "ends with an answer": ask(user("Hi"), AssistantMessage((Text("Well,"),))),
    "tool": ask(user("Weather?"), tools=(WEATHER,)),
    "two tools": ask(user("Weather?"), tools=(WEATHER, OPEN_WEATHER), system="Be kind."),
    "tool without a description": ask(
        user("Weather?"), tools=(ToolSpec("weather", "", WEATHER.parameters),)
    ),
    "tool with a schema that is not closed": ask(user("Weather?"), tools=(OPEN_WEATHER,)),
    "tool with nested types": ask(user("Go."), tools=(ToolSpec("travel", "Travel.", NESTED),)),
    "tool results": ask(*_TWO_CALLS, tools=(WEATHER,)),
    "tool results, then user": ask(*_TWO_CALLS, user("Well?"), tools=(WEATHER,)),
    "tool results without tools": ask(*_TWO_CALLS),
    "call without arguments": ask(*called({})),
    "call with nested arguments": ask(*called({"a": [1, 2.5, None, True, {"b": "ü"}]})),
    "arguments that are not JSON": ask(*called('{"city": ')),
    "arguments that are a number in a text": ask(*called("12")),
    "arguments that are an object in a text": ask(*called('{"city":  "Rome"}')),
    "failed result": ask(*called({"city": "Paris"}, error=True)),
    "many results": ask(*called({}, {}, {}, ids=("call_a", "call_b", "call_c"))),
    "empty result": ask(
        user("Go."),
        AssistantMessage((ToolCall("call_1", "weather", {}),)),
        ToolMessage((ToolResult("call_1", "weather", ""),)),
    ),
    "two rounds of calls": ask(
        *called({"city": "Paris"}),
        AssistantMessage((ToolCall("call_2", "weather", {"city": "Rome"}),)),
        ToolMessage((ToolResult("call_2", "weather", "rain"),)),
        tools=(WEATHER,),
    ),
    "output": ask(user("Name a city."), output=OutputSpec("city", CITY)),
    "output that is not closed": ask(user("Name a city."), output=OutputSpec("city", OPEN_CITY)),
    "output with nested types": ask(user("Plan a trip."), output=OutputSpec("trip", NESTED)),
    "output and tool": ask(user("City?"), output=OutputSpec("city", CITY), tools=(WEATHER,)),
    "image bytes": ask(user("What is this?", Media("image/png", PNG))),
    "image url": ask(user(Media("image/png", url="https://example.com/a.png"), "What?")),
    "two images": ask(user("Which?", Media("image/jpeg", PNG), Media("image/webp", PNG))),
    "document": ask(user("Read it.", Media("application/pdf", b"%PDF-1.7"))),
    "thoughts of another format": ask(
        user("Hi"), AssistantMessage((_FOREIGN, Text("Hello."))), user("Why?")
    ),
    "thoughts of nobody": ask(
        user("Hi"), AssistantMessage((Reasoning("Hm."), Text("Hello."))), user("Why?")
    ),
}
