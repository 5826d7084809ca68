"""The rate limit's tables, row by row."""

import msgspec
import pytest

from vegakit.errors import BugError, InvalidRuleError
from vegakit.policy import (
    Admitted,
    NeverFits,
    NotYet,
    Queued,
    Rate,
    RateLimiter,
    RateRule,
    RateStrategy,
    Remaining,
    SlowDown,
)
from vegakit.policy.rate import MAX_SKEW_MS, PATIENCE_MS, SLOT_POLL_MS
from vegakit.records import to_json

TEN_A_SECOND = Rate(10, per_ms=1000, burst=2)
HOUR_MS = 3_600_000


def limiter(**rule: object) -> RateLimiter:
    return RateLimiter(RateRule(**{"requests": TEN_A_SECOND, **rule}))  # pyright: ignore[reportArgumentType]


def spent(now: int = 0, **rule: object) -> RateLimiter:
    """Both calls of the burst went out at `now` and are over."""
    limit = limiter(**rule)
    for who in ("x", "y"):
        assert limit.ask(who, now) == Admitted()
        limit.release(who)
    return limit


def test_the_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    """Ten a second with a burst of two: two now, the third exactly 100 ms later."""
    limit = spent()
    assert limit.ask("a", 0) == Queued(100)
    assert limit.ask("a", 99) == Queued(1)
    assert limit.ask("a", 100) == Admitted()


def test_what_was_not_used_is_kept_up_to_the_burst() -> None:
    """A quiet hour earns two calls, not thirty-six thousand."""
    limit = spent()
    assert [limit.ask(who, HOUR_MS) for who in "ab"] == [Admitted(), Admitted()]
    assert limit.ask("c", HOUR_MS) == Queued(100)


