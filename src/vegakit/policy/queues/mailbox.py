"""A bounded mailbox: one line of letters, told apart by where they stand in it.

    [ out … | returned … | queued, at most capacity … | waiting, at most max_waiters … ]

    out        taken, not committed yet
    returned   taken by a life that crashed; handed out again before anything else
    queued     never taken
    waiting    beyond capacity: their senders wait, and come in by moving up

| event                           | the line                           | answer                   |
|---------------------------------|------------------------------------|--------------------------|
| post, an id that is remembered  | –                                  | Duplicate                |
| post, a place is free           | one more queued                    | Accepted                 |
| post, full, refuse              | –                                  | MailboxFull              |
| post, full, drop_newest         | –                                  | Dropped, the new one     |
| post, full, drop_oldest         | first queued leaves, the new joins | Dropped, the oldest      |
| post, full, wait, waiters < max | one more waiting                   | Waiting                  |
| post, full, wait, waiters = max | –                                  | MailboxFull              |
| cancel, a waiting one           | it leaves                          | True                     |
| take, some returned             | first returned goes out            | Taken                    |
| take, some queued               | first queued goes out,             | Taken, naming the ticket |
|                                 | first waiting becomes queued       | it admitted              |
| commit, one that is out         | it leaves                          | True                     |
| put_back: the life crashed      | all that is out is returned        |                          |

Letters stand in the order they were posted and are never reordered. What was taken once is neither
dropped nor counted against capacity, so a crash loses nothing and shuts nobody out.

An id is remembered from the moment its letter joins the line until `remember` younger ones came; a
letter that never came in (refused, dropped as the newest, cancelled while waiting) may be sent
again. An idle mailbox holds no container at all.
"""

from bisect import bisect_left
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, TypeAlias

from msgspec import Struct
from typing_extensions import TypeVar

from vegakit.errors import InvalidRuleError

__all__ = [
    "Accepted",
    "Dropped",
    "Duplicate",
    "Letter",
    "Mailbox",
    "MailboxFull",
    "MailboxRule",
    "Posted",
    "Taken",
    "Waiting",
    "WhenFull",
]

M = TypeVar("M", default=Any)

_NUMBER = attrgetter("number")


class WhenFull(StrEnum):
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    REFUSE = "refuse"
    WAIT = "wait"


class MailboxRule(Struct, frozen=True):
    capacity: int = 1000
    when_full: WhenFull = WhenFull.WAIT
    max_waiters: int = 1000
    remember: int = 256

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.max_waiters < 1 or self.remember < 0:
            raise InvalidRuleError(
                "a mailbox needs capacity and max_waiters of at least 1 and remember of at least 0;"
                f" got {self}; to let nobody wait, choose refuse"
            )


class Letter(Struct, Generic[M], frozen=True, omit_defaults=True):
    number: int
    message: M
    dedupe: str | None = None


class Accepted(Struct, frozen=True, tag=True):
    number: int


class Waiting(Struct, frozen=True, tag=True):
    """`ticket` is the letter's number: cancel with it, and find it in `Taken.admitted`."""

    ticket: int


class Dropped(Struct, Generic[M], frozen=True, tag=True):
    """`letter` is lost; `accepted` is the number of the new one, unless that is the lost one."""

    letter: Letter[M]
    accepted: int | None = None


class MailboxFull(Struct, frozen=True, tag=True):
    queued: int
    waiting: int


class Duplicate(Struct, frozen=True, tag=True):
    """Ignored: letter `number` carried the same id."""

    number: int


Posted: TypeAlias = Accepted | Waiting | Dropped[M] | MailboxFull | Duplicate


class Taken(Struct, Generic[M], frozen=True):
    """Commit it by its number. `admitted` is the ticket of the sender who waits no longer."""

    number: int
    message: M
    admitted: int | None = None


