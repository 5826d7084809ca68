"""Fields of agents and settings of blocks: which there are, and what each takes.

| kind       | is written                                     |
|------------|------------------------------------------------|
| Number     | `3`, within its range                          |
| Fraction   | `0.2` or `1`, within its range                 |
| Amount     | `$0.50`, and `$5/day` where a period fits      |
| Time       | `30s`                                          |
| OneOf      | one of a few words                             |
| Words      | `[timeout, overloaded]`                        |
| Growth     | `exponential(100ms, 2.0, 5s)`                  |
| Literal    | a string, or a bare word where `bare`          |
"""

from typing import TypeAlias

from msgspec import Struct

from vegakit.errors import ErrorClass

__all__ = [
    "AGENT",
    "BLOCKS",
    "RULES",
    "SESSION",
    "Amount",
    "Fraction",
    "Growth",
    "Kind",
    "Literal",
    "Number",
    "OneOf",
    "Time",
    "Words",
]


class Number(Struct, frozen=True):
    least: int
    most: int


class Fraction(Struct, frozen=True):
    least: float
    most: float


class Amount(Struct, frozen=True):
    period: bool = False
    zero: bool = False


class Time(Struct, frozen=True):
    pass


class OneOf(Struct, frozen=True):
    words: tuple[str, ...]


class Words(Struct, frozen=True):
    words: tuple[str, ...]


class Growth(Struct, frozen=True):
    pass


class Literal(Struct, frozen=True):
    bare: bool = False


Kind: TypeAlias = Number | Fraction | Amount | Time | OneOf | Words | Growth | Literal

_TRANSIENT = tuple(
    str(kind)
    for kind in (
        ErrorClass.RATE_LIMIT,
        ErrorClass.OVERLOADED,
        ErrorClass.UNAVAILABLE,
        ErrorClass.SERVER,
        ErrorClass.TIMEOUT,
        ErrorClass.CONNECTION,
    )
)
_MANY = 1_000_000
_ON_EXCEED = OneOf(("block", "ask", "warn", "allow"))

AGENT: dict[str, Kind] = {
    "model": Literal(bare=True),
    "system": Literal(),
    "temperature": Fraction(0, 2),
    "max_tokens": Number(1, 10_000_000),
    "max_steps": Number(1, 10_000),
    "budget": Amount(period=True),
    "on_exceed": _ON_EXCEED,
    "memory": OneOf(("conversation",)),
    "priority": OneOf(("realtime", "high", "normal", "low", "idle")),
    "timeout": Time(),
}
BLOCKS: dict[str, dict[str, Kind]] = {
    "retry": {
        "max_attempts": Number(1, 100),
        "backoff": Growth(),
        "on": Words(_TRANSIENT),
        "resend_unknown": OneOf(("always", "never")),
    },
    "circuit_breaker": {
        "threshold": Number(1, _MANY),
        "reset_after": Time(),
        "probes": Number(1, _MANY),
    },
    "rate_limit": {
        "requests": Number(1, _MANY),
        "per": Time(),
        "burst": Number(1, _MANY),
        "strategy": OneOf(("queue", "reject", "backpressure")),
    },
}
RULES: dict[str, Kind] = {
    "strategy": OneOf(("restart", "stop", "escalate", "restart_all", "rest_for_one")),
    "max_restarts": Number(0, _MANY),
    "window": Time(),
}
SESSION: dict[str, Kind] = {
    "on_exceed": _ON_EXCEED,
    "speculate": Amount(zero=True),
    "confirm": Amount(zero=True),
}
