"""Every error of Vega, as one tree (base, pure).

  VegaError
  ├── UserError                  yours: shown with its place, fixed by editing a program or setting
  │   ├── InvalidMoneyError      an amount that is not money: "$1.5x", NaN, a seventh decimal
  │   ├── InvalidRecordError     stored or received JSON that does not fit its type
  │   ├── InvalidRuleError       a policy that cannot hold: zero probes, a negative window
  │   ├── ProgramChanged         a recorded effect was asked again with another request
  │   ├── SettingsError          a setting that is unknown, wrong, missing or not to be trusted
  │   ├── NeedsConsent           a resumed run costs more than a person accepted
  │   ├── ToolCutOff             a tool call that was cut off waits for a person's decision
  │   └── CatchableError         what a program may catch, by the names the language shows
  │       ├── BudgetExceeded     ├── Timeout            ├── OutputTruncated
  │       │   └── Paused         │                      │
  │       ├── AgentFailed        ├── RateLimited        ├── LimitReached
  │       ├── ToolFailed         ├── CircuitOpen        ├── Cancelled
  │       ├── ContractViolated   ├── CapabilityDenied
  │       └── ProgramFailed      a compiled program's own fault: `name` says which
  ├── StoreError                 a ledger or store that cannot be opened, read or written: logged
  │   └── BusError               a message bus that does not answer
  ├── WorldError                 theirs: goes to retry and breaker, by its ErrorClass and Phase
  └── BugError                   ours: crashes the process it is found in; the supervisor sees it

A message names the expected value, the value that came, and the next step. Expected outcomes are
not errors: policies answer with values such as `Refused(wait_ms=2000)`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, cast

__all__ = [
    "AgentFailed",
    "BudgetExceeded",
    "BugError",
    "BusError",
    "Cancelled",
    "CapabilityDenied",
    "CatchableError",
    "CircuitOpen",
    "ContractViolated",
    "ErrorClass",
    "InvalidMoneyError",
    "InvalidRecordError",
    "InvalidRuleError",
    "LimitReached",
    "NeedsConsent",
    "OutputTruncated",
    "Paused",
    "Phase",
    "ProgramChanged",
    "ProgramFailed",
    "RateLimited",
    "SettingsError",
    "StoreError",
    "Timeout",
    "ToolCutOff",
    "ToolFailed",
    "UserError",
    "VegaError",
    "WorldError",
    "causes_of",
    "did_you_mean",
    "error_name",
    "rebuild_error",
]


def did_you_mean(word: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Return the end of a message about an unknown word: the known one that is closest, or else
    what the caller says, or all that are known."""
    from difflib import get_close_matches  # slow to load, and most programs make no mistake

    words = [*known]
    swapped = [one for one in words if sorted(one) == sorted(word)]  # `rnu` for `run`
    if close := get_close_matches(word, words, 1, _CLOSE) or swapped:
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(words) or 'none'}" if otherwise is None else otherwise


_CLOSE = 0.7
"""How alike two words must be: `smrt` is like `smart`, and `deploy` is not like `replay`."""


class ErrorClass(StrEnum):
    """The ways in which the world fails; retry policies and breakers name these."""

    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    SERVER = "server"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    CONTEXT_LENGTH = "context_length"
    AUTH = "auth"
    REJECTED = "rejected"
    CONTENT_FILTER = "content_filter"

    @property
    def is_outage(self) -> bool:
        """Whether a provider could not be asked. It was in the other cases, and the request itself
        was at fault: too long, not allowed, or stopped by a filter."""
        return self not in _ABOUT_THE_REQUEST

    @property
    def next_step(self) -> str:
        """The end of a message where the words of a provider do not say what to do, or nothing."""
        return f"; {_NEXT_STEPS[self]}" if self in _NEXT_STEPS else ""


_ABOUT_THE_REQUEST = frozenset(
    {ErrorClass.CONTEXT_LENGTH, ErrorClass.REJECTED, ErrorClass.CONTENT_FILTER}
)
_NEXT_STEPS = {
    ErrorClass.RATE_LIMIT: "wait, or ask less often: requests in [limits.default] of vega.toml",
    ErrorClass.QUOTA: "add credit at the provider, or choose another model",
    ErrorClass.CONNECTION: "check the network, and the base_url of the provider if one is set",
}


class Phase(StrEnum):
    """The phase in which a request failed; it decides whether the call may have been billed."""

    NOTHING_SENT = "nothing_sent"
    UNKNOWN = "unknown"
    ANSWERED = "answered"


