"""Money is a whole number of nano-dollars (base, pure).

$0.05 per million tokens is 50 nano-dollars a token: nothing is ever rounded away, and no float,
NaN or infinity can slip past a cap (`nan > cap` is false). People write `$1.50`, up to six
decimals; programs see it rounded to what a person can read.

A float such as 0.05 is taken by its shortest spelling, so 0.1 is ten cents exactly.
"""

import re
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import NewType

from msgspec import Struct

from vegakit.errors import InvalidMoneyError

__all__ = [
    "NANOS",
    "Allowance",
    "Money",
    "Period",
    "cost",
    "dollars",
    "format_money",
    "parse_allowance",
]


Money = NewType("Money", int)

NANOS = 1_000_000_000
"""Nano-dollars in a dollar."""

_MAX_DECIMALS = 6
_MAX_DOLLARS = 1_000_000_000
_AMOUNT = re.compile(r"\$(\d{1,10})(?:\.(\d{1,6}))?", re.ASCII)
_PER_MILLION = 1_000_000


class Period(StrEnum):
    """The periods of an allowance."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class Allowance(Struct, frozen=True):
    """`$5` once, or `$5/day` again and again."""

    amount: Money
    period: Period | None = None


def dollars(value: str | int | float | Decimal) -> Money:  # noqa: PYI041
    """`"$1.50"`, `1.5` and `Decimal("1.5")` are the same amount; negatives are refused."""
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool):
        raise _refusal(value, "a truth value is not an amount")
    return _from_number(value)


def _from_text(text: str) -> Money:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise _refusal(text, "write a dollar sign, digits and at most six decimals, like $1.50")
    return _from_number(Decimal(f"{match[1]}.{match[2] or '0'}"))


def _from_number(value: float | Decimal) -> Money:
    try:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation as error:  # pragma: no cover  (floats and ints always convert)
        raise _refusal(value, "write a number of dollars") from error
    if not exact.is_finite():
        raise _refusal(value, "an amount is a finite number")
    if exact < 0:
        raise _refusal(value, "an amount is not negative")
    if exact > _MAX_DOLLARS:
        raise _refusal(value, "an amount is at most a billion dollars")
    nanos = exact * NANOS
    if nanos % (NANOS // 10**_MAX_DECIMALS):
        raise _refusal(value, "an amount has at most six decimals")
    return Money(int(nanos))


def parse_allowance(text: str) -> Allowance:
    """`$5` or `$5/day`; periods are hour, day and month."""
    amount, slash, period = text.strip().partition("/")
    if not slash:
        return Allowance(dollars(amount))
    if period not in set(Period):
        raise _refusal(text, f"a period is one of {', '.join(Period)}, like $5/day")
    return Allowance(dollars(amount), Period(period))


def cost(units: int, per_million: Money) -> Money:
    """Return what `units` tokens cost, rounded up: a cap must hold for the true bill."""
    if units < 0 or per_million < 0:
        raise _refusal(units, f"tokens and prices are not negative (price {per_million})")
    return Money(-(-units * per_million // _PER_MILLION))


def format_money(amount: Money) -> str:
    """Return an amount for people: cents, or as many decimals (up to six) as a small amount
    needs."""
    sign, nanos = ("-", -amount) if amount < 0 else ("", int(amount))
    micros = (nanos + 500) // 1000
    if nanos and not micros:
        return f"{sign}<$0.000001"
    whole, fraction = divmod(micros, 1_000_000)
    decimals = f"{fraction:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}${whole:,}.{decimals}"


def _refusal(value: object, rule: str) -> InvalidMoneyError:
    return InvalidMoneyError(f"{value!r} is not an amount of money: {rule}")
