"""Money is a whole number of nano-dollars (base, pure).

$0.05 per million tokens is 50 nano-dollars a token: nothing is ever rounded away, and no float,
NaN or infinity can slip past a cap (`nan > cap` is false). People write `$1.50`, up to six
decimals; programs see it rounded to what a person can read.

A float such as 0.05 is taken by its shortest spelling, so 0.1 is ten cents exactly.

Inside, `Money` is a plain whole number, which every record and every store holds as it is. What
Python code of users is given is `Dollars`: the same number, which prints itself in dollars.
"""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cache, lru_cache
from types import UnionType
from typing import Any, NewType, TypeVar, Union, cast, get_args, get_origin

from msgspec import Struct, structs, to_builtins

from vegakit.errors import InvalidMoneyError
from vegakit.records import Json

__all__ = [
    "NANOS",
    "Allowance",
    "Dollars",
    "Money",
    "Period",
    "cost",
    "dollars",
    "format_money",
    "in_dollars",
    "parse_allowance",
    "priced",
    "to_usd",
]


Money = NewType("Money", int)

RecordT = TypeVar("RecordT", bound=Struct)

NANOS = 1_000_000_000
"""Nano-dollars in a dollar."""

_MAX_DECIMALS = 6
_MAX_DOLLARS = 1_000_000_000
_AMOUNT = re.compile(r"\$?(\d{1,10})(?:\.(\d{1,6}))?", re.ASCII)
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


