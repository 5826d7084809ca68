"""Vega: supervised agent programs whose worst-case bill is known before the first call.

The front door: a hand-listed set of names, each loaded when it is first used, so that
`import vegakit` costs nothing. Rooms never import it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vegakit.authoring import May
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
    from vegakit.lang import card
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
        Failed,
        Max,
        Process,
        Reducer,
        Reply,
        Runtime,
        Supervisor,
        load,
        map_all,
        parallel,
        program,
        race,
        retry_until,
        run,
        run_program,
        session,
        spawn,
        vega,
    )
    from vegakit.telemetry import trace
    from vegakit.tools import tool

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
    "Failed": "runtime",
    "LimitReached": "errors",
    "Max": "runtime",
    "May": "authoring",
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
    "card": "lang",
    "dollars": "money",
    "load": "runtime",
    "map_all": "runtime",
    "parallel": "runtime",
    "program": "runtime",
    "race": "runtime",
    "retry_until": "runtime",
    "run": "runtime",
    "run_program": "runtime",
    "session": "runtime",
    "spawn": "runtime",
    "tool": "tools",
    "trace": "telemetry",
    "vega": "runtime",
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
    "Failed",
    "LimitReached",
    "Max",
    "May",
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
    "card",
    "dollars",
    "load",
    "map_all",
    "parallel",
    "program",
    "race",
    "retry_until",
    "run",
    "run_program",
    "session",
    "spawn",
    "tool",
    "trace",
    "vega",
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


class _Door(ModuleType):
    """`program` is a room too, which the import system would put in place of what marks programs
    in Python; who wants the room imports from it."""

    @property
    def program(self) -> Any:  # noqa: ANN401
        return import_module("vegakit.runtime").program

    @program.setter
    def program(self, room: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Door
