"""Every error of Vega, as one tree (base, pure).

  VegaError
  ├── UserError                  yours: shown with its place, fixed by editing a program or setting
  │   ├── InvalidMoneyError      an amount that is not money: "$1.5x", NaN, a seventh decimal
  │   ├── InvalidRecordError     stored or received JSON that does not fit its type
  │   ├── InvalidRuleError       a policy that cannot hold: zero probes, a negative window
  │   ├── ProgramChanged         a recorded effect was asked again with another request
  │   ├── SettingsError          a setting that is unknown, wrong, missing or not to be trusted
  │   ├── ToolCutOff             a tool call that was cut off waits for a person's decision
  │   ├── StoreError             a ledger or store that cannot be opened, read or written
  │   └── CatchableError         what a program may catch, by the names the language shows
  │       ├── BudgetExceeded     ├── Timeout            ├── OutputTruncated
  │       │   └── Paused         │                      │
  │       ├── AgentFailed        ├── RateLimited        ├── LimitReached
  │       ├── ToolFailed         ├── CircuitOpen        ├── Cancelled
  │       ├── ContractViolated   ├── CapabilityDenied
  │       └── ProgramFailed      a compiled program's own fault: `name` says which
  ├── WorldError                 theirs: goes to retry and breaker, by its ErrorClass and Phase
  └── BugError                   ours: crashes the process it is found in; the supervisor sees it

A message says what was expected, what came, and what to do. Expected outcomes are not errors:
policies answer with values such as `Refused(wait_ms=2000)`.
"""

from enum import StrEnum
from typing import cast

__all__ = [
    "AgentFailed",
    "BudgetExceeded",
    "BugError",
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
    "error_name",
    "raised",
]


class ErrorClass(StrEnum):
    """How the world failed; retry policies and breakers name these."""

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


class Phase(StrEnum):
    """How far a failed request had come, which decides whether it may have been billed."""

    NOTHING_SENT = "nothing_sent"
    UNKNOWN = "unknown"
    ANSWERED = "answered"


class VegaError(Exception):
    """`cause` are the keys of the effects whose outcomes it comes from, none where the program
    failed by itself. They are for the journal, and no part of its text."""

    cause: tuple[str, ...] = ()


class UserError(VegaError):
    pass


class InvalidMoneyError(UserError, ValueError):
    pass


class InvalidRecordError(UserError, ValueError):
    pass


class InvalidRuleError(UserError, ValueError):
    pass


class ProgramChanged(UserError):
    pass


class SettingsError(UserError, ValueError):
    pass


class ToolCutOff(UserError):
    """A tool that must not be called twice was cut off: a person has to decide."""


class StoreError(UserError):
    """Not the world's: a full disk here must not open the breaker of a provider."""


class CatchableError(UserError):
    """A program may catch it: `catch BudgetExceeded { … }`, `except BudgetExceeded`."""


class BudgetExceeded(CatchableError):
    pass


class Paused(BudgetExceeded):
    """Of a budget that is set to ask: raise it and resume, and the program goes on from here."""


class AgentFailed(CatchableError):
    pass


class ToolFailed(CatchableError):
    pass


class ContractViolated(CatchableError):
    pass


class Timeout(CatchableError):
    pass


class RateLimited(CatchableError):
    pass


class CircuitOpen(CatchableError):
    pass


class CapabilityDenied(CatchableError):
    pass


class OutputTruncated(CatchableError):
    pass


class LimitReached(CatchableError):
    pass


class Cancelled(CatchableError):
    pass


class ProgramFailed(CatchableError):
    """`name` is what the program calls it: Failed, IndexError, FuelExhausted."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


_FAULTS = frozenset(
    "ArithmeticError BadProgram Failed FuelExhausted IndexError KeyError ValueError".split()
)


def error_name(error: VegaError) -> str:
    """As programs know it."""
    return error.name if isinstance(error, ProgramFailed) else type(error).__name__


def raised(name: str, reason: str) -> "CatchableError | UserError":
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
        self.phase = phase
        self.retry_after_ms = retry_after_ms


class BugError(VegaError):
    pass