class Dollars(int):
    """An amount as users hold it: `Dollars("$1.50")`, `Dollars(1.5)`; it prints as `$1.50`, with
    every digit that is not zero. It is a whole number of nano-dollars, so sums, differences and
    comparisons are exact; `usd` is the amount in dollars."""

    __slots__ = ()

    def __new__(cls, amount: "str | int | float | Decimal" = 0) -> "Dollars":  # noqa: PYI034
        """Take an amount in dollars, as `dollars` does."""
        return cls.of_nanos(dollars(amount))

    @classmethod
    def of_nanos(cls, nanos: int) -> "Dollars":
        """Return so many nano-dollars."""
        return super().__new__(cls, nanos)

    @property
    def usd(self) -> Decimal:
        """The amount in dollars, exactly."""
        return Decimal(int(self)) / NANOS

    def __str__(self) -> str:
        sign, nanos = ("-", -int(self)) if self < 0 else ("", int(self))
        whole, fraction = divmod(nanos, NANOS)
        return f"{sign}${whole}.{f'{fraction:09d}'.rstrip('0').ljust(2, '0')}"

    def __repr__(self) -> str:
        return f"Dollars('{self}')"

    def __format__(self, spec: str) -> str:
        """A number's format is that of the dollars: `f"{cost:.4f}"`; any other that of the text."""
        return format(self.usd, spec) if spec[-1:] in {"f", "e", "g"} else format(str(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dollars.of_nanos, (int(self),)

    def __add__(self, other: int) -> "Dollars":
        return Dollars.of_nanos(int(self) + _whole(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> "Dollars":
        return Dollars.of_nanos(int(self) - _whole(other))

    def __rsub__(self, other: int) -> "Dollars":
        return Dollars.of_nanos(_whole(other) - int(self))

    def __mul__(self, times: int) -> "Dollars":
        return Dollars.of_nanos(int(self) * _whole(times))

    __rmul__ = __mul__

    def __neg__(self) -> "Dollars":
        return Dollars.of_nanos(-int(self))


def _whole(number: object) -> int:
    """A float would be rounded, and what prints itself as an amount must be exact."""
    if not isinstance(number, int):
        raise TypeError(f"{number!r} is not an amount of money; write Dollars({number!r})")
    return int(number)


def dollars(value: str | int | float | Decimal) -> Money:  # noqa: PYI041
    """`"$1.50"`, `"1.50"`, `1.5` and `Decimal("1.5")` are the same amount; negatives are
    refused."""
    if isinstance(value, Dollars):
        return Money(int(value))  # an amount already, not a number of dollars
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool):
        raise _refusal(value, "a truth value is not an amount")
    return _from_number(value)


_TEXT_RULES = (
    (re.compile(r"^\s*$"), "it is empty, as when a shell has read \"$5\": write '$5'"),
    (re.compile(r"^\s*-"), "write one that is not negative, like $1.50"),
    (re.compile(r"\d,\d"), "write decimals behind a point, like $1.50"),
    (re.compile("[€£¥]"), "it is in US dollars, like $1.50"),
    (re.compile(r"^\s*\$?\d{10,}"), "write at most a billion dollars, like $1.50"),
    (re.compile(""), "write digits with at most six decimals, like $1.50"),
)
"""What is wrong with a text that is no amount; the first that fits is told."""


@lru_cache(maxsize=256)
def _from_text(text: str) -> Money:
    """Thousands of processes are given wallets that are written alike."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise _refusal(text, next(rule for fits, rule in _TEXT_RULES if fits.search(text)))
    return _from_number(Decimal(f"{match[1]}.{match[2] or '0'}"))


def _from_number(value: float | Decimal) -> Money:
    try:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation as error:  # pragma: no cover  (floats and ints always convert)
        raise _refusal(value, "write a number of dollars") from error
    if not exact.is_finite():
        raise _refusal(value, "write a finite number, like 1.50")
    if exact < 0:
        raise _refusal(value, "write one that is not negative, like $1.50")
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


def format_money(amount: int) -> str:
    """Return an amount for people: cents, or as many decimals (up to six) as a small amount
    needs."""
    sign, nanos = ("-", -amount) if amount < 0 else ("", int(amount))
    micros = (nanos + 500) // 1000
    if nanos and not micros:
        return f"{sign}<$0.000001"
    whole, fraction = divmod(micros, 1_000_000)
    decimals = f"{fraction:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}${whole:,}.{decimals}"


def to_usd(amount: int | None) -> float | None:
    """Return an amount as the number of dollars that programs of others read."""
    return None if amount is None else amount / NANOS


def in_dollars(record: Any) -> Json:  # noqa: ANN401
    """Return a record as JSON for programs of others: a field that holds money is called
    `<name>_usd` there, and is a number of dollars."""
    if isinstance(record, Struct):
        return dict(_in_dollars(record))
    if isinstance(record, dict):
        items = cast("dict[str, Any]", record).items()
        return {str(key): in_dollars(value) for key, value in items}
    if isinstance(record, list | tuple):
        return [in_dollars(value) for value in cast("list[Any]", record)]
    return to_builtins(record)


def _in_dollars(record: Struct) -> Iterator[tuple[str, Json]]:
    config = record.__struct_config__
    if config.tag is not None:
        yield config.tag_field or "type", config.tag
    for field in structs.fields(record):
        value = getattr(record, field.name)
        if _holds_money(field.type):
            yield f"{field.encode_name}_usd", to_usd(value)
        else:
            yield field.encode_name, in_dollars(value)


def priced(record: RecordT) -> RecordT:
    """Return a record for Python code of users: its fields that hold money are `Dollars`. No such
    record is stored or sent."""
    names = _money_fields(type(record))
    amounts = {name: getattr(record, name) for name in names}
    given = {name: Dollars.of_nanos(x) for name, x in amounts.items() if x is not None}
    return structs.replace(record, **given) if given else record


@cache
def _money_fields(kind: type[Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in structs.fields(kind) if _holds_money(field.type))


def _holds_money(hint: Any) -> bool:  # noqa: ANN401
    if get_origin(hint) in {Union, UnionType}:
        return any(map(_holds_money, get_args(hint)))
    return hint is Money


def _refusal(value: object, rule: str) -> InvalidMoneyError:
    return InvalidMoneyError(f"{value!r} is not an amount of money: {rule}")
