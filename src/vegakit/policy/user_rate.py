"""Limits on the requests of one user: in a minute, an hour, a day, and at once (pure).

| limit                   | counts                                                               |
|-------------------------|----------------------------------------------------------------------|
| `minute`, `hour`, `day` | what was taken in the last one, whenever that began; rounded up to a |
|                         | sixtieth of it: never too short                                      |
| `burst`                 | a meter of `policy.rate`: so many at once, and then as many as       |
|                         | `minute` lets through, evenly                                        |

A request that does not fit takes nothing, so that one who asks too often is not shut out for
longer. The limit that is named is the one that has to be waited for longest. Time never runs back
here: a `now` before the latest one counts as the latest.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from vegakit.errors import InvalidRuleError
from vegakit.policy.rate import Meter, Rate


class RateSpan(StrEnum):
    """The limits of a user, by the time that they count in."""

    BURST = "burst"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


_LENGTH_MS = {RateSpan.MINUTE: 60_000, RateSpan.HOUR: 3_600_000, RateSpan.DAY: 86_400_000}
_SLICES = 60


class UserRateRule(Struct, frozen=True):
    """The limits of each user of a tenant; None is without limit."""

    minute: int | None = 60
    hour: int | None = 1_000
    day: int | None = 10_000
    burst: int | None = 10

    def __post_init__(self) -> None:
        for span in RateSpan:
            most: Any = getattr(self, span)
            if most is not None and most < 1:
                raise InvalidRuleError(
                    f"a user may make at least 1 request in a {span}; got {most}; leave the limit "
                    "out for none, and revoke the user's tokens to forbid all"
                )

    @property
    def rate(self) -> Rate | None:
        """Return the rate behind `burst`: a burst is given back as fast as a minute lets through;
        where a minute lets through everything, within one second."""
        if self.burst is None:
            return None
        if self.minute is None:
            return Rate(self.burst, 1_000, self.burst)
        return Rate(self.minute, _LENGTH_MS[RateSpan.MINUTE], self.burst)


class SpanUsage(Struct, frozen=True, omit_defaults=True):
    """So much was taken of one limit; a limit of None is none."""

    used: int
    limit: int | None = None


class RateDecision(Struct, frozen=True, omit_defaults=True):
    """Whether the requests fit. If not, `span` names the limit, and nothing fits before
    `wait_ms`; None is never: so many do not fit at once."""

    allowed: bool
    span: RateSpan | None = None
    wait_ms: int | None = None


class UserRate(Struct, omit_defaults=True):
    """Counts the requests of one user. The slices of a span are by number, the oldest first."""

    latest_ms: int = 0
    meter: Meter = field(default_factory=Meter)
    slices: dict[RateSpan, dict[int, int]] = field(default_factory=dict)

    def take(self, rule: UserRateRule, wanted: int, now: int) -> RateDecision:
        """Count requests that fit, or say when to ask again."""
        decision = self.check(rule, wanted, now)
        if decision.allowed:
            self.meter.use(rule.rate, wanted, self.latest_ms)
            for span, length_ms in _LENGTH_MS.items():
                number = self.latest_ms * _SLICES // length_ms
                slices = self.slices.setdefault(span, {})
                slices[number] = slices.get(number, 0) + wanted
        return decision

    def check(self, rule: UserRateRule, wanted: int, now: int) -> RateDecision:
        """Say whether requests fit, and count none."""
        self._see(rule, now)
        waits = {span: self._wait_ms(rule, span, wanted) for span in RateSpan}
        never = [span for span, wait_ms in waits.items() if wait_ms is None]
        if never:
            return RateDecision(False, never[0])
        longest = max(RateSpan, key=lambda span: waits[span] or 0)
        if not waits[longest]:
            return RateDecision(True)
        return RateDecision(False, longest, waits[longest])

    def usage(self, rule: UserRateRule, now: int) -> dict[RateSpan, SpanUsage]:
        """Return what counts now, by limit."""
        self._see(rule, now)
        rate = rule.rate
        at_once = 0 if rate is None else -(-self.meter.spent // rate.per_ms)
        used = {span: sum(self.slices.get(span, {}).values()) for span in _LENGTH_MS}
        return {span: SpanUsage(used.get(span, at_once), getattr(rule, span)) for span in RateSpan}

    @property
    def over_ms(self) -> int:
        """Return when nothing counts any more."""
        return self.latest_ms + _LENGTH_MS[RateSpan.DAY] * (_SLICES + 1) // _SLICES

    def _wait_ms(self, rule: UserRateRule, span: RateSpan, wanted: int) -> int | None:
        most: int | None = getattr(rule, span)
        if most is None:
            return 0
        if wanted > most:
            return None
        if span is RateSpan.BURST:
            return self.meter.wait_ms(rule.rate, wanted, self.latest_ms)
        slices = self.slices.get(span, {})
        used = sum(slices.values())
        for number, count in slices.items():
            if used + wanted <= most:
                break
            used -= count
            if used + wanted <= most:
                return _end_ms(span, number) - self.latest_ms
        return 0

    def _see(self, rule: UserRateRule, now: int) -> None:
        passed_ms = max(0, now - self.latest_ms)
        self.latest_ms += passed_ms
        self.meter.recover(rule.rate, passed_ms)
        for span, slices in self.slices.items():
            for number in [n for n in slices if _end_ms(span, n) <= self.latest_ms]:
                del slices[number]


def _end_ms(span: RateSpan, number: int) -> int:
    """Return when a slice stops counting: a whole span after its end."""
    return (number + 1 + _SLICES) * _LENGTH_MS[span] // _SLICES
