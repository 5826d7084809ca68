"""What a call could cost and what it did cost."""

import pytest
from hypothesis import given, strategies as st

from vegakit.conversation import Usage
from vegakit.errors import InvalidMoneyError
from vegakit.money import Money, dollars
from vegakit.prices import PriceRow, PriceTier, bill, worst_case


def tier(read: str, write: str, cached: str, stored: str, above: int = 0) -> PriceTier:
    return PriceTier(dollars(read), dollars(write), dollars(cached), dollars(stored), above)


PLAIN = tier("$3.000001", "$15", "$0.30", "$3.75")
LONG = tier("$6", "$22.50", "$0.60", "$7.50", above=200_000)
ROW = PriceRow("acme:one", (PLAIN, LONG))


def test_the_worst_case_takes_the_dearest_way_in() -> None:
    """Every token could be written to a cache, which costs more than plain input."""
    assert worst_case(ROW, 1_000, 100) == dollars("$0.00375") + dollars("$0.0015")


def test_a_long_call_is_priced_by_its_tier() -> None:
    """One token more than 200,000 makes the whole call dearer."""
    assert worst_case(ROW, 200_000, 0) == dollars("$0.75")
    assert worst_case(ROW, 200_001, 0) == 200_001 * 7_500


def test_a_bill_tells_cached_tokens_apart() -> None:
    """Input counts all tokens; those from and into the cache have their own price."""
    usage = Usage(input_tokens=170, output_tokens=30, cache_read_tokens=50, cache_write_tokens=20)
    assert bill(ROW, usage) == 100 * 3_000 + 50 * 300 + 20 * 3_750 + 30 * 15_000 + 1


def test_a_call_may_have_a_price_of_its_own() -> None:
    """On top of its tokens."""
    row = PriceRow("acme:two", (PLAIN,), per_call=Money(7))
    assert bill(row, Usage()) == 7
    assert worst_case(row, 0, 0) == 7


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=-1),
        Usage(output_tokens=-1),
        Usage(input_tokens=5, cache_read_tokens=6),
        Usage(input_tokens=5, cache_read_tokens=-1),
        Usage(input_tokens=5, cache_write_tokens=-1),
    ],
)
def test_impossible_usage_is_not_a_bill(usage: Usage) -> None:
    """Negative or contradictory counts would give money back."""
    with pytest.raises(InvalidMoneyError, match="impossible usage of acme:one"):
        bill(ROW, usage)


def test_usage_adds_up() -> None:
    """Over the calls of a turn."""
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)


@given(
    st.integers(0, 400_000), st.integers(0, 400_000), st.integers(0, 400_000), st.integers(0, 9_999)
)
def test_no_bill_within_the_bounds_exceeds_the_worst_case(
    plain: int, read: int, written: int, output: int
) -> None:
    """Whatever the cache does, and in whatever tier the true count falls."""
    usage = Usage(plain + read + written, output, read, written)
    assert bill(ROW, usage) <= worst_case(ROW, usage.input_tokens, output)
    assert bill(ROW, usage) <= worst_case(ROW, usage.input_tokens + 1, output + 1)
