"""When a lease has ended, as one observer sees it: written times are believed only of strangers."""

from vegakit.ids import HolderId
from vegakit.policy import LEASE_MS, LeaseWatch

YOU = HolderId("you")
NOW, DAY = 1_700_000_000_000, 86_400_000


def test_a_stranger_ends_when_it_says() -> None:
    """So what was left behind by who died yesterday is settled at once."""
    watch = LeaseWatch()
    assert watch.ended({YOU: NOW + 500}, NOW) == {}
    assert watch.ended({YOU: NOW + 500}, NOW + 499) == {}
    assert watch.ended({YOU: NOW + 500}, NOW + 500) == {YOU: NOW + 500}
    assert LeaseWatch().ended({YOU: NOW - DAY}, NOW) == {YOU: NOW - DAY}


def test_a_clock_that_is_ahead_holds_nothing() -> None:
    """One length after it was first seen it has ended, a day before it says."""
    watch, ahead = LeaseWatch(), {YOU: NOW + DAY}
    assert watch.ended(ahead, NOW) == {}
    assert watch.ended(ahead, NOW + LEASE_MS - 1) == {}
    assert watch.ended(ahead, NOW + LEASE_MS) == ahead


def test_who_renews_lives_whatever_its_clock_says() -> None:
    """A day behind: it ended long ago by what is written, and is left alone while it changes."""
    watch, written, at = LeaseWatch(), NOW - DAY, 0
    assert watch.ended({YOU: written}, NOW) == {YOU: written}  # a stranger
    assert watch.ended({}, NOW) == {}
    for beat in range(1, 100):
        at = beat * LEASE_MS // 4
        assert watch.ended({YOU: written + at}, NOW + at) == {}
    last = NOW + at
    assert watch.ended({YOU: written + at}, last + LEASE_MS - 1) == {}
    assert watch.ended({YOU: written + at}, last + LEASE_MS) == {YOU: written + at}


def test_who_is_gone_is_forgotten() -> None:
    """After a while, so that a long life stays small."""
    watch = LeaseWatch()
    watch.ended({YOU: NOW + 1}, NOW)
    watch.ended({}, NOW + 10 * LEASE_MS)
    assert watch.seen
    watch.ended({}, NOW + 10 * LEASE_MS + 1)
    assert not watch.seen
