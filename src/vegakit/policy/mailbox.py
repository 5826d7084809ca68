"""The mailbox of a process, and the signals of links, monitors and exits that reach it (pure)."""

from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace
from typing_extensions import TypeVar

from vegakit.errors import InvalidRuleError
from vegakit.ids import EffectKey

# A bounded mailbox: one line of messages, distinguished by where they stand in it.
#
#     [ out … | returned … | queued, at most capacity … | waiting, at most max_waiters … ]
#
#     out        taken, not committed yet
#     returned   taken by an incarnation that crashed; handed out again before anything else
#     queued     never taken
#     waiting    beyond capacity: their senders wait, and come in by moving up
#
# event                           | the line                           | answer
# --------------------------------|------------------------------------|-------------------------
# post, an id that is remembered  | –                                  | Duplicate
# post, a place is free           | one more queued                    | Accepted
# post, full, refuse              | –                                  | MailboxFull
# post, full, drop_newest         | –                                  | Dropped, the new one
# post, full, drop_oldest         | first queued leaves, the new joins | Dropped, the oldest
# post, full, wait, waiters < max | one more waiting                   | Waiting
# post, full, wait, waiters = max | –                                  | MailboxFull
# cancel, a waiting one           | it leaves                          | True
# take, some returned             | first returned goes out            | Taken
# take, some queued               | first queued goes out,             | Taken, naming the ticket
#                                 | first waiting becomes queued       | it admitted
# commit, one that is out         | it leaves                          | True
# put_back, after a crash         | all that is out is returned        |
#
# Messages stand in the order they were posted and are never reordered. What was taken once is
# neither dropped nor counted against capacity, so a crash loses nothing and shuts nobody out.
#
# An id is remembered from the moment its message joins the line until `remember` younger ones
# came; a message that never came in (refused, dropped as the newest, cancelled while waiting) may
# be sent again. An idle mailbox holds no container at all.


M = TypeVar("M", default=Any)

_NUMBER = attrgetter("number")