class VegaError(Exception):
    """`cause` are the keys of the effects whose outcomes it comes from, none where the program
    failed by itself. They are for the journal, and no part of its text. `messages` is the
    conversation of an agent that failed, as far as it went. `is_outage` says that a provider could
    not be asked, so that nothing is known of what it would have answered."""

    cause: tuple[str, ...] = ()
    messages: tuple[Any, ...] = ()
    is_outage: bool = False


class UserError(VegaError):
    """The user can fix this; the text says how."""


class InvalidMoneyError(UserError, ValueError):
    """A text or number is no amount of money."""


class InvalidRecordError(UserError, ValueError):
    """Stored data cannot be read."""


class InvalidRuleError(UserError, ValueError):
    """A rule contradicts itself or says nothing."""


class ProgramChanged(UserError):
    """The program is not the one that was recorded."""


class SettingsError(UserError, ValueError):
    """A setting is wrong, or contradicts another."""


class ToolCutOff(UserError):
    """A tool that must not be called twice was cut off: a person has to decide."""


class NeedsConsent(UserError):
    """A resumed run costs more than was accepted: a person has to accept it."""


class StoreError(VegaError):
    """A store does not work. It is logged, and the text names the fix. It is no error of the world:
    a full disk here must not open the breaker of a provider."""


class BusError(StoreError):
    """A message bus does not answer. What is kept in the store is not touched by that."""


class CatchableError(UserError):
    """A program may catch it: `catch BudgetExceeded { … }`, `except BudgetExceeded`."""


class BudgetExceeded(CatchableError):
    """A call may cost more than is left. In a fan-out, `answers` are those of the other calls, by
    position."""

    answers: Mapping[int, Any] = MappingProxyType({})


class Paused(BudgetExceeded):
    """A budget that is set to ask has no room: raise it and resume, and the program goes on from
    here."""


class AgentFailed(CatchableError):
    """An agent came to no answer."""


class ToolFailed(CatchableError):
    """A tool failed."""


class ContractViolated(CatchableError):
    """An answer does not fit its type."""


class Timeout(CatchableError):
    """A deadline passed."""


class RateLimited(CatchableError):
    """A rate limit refused a call. `wait_s` is after how many seconds one may be let through; None
    if nobody can tell."""

    wait_s: float | None = None


class CircuitOpen(CatchableError):
    """A breaker refused a call."""


class CapabilityDenied(CatchableError):
    """A capability is not granted."""


class OutputTruncated(CatchableError):
    """An answer was cut at its token limit."""


class LimitReached(CatchableError):
    """A limit on steps, calls, tokens or size is reached."""


class Cancelled(CatchableError):
    """The work was given up."""


class ProgramFailed(CatchableError):
    """`name` is what the program calls it: Failed, IndexError, FuelExhausted."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


_FAULTS = frozenset(
    "ArithmeticError BadProgram Failed FuelExhausted IndexError KeyError ValueError".split()
)


def error_name(error: VegaError) -> str:
    """Return the name of an error as programs know it."""
    return error.name if isinstance(error, ProgramFailed) else type(error).__name__


def rebuild_error(name: str, reason: str) -> "CatchableError | UserError":
    """The error of this name; what has no name in the language is a failed agent."""
    if name == UserError.__name__:
        return UserError(reason)
    if name in _FAULTS:
        return ProgramFailed(name, reason)
    kinds = {kind.__name__: kind for kind in (Paused, *CatchableError.__subclasses__())}
    del kinds[ProgramFailed.__name__]
    return kinds.get(name, AgentFailed)(reason)


def causes_of(error: BaseException) -> tuple[str, ...]:
    """The effects behind an error and behind all that it follows from: what it was raised from,
    what was being handled when it was raised, and the members of a group."""
    found: dict[str, None] = {}
    due, seen = [error], set[int]()
    while due:
        one = due.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, VegaError):
            found |= dict.fromkeys(one.cause)
        if isinstance(one, BaseExceptionGroup):
            due += cast("BaseExceptionGroup[BaseException]", one).exceptions
        due += [each for each in (one.__cause__, one.__context__) if each is not None]
    return (*found,)


class WorldError(VegaError):
    """A provider or the network failed."""

    def __init__(
        self,
        message: str,
        error_class: ErrorClass,
        *,
        phase: Phase = Phase.UNKNOWN,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.is_outage = error_class.is_outage
        self.phase = phase
        self.retry_after_ms = retry_after_ms


class BugError(VegaError):
    """Vega did something that it must not."""
