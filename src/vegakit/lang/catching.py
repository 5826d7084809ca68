"""The errors that a program may catch, by the names it shows them with."""

__all__ = ["CATCHABLE"]

CATCHABLE = (
    "BudgetExceeded",
    "AgentFailed",
    "Timeout",
    "RateLimited",
    "CircuitOpen",
    "CapabilityDenied",
    "ContractViolated",
    "OutputTruncated",
    "LimitReached",
    "Cancelled",
    "ToolFailed",
    "Failed",
    "ArithmeticError",
    "IndexError",
    "KeyError",
    "ValueError",
)
