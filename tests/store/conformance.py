"""Conformance checks that every document store and every memory passes, each run against an empty
one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from vegakit.conversation import (
    AssistantMessage,
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from vegakit.errors import InvalidRecordError
from vegakit.ports import Memory, Store

# Checks of what every store of documents does, run against an empty one.


StoreCheck: TypeAlias = Callable[[Store], Awaitable[None]]


async def _creates_and_replaces_by_version(store: Store) -> None:
    assert await store.get("run", "a") is None
    assert await store.put("run", "a", b"one", expected=0)
    assert await store.get("run", "a") == (b"one", 1)
    assert await store.put("run", "a", b"two", expected=1)
    assert await store.get("run", "a") == (b"two", 2)


async def _refuses_another_version(store: Store) -> None:
    assert not await store.put("run", "a", b"one", expected=1)
    await store.put("run", "a", b"one", expected=0)
    assert not await store.put("run", "a", b"two", expected=0)
    assert not await store.delete("run", "a", expected=2)
    assert await store.get("run", "a") == (b"one", 1)


async def _deletes_by_version(store: Store) -> None:
    assert not await store.delete("run", "a", expected=0)
    await store.put("run", "a", b"one", expected=0)
    assert await store.delete("run", "a", expected=1)
    assert await store.get("run", "a") is None
    assert await store.put("run", "a", b"new", expected=0)


async def _lists_keys_in_order_page_by_page(store: Store) -> None:
    for key in ("é", "b", "a", "Z", "ab"):
        await store.put("run", key, b"", expected=0)
    await store.put("other", "aa", b"", expected=0)
    assert list(await store.keys("run")) == ["Z", "a", "ab", "b", "é"]
    assert list(await store.keys("run", limit=2)) == ["Z", "a"]
    assert list(await store.keys("run", after="a", limit=2)) == ["ab", "b"]
    assert list(await store.keys("run", limit=0)) == list(await store.keys("none")) == []


async def _keeps_bytes_as_they_are(store: Store) -> None:
    value = bytes(range(256)) * 10
    await store.put("run", "a", value, expected=0)
    assert await store.get("run", "a") == (value, 1)


async def _loses_no_update(store: Store) -> None:
    """One of many who read the same version writes; the others must read again."""
    await store.put("count", "a", b"0", expected=0)

    async def add_one() -> None:
        while True:
            found = await store.get("count", "a")
            assert found is not None
            value, version = found
            if await store.put("count", "a", b"%d" % (int(value) + 1), expected=version):
                return

    await asyncio.gather(*(add_one() for _ in range(20)))
    assert await store.get("count", "a") == (b"20", 21)


async def _refuses_empty_names(store: Store) -> None:
    for kind, key in (("", "a"), ("run", "")):
        try:
            await store.put(kind, key, b"", expected=0)
        except InvalidRecordError:
            continue
        raise AssertionError(f"a document was called {kind!r} and {key!r}")


STORE_CHECKS: tuple[StoreCheck, ...] = (
    _creates_and_replaces_by_version,
    _refuses_another_version,
    _deletes_by_version,
    _lists_keys_in_order_page_by_page,
    _keeps_bytes_as_they_are,
    _loses_no_update,
    _refuses_empty_names,
)


# Checks of what every memory does, run against an empty one.


MemoryCheck: TypeAlias = Callable[[Memory], Awaitable[None]]

_ME, _YOU = "reviewer", "writer"
_TOOL_TURN: tuple[Message, ...] = (
    UserMessage((Text("What is the weather?"), Media("image/png", b"\x89PNG\x00"))),
    AssistantMessage(
        (
            Reasoning("I should look.", Opaque("anthropic", {"signature": "x=="})),
            ToolCall("call_1", "look", {"city": "Paris", "days": [1, 2]}),
        ),
        "scripted",
        Opaque("openai", ["id"]),
    ),
    ToolMessage((ToolResult("call_1", "look", "sun\x00 and ☀ in PARIS", is_error=True),)),
    AssistantMessage((Text("Sunny."),)),
)
_HOSTILE = (
    "",
    " ",
    '"',
    '"unbalanced',
    "'); DROP TABLE lines; --",
    "sun AND",
    "NOT",
    "NEAR(sun, 1",
    "said: sun*",
    "^sun + (",
    "-sun",
    "{words} : sun",
    "%",
    "_",
    "\\",
    "\x00",
    "\ud800",
    "?1 :name @x $y",
    "§" + "0" * 32,
    "☀" * 50,
    "x" * 100_000,
    " ".join(map(str, range(5_000))),
    "((" * 5_000,
)


def _say(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def _texts(messages: Sequence[Message]) -> list[str]:
    parts = [
        part for message in messages if isinstance(message, UserMessage) for part in message.parts
    ]
    return [part.text for part in parts if isinstance(part, Text)]


async def _loads_in_order_what_was_appended(memory: Memory) -> None:
    assert list(await memory.load(_ME)) == []
    assert await memory.append(_ME, _TOOL_TURN)
    assert await memory.append(_ME, [_say("and then?")])
    assert tuple(await memory.load(_ME)) == (*_TOOL_TURN, _say("and then?"))


async def _loads_the_last_turns_that_fit_whole(memory: Memory) -> None:
    await memory.append(_ME, [_say("first")])
    await memory.append(_ME, _TOOL_TURN)
    await memory.append(_ME, [_say("last")])
    sizes = {limit: len(await memory.load(_ME, limit)) for limit in (-1, 0, 1, 4, 5, 6, 7, 10**30)}
    assert sizes == {-1: 0, 0: 0, 1: 1, 4: 1, 5: 5, 6: 6, 7: 6, 10**30: 6}
    assert tuple(await memory.load(_ME, 5)) == (*_TOOL_TURN, _say("last"))


async def _keeps_owners_apart(memory: Memory) -> None:
    await memory.append(_ME, [_say("the blue door")], key="turn 1")
    assert await memory.append(_YOU, [_say("the red door")], key="turn 1")
    assert _texts(await memory.load(_ME)) == ["the blue door"]
    assert _texts(await memory.search(_YOU, "door")) == ["the red door"]
    assert list(await memory.search(f"{_ME} ", "door")) == []


async def _writes_a_turn_once(memory: Memory) -> None:
    """Also if it is told otherwise the second time: what was remembered first stays."""
    assert await memory.append(_ME, [_say("one")], key="turn 1")
    assert not await memory.append(_ME, [_say("one")], key="turn 1")
    assert not await memory.append(_ME, [_say("other")], key="turn 1")
    assert await memory.append(_ME, [_say("two")], key="turn 2")
    assert await memory.append(_ME, [_say("two")])
    assert await memory.append(_ME, [_say("two")])
    assert _texts(await memory.load(_ME)) == ["one", "two", "two", "two"]


async def _writes_a_turn_once_among_many_at_once(memory: Memory) -> None:
    turns = [memory.append(_ME, [_say("a"), _say("b")], key="turn 1") for _ in range(20)]
    assert (await asyncio.gather(*turns)).count(True) == 1
    assert _texts(await memory.load(_ME)) == ["a", "b"]


async def _keeps_turns_whole_among_many_at_once(memory: Memory) -> None:
    turns = [[_say(f"{turn}.{place}") for place in range(3)] for turn in range(20)]
    await asyncio.gather(*(memory.append(_ME, turn) for turn in turns))
    said = _texts(await memory.load(_ME))
    assert sorted(said[::3]) == sorted(f"{turn}.0" for turn in range(20))
    assert said == [f"{text[:-2]}.{place}" for text in said[::3] for place in range(3)]


async def _writes_nothing_of_a_turn_that_cannot_be_written(memory: Memory) -> None:
    unwritable: Sequence[tuple[str, Message, str | None]] = (
        ("", _say("x"), None),
        ("\ud800", _say("x"), None),
        (_ME, _say("x"), ""),
        (_ME, _say("x"), "\ud800"),
        (_ME, _say("\ud800"), "turn 1"),
        (_ME, AssistantMessage((ToolCall("1", "look", object()),)), "turn 1"),
    )
    for owner, message, key in unwritable:
        try:
            await memory.append(owner, [_say("good"), message], key=key)
        except InvalidRecordError:
            continue
        raise AssertionError(f"{message} of {owner!r} was written under {key!r}")
    assert list(await memory.load(_ME)) == []
    assert await memory.append(_ME, [_say("good")], key="turn 1")


async def _refuses_names_that_cannot_be_written(memory: Memory) -> None:
    for owner in ("", "\ud800"):
        for use in (memory.load(owner), memory.search(owner, "x"), memory.forget(owner)):
            try:
                await use
            except InvalidRecordError:
                continue
            raise AssertionError(f"an owner was called {owner!r}")


async def _finds_every_word_latest_first(memory: Memory) -> None:
    for text in (
        "Red door",
        "a blue DOOR, half-open",
        "doors",
        "the door is red",
        "Straße in cafe\u0301",
    ):
        await memory.append(_ME, [_say(text)])
    expected = {
        "door": ["the door is red", "a blue DOOR, half-open", "Red door"],
        "DOOR red red!": ["the door is red", "Red door"],
        "open": ["a blue DOOR, half-open"],
        "half_open": ["a blue DOOR, half-open"],
        "STRASSE CAFÉ": ["Straße in cafe\u0301"],
        "door green": [],
        "oor": [],
        "...": [],
    }
    assert {query: _texts(await memory.search(_ME, query)) for query in expected} == expected
    limits = {limit: len(await memory.search(_ME, "door", limit)) for limit in (-1, 0, 2, 10**30)}
    assert limits == {-1: 0, 0: 0, 2: 2, 10**30: 3}


async def _heeds_a_hundred_words(memory: Memory) -> None:
    held = " ".join(f"word{number}" for number in range(100))
    await memory.append(_ME, [_say(held)])
    assert _texts(await memory.search(_ME, f"{held} {held} absent")) == [held]
    assert list(await memory.search(_ME, f"absent {held}")) == []


async def _finds_what_tools_answered(memory: Memory) -> None:
    await memory.append(_ME, _TOOL_TURN)
    assert tuple(await memory.search(_ME, "paris")) == _TOOL_TURN[2:3]
    assert tuple(await memory.search(_ME, "weather")) == _TOOL_TURN[:1]
    assert list(await memory.search(_ME, "signature")) == []


async def _takes_any_query_as_words(memory: Memory) -> None:
    await memory.append(_ME, [_say("the sun, near and not said; ☀ 0 1 2")])
    for query in _HOSTILE:
        await memory.search(_ME, query)
    assert _texts(await memory.search(_ME, '"SUN" AND NOT said:*'))
    assert list(await memory.search(_ME, "sun OR moon")) == []
    assert len(await memory.load(_ME)) == 1


async def _keeps_hostile_owners_and_texts_as_they_are(memory: Memory) -> None:
    for hostile in (text for text in _HOSTILE if text and text != "\ud800"):
        await memory.append(hostile, [_say(hostile)], key=hostile)
        assert _texts(await memory.load(hostile)) == [hostile]
        await memory.forget(hostile)
        assert list(await memory.load(hostile)) == []


async def _forgets_one_owner_with_its_keys(memory: Memory) -> None:
    await memory.append(_ME, [_say("door"), _say("window")], key="turn 1")
    await memory.append(_YOU, [_say("door")])
    await memory.forget(_ME)
    await memory.forget("nobody")
    assert list(await memory.load(_ME)) == list(await memory.search(_ME, "door")) == []
    assert _texts(await memory.search(_YOU, "door")) == ["door"]
    assert await memory.append(_ME, [_say("anew")], key="turn 1")
    assert _texts(await memory.load(_ME)) == ["anew"]
    assert list(await memory.search(_ME, "window")) == []


async def _does_not_change_with_what_was_appended(memory: Memory) -> None:
    arguments = {"city": "Paris"}
    await memory.append(_ME, [AssistantMessage((ToolCall("1", "look", arguments),))])
    arguments["city"] = "Rome"
    (message,) = await memory.load(_ME)
    assert isinstance(message, AssistantMessage)
    assert message.tool_calls[0].arguments == {"city": "Paris"}


async def _carries_out_what_a_cancelled_caller_began(memory: Memory) -> None:
    caller = asyncio.ensure_future(memory.append(_ME, [_say("a"), _say("b")], key="turn 1"))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert _texts(await memory.load(_ME)) == ["a", "b"]
    assert not await memory.append(_ME, [_say("a"), _say("b")], key="turn 1")


MEMORY_CHECKS: tuple[MemoryCheck, ...] = (
    _loads_in_order_what_was_appended,
    _loads_the_last_turns_that_fit_whole,
    _keeps_owners_apart,
    _writes_a_turn_once,
    _writes_a_turn_once_among_many_at_once,
    _keeps_turns_whole_among_many_at_once,
    _writes_nothing_of_a_turn_that_cannot_be_written,
    _refuses_names_that_cannot_be_written,
    _finds_every_word_latest_first,
    _heeds_a_hundred_words,
    _finds_what_tools_answered,
    _takes_any_query_as_words,
    _keeps_hostile_owners_and_texts_as_they_are,
    _forgets_one_owner_with_its_keys,
    _does_not_change_with_what_was_appended,
    _carries_out_what_a_cancelled_caller_began,
)
