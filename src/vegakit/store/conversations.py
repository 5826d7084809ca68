"""Every backend agrees on these rules about documents and remembered messages.

Text is cut into words here and nowhere else, so every backend finds the same lines, and a query,
which is only words, can hold no search syntax.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import NamedTuple
from unicodedata import normalize

from vegakit.conversation import Conversation, Message, Text, ToolMessage
from vegakit.errors import InvalidRecordError
from vegakit.records import from_json, to_json

# What a document may be called.


def check_name(kind: str, key: str) -> None:
    """An empty key would never be listed, since pages begin after the empty key."""
    if not kind or not key:
        raise InvalidRecordError(
            f"a document has a kind and a key, both not empty; got {kind!r} and {key!r}"
        )


# What is remembered, as lines, and a memory for one process, gone with it.
#
# A line is a message as it is stored, and the words it is found by. Text is cut into words here
# and nowhere else: so every memory finds the same, and a query, being words only, can hold no
# syntax.


_WORD = re.compile(r"[^\W_]+")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_WANTED = 100
"""The time FTS5 takes grows with the square of the words, and a search holds the file."""


class MemoryLine(NamedTuple):
    """One message as it is stored: what was said, and its words for the search."""

    said: str
    words: str
    """With a space around each."""


def check_turn(owner: str, key: str | None = None) -> None:
    """Refuse an owner or a key that is empty or cannot be stored."""
    if not owner or key == "" or _LONE_SURROGATE.search(f"{owner}{key}"):
        raise InvalidRecordError(
            "an owner and a key are text that is not empty and has no lone surrogates; got "
            f"{owner!r} and {key!r}; leave the key out for a turn that comes once"
        )


def lines_of(owner: str, messages: Iterable[Message]) -> list[MemoryLine]:
    """Return the messages of a turn as they are stored."""
    try:
        return [
            MemoryLine(to_json(Conversation((message,))).decode(), _spaced(_words(_text(message))))
            for message in messages
        ]
    except (TypeError, UnicodeError) as error:
        raise InvalidRecordError(
            f"a turn of {owner!r} cannot be written as JSON: {error}; nothing of it was kept; "
            "append text without lone surrogates, and arguments that are JSON"
        ) from error


def message_of(said: str) -> Message:
    """Return a message from what is stored of it."""
    (message,) = from_json(Conversation, said).messages
    return message


def search_words(query: str) -> list[str]:
    """Return the different words of a query, at most a hundred."""
    return list(islice(dict.fromkeys(_words(query)), _MOST_WANTED))


def holds(words: str, query_words: Sequence[str]) -> bool:
    """Say whether a line holds all these words."""
    return bool(query_words) and all(f" {word} " in words for word in query_words)


def bounded(limit: int) -> int:
    """Return a limit that no store stumbles over."""
    return max(0, min(limit, sys.maxsize - 1))


def whole_turns(latest: Sequence[tuple[int, str]], limit: int) -> list[Message]:
    """Return the messages of whole turns, oldest first. `latest` are (turn, said), newest first,
    one more than the limit if there is one."""
    cut = {turn for turn, _ in latest[limit:]}
    return [message_of(said) for turn, said in reversed(latest[:limit]) if turn not in cut]


def _text(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return "\n".join(result.content for result in message.results)
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _words(text: str) -> list[str]:
    return _WORD.findall(normalize("NFKC", text).casefold())


def _spaced(words: Iterable[str]) -> str:
    return " ".join(chain([""], words, [""]))
