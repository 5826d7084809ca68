"""Money: what is an amount, what is not, and how it is shown."""

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from vegakit.errors import InvalidMoneyError
from vegakit.money import (
    NANOS,
    Allowance,
    Money,
    Period,
    cost,
    dollars,
    format_money,
    parse_allowance,
)


@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ("$1.50", 1_500_000_000),
        (" $0 ", 0),
        ("$0.000001", 1_000),
        ("$1000000000", 10**18),
        (1, NANOS),
        (0.1, 100_000_000),
        (0.07, 70_000_000),
        (Decimal("2.5"), 2_500_000_000),
    ],
)
def test_an_amount_is_exact(written: str | float | Decimal, nanos: int) -> None:
    """Text, numbers and decimals of dollars become whole nano-dollars."""
    assert dollars(written) == nanos


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("1.50", "like \\$1.50"),
        ("$", "dollar sign"),
        ("$1,000", "dollar sign"),
        ("$-1", "dollar sign"),
        ("$1.", "dollar sign"),
        ("$.5", "dollar sign"),
        ("$1e3", "dollar sign"),
        ("$0.0000001", "six decimals"),
        ("$\u0661", "dollar sign"),
        ("$nan", "dollar sign"),
        ("$99999999999", "dollar sign"),
        ("$1000000001", "at most a billion"),
        (0.0000001, "six decimals"),
        (Decimal("0.0000001"), "six decimals"),
        (-1, "not negative"),
        (-0.5, "not negative"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (Decimal("-Infinity"), "finite"),
        (True, "truth value"),
    ],
)
def test_what_is_not_an_amount_is_refused(written: str | float | Decimal, rule: str) -> None:
    """The error repeats what came and says the rule."""
    with pytest.raises(InvalidMoneyError, match=f"is not an amount of money: .*{rule}"):
        dollars(written)


@pytest.mark.parametrize(
    ("written", "allowance"),
    [
        ("$5", Allowance(Money(5 * NANOS))),
        ("$5/day", Allowance(Money(5 * NANOS), Period.DAY)),
        (" $0.50/month ", Allowance(Money(NANOS // 2), Period.MONTH)),
        ("$1/hour", Allowance(Money(NANOS), Period.HOUR)),
    ],
)
def test_an_allowance_has_a_period_or_none(written: str, allowance: Allowance) -> None:
    """`$5` is for once, `$5/day` for every day."""
    assert parse_allowance(written) == allowance


@pytest.mark.parametrize("written", ["$5/", "$5/week", "$5/day/day", "$5 / day"])
def test_an_unknown_period_names_the_known_ones(written: str) -> None:
    """The error lists hour, day and month."""
    with pytest.raises(InvalidMoneyError, match="one of hour, day, month, like \\$5/day"):
        parse_allowance(written)


@pytest.mark.parametrize(
    ("units", "per_million", "nanos"),
    [(1, 50_000_000, 50), (1, 37_500_000, 38), (2, 37_500_000, 75), (0, 50, 0), (1, 1, 1)],
)
def test_a_cost_is_rounded_up(units: int, per_million: int, nanos: int) -> None:
    """A cap must hold for the true bill, so a fraction counts whole."""
    assert cost(units, Money(per_million)) == nanos


@pytest.mark.parametrize(("units", "price"), [(-1, 1), (1, -1)])
def test_negative_tokens_or_prices_are_refused(units: int, price: int) -> None:
    """They would give money back."""
    with pytest.raises(InvalidMoneyError, match="tokens and prices are not negative"):
        cost(units, Money(price))


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [
        (0, "$0.00"),
        (1_500_000_000, "$1.50"),
        (1_234_567_000_000, "$1,234.567"),
        (4_300_000, "$0.0043"),
        (499, "<$0.000001"),
        (500, "$0.000001"),
        (1_499, "$0.000001"),
        (999_999_999_999, "$1,000.00"),
        (-1_500_000_000, "-$1.50"),
        (-1, "-<$0.000001"),
    ],
)
def test_people_see_cents_and_what_a_small_amount_needs(nanos: int, shown: str) -> None:
    """Never a false zero."""
    assert format_money(Money(nanos)) == shown


@given(st.integers(0, 10**15))
def test_what_is_shown_can_be_written(micros: int) -> None:
    """Parsing the shown text gives the amount back."""
    amount = Money(micros * 1000)
    assert dollars(format_money(amount).replace(",", "")) == amount
