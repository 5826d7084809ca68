"""How much, how fast and how often: rates, breakers, retries, quotas (pure)."""

from vegakit.policy.limits.backoff import Backoff
from vegakit.policy.limits.breaker import (
    UNHEALTHY,
    Breaker,
    BreakerChange,
    BreakerRule,
    BreakerState,
    Permit,
)
from vegakit.policy.limits.meter import Rate, Remaining
from vegakit.policy.limits.quota import (
    Consumption,
    Dimension,
    Exceeded,
    Quota,
    QuotaRule,
    RemainingBudget,
    SoftWallReached,
    Within,
)
from vegakit.policy.limits.rate import (
    Admitted,
    NeverFits,
    Queued,
    RateLimiter,
    RateRule,
    RateStrategy,
    RateVerdict,
    SlowDown,
)
from vegakit.policy.limits.retry import (
    GiveUp,
    GiveUpReason,
    Resend,
    Retry,
    RetryAt,
    RetryRule,
    RetryVerdict,
    may_resend,
    start_retry,
)
from vegakit.policy.limits.retry_budget import RetryBudget, RetryBudgetRule
from vegakit.policy.limits.verdicts import NotYet, left_alone, no_more_now, too_much_at_once

__all__ = [
    "UNHEALTHY",
    "Admitted",
    "Backoff",
    "Breaker",
    "BreakerChange",
    "BreakerRule",
    "BreakerState",
    "Consumption",
    "Dimension",
    "Exceeded",
    "GiveUp",
    "GiveUpReason",
    "NeverFits",
    "NotYet",
    "Permit",
    "Queued",
    "Quota",
    "QuotaRule",
    "Rate",
    "RateLimiter",
    "RateRule",
    "RateStrategy",
    "RateVerdict",
    "Remaining",
    "RemainingBudget",
    "Resend",
    "Retry",
    "RetryAt",
    "RetryBudget",
    "RetryBudgetRule",
    "RetryRule",
    "RetryVerdict",
    "SlowDown",
    "SoftWallReached",
    "Within",
    "left_alone",
    "may_resend",
    "no_more_now",
    "start_retry",
    "too_much_at_once",
]
