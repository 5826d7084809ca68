"""The mailbox's table, row by row."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from vegakit.errors import InvalidRuleError
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


def mailbox(when_full: WhenFull = WhenFull.WAIT, remember: int = 3) -> Mailbox:
    return Mailbox(MailboxRule(capacity=2, when_full=when_full, max_waiters=2, remember=remember))


def full(when_full: WhenFull = WhenFull.WAIT) -> Mailbox:
    box = mailbox(when_full)
    assert box.post("a") == Accepted(1)
    assert box.post("b") == Accepted(2)
    return box


def messages(box: Mailbox) -> list[object]:
    return [taken.message for _ in range(9) if (taken := box.take()) is not None]


def test_messages_are_taken_in_the_order_they_were_posted() -> None:
    """First in, first out, until nothing is left to take."""
    box = full()
    assert box.take() == Taken(1, "a")
    assert box.take() == Taken(2, "b")
    assert box.take() is None


def test_an_empty_mailbox_gives_nothing() -> None:
    """Taking, committing and cancelling find nothing in it."""
    box = mailbox()
    assert box.take() is None
    assert not box.commit(0)
    assert not box.cancel(0)
    assert (box.queued, box.waiting) == (0, 0)


def test_a_full_mailbox_may_refuse() -> None:
    """A refused message leaves no trace, and there is room again after a take."""
    box = full(WhenFull.REFUSE)
    assert box.post("c") == MailboxFull(queued=2, waiting=0)
    box.take()
    assert box.post("d") == Accepted(4)
    assert messages(box) == ["b", "d"]


def test_a_full_mailbox_may_drop_the_oldest() -> None:
    """The oldest makes room for the new one, and both are named."""
    box = full(WhenFull.DROP_OLDEST)
    assert box.post("c", "id") == Dropped(MailboxEntry(1, "a"), accepted=3)
    assert box.post("d") == Dropped(MailboxEntry(2, "b"), accepted=4)
    assert box.post("e") == Dropped(MailboxEntry(3, "c", "id"), accepted=5)
    assert messages(box) == ["d", "e"]


def test_a_full_mailbox_may_drop_the_newest() -> None:
    """The new message is the one that is lost."""
    box = full(WhenFull.DROP_NEWEST)
    assert box.post("c", "id") == Dropped(MailboxEntry(3, "c", "id"), accepted=None)
    assert messages(box) == ["a", "b"]


def test_senders_wait_up_to_a_bound() -> None:
    """Two may wait at a mailbox with two places for waiters; the third is refused."""
    box = full()
    assert box.post("c") == Waiting(ticket=3)
    assert box.post("d") == Waiting(ticket=4)
    assert (box.queued, box.waiting) == (2, 2)
    assert box.post("e") == MailboxFull(queued=2, waiting=2)


def test_taking_admits_the_first_waiter_and_says_who() -> None:
    """Waiters come in in the order they came, one for each message taken."""
    box = full()
    box.post("c")
    box.post("d")
    assert box.take() == Taken(1, "a", admitted=3)
    assert (box.queued, box.waiting) == (2, 1)
    assert box.take() == Taken(2, "b", admitted=4)
    assert box.take() == Taken(3, "c", admitted=None)


def test_a_cancelled_waiter_leaves() -> None:
    """The next waiter moves up, and nobody can leave twice."""
    box = full()
    box.post("c")
    box.post("d")
    assert box.cancel(3)
    assert not box.cancel(3)
    assert box.take() == Taken(1, "a", admitted=4)


def test_the_last_waiter_may_leave_too() -> None:
    """Its place among the waiters is free again, and the first one still waits."""
    box = full()
    box.post("c")
    box.post("d")
    assert box.cancel(4)
    assert box.waiting == 1
    assert box.post("e") == Waiting(5)


def test_an_admitted_waiter_cannot_leave() -> None:
    """Once its letter is queued it will be read: the sender is told that it does not wait."""
    box = full()
    box.post("c")
    box.take()
    assert not box.cancel(3)
    assert not box.cancel(1)
    assert messages(box) == ["b", "c"]


def test_what_a_crashed_life_had_taken_comes_first_again() -> None:
    """Both uncommitted messages come back before the queued one, in their order."""
    box = full()
    box.take()
    box.take()
    box.post("c")
    box.put_back()
    assert messages(box) == ["a", "b", "c"]


def test_a_second_crash_brings_the_same_messages_in_the_same_order() -> None:
    """One of two was taken again before the next crash: the order does not change."""
    box = full()
    box.take()
    box.take()
    box.put_back()
    assert box.take() == Taken(1, "a")
    box.put_back()
    assert messages(box) == ["a", "b"]


def test_the_committed_is_gone() -> None:
    """A committed message is not handed out again, by whatever crash; committing is once."""
    box = full()
    box.take()
    box.take()
    assert box.commit(2)
    assert not box.commit(2)
    box.put_back()
    assert messages(box) == ["a"]


def test_only_what_is_out_can_be_committed() -> None:
    """The late commit of a life that crashed does not take the message from the next one."""
    box = full()
    box.take()
    assert not box.commit(2)
    box.put_back()
    assert not box.commit(1)
    assert messages(box) == ["a", "b"]


def test_a_returned_message_takes_nobodys_place() -> None:
    """What was taken once does not count against capacity, so a crash shuts nobody out."""
    box = full(WhenFull.REFUSE)
    box.take()
    box.put_back()
    assert box.post("c") == Accepted(3)
    assert box.post("d") == MailboxFull(queued=2, waiting=0)


def test_a_returned_message_admits_nobody() -> None:
    """Taking it again frees no place in the queue; the waiter waits for the next take."""
    box = full()
    box.take()
    box.put_back()
    box.post("c")
    box.post("d")
    assert box.take() == Taken(1, "a", admitted=None)
    assert box.take() == Taken(2, "b", admitted=4)


def test_a_waiter_behind_returned_messages_may_leave() -> None:
    """Its ticket is found behind what is out, returned and queued."""
    box = full()
    for _ in range(2):
        box.take()
    box.put_back()
    box.take()
    for text in "cdef":
        box.post(text)
    assert box.cancel(5)
    assert not box.cancel(4)
    assert messages(box) == ["b", "c", "d", "f"]


def test_a_returned_message_is_never_dropped() -> None:
    """The oldest to be dropped is the oldest that nobody has taken."""
    box = full(WhenFull.DROP_OLDEST)
    box.take()
    box.post("c")
    box.put_back()
    assert box.post("d") == Dropped(MailboxEntry(2, "b"), accepted=4)
    assert messages(box) == ["a", "c", "d"]


def test_a_message_out_is_never_dropped() -> None:
    """Neither is one that is being worked on."""
    box = full(WhenFull.DROP_OLDEST)
    box.take()
    box.post("c")
    assert box.post("d") == Dropped(MailboxEntry(2, "b"), accepted=4)
    assert box.commit(1)


def test_a_second_delivery_is_ignored() -> None:
    """The same id again names the letter that came first, even after that was committed."""
    box = mailbox()
    assert box.post("a", "x") == Accepted(1)
    assert box.post("a", "x") == Duplicate(1)
    box.take()
    assert box.commit(1)
    assert box.post("a", "x") == Duplicate(1)
    assert box.post("b", "y") == Accepted(2)


def test_messages_without_an_id_are_all_different() -> None:
    """Equal messages are two messages."""
    box = mailbox()
    box.post("a", "x")
    assert box.post("a") == Accepted(2)


def test_the_memory_of_ids_is_bounded() -> None:
    """Of four ids the first is forgotten, by a memory of three."""
    box = Mailbox(MailboxRule(remember=3))
    for dedupe in "wxyz":
        box.post("m", dedupe)
    assert box.remembered == {"x": 2, "y": 3, "z": 4}
    assert box.post("m", "x") == Duplicate(2)
    assert box.post("m", "w") == Accepted(5)


def test_a_memory_of_nothing_ignores_nothing() -> None:
    """With remember 0 every delivery is a new message."""
    box = mailbox(remember=0)
    assert box.post("a", "x") == Accepted(1)
    assert box.post("a", "x") == Accepted(2)


@pytest.mark.parametrize("when_full", [WhenFull.REFUSE, WhenFull.DROP_NEWEST])
def test_what_never_came_in_may_be_sent_again(when_full: WhenFull) -> None:
    """The id of a message that found no place is not remembered."""
    box = full(when_full)
    assert isinstance(box.post("c", "x"), MailboxFull | Dropped)
    box.take()
    assert box.post("c", "x") == Accepted(4)


def test_a_dropped_oldest_came_in() -> None:
    """It had its place, so its second delivery is still a duplicate."""
    box = mailbox(WhenFull.DROP_OLDEST)
    for text in "abc":
        box.post(text, text)
    assert box.post("a", "a") == Duplicate(1)


def test_a_waiter_is_known_while_it_waits_and_forgotten_when_it_leaves() -> None:
    """Sent twice it waits once; cancelled it may be sent again."""
    box = full()
    assert box.post("c", "x") == Waiting(3)
    assert box.post("c", "x") == Duplicate(3)
    assert box.cancel(3)
    assert box.post("c", "x") == Waiting(4)


def test_a_leaving_waiter_takes_only_its_own_id_along() -> None:
    """Its id was crowded out and came again: the younger letter stays known."""
    box = mailbox(remember=1)
    for dedupe in ("p", "q", "x"):
        box.post("m", dedupe)
    box.take()
    box.post("m", "y")
    assert box.post("m", "x") == Waiting(5)
    box = from_json(Mailbox, to_json(box))
    assert box.cancel(4)
    assert box.post("m", "x") == Duplicate(5)


def test_an_idle_mailbox_is_tiny() -> None:
    """It holds no container, before its first message and after its last, and is 80 bytes."""
    tracemalloc.start()
    rule, before = MailboxRule(), tracemalloc.get_traced_memory()[0]
    boxes = tuple(Mailbox(rule) for _ in range(1000))
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert size < 200 * len(boxes)
    box = full()
    for number in (1, 2):
        box.take()
        box.commit(number)
    assert (box.line, box.remembered) == (None, None)


def test_an_idle_mailbox_is_stored_as_its_rule() -> None:
    """Nothing is written for what it does not hold."""
    rule = MailboxRule()
    assert to_json(Mailbox(rule)) == b'{"rule":' + to_json(rule) + b"}"


@pytest.mark.parametrize(
    "verdict",
    [Accepted(1), Waiting(1), Duplicate(1), MailboxFull(2, 1), Dropped(MailboxEntry(1, "a"), 2)],
)
def test_verdicts_travel_as_json(verdict: Posted) -> None:
    """Each says which one it is, so that a reader can tell them apart."""
    assert msgspec.json.decode(to_json(verdict), type=Posted) == verdict


def test_the_defaults_wait_and_are_bounded() -> None:
    """A mailbox nobody configured makes senders wait, in bounded numbers."""
    assert MailboxRule() == MailboxRule(1000, WhenFull.WAIT, 1000, 256)


@pytest.mark.parametrize("broken", [{"capacity": 0}, {"max_waiters": 0}, {"remember": -1}])
def test_a_rule_that_cannot_hold_is_refused(broken: dict[str, Any]) -> None:
    """A mailbox holds at least one letter and lets at least one sender wait."""
    with pytest.raises(InvalidRuleError, match="at least 1 and remember of at least 0; got Mail"):
        MailboxRule(**broken)


def test_the_smallest_rule_holds() -> None:
    """One place, one waiter, no memory."""
    box = Mailbox(MailboxRule(capacity=1, max_waiters=1, remember=0))
    posted = [box.post(text) for text in "abc"]
    assert posted == [Accepted(1), Waiting(2), MailboxFull(queued=1, waiting=1)]
