"""Every error of Vega, as one tree (base, pure).

VegaError
├── UserError                  yours: shown with its place, fixed by editing a program or a setting
│   ├── InvalidMoneyError      an amount that is not money: "$1.5x", NaN, a seventh decimal
│   ├── InvalidRecordError     stored or received JSON that does not fit its type
│   ├── InvalidRuleError       a policy that cannot hold: zero probes, a negative window
│   ├── ProgramChanged         a recorded effect was asked again with another request
│   ├── SettingsError          a setting that is unknown, wrong, missing or not to be trusted
│   ├── ToolCutOff             a tool call that was cut off waits for a person's decision
│   ├── StoreError             a ledger or store that cannot be opened, read or written
│   └── Raised                 what a program may catch, by the names the language shows
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
    "Raised",
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
    "name_of",
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


class ProgramChanged(UserError):  # noqa: N818  (shown to users by this name)
    pass


class SettingsError(UserError, ValueError):
    pass


class ToolCutOff(UserError):  # noqa: N818  (shown to users by this name)
    """A tool that must not be called twice was cut off: a person has to decide."""


class StoreError(UserError):
    """Not the world's: a full disk here must not open the breaker of a provider."""


class Raised(UserError):  # noqa: N818
    """A program may catch it: `catch BudgetExceeded { … }`, `except BudgetExceeded`."""


class BudgetExceeded(Raised):
    pass


class Paused(BudgetExceeded):
    """Of a budget that is set to ask: raise it and resume, and the program goes on from here."""


class AgentFailed(Raised):
    pass


class ToolFailed(Raised):
    pass


class ContractViolated(Raised):
    pass


class Timeout(Raised):
    pass


class RateLimited(Raised):
    pass


class CircuitOpen(Raised):
    pass


class CapabilityDenied(Raised):
    pass


class OutputTruncated(Raised):
    pass


class LimitReached(Raised):
    pass


class Cancelled(Raised):
    pass


class ProgramFailed(Raised):
    """`name` is what the program calls it: Failed, IndexError, FuelExhausted."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


_FAULTS = frozenset(
    "ArithmeticError BadProgram Failed FuelExhausted IndexError KeyError ValueError".split()
)


def name_of(error: VegaError) -> str:
    """As programs know it."""
    return error.name if isinstance(error, ProgramFailed) else type(error).__name__


def raised(name: str, reason: str) -> "Raised | UserError":
    """The error of this name; what has no name in the language is a failed agent."""
    if name == UserError.__name__:
        return UserError(reason)
    if name in _FAULTS:
        return ProgramFailed(name, reason)
    kinds = {kind.__name__: kind for kind in (Paused, *Raised.__subclasses__())}
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
