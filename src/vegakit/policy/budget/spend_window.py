"""What was spent in the current hour, day or month.

| kind     | a charge made at t counts until                                             |
|----------|-----------------------------------------------------------------------------|
| calendar | the hour, day or month of t (UTC) has ended                                 |
| rolling  | one period after t, rounded up to a sixtieth of the period: never too early |

A window never moves backwards, so a clock that is set back opens nothing. Money that goes out
always counts; money that comes back counts only while the charge it corrects still does.
"""

from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from vegakit.money import Period

__all__ = ["SpendWindow", "WindowRule"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH_MS = {Period.HOUR: 3_600_000, Period.DAY: 86_400_000, Period.MONTH: 30 * 86_400_000}
_SLICES = 60


class WindowRule(Struct, frozen=True):
    """`rolling` months are 30 days."""

    period: Period
    rolling: bool = False


class SpendWindow(Struct):
    rule: WindowRule
    starts_ms: int = 0
    ends_ms: int = 0
    slices: dict[int, int] = field(default_factory=dict)
    """Spent by slice number, oldest first; a calendar window has one slice, its start."""

    def roll(self, now: int) -> int:
        """Moves on to `now`; answers how much no longer counts."""
        if now < self.ends_ms:
            return 0
        gone = 0
        self.starts_ms, self.ends_ms = self._bounds(now)
        for number in [n for n in self.slices if self._end_of(n) <= now]:
            gone += self.slices.pop(number)
        return gone

    def add(self, amount: int, at: int) -> int:
        """Answers how much of it counts: all, unless it gives back a charge that has left."""
        if at < self.starts_ms:
            if amount < 0:
                return 0
            at = self.ends_ms - 1
        number = at // self._slice_ms() if self.rule.rolling else self.starts_ms
        self.slices[number] = self.slices.get(number, 0) + amount
        return amount

    def _bounds(self, now: int) -> tuple[int, int]:
        if self.rule.rolling:
            width = self._slice_ms()
            return (now // width - _SLICES) * width, (now // width + 1) * width
        if self.rule.period is Period.MONTH:
            return _month_of(now)
        length = _LENGTH_MS[self.rule.period]
        start = now // length * length
        return start, start + length

    def _end_of(self, number: int) -> int:
        """When a slice stops counting."""
        if self.rule.rolling:
            return (number + 1 + _SLICES) * self._slice_ms()
        return self.starts_ms if number < self.starts_ms else self.ends_ms

    def _slice_ms(self) -> int:
        return _LENGTH_MS[self.rule.period] // _SLICES


def _month_of(now: int) -> tuple[int, int]:
    day = _EPOCH + timedelta(milliseconds=now)
    start = day.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = (start + timedelta(days=32)).replace(day=1)
    return _ms(start), _ms(after)


def _ms(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(milliseconds=1)
