"""What was said before a turn, as far as the model still sees it.

    [summary]  exchange  exchange  exchange  │  the turn, which is never dropped
               ◀── the oldest go first

An exchange is a user message with all that follows until the next one; only whole ones go, so a
tool call is never parted from its result.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from vegakit.agent.actions import Dropped
from vegakit.agent.transcript import transcript
from vegakit.conversation import Message, Text, UserMessage

__all__ = ["History", "said_by_user"]

_Exchange: TypeAlias = tuple[Message, ...]


def said_by_user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


class History(Struct, omit_defaults=True):
    """`folding` of the oldest exchanges are being summarised."""

    messages: tuple[Message, ...] = ()
    summary: str = ""
    folding: int = 0
    dropped: Dropped = Dropped()

    def seen(self, *, without: int = 0) -> tuple[Message, ...]:
        """By the model, or what it would see without so many of the oldest exchanges."""
        if not without:
            return (*self._opening(), *self.messages)
        return (*self._opening(), *_join(_split(self.messages)[without:]))

    def excess(self, size: Callable[[tuple[Message, ...]], int], room: int) -> int:
        """The fewest exchanges that must go until the rest fits; all, if it never does."""
        every = range(len(_split(self.messages)))
        return bisect_left(every, True, key=lambda gone: size(self.seen(without=gone)) <= room)

    def drop(self, gone: int) -> None:
        exchanges = _split(self.messages)
        self.messages = _join(exchanges[gone:])
        self.dropped = Dropped(
            self.dropped.messages + len(_join(exchanges[:gone])),
            self.dropped.exchanges + gone,
        )

    def begin_folding(self, gone: int) -> str:
        """What there is to summarise, an earlier summary included."""
        self.folding = gone
        return transcript((*self._opening(), *_join(_split(self.messages)[:gone])))

    def on_summary(self, text: str) -> None:
        self.drop(self.folding)
        self.summary, self.folding = text, 0

    def _opening(self) -> tuple[Message, ...]:
        if not self.summary:
            return ()
        return (said_by_user(f"Summary of the earlier conversation: {self.summary}"),)


def _split(messages: Iterable[Message]) -> list[_Exchange]:
    exchanges: list[list[Message]] = []
    for message in messages:
        if isinstance(message, UserMessage) or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return [tuple(exchange) for exchange in exchanges]


def _join(exchanges: Iterable[_Exchange]) -> tuple[Message, ...]:
    return tuple(chain.from_iterable(exchanges))
