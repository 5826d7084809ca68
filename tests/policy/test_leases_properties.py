"""Leases under clocks that are wrong by anything: the dead are found, the living left alone.

Holders and the observer count milliseconds alike but began with other times. A holder renews every
quarter of a length until it dies. True time is known to the test alone.
"""

from hypothesis import given, strategies as st

from vegakit.ids import HolderId
from vegakit.policy import LEASE_MS, LeaseWatch

BEAT_MS = LEASE_MS // 4
DAY = 86_400_000
SKEWS = st.one_of(
    st.integers(-2 * DAY, 2 * DAY), st.integers(-2 * LEASE_MS, 2 * LEASE_MS), st.just(0)
)
LOOKS = st.lists(st.integers(0, BEAT_MS + 2_000), min_size=1, max_size=80)


@given(SKEWS, SKEWS, st.integers(0, 10**6), st.integers(0, 10**6), LOOKS)
def test_the_dead_are_found_and_the_living_left_alone(
    skew: int, mine: int, begins: int, died: int, looks: list[int]
) -> None:
    """Who lives is settled at most once, by an observer that has only just begun; who is dead is
    found at the first look one length after the last renewal was seen, and never earlier than one
    length after it was made, unless it was a stranger."""
    you, watch, at = HolderId("you"), LeaseWatch(), begins
    seen_alive, last_beat = False, died // BEAT_MS * BEAT_MS
    before: int | None = None
    changed_at = begins
    for wait in looks:
        at += wait
        beat = min(at // BEAT_MS * BEAT_MS, last_beat)
        if beat != before:
            seen_alive, changed_at = before is not None, at
            before = beat
        ended = watch.ended({you: beat + LEASE_MS + skew}, at + mine)
        if at - changed_at >= LEASE_MS:
            assert ended, "nobody keeps money for longer than one length unchanged"
        elif seen_alive:
            assert not ended, "who has shown itself is given one length"
        elif skew == mine:
            assert bool(ended) == (beat + LEASE_MS <= at), "with one clock it ends as it says"


@given(SKEWS, SKEWS, st.integers(0, 10**6))
def test_a_living_holder_is_settled_once_at_most(skew: int, mine: int, begins: int) -> None:
    """Whatever the clocks say, and although its lease is taken away each time."""
    you, watch, settled = HolderId("you"), LeaseWatch(), 0
    for at in range(begins, begins + 40 * BEAT_MS, BEAT_MS):
        beat = at // BEAT_MS * BEAT_MS
        settled += bool(watch.ended({you: beat + LEASE_MS + skew}, at + mine))
    assert settled <= 1
