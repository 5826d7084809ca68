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
    from vegakit.program import (
        Bounds,
        BreakerClosed,
        BreakerOpened,
        CostAlert,
        ProcessExited,
        ProcessRestarted,
        ProcessSpawned,
        ProcessStuck,
    )
    from vegakit.runtime import (
        Agent,
        Child,
        Process,
        Reducer,
        Reply,
        Runtime,
        Supervisor,
        load,
        map_all,
        race,
        retry_until,
        run,
    )
    from vegakit.telemetry import trace

_ROOM_OF = {
    "Agent": "runtime",
    "AgentFailed": "errors",
    "Bounds": "program",
    "BreakerClosed": "program",
    "BreakerOpened": "program",
    "BudgetExceeded": "errors",
    "Cancelled": "errors",
    "CapabilityDenied": "errors",
    "Child": "runtime",
    "CircuitOpen": "errors",
    "ContractViolated": "errors",
    "CostAlert": "program",
    "LimitReached": "errors",
    "Money": "money",
    "OutputTruncated": "errors",
    "Process": "runtime",
    "ProcessExited": "program",
    "ProcessRestarted": "program",
    "ProcessSpawned": "program",
    "ProcessStuck": "program",
    "ProgramChanged": "errors",
    "RateLimited": "errors",
    "Reducer": "runtime",
    "Reply": "runtime",
    "Runtime": "runtime",
    "Supervisor": "runtime",
    "Timeout": "errors",
    "ToolFailed": "errors",
    "VegaError": "errors",
    "dollars": "money",
    "load": "runtime",
    "map_all": "runtime",
    "race": "runtime",
    "retry_until": "runtime",
    "run": "runtime",
    "trace": "telemetry",
}

__all__ = [
    "Agent",
    "AgentFailed",
    "Bounds",
    "BreakerClosed",
    "BreakerOpened",
    "BudgetExceeded",
    "Cancelled",
    "CapabilityDenied",
    "Child",
    "CircuitOpen",
    "ContractViolated",
    "CostAlert",
    "LimitReached",
    "Money",
    "OutputTruncated",
    "Process",
    "ProcessExited",
    "ProcessRestarted",
    "ProcessSpawned",
    "ProcessStuck",
    "ProgramChanged",
    "RateLimited",
    "Reducer",
    "Reply",
    "Runtime",
    "Supervisor",
    "Timeout",
    "ToolFailed",
    "VegaError",
    "dollars",
    "load",
    "map_all",
    "race",
    "retry_until",
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