class WhenFull(StrEnum):
    """The ways to treat a message to a full mailbox."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    REFUSE = "refuse"
    WAIT = "wait"


class MailboxRule(Struct, frozen=True):
    """The size of a mailbox. `remember` is how many `dedupe` texts it knows again."""

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


class MailboxEntry(Struct, Generic[M], frozen=True, omit_defaults=True):
    """A message with its number."""

    number: int
    message: M
    dedupe: str | None = None


class Accepted(Struct, frozen=True, tag=True):
    """The message has a place."""

    number: int


class Waiting(Struct, frozen=True, tag=True):
    """The message waits for a place. `ticket` is its number: cancel with it, and find it in
    `Taken.admitted`."""

    ticket: int


class Dropped(Struct, Generic[M], frozen=True, tag=True):
    """`letter` is lost; `accepted` is the number of the new one, unless that is the lost one."""

    entry: MailboxEntry[M]
    accepted: int | None = None


class MailboxFull(Struct, frozen=True, tag=True):
    """The message was not taken: the mailbox is full."""

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
    """A mailbox is the queue of a process. A message that was taken stays until it is finished, so
    that a restart finds it again."""

    rule: MailboxRule
    line: list[MailboxEntry[M]] | None = None
    out: int = 0
    returned: int = 0
    posted: int = 0
    remembered: dict[str, int] | None = None

    @property
    def queued(self) -> int:
        """Return how many messages have a place and were not taken yet."""
        return min(self._never_taken, self.rule.capacity)

    @property
    def waiting(self) -> int:
        """Return how many messages wait for a place."""
        return self._never_taken - self.queued

    def post(self, message: M, dedupe: str | None = None) -> Posted[M]:
        """Add a message, unless one with the same `dedupe` is remembered or the mailbox is full."""
        if self.remembered is not None and dedupe in self.remembered:
            return Duplicate(self.remembered[dedupe])
        self.posted += 1
        entry = MailboxEntry(self.posted, message, dedupe)
        if self._never_taken < self.rule.capacity:
            return Accepted(self._join(entry))
        return self._post_when_full(entry)

    def take(self) -> Taken[M] | None:
        """Return the next message, with the number of one that now gets a place, or None."""
        if self.line is None or self.out == len(self.line):
            return None
        admitted = None
        if self.returned:
            self.returned -= 1
        elif self.waiting:
            admitted = self.line[self.out + self.rule.capacity].number
        entry = self.line[self.out]
        self.out += 1
        return Taken(entry.number, entry.message, admitted)

    def has(self, number: int) -> bool:
        """It was posted and is not done with."""
        line = self.line or []
        place = bisect_left(line, number, key=_NUMBER)
        return place < len(line) and line[place].number == number

    def change(self, number: int, message: M) -> None:
        """Put another message in the place of one that is out."""
        line = self.line or []
        place = bisect_left(line, number, 0, self.out, key=_NUMBER)
        if place < self.out and line[place].number == number:
            line[place] = replace(line[place], message=message)

    def taken(self, number: int) -> MailboxEntry[M] | None:
        """One that is out, without committing it."""
        line = self.line or []
        if self.out == 1:  # of most mailboxes no more than one is
            return line[0] if line[0].number == number else None
        place = bisect_left(line, number, 0, self.out, key=_NUMBER)
        return line[place] if place < self.out and line[place].number == number else None

    @property
    def in_hand(self) -> list[int]:
        """The numbers of those that are out."""
        return [entry.number for entry in (self.line or [])[: self.out]]

    def commit(self, number: int) -> bool:
        """False when it is not out: committed before, or put back."""
        if self._pull(number, 0, self.out) is None:
            return False
        self.out -= 1
        return True

    def put_back(self) -> None:
        """Make every message that was taken and not finished the next to be taken, after a
        restart."""
        self.returned += self.out
        self.out = 0

    def cancel(self, ticket: int) -> bool:
        """False when it does not wait: it was admitted, and its letter will be read."""
        handed_out = self.out + self.returned
        entry = self._pull(ticket, handed_out + self.queued, handed_out + self._never_taken)
        if entry is None:
            return False
        if entry.dedupe is not None:
            self._forget(entry.dedupe, entry.number)
        return True

    @property
    def _never_taken(self) -> int:
        return 0 if self.line is None else len(self.line) - self.out - self.returned

    def _post_when_full(self, entry: MailboxEntry[M]) -> Posted[M]:
        match self.rule.when_full:
            case WhenFull.DROP_OLDEST:
                return Dropped(self._drop_oldest(), self._join(entry))
            case WhenFull.DROP_NEWEST:
                return Dropped(entry)
            case WhenFull.WAIT if self.waiting < self.rule.max_waiters:
                return Waiting(self._join(entry))
            case WhenFull.WAIT | WhenFull.REFUSE:
                return MailboxFull(self.queued, self.waiting)

    def _drop_oldest(self) -> MailboxEntry[M]:
        assert self.line is not None  # it is full
        return self.line.pop(self.out + self.returned)

    def _join(self, entry: MailboxEntry[M]) -> int:
        if self.line is None:
            self.line = []
        self.line.append(entry)
        if entry.dedupe is not None:
            self._remember(entry.dedupe, entry.number)
        return entry.number

    def _pull(self, number: int, start: int, stop: int) -> MailboxEntry[M] | None:
        """Take a letter out of a part of the line; numbers rise along it."""
        line = self.line or []
        place = bisect_left(line, number, start, stop, key=_NUMBER)
        if place == stop or line[place].number != number:
            return None
        entry = line.pop(place)
        self.line = line or None
        return entry

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


# The reason of an exit is one word and a text.
#
# | kind      | said by                                    | abnormal |
# |-----------|--------------------------------------------|----------|
# | normal    | a process that finished                    |          |
# | shutdown  | whoever stopped it, with or without detail |          |
# | crashed   | its own code, or `exit(reason)`            | yes      |
# | killed    | a kill, which cannot be refused            | yes      |
# | escalated | a supervisor that gave up                  | yes      |
# | noproc    | a link or monitor to nobody                | yes      |
#
# OTP's supervisors give up with `shutdown`, so a transient one is never restarted and nothing
# climbs further. Ours say `escalated`, with the first cause, through any number of levels.


class ExitKind(StrEnum):
    """The ways in which a process ends."""

    NORMAL = "normal"
    SHUTDOWN = "shutdown"
    CRASHED = "crashed"
    KILLED = "killed"
    ESCALATED = "escalated"
    NOPROC = "noproc"


class ExitReason(Struct, frozen=True, omit_defaults=True):
    """`cause` are the effects whose outcomes ended it, if it was these."""

    kind: ExitKind
    detail: str = ""
    cause: tuple[EffectKey, ...] = ()

    @property
    def is_abnormal(self) -> bool:
        """Return whether the process ended otherwise than by its own will or by request."""
        return self.kind is not ExitKind.NORMAL and self.kind is not ExitKind.SHUTDOWN

    def __str__(self) -> str:
        return f"{self.kind}({self.detail})" if self.detail else self.kind.value


def escalated(cause: ExitReason) -> ExitReason:
    """Return the reason for which the process above ends: it keeps the first cause."""
    if cause.kind is ExitKind.ESCALATED:
        return cause
    return ExitReason(ExitKind.ESCALATED, str(cause), cause.cause)


# Links and monitors: who hears of the end of a process, and who ends with it.
#
# | exit signal from another     | the receiver traps exits | it does not         |
# |------------------------------|--------------------------|---------------------|
# | normal                       | a message                | nothing             |
# | any other reason             | a message                | ends, same reason   |
# | kill                         | ends, killed             | ends, killed        |
#
# What the links of a killed process hear is `killed`, a reason like any other, so it can be
# trapped.
#
# A link is two-way, and there is one for a pair at most. A monitor is one-way; each has its own
# ref and brings one Down, or none if it was taken back. To link to nobody brings the exit signal
# `noproc`, to monitor nobody a Down of `noproc`, at once.
#
# One end is spread until nobody else ends by it. The news goes out in this order: the process
# that ended first tells its links, then its monitors, each in the order they were made; then the
# next one does. Whoever has ended hears nothing more. So what passes between any two keeps its
# order.


class EndProcess(Struct, frozen=True, tag=True):
    """End the process for this reason."""

    to: str
    reason: ExitReason


class SendExit(Struct, frozen=True, tag=True):
    """A message to a process that traps exits."""

    to: str
    sender: str
    reason: ExitReason


class SendDown(Struct, frozen=True, tag=True):
    """The message of a monitor."""

    to: str
    ref: str
    target: str
    reason: ExitReason


Signal: TypeAlias = EndProcess | SendExit | SendDown

T = TypeVar("T")

_NOPROC = ExitReason(ExitKind.NOPROC)
_KILLED = ExitReason(ExitKind.KILLED)


class Signals(Struct, omit_defaults=True):
    """Only who is tied has an entry, so `alive`, whether the target is, has to be handed in."""

    links: dict[str, dict[str, None]] = field(default_factory=dict)
    watched: dict[str, dict[str, str]] = field(default_factory=dict)
    watching: dict[str, dict[str, str]] = field(default_factory=dict)
    trapping: dict[str, None] = field(default_factory=dict)
    refs: int = 0

    def link(self, pid: str, other: str, *, alive: bool) -> list[Signal]:
        """Link two processes, so that each is told how the other ends. A link to one that is gone
        tells it at once."""
        if not alive:
            return self.send_exit(other, pid, _NOPROC)
        if pid != other:
            self.links.setdefault(pid, {})[other] = None
            self.links.setdefault(other, {})[pid] = None
        return []

    def unlink(self, pid: str, other: str) -> None:
        """Remove a link in both directions."""
        _cut(self.links, pid, other)
        _cut(self.links, other, pid)

    def monitor(self, watcher: str, target: str, *, alive: bool) -> tuple[str, list[Signal]]:
        """Let a process be told, once, how another ends. Return the reference of the monitor."""
        self.refs += 1
        ref = str(self.refs)
        if not alive:
            return ref, [SendDown(watcher, ref, target, _NOPROC)]
        self.watching.setdefault(watcher, {})[ref] = target
        self.watched.setdefault(target, {})[ref] = watcher
        return ref, []

    def demonitor(self, watcher: str, ref: str) -> None:
        """Remove a monitor."""
        target = _cut(self.watching, watcher, ref)
        if target is not None:
            _cut(self.watched, target, ref)

    def send_exit(self, sender: str, to: str, reason: ExitReason) -> list[Signal]:
        """Send an exit signal, and return what it does to the receiver and to all that are linked
        to it."""
        signal = self.received(sender, to, reason)
        if isinstance(signal, EndProcess):
            return self._spread(signal)
        return [] if signal is None else [signal]

    def kill(self, pid: str) -> list[Signal]:
        """End a process whatever it traps, and return what that does to others."""
        return self._spread(EndProcess(pid, _KILLED))

    def on_exited(self, pid: str, reason: ExitReason) -> list[Signal]:
        """It ended by itself; what it owes to others."""
        return self._spread(EndProcess(pid, reason))[1:]

    def received(self, sender: str, to: str, reason: ExitReason) -> EndProcess | SendExit | None:
        """Return what an exit signal does to its receiver alone."""
        if to in self.trapping:
            return SendExit(to, sender, reason)
        return None if reason.kind is ExitKind.NORMAL else EndProcess(to, reason)

    def _spread(self, end: EndProcess) -> list[Signal]:
        signals: list[Signal] = [end]
        ended = {end.to}
        for news in signals:  # grows while it is walked
            if not isinstance(news, EndProcess):
                continue
            for signal in self.exit_signals(news.to, news.reason):
                if signal.to in ended:
                    continue
                signals.append(signal)
                if isinstance(signal, EndProcess):
                    ended.add(signal.to)
        return signals

    def exit_signals(self, pid: str, reason: ExitReason) -> Iterator[Signal]:
        """Yield what the end of a process means to those directly tied to it, and no further."""
        self.trapping.pop(pid, None)
        for ref, target in self.watching.pop(pid, {}).items():
            _cut(self.watched, target, ref)
        for peer in self.links.pop(pid, {}):
            _cut(self.links, peer, pid)
            signal = self.received(pid, peer, reason)
            if signal is not None:
                yield signal
        for ref, watcher in self.watched.pop(pid, {}).items():
            _cut(self.watching, watcher, ref)
            yield SendDown(watcher, ref, pid, reason)


def _cut(table: dict[str, dict[str, T]], pid: str, key: str) -> T | None:
    ties = table.get(pid)
    if ties is None:
        return None
    value = ties.pop(key, None)
    if not ties:
        del table[pid]
    return value
