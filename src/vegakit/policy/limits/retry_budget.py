"""How many retries all calls to one provider may make together.

Without it every client of a provider that is down sends its load three times over. Every first
attempt pays in a share of a retry, every retry takes out a whole one; no more than `stock` are
kept, and it starts full:

    retries  <=  stock + share_percent % of the first attempts

With 10 % and a stock of 200, a minute of total outage at 50 calls a second makes 500 retries at
most: 1.17 times the load that was offered. A hundred calls of three attempts each are not held
back.
"""

from msgspec import Struct

from vegakit.errors import InvalidRuleError

__all__ = ["RetryBudget", "RetryBudgetRule"]

_RETRY = 100
"""Counted in hundredths, so that a percent is a whole number."""


class RetryBudgetRule(Struct, frozen=True):
    share_percent: int = 10
    stock: int = 200

    def __post_init__(self) -> None:
        if not 0 <= self.share_percent <= 100 or self.stock < 1:
            raise InvalidRuleError(
                "a retry budget needs a share from 0 to 100 percent and a stock of at least 1; "
                f"got {self}"
            )


class RetryBudget(Struct):
    """Shared by all calls to one provider."""

    rule: RetryBudgetRule
    used: int = 0
    """Hundredths of a retry missing from a full stock."""

    def on_first_attempt(self) -> None:
        self.used = max(0, self.used - self.rule.share_percent)

    def withdraw(self) -> bool:
        if self.used + _RETRY > self.rule.stock * _RETRY:
            return False
        self.used += _RETRY
        return True
