"""The quota of a process: how much of everything it may use.

One table, `_MEASURES`, drives check, record and remaining:

| dimension                                 | used is              | it fits while              |
|-------------------------------------------|----------------------|----------------------------|
| input_tokens, output_tokens, model_calls, | the sum recorded     | used + wanted <= limit     |
| tool_calls, agent_hops, iterations, money |                      |                            |
| context_tokens                            | the largest recorded | max(used, wanted) <= limit |
| wall_ms                                   | now - started_ms     | used + 1 <= limit: any     |
|                                           |                      | step takes a moment        |

A limit that is not set is no limit. What was used is recorded truly, also above a limit; from
then on nothing fits, not even a step that wants nothing. `remaining` is the most that would
still fit. When several limits are exceeded, the first in the order of `Dimension` is named.

The soft wall time refuses nothing: the first step that fits at or after it carries a warning,
once. Time is never reported by the one who uses it; the clock is read instead.
"""

from collections.abc import Callable
from enum import StrEnum
from operator import add
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from vegakit.errors import InvalidRecordError, InvalidRuleError
from vegakit.money import Money


class Dimension(StrEnum):
    """The things a quota limits."""

    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    CONTEXT_TOKENS = "context_tokens"
    MODEL_CALLS = "model_calls"
    TOOL_CALLS = "tool_calls"
    AGENT_HOPS = "agent_hops"
    ITERATIONS = "iterations"
    MONEY = "money"
    WALL_MS = "wall_ms"


_MOST = (1 << 63) - 1


def _wrong_field(record: Struct, *, may_lack: bool) -> tuple[str, object] | None:
    """Return the first field that is no amount. A quota is looked at whenever its process is read:
    so values first, and names only of a wrong one."""
    for place, amount in enumerate(astuple(record)):
        if may_lack and amount is None:
            continue
        if type(amount) is not int or not 0 <= amount <= _MOST:
            return record.__struct_fields__[place], amount
    return None


class Consumption(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step's consumption: it used this much, or wants to."""

    input_tokens: int = 0
    output_tokens: int = 0
    context_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    agent_hops: int = 0
    iterations: int = 0
    money: Money = Money(0)

    def __post_init__(self) -> None:
        if wrong := _wrong_field(self, may_lack=False):
            name, amount = wrong
            raise InvalidRecordError(
                f"usage is counted in whole numbers of at least 0; got {name}={amount!r}; "
                "report only what was used: it is never taken back"
            )


class RemainingBudget(Struct, frozen=True, omit_defaults=True):
    """The most that still fits, by dimension; None is without limit."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    context_tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    agent_hops: int | None = None
    iterations: int | None = None
    money: Money | None = None
    wall_ms: int | None = None


class QuotaRule(RemainingBudget, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The limits of a process: all that remains to one that has used nothing yet."""

    soft_wall_ms: int | None = None

    def __post_init__(self) -> None:
        if wrong := _wrong_field(self, may_lack=True):
            name, limit = wrong
            raise InvalidRuleError(
                f"a limit is a whole number of at least 0; got {name}={limit!r}; "
                "leave it out for no limit"
            )
        soft, hard = self.soft_wall_ms, self.wall_ms
        if soft is not None and hard is not None and soft >= hard:
            raise InvalidRuleError(
                f"the soft wall time warns before the hard one ends; got soft_wall_ms={soft} and "
                f"wall_ms={hard}; make the soft one shorter or leave it out"
            )


class SoftWallReached(Struct, frozen=True):
    """The soft limit of wall time is passed; the process may go on until the hard one."""

    soft_wall_ms: int
    used_ms: int


class WithinQuota(Struct, frozen=True, tag=True):
    """The step fits the quota."""

    warning: SoftWallReached | None = None


class QuotaExceeded(Struct, frozen=True, tag=True):
    """The step does not fit, in this dimension."""

    dimension: Dimension
    limit: int
    used: int
    wanted: int


class _Measure(NamedTuple):
    total: Callable[[int, int], int]
    """(used, more) -> what is then used."""
    room: Callable[[int, int], int]
    """(limit, used) -> the most that still fits."""


def _room_beside(limit: int, used: int) -> int:
    return max(0, limit - used)


def _room_again(limit: int, used: int) -> int:
    return limit if used <= limit else 0


_SUM = _Measure(add, _room_beside)
_PEAK = _Measure(max, _room_again)

_MOMENT_MS = 1
"""Wanted of time, which `Consumption` lacks: a step does not ask for it, but takes some."""

_MEASURES = dict.fromkeys(Dimension, _SUM) | {Dimension.CONTEXT_TOKENS: _PEAK}
_TOTALS = [_MEASURES[Dimension(name)].total for name in Consumption.__struct_fields__]
_LIMITED = [
    (dimension, _MEASURES[dimension])
    for dimension in map(Dimension, RemainingBudget.__struct_fields__)
]
"""Both in the order of the fields, so that records are gone through as tuples."""


class Quota(Struct, omit_defaults=True):
    """A quota counts what one process uses."""

    rule: QuotaRule
    started_ms: int
    used: Consumption = Consumption()
    warned: bool = False

    def check(self, wanted: Consumption, now: int) -> WithinQuota | QuotaExceeded:
        """Return whether a step fits, and the first dimension in which it does not."""
        for (dimension, measure), limit in zip(_LIMITED, astuple(self.rule), strict=False):
            if limit is None:
                continue
            used, more = self.used_of(dimension, now), getattr(wanted, dimension, _MOMENT_MS)
            if measure.total(used, more) > limit:
                return QuotaExceeded(dimension, limit, used, more)
        return WithinQuota(self._warning(now))

    def record(self, usage: Consumption) -> None:
        """Add what a step has used."""
        both = zip(_TOTALS, astuple(self.used), astuple(usage), strict=True)
        totals: list[Any] = [total(used, more) for total, used, more in both]
        self.used = Consumption(*totals)

    def remaining(self, now: int) -> RemainingBudget:
        """Return what the process may still use."""
        rooms: dict[str, Any] = {
            dimension: measure.room(limit, self.used_of(dimension, now))
            for (dimension, measure), limit in zip(_LIMITED, astuple(self.rule), strict=False)
            if limit is not None
        }
        return RemainingBudget(**rooms)

    def used_of(self, dimension: Dimension, now: int) -> int:
        """Return what the process has used of one thing."""
        if dimension is Dimension.WALL_MS:
            return now - self.started_ms
        return getattr(self.used, dimension)

    def _warning(self, now: int) -> SoftWallReached | None:
        soft_ms, used_ms = self.rule.soft_wall_ms, now - self.started_ms
        if self.warned or soft_ms is None or used_ms < soft_ms:
            return None
        self.warned = True
        return SoftWallReached(soft_ms, used_ms)