def test_no_part_of_a_call_is_ever_rounded_away() -> None:
    """Seven in ten seconds, asked every millisecond, are seven in ten seconds after the burst."""
    limit = spent(requests=Rate(7, per_ms=10_000, burst=2), strategy=RateStrategy.REJECT)
    admitted = [t for t in range(10_001) if limit.ask(str(t), t) == Admitted()]
    assert admitted == [-(-n * 10_000 // 7) for n in range(1, 8)]


def test_requests_and_tokens_fit_together_or_nothing_is_used() -> None:
    """A call that lacks tokens leaves its request to others."""
    limit = limiter(tokens=Rate(100, per_ms=1000, burst=50), strategy=RateStrategy.REJECT)
    assert limit.ask("a", 0, tokens=50) == Admitted()
    assert limit.ask("b", 0, tokens=1) == NotYet(10)
    assert limit.ask("c", 0) == Admitted()
    assert limit.ask("d", 0, tokens=5) == NotYet(100)


def test_a_call_larger_than_the_burst_is_told_so() -> None:
    """No wait would ever be long enough."""
    limit = limiter(tokens=Rate(100, per_ms=1000, burst=50))
    assert limit.ask("a", 0, tokens=51) == NeverFits(tokens=51, burst=50)
    assert limit.ask("a", 0, tokens=50) == Admitted()


def test_without_a_limit_of_a_kind_there_is_none() -> None:
    """An empty rule lets everything through."""
    limit = RateLimiter(RateRule())
    assert all(limit.ask(str(n), 0, tokens=10**9) == Admitted() for n in range(1000))


def test_negative_tokens_are_a_bug() -> None:
    """They would hand out credit."""
    with pytest.raises(BugError, match="a asked for -1"):
        limiter().ask("a", 0, tokens=-1)


def test_slots_are_free_again_on_release() -> None:
    """Nobody knows when that will be, so a waiter asks every now and then."""
    limit = RateLimiter(RateRule(slots=2))
    assert [limit.ask(who, 0) for who in "abc"] == [Admitted(), Admitted(), Queued(SLOT_POLL_MS)]
    assert limit.first_waiting == "c"
    limit.release("a")
    limit.release("a")
    assert [limit.ask(who, 1) for who in "cd"] == [Admitted(), Queued(SLOT_POLL_MS)]


def test_a_long_queue_for_slots_does_not_look_all_at_once() -> None:
    """The first two look for their slots first, then the next two, then the rest."""
    limit = RateLimiter(RateRule(slots=2))
    waits = [limit.ask(who, 0) for who in "abcdefg"][2:]
    assert waits == [Queued(100), Queued(100), Queued(200), Queued(200), Queued(300)]


def test_the_longest_wait_of_all_is_told() -> None:
    """Slot, rate and server each have their own."""
    limit = spent(slots=1)
    limit.ask("a", 100)
    assert limit.ask("b", 101) == Queued(SLOT_POLL_MS)
    limit.on_retry_after(150, 101)
    assert limit.ask("b", 101) == Queued(150)
    assert limit.ask("c", 101) == Queued(2 * SLOT_POLL_MS)
    limit.release("a")
    assert limit.ask("c", 101) == Queued(199)


def test_a_call_in_flight_is_not_counted_twice() -> None:
    """Asking again after an answer that got lost takes no second slot and no second request."""
    limit = limiter(slots=2)
    assert [limit.ask("a", 0) for _ in range(3)] == [Admitted()] * 3
    assert [limit.ask(who, 0) for who in "bc"] == [Admitted(), Queued(100)]


def test_a_call_nobody_released_is_forgotten() -> None:
    """Its process was killed; the slot comes back after the lease and not before."""
    limit = RateLimiter(RateRule(slots=2, slot_lease_ms=5000))
    limit.ask("killed", 0)
    limit.ask("alive", 1)
    assert limit.ask("b", 4999) == Queued(SLOT_POLL_MS)
    assert limit.ask("b", 5000) == Admitted()
    assert sorted(limit.in_flight) == ["alive", "b"]


def test_reject_refuses_at_once() -> None:
    """Nobody waits, and the refusal says for how long."""
    limit = spent(strategy=RateStrategy.REJECT)
    assert [limit.ask(who, 0) for who in "aba"] == [NotYet(100)] * 3
    assert limit.first_waiting is None
    assert limit.ask("b", 100) == Admitted()


@pytest.mark.parametrize(
    ("strategy", "answer"),
    [(RateStrategy.QUEUE, NotYet(300)), (RateStrategy.BACKPRESSURE, SlowDown(300))],
)
def test_beyond_the_places_a_queue_refuses_and_backpressure_slows_down(
    strategy: RateStrategy, answer: object
) -> None:
    """Two places are taken; the third caller is turned away, those who wait stay."""
    limit = spent(strategy=strategy, queue_size=2)
    assert [limit.ask(who, 0) for who in "abc"] == [Queued(100), Queued(200), answer]
    assert [limit.ask(who, 0) for who in "ab"] == [Queued(100), Queued(200)]
    assert limit.ask("a", 100) == Admitted()
    assert limit.ask("c", 100) == Queued(200)


def test_it_is_first_come_first_served() -> None:
    """Each knows its turn; one who asks at another's turn waits on."""
    limit = spent()
    assert [limit.ask(who, 0) for who in "abc"] == [Queued(100), Queued(200), Queued(300)]
    assert [limit.ask(who, 100) for who in "cba"] == [Queued(200), Queued(100), Admitted()]
    assert limit.ask("c", 200) == Queued(100)
    assert limit.ask("b", 200) == Admitted()
    assert limit.ask("c", 300) == Admitted()


def test_the_more_urgent_goes_first() -> None:
    """It passes those who wait with less urgency, behind its equals."""
    limit = spent()
    assert limit.ask("low", 0, priority=3) == Queued(100)
    assert limit.ask("high", 0, priority=1) == Queued(100)
    assert limit.ask("normal", 0) == Queued(200)
    assert limit.ask("high2", 0, priority=1) == Queued(200)
    assert [waiter.who for waiter in limit.waiting] == ["high", "high2", "normal", "low"]
    assert limit.first_waiting == "high"


def test_what_is_asked_again_is_what_was_asked_first() -> None:
    """Place, tokens and priority stay."""
    limit = spent(tokens=Rate(1000, per_ms=1000, burst=500))
    limit.ask("big", 0, tokens=500)
    assert limit.ask("small", 0) == Queued(200)
    assert limit.ask("big", 100, tokens=1, priority=4) == Admitted()
    assert limit.ask("next", 100, tokens=10) == Queued(200)
    assert limit.ask("small", 200) == Admitted()
    assert limit.ask("next", 300) == Admitted()


def test_a_large_call_is_not_starved_by_small_ones() -> None:
    """Small calls that would fit wait behind it."""
    limit = RateLimiter(RateRule(tokens=Rate(100, per_ms=1000, burst=100)))
    limit.ask("x", 0, tokens=50)
    assert limit.ask("large", 0, tokens=90) == Queued(400)
    assert limit.ask("small", 0, tokens=10) == Queued(500)
    assert limit.ask("large", 400) == Admitted()


def test_one_who_oversleeps_delays_nobody_who_fits_beside_it() -> None:
    """Both calls have been earned: the second one need not wait for the first to wake up."""
    limit = spent()
    assert [limit.ask(who, 0) for who in "ab"] == [Queued(100), Queued(200)]
    assert limit.ask("b", 199) == Queued(1)
    assert limit.ask("b", 200) == Admitted()
    assert limit.ask("a", 200) == Admitted()


def test_a_cancelled_waiter_costs_nobody_anything() -> None:
    """The turn of one who left is the next one's."""
    limit = spent()
    assert [limit.ask(who, 0) for who in "ab"] == [Queued(100), Queued(200)]
    limit.release("a")
    assert limit.first_waiting == "b"
    assert limit.ask("b", 100) == Admitted()
    assert limit.ask("c", 200) == Admitted()


def test_a_waiter_who_does_not_come_back_loses_its_place() -> None:
    """Its process was killed: the others go on after some patience."""
    limit = limiter(requests=Rate(1, per_ms=1000, burst=1))
    limit.ask("x", 0)
    assert [limit.ask(who, 0) for who in "ab"] == [Queued(1000), Queued(2000)]
    assert limit.ask("b", 1000 + PATIENCE_MS) == Queued(1000)
    assert limit.ask("b", 1001 + PATIENCE_MS) == Admitted()
    assert limit.ask("a", 1001 + PATIENCE_MS) == Queued(1000)


def test_retry_after_blocks_everybody_until_it_is_over() -> None:
    """A shorter word later does not lift it."""
    limit = limiter()
    limit.on_retry_after(5000, 10)
    limit.on_retry_after(1000, 20)
    assert limit.ask("a", 20) == Queued(4990)
    assert limit.ask("a", 5009) == Queued(1)
    assert limit.ask("a", 5010) == Admitted()


def test_the_server_may_leave_less_than_our_rate() -> None:
    """One request is left until the reset, whatever our own rule says; then ours alone counts."""
    limit = limiter()
    limit.on_remaining(10, requests=Remaining(left=1, reset_in_ms=5000))
    assert [limit.ask(who, 10) for who in "ab"] == [Admitted(), Queued(5000)]
    assert limit.ask("b", 5009) == Queued(1)
    assert [limit.ask(who, 5010) for who in "bc"] == [Admitted(), Admitted()]
    assert limit.ask("d", 5010) == Queued(100)


def test_the_server_counts_tokens_too() -> None:
    """A call that fits into what is left goes, a larger one waits for the reset."""
    limit = RateLimiter(RateRule(strategy=RateStrategy.REJECT))
    limit.on_remaining(0, tokens=Remaining(left=100, reset_in_ms=700))
    assert limit.ask("a", 0, tokens=60) == Admitted()
    assert limit.ask("b", 0, tokens=41) == NotYet(700)
    assert limit.ask("c", 0, tokens=40) == Admitted()
    assert limit.ask("d", 0, tokens=1) == NotYet(700)
    assert limit.ask("e", 0) == Admitted()


def test_calls_in_flight_go_off_what_the_server_says() -> None:
    """It may not have seen them when it counted."""
    limit = RateLimiter(RateRule(strategy=RateStrategy.REJECT))
    for who in "abc":
        limit.ask(who, 0, tokens=10)
    limit.release("a")
    limit.on_remaining(0, requests=Remaining(3, 500), tokens=Remaining(45, 900))
    assert limit.ask("d", 0, tokens=26) == NotYet(900)
    assert limit.ask("d", 0, tokens=25) == Admitted()
    assert limit.ask("e", 0) == NotYet(500)
    limit.on_remaining(0, requests=Remaining(0, 300))
    assert limit.requests.left == 0


def test_the_latest_word_of_the_server_counts() -> None:
    """It may give more than it said before."""
    limit = limiter()
    limit.on_remaining(0, requests=Remaining(0, 5000))
    assert limit.ask("a", 0) == Queued(5000)
    limit.on_remaining(1, requests=Remaining(9, 4000))
    assert limit.ask("a", 1) == Admitted()


@pytest.mark.parametrize("back_ms", [MAX_SKEW_MS + 1, HOUR_MS])
def test_a_clock_set_back_gives_no_credit_and_no_stall(back_ms: int) -> None:
    """Waits, blocks and leases go on from the new time as if nothing had happened."""
    limit = spent(HOUR_MS)
    then = HOUR_MS - back_ms
    assert limit.ask("a", then) == Queued(100)
    limit.on_retry_after(300, then)
    assert limit.ask("a", then + 299) == Queued(1)
    assert [limit.ask(who, then + 300) for who in "ab"] == [Admitted(), Admitted()]


def test_a_clock_that_is_a_little_behind_gives_no_credit_twice() -> None:
    """Two processes a second apart share the limit: their readings take turns, the rate holds."""
    limit = spent(5000, strategy=RateStrategy.REJECT)
    behind = 5000 - MAX_SKEW_MS
    assert limit.ask("a", behind) == NotYet(100)
    assert limit.ask("a", 5050) == NotYet(50)
    assert limit.ask("a", behind + 51) == NotYet(50)
    assert limit.ask("a", 5100) == Admitted()


def test_every_reading_of_the_clock_counts() -> None:
    """A server's word moves time like a question does, and time moves once."""
    limit = spent()
    limit.on_remaining(60)
    limit.on_retry_after(0, 90)
    assert limit.ask("a", 90) == Queued(10)
    assert limit.ask("a", 100) == Admitted()


@pytest.mark.parametrize(
    "broken", [{"slots": 0}, {"queue_size": 0}, {"slot_lease_ms": 0}, {"slots": -1}]
)
def test_a_rule_that_cannot_hold_is_refused(broken: dict[str, int]) -> None:
    """Zero slots would never let anyone through."""
    with pytest.raises(InvalidRuleError, match=r"of at least 1; got .*write strategy reject"):
        RateRule(**broken)  # pyright: ignore[reportArgumentType]
    assert RateRule(slots=1, queue_size=1, slot_lease_ms=1).places == 1


@pytest.mark.parametrize("broken", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_rate_that_cannot_hold_is_refused(broken: tuple[int, int, int]) -> None:
    """None of its three numbers may be zero."""
    with pytest.raises(InvalidRuleError, match=r"of at least 1; got .*take the capability away"):
        Rate(*broken)
    assert Rate(1, 1, 1).burst == 1


def test_verdicts_are_values() -> None:
    """They can be stored, told apart when read back, and be members of a set."""
    verdicts = [Admitted(), Queued(5), SlowDown(5), NeverFits(2, 1)]
    stored = msgspec.json.decode(
        to_json(verdicts), type=list[Admitted | Queued | SlowDown | NeverFits]
    )
    assert stored == verdicts
    assert len({*verdicts, *stored, RateRule(), RateRule(slots=1)}) == 6


def test_the_defaults_are_those_of_the_language() -> None:
    """Calls queue, a thousand at most, and a slot is lost after ten minutes."""
    assert RateRule() == RateRule(
        strategy=RateStrategy.QUEUE, queue_size=1000, slot_lease_ms=600_000
    )
    assert (MAX_SKEW_MS, PATIENCE_MS, SLOT_POLL_MS) == (1000, 10_000, 100)
