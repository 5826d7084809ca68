"""Retries: whether a failed call is tried again, when, and how many retries all calls to one
provider share (pure).
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from vegakit.errors import ErrorClass, InvalidRuleError, Phase

# Waiting longer after each failure, with full jitter: exponential(100ms, 2.0, 5s).
#
#     delay = draw × min(max, initial × factor ^ failures)        draw in 0..1 is handed in
#
# Drawing the whole delay, not a part of it, spreads those who failed together the most.


class Backoff(Struct, frozen=True):
    """A pause that grows with each failure, up to `max_ms`."""

    initial_ms: int = 100
    factor: float = 2.0
    max_ms: int = 5_000

    def __post_init__(self) -> None:
        if not (1 <= self.initial_ms <= self.max_ms and 1 <= self.factor < float("inf")):
            raise InvalidRuleError(
                "a backoff needs an initial delay from 1 ms up to its maximum and a finite factor"
                f" of at least 1; got {self}"
            )

    def delay_ms(self, failures: int, draw: float) -> int:
        """Return the pause after so many failures, a random part (`draw`, 0 to 1) of the
        longest."""
        try:
            longest = min(self.max_ms, self.initial_ms * self.factor**failures)
        except OverflowError:
            longest = self.max_ms
        return int(draw * longest)


# A retry budget bounds the retries of all calls to one provider together.
#
# Without it every client of a provider that is down sends its load three times over. Every first
# attempt pays in a share of a retry, every retry takes out a whole one; no more than `stock` are
# kept, and it starts full:
#
#     retries  <=  stock + share_percent % of the first attempts
#
# With 10 % and a stock of 200, a minute of total outage at 50 calls a second makes 500 retries at
# most: 1.17 times the load that was offered. A hundred calls of three attempts each are not held
# back.


_RETRY = 100
"""Counted in hundredths, so that a percent is a whole number."""


class RetryBudgetRule(Struct, frozen=True):
    """Retries are at most `share_percent` of the first attempts, plus a stock for the start."""

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
        """Earn a part of a retry."""
        self.used = max(0, self.used - self.rule.share_percent)

    def withdraw(self) -> bool:
        """Take one retry, if there is one left."""
        if self.used + _RETRY > self.rule.stock * _RETRY:
            return False
        self.used += _RETRY
        return True


# One rule decides whether a failed call is tried again, and when.
#
# | the failed attempt                                    | answer                          |
# |-------------------------------------------------------|---------------------------------|
# | is of a class the rule does not name                  | GiveUp(CLASS)                   |
# | was the last of `max_attempts`                        | GiveUp(ATTEMPTS)                |
# | was answered by asking for a wait above `max_wait_ms` | GiveUp(WAIT)                    |
# | leaves no time: the next would not start before the   | GiveUp(DEADLINE)                |
# | deadline                                              |                                 |
# | finds the shared retry budget empty                   | GiveUp(BUDGET)                  |
# | any other                                             | RetryAt, one retry withdrawn    |
#
# The wait is the backoff's, with full jitter. A Retry-After comes on top: nobody is earlier than
# the server asked, and those who were told the same do not come back at the same instant.
#
# `Phase` does not decide *whether*: a timeout is a timeout. It decides who pays: after
# `Phase.UNKNOWN` the attempt may have been billed and stays charged, so the next one has to
# `reserve_again`.


TRANSIENT = frozenset(
    {
        ErrorClass.RATE_LIMIT,
        ErrorClass.OVERLOADED,
        ErrorClass.UNAVAILABLE,
        ErrorClass.SERVER,
        ErrorClass.TIMEOUT,
        ErrorClass.CONNECTION,
    }
)
"""The same request may succeed later; of every other class it fails again for the same reason."""


class Resend(StrEnum):
    """The choices for a model call that was cut off because our side died."""

    ALWAYS = "always"
    """It is sent once more each time the run goes on; each cut stays charged."""
    NEVER = "never"
    """The program is told that its answer is lost."""


class RetryRule(Struct, frozen=True):
    """`total_ms` counts from the start of the first attempt.

    `resend_unknown` is about a call cut off because our side died, see `may_resend`. A server that
    asks to wait for longer than `max_wait_ms` has refused: nobody sits and waits for hours without
    having said so. `speak_again` is for an answer that breaks off after its beginning was heard:
    it is asked for again, and who listens hears it from the start once more.
    """

    max_attempts: int = 3
    backoff: Backoff = Backoff()
    on: tuple[ErrorClass, ...] = (ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.TIMEOUT)
    total_ms: int | None = None
    resend_unknown: Resend = Resend.ALWAYS
    max_wait_ms: int = 60_000
    speak_again: bool = False

    def __post_init__(self) -> None:
        times = (self.total_ms, self.max_wait_ms)
        if not 1 <= self.max_attempts <= 100 or any(ms is not None and ms < 1 for ms in times):
            raise InvalidRuleError(
                "retry needs max_attempts from 1 to 100, and a total time and a longest wait of at "
                f"least 1ms; got {self}"
            )
        if hopeless := [error_class for error_class in self.on if error_class not in TRANSIENT]:
            raise InvalidRuleError(
                f"retry on [{', '.join(hopeless)}] cannot help, the same request fails again; "
                f"name some of {', '.join(sorted(TRANSIENT))}"
            )


class GiveUpReason(StrEnum):
    """The reasons for which a call is not tried again."""

    CLASS = "class"
    ATTEMPTS = "attempts"
    WAIT = "wait"
    DEADLINE = "deadline"
    BUDGET = "budget"


class RetryAt(Struct, frozen=True, tag=True):
    """Try again at this time; a reservation that was used up is made again."""

    at_ms: int
    attempt: int
    reserve_again: bool


class GiveUp(Struct, frozen=True, tag=True):
    """Do not try again."""

    reason: GiveUpReason


RetryVerdict: TypeAlias = RetryAt | GiveUp


class Retry(Struct):
    """The retry rule of one call and its deadline; `start_retry` makes it. The caller counts the
    attempts."""

    rule: RetryRule
    deadline_ms: int | None = None

    def on_failure(
        self,
        attempts: int,
        error_class: ErrorClass,
        now: int,
        draw: float,
        *,
        phase: Phase = Phase.UNKNOWN,
        retry_after_ms: int | None = None,
        budget: RetryBudget | None = None,
    ) -> RetryVerdict:
        """Decide after so many failed `attempts`. `draw` is random, from 0 to 1."""
        if error_class not in self.rule.on:
            return GiveUp(GiveUpReason.CLASS)
        if attempts >= self.rule.max_attempts:
            return GiveUp(GiveUpReason.ATTEMPTS)
        if retry_after_ms is not None and retry_after_ms > self.rule.max_wait_ms:
            return GiveUp(GiveUpReason.WAIT)
        delay_ms = self.rule.backoff.delay_ms(attempts - 1, draw)
        at_ms = now + max(0, retry_after_ms or 0) + delay_ms
        if self.deadline_ms is not None and at_ms >= self.deadline_ms:
            return GiveUp(GiveUpReason.DEADLINE)
        if budget is not None and not budget.withdraw():
            return GiveUp(GiveUpReason.BUDGET)
        return RetryAt(at_ms, attempts + 1, reserve_again=phase is Phase.UNKNOWN)


def start_retry(
    rule: RetryRule,
    now: int,
    *,
    deadline_ms: int | None = None,
    budget: RetryBudget | None = None,
) -> Retry:
    """Begin a call. The earlier of the rule's total time and the call's deadline holds."""
    if budget is not None:
        budget.on_first_attempt()
    if rule.total_ms is not None:
        total_ms = now + rule.total_ms
        deadline_ms = total_ms if deadline_ms is None else min(total_ms, deadline_ms)
    return Retry(rule, deadline_ms)


def format_wait(wait_ms: int) -> str:
    """Return a wait as people say it."""
    seconds = wait_ms / 1_000
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:,.0f} h"


def may_resend(rule: RetryRule) -> bool:
    """Whether a call that was cut off because our side died is sent again. It may have been
    billed, so it stays charged. This is not counted against `max_attempts`: the call was not tried
    in vain, and each cut needs a death and a person who has the run go on, so it cannot go round
    in circles by itself."""
    return rule.resend_unknown is Resend.ALWAYS
