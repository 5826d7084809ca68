"""Delays grow by the factor up to the maximum, and are drawn as a whole."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from vegakit.errors import InvalidRuleError
from vegakit.policy import Backoff


def test_it_doubles_up_to_its_maximum() -> None:
    """The language's default: exponential(100ms, 2.0, 5s)."""
    delays = [Backoff().delay_ms(failures, 1.0) for failures in range(8)]
    assert delays == [100, 200, 400, 800, 1600, 3200, 5000, 5000]


@pytest.mark.parametrize(("draw", "delay_ms"), [(0.0, 0), (0.5, 200), (0.999, 399), (1.0, 400)])
def test_the_whole_delay_is_drawn(draw: float, delay_ms: int) -> None:
    """Full jitter: from nothing to all of it, cut to whole milliseconds."""
    assert Backoff().delay_ms(2, draw) == delay_ms


@pytest.mark.parametrize("failures", [1023, 1024, 10**6])
def test_it_never_overflows(failures: int) -> None:
    """However often it failed, the maximum is the longest wait."""
    assert Backoff().delay_ms(failures, 1.0) == 5000


@given(st.integers(1, 1000), st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.integers(0, 30))
def test_it_is_the_formula(initial_ms: int, factor: float, failures: int) -> None:
    """Compared with exact fractions."""
    exact = min(Fraction(10_000), initial_ms * Fraction(factor) ** failures)
    assert Backoff(initial_ms, factor, 10_000).delay_ms(failures, 1.0) == int(exact)


@pytest.mark.parametrize(
    "broken",
    [
        {"initial_ms": 0},
        {"initial_ms": 5001},
        {"factor": 0.99},
        {"factor": float("inf")},
        {"factor": float("nan")},
    ],
)
def test_a_backoff_that_cannot_grow_is_refused(broken: dict[str, float]) -> None:
    """It would not wait, shrink, or be no number."""
    with pytest.raises(
        InvalidRuleError, match=r"^a backoff needs .* up to its maximum .* got Backoff"
    ):
        Backoff(**broken)  # pyright: ignore[reportArgumentType]


def test_the_edges_are_allowed() -> None:
    """One constant delay of one millisecond is a backoff too."""
    assert Backoff(1, 1.0, 1).delay_ms(7, 1.0) == 1