class Mailbox(Struct, Generic[M], omit_defaults=True, gc=False):
    rule: MailboxRule
    line: list[Letter[M]] | None = None
    out: int = 0
    returned: int = 0
    posted: int = 0
    remembered: dict[str, int] | None = None

    @property
    def queued(self) -> int:
        return min(self._never_taken, self.rule.capacity)

    @property
    def waiting(self) -> int:
        return self._never_taken - self.queued

    def post(self, message: M, dedupe: str | None = None) -> Posted[M]:
        if self.remembered is not None and dedupe in self.remembered:
            return Duplicate(self.remembered[dedupe])
        self.posted += 1
        letter = Letter(self.posted, message, dedupe)
        if self._never_taken < self.rule.capacity:
            return Accepted(self._join(letter))
        return self._post_when_full(letter)

    def take(self) -> Taken[M] | None:
        if self.line is None or self.out == len(self.line):
            return None
        admitted = None
        if self.returned:
            self.returned -= 1
        elif self.waiting:
            admitted = self.line[self.out + self.rule.capacity].number
        letter = self.line[self.out]
        self.out += 1
        return Taken(letter.number, letter.message, admitted)

    def has(self, number: int) -> bool:
        """It was posted and is not done with."""
        line = self.line or []
        place = bisect_left(line, number, key=_NUMBER)
        return place < len(line) and line[place].number == number

    def taken(self, number: int) -> Letter[M] | None:
        """One that is out, without committing it."""
        line = self.line or []
        if self.out == 1:  # of most mailboxes no more than one is
            return line[0] if line[0].number == number else None
        place = bisect_left(line, number, 0, self.out, key=_NUMBER)
        return line[place] if place < self.out and line[place].number == number else None

    @property
    def in_hand(self) -> list[int]:
        """The numbers of those that are out."""
        return [letter.number for letter in (self.line or [])[: self.out]]

    def commit(self, number: int) -> bool:
        """False when it is not out: committed before, or put back."""
        if self._pull(number, 0, self.out) is None:
            return False
        self.out -= 1
        return True

    def put_back(self) -> None:
        self.returned += self.out
        self.out = 0

    def cancel(self, ticket: int) -> bool:
        """False when it does not wait: it was admitted, and its letter will be read."""
        handed_out = self.out + self.returned
        letter = self._pull(ticket, handed_out + self.queued, handed_out + self._never_taken)
        if letter is None:
            return False
        if letter.dedupe is not None:
            self._forget(letter.dedupe, letter.number)
        return True

    @property
    def _never_taken(self) -> int:
        return 0 if self.line is None else len(self.line) - self.out - self.returned

    def _post_when_full(self, letter: Letter[M]) -> Posted[M]:
        match self.rule.when_full:
            case WhenFull.DROP_OLDEST:
                return Dropped(self._drop_oldest(), self._join(letter))
            case WhenFull.DROP_NEWEST:
                return Dropped(letter)
            case WhenFull.WAIT if self.waiting < self.rule.max_waiters:
                return Waiting(self._join(letter))
            case WhenFull.WAIT | WhenFull.REFUSE:
                return MailboxFull(self.queued, self.waiting)

    def _drop_oldest(self) -> Letter[M]:
        assert self.line is not None  # it is full
        return self.line.pop(self.out + self.returned)

    def _join(self, letter: Letter[M]) -> int:
        if self.line is None:
            self.line = []
        self.line.append(letter)
        if letter.dedupe is not None:
            self._remember(letter.dedupe, letter.number)
        return letter.number

    def _pull(self, number: int, start: int, stop: int) -> Letter[M] | None:
        """Take a letter out of a part of the line; numbers rise along it."""
        line = self.line or []
        place = bisect_left(line, number, start, stop, key=_NUMBER)
        if place == stop or line[place].number != number:
            return None
        letter = line.pop(place)
        self.line = line or None
        return letter

    def _remember(self, dedupe: str, number: int) -> None:
        if self.remembered is None:
            self.remembered = {}
        self.remembered[dedupe] = number
        if len(self.remembered) > self.rule.remember:
            del self.remembered[next(iter(self.remembered))]

    def _forget(self, dedupe: str, number: int) -> None:
        # The id may have been crowded out and then come again with a younger letter.
        known = self.remembered or {}
        if known.get(dedupe) == number:
            del known[dedupe]
