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
    from vegakit.runtime import Agent, Reply, Runtime, run
    from vegakit.telemetry import trace

_ROOM_OF = {
    "Agent": "runtime",
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
    "Reply": "runtime",
    "Runtime": "runtime",
    "Timeout": "errors",
    "ToolFailed": "errors",
    "VegaError": "errors",
    "dollars": "money",
    "run": "runtime",
    "trace": "telemetry",
}

__all__ = [
    "Agent",
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
    "Reply",
    "Runtime",
    "Timeout",
    "ToolFailed",
    "VegaError",
    "dollars",
    "run",
    "trace",
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
