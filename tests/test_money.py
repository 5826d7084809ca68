"""Money: what is an amount, what is not, and how it is shown."""

import copy
import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from vegakit.errors import InvalidMoneyError
from vegakit.money import (
    NANOS,
    Allowance,
    Dollars,
    Money,
    Period,
    cost,
    dollars,
    format_money,
    in_dollars,
    parse_allowance,
    priced,
)


@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ("$1.50", 1_500_000_000),
        ("1.50", 1_500_000_000),
        ("5", 5 * NANOS),
        (" $0 ", 0),
        (Dollars("$2"), 2 * NANOS),
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
        ("$", "like \\$1.50"),
        ("$1,000", "like \\$1.50"),
        ("$-1", "like \\$1.50"),
        ("$1.", "like \\$1.50"),
        ("$.5", "like \\$1.50"),
        ("$1e3", "like \\$1.50"),
        ("$0.0000001", "six decimals"),
        ("$\u0661", "like \\$1.50"),
        ("$nan", "like \\$1.50"),
        ("$99999999999", "like \\$1.50"),
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
        ("5", Allowance(Money(5 * NANOS))),
        ("5/day", Allowance(Money(5 * NANOS), Period.DAY)),
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


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [
        (0, "$0.00"),
        (24_000, "$0.000024"),
        (1, "$0.000000001"),
        (1_500_000_000, "$1.50"),
        (12_340_000_000, "$12.34"),
        (1_234_567_000_000, "$1234.567"),
        (-1_500_000_000, "-$1.50"),
    ],
)
def test_users_see_dollars(nanos: int, shown: str) -> None:
    """All digits that are not zero, whichever way it is printed; what is shown is never the number
    of nano-dollars."""
    amount = Dollars.of_nanos(nanos)
    assert (str(amount), f"{amount}", f"{amount:>20}".strip()) == (shown, shown, shown)
    assert repr(amount) == f"Dollars('{shown}')"
    assert json.loads(json.dumps(amount)) == nanos


def test_a_number_format_is_that_of_the_dollars() -> None:
    """Four decimals of it, for who wants no more."""
    assert f"{Dollars('$1.50'):.4f}" == "1.5000"
    assert Dollars("$1.50").usd == Decimal("1.5")


@given(st.integers(-(10**20), 10**20), st.integers(-(10**20), 10**20), st.integers(-9, 9))
def test_reckoning_stays_exact(one: int, other: int, times: int) -> None:
    """Sums and differences are dollars again, and compare like the whole numbers that they are."""
    a, b = Dollars.of_nanos(one), Dollars.of_nanos(other)
    results = [a + b, a - b, a * times, times * a, -a, a + other, other - a, sum([a, b])]
    plain = [one + other, one - other, one * times, one * times, -one, one + other, other - one]
    assert results == [*plain, one + other]
    assert all(type(result) is Dollars for result in results)
    assert (a < b, a == one, hash(a)) == (one < other, True, hash(one))
    assert copy.deepcopy(a) == pickle.loads(pickle.dumps(a)) == one
    assert int(Decimal(str(a).replace("$", "")) * NANOS) == one


def test_a_float_is_no_amount_to_add() -> None:
    """It would be rounded."""
    with pytest.raises(TypeError):
        Dollars("$1") + 0.5  # type: ignore[operator]


class _Bill(Struct, frozen=True, tag=True):
    who: str
    spent: Money
    left: Money | None = None
    parts: tuple["_Bill", ...] = ()


def test_programs_of_others_read_dollars() -> None:
    """Each field that holds money says so by its name; None stays None."""
    bill = _Bill("a", Money(1_500_000_000), None, (_Bill("b", Money(24_000), Money(NANOS)),))
    assert in_dollars({"bills": [bill]}) == {
        "bills": [
            {
                "type": "_Bill",
                "who": "a",
                "spent_usd": 1.5,
                "left_usd": None,
                "parts": [
                    {
                        "type": "_Bill",
                        "who": "b",
                        "spent_usd": 0.000024,
                        "left_usd": 1.0,
                        "parts": [],
                    }
                ],
            }
        ]
    }
    assert str(priced(bill).spent) == "$1.50"
    assert priced(bill).left is None
