"""The mailbox against four separate lists and a list of the ids that came last."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vegakit.policy import (
    Accepted,
    Dropped,
    Mailbox,
    MailboxEntry,
    MailboxFull,
    MailboxRule,
    Taken,
    Waiting,
)
from vegakit.policy.mailbox import Duplicate, Posted, WhenFull
from vegakit.records import from_json, to_json

CAPACITY, MAX_WAITERS, REMEMBER = 3, 2, 4

places = st.integers(0, 15)
ids = st.none() | st.sampled_from("abcdefgh")


class MailboxAgainstLists(RuleBasedStateMachine):
    """The model knows letters by their numbers."""

    @initialize(when_full=st.sampled_from(WhenFull))
    def start(self, when_full: WhenFull) -> None:
        self.mailbox = Mailbox(MailboxRule(CAPACITY, when_full, MAX_WAITERS, REMEMBER))
        self.when_full = when_full
        self.entries: list[MailboxEntry] = []
        self.out: list[int] = []
        self.returned: list[int] = []
        self.queued: list[int] = []
        self.waiting: list[int] = []
        self.known: list[int] = []

    def entry(self, number: int) -> MailboxEntry:
        return self.entries[number - 1]

    def number_at(self, place: int) -> int:
        """Mostly of a letter that is in the line, wherever it stands."""
        known = [0, *self.out, *self.returned, *self.queued, *self.waiting, len(self.entries) + 1]
        return known[place % len(known)]

    def comes_in(self, entry: MailboxEntry, line: list[int]) -> int:
        line.append(entry.number)
        if entry.dedupe is not None:
            self.known = [*self.known, entry.number][-REMEMBER:]
        return entry.number

    def expected(self, entry: MailboxEntry) -> Posted:
        if len(self.queued) < CAPACITY:
            return Accepted(self.comes_in(entry, self.queued))
        if self.when_full is WhenFull.DROP_NEWEST:
            return Dropped(entry)
        if self.when_full is WhenFull.DROP_OLDEST:
            oldest = self.entry(self.queued.pop(0))
            return Dropped(oldest, self.comes_in(entry, self.queued))
        if self.when_full is WhenFull.REFUSE or len(self.waiting) == MAX_WAITERS:
            return MailboxFull(CAPACITY, len(self.waiting))
        return Waiting(self.comes_in(entry, self.waiting))

    @rule(dedupe=ids)
    def one_is_posted(self, dedupe: str | None) -> None:
        number = len(self.entries) + 1
        verdict = self.mailbox.post({"n": number}, dedupe)
        first = [n for n in self.known if self.entry(n).dedupe == dedupe]
        if first:
            assert verdict == Duplicate(*first)
            return
        self.entries.append(MailboxEntry(number, {"n": number}, dedupe))
        assert verdict == self.expected(self.entries[-1])

    @rule()
    def one_is_taken(self) -> None:
        line = self.returned or self.queued
        if not line:
            assert self.mailbox.take() is None
            return
        admitted = None if self.returned else next(iter(self.waiting), None)
        self.out.append(line.pop(0))
        if admitted is not None:
            self.queued.append(self.waiting.pop(0))
        assert self.mailbox.take() == Taken(self.out[-1], {"n": self.out[-1]}, admitted)

    @rule(place=places)
    def one_is_committed(self, place: int) -> None:
        number = self.number_at(place)
        assert self.mailbox.commit(number) == (number in self.out)
        self.out = [n for n in self.out if n != number]

    @rule(place=places)
    def one_is_cancelled(self, place: int) -> None:
        number = self.number_at(place)
        waits = number in self.waiting
        assert self.mailbox.cancel(number) == waits
        if waits:
            self.waiting.remove(number)
            self.known = [n for n in self.known if n != number]

    @rule()
    def the_life_crashes(self) -> None:
        self.mailbox.put_back()
        self.returned = self.out + self.returned
        self.out = []

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(Mailbox, to_json(self.mailbox))
        assert copy == self.mailbox
        self.mailbox = copy

    @invariant()
    def the_lines_agree(self) -> None:
        box = self.mailbox
        line = [entry.number for entry in box.line or ()]
        assert line == self.out + self.returned + self.queued + self.waiting
        assert (box.out, box.returned) == (len(self.out), len(self.returned))
        assert (box.queued, box.waiting) == (len(self.queued), len(self.waiting))

    @invariant()
    def it_keeps_no_empty_line_and_no_old_id(self) -> None:
        assert self.mailbox.line != []
        assert list((self.mailbox.remembered or {}).values()) == self.known


TestMailbox = MailboxAgainstLists.TestCase
