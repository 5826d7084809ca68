"""Vega: supervised agent programs whose worst-case bill is known before the first call.

The front door: a hand-listed set of names, each loaded when it is first used, so that
`import vegakit` costs nothing. Rooms never import it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vegakit.errors import (
        AgentFailed,
        BudgetExceeded,
        Cancelled,
        CapabilityDenied,
        CircuitOpen,
        ContractViolated,
        LimitReached,
        OutputTruncated,
        ProgramChanged,
        RateLimited,
        Timeout,
        ToolFailed,
        VegaError,
    )
    from vegakit.money import Money, dollars

_ROOM_OF = {
    "AgentFailed": "errors",
    "BudgetExceeded": "errors",
    "Cancelled": "errors",
    "CapabilityDenied": "errors",
    "CircuitOpen": "errors",
    "ContractViolated": "errors",
    "LimitReached": "errors",
    "Money": "money",
    "OutputTruncated": "errors",
    "ProgramChanged": "errors",
    "RateLimited": "errors",
    "Timeout": "errors",
    "ToolFailed": "errors",
    "VegaError": "errors",
    "dollars": "money",
}

__all__ = [
    "AgentFailed",
    "BudgetExceeded",
    "Cancelled",
    "CapabilityDenied",
    "CircuitOpen",
    "ContractViolated",
    "LimitReached",
    "Money",
    "OutputTruncated",
    "ProgramChanged",
    "RateLimited",
    "Timeout",
    "ToolFailed",
    "VegaError",
    "dollars",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name == "__version__":
        return import_module("importlib.metadata").version("vegakit")
    if name not in _ROOM_OF:
        raise AttributeError(f"vegakit has no {name!r}; public names: {', '.join(__all__)}")
    value = getattr(import_module(f"vegakit.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
