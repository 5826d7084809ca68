"""Vega: supervised agent programs whose worst-case bill is known before the first call.

The front door: a hand-listed set of names, each loaded when it is first used, so that
`import vegakit` costs nothing. Rooms never import it.
"""

import sys
from importlib import import_module
from types import ModuleType
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
    from vegakit.host import Agent, Child, Process, Reducer, Reply, Supervisor, run_program
    from vegakit.lang import card
    from vegakit.money import Money, dollars
    from vegakit.program import (
        Bounds,
        BreakerClosed,
        BreakerOpened,
        CostAlert,
        May,
        ProcessExited,
        ProcessRestarted,
        ProcessSpawned,
        ProcessStuck,
    )
    from vegakit.sdk import (
        Failed,
        Max,
        Runtime,
        load,
        map_all,
        parallel,
        program,
        race,
        retry_until,
        run,
        session,
        spawn,
        vega,
    )
    from vegakit.telemetry import trace
    from vegakit.tools import tool

_PACKAGE_OF = {
    "Agent": "sdk",
    "AgentFailed": "errors",
    "Bounds": "program",
    "BreakerClosed": "program",
    "BreakerOpened": "program",
    "BudgetExceeded": "errors",
    "Cancelled": "errors",
    "CapabilityDenied": "errors",
    "Child": "sdk",
    "CircuitOpen": "errors",
    "ContractViolated": "errors",
    "CostAlert": "program",
    "Failed": "sdk",
    "LimitReached": "errors",
    "Max": "sdk",
    "May": "program",
    "Money": "money",
    "OutputTruncated": "errors",
    "Process": "sdk",
    "ProcessExited": "program",
    "ProcessRestarted": "program",
    "ProcessSpawned": "program",
    "ProcessStuck": "program",
    "ProgramChanged": "errors",
    "RateLimited": "errors",
    "Reducer": "sdk",
    "Reply": "sdk",
    "Runtime": "sdk",
    "Supervisor": "sdk",
    "Timeout": "errors",
    "ToolFailed": "errors",
    "VegaError": "errors",
    "card": "lang",
    "dollars": "money",
    "load": "sdk",
    "map_all": "sdk",
    "parallel": "sdk",
    "program": "sdk",
    "race": "sdk",
    "retry_until": "sdk",
    "run": "sdk",
    "run_program": "sdk",
    "session": "sdk",
    "spawn": "sdk",
    "tool": "tools",
    "trace": "telemetry",
    "vega": "sdk",
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
    if name not in _PACKAGE_OF:
        raise AttributeError(f"vegakit has no {name!r}; public names: {', '.join(__all__)}")
    value = getattr(import_module(f"vegakit.{_PACKAGE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _LazyPackage(ModuleType):
    """`program` is a room too, which the import system would put in place of what marks programs
    in Python; who wants the room imports from it."""

    @property
    def program(self) -> Any:  # noqa: ANN401
        return import_module("vegakit.sdk").program

    @program.setter
    def program(self, room: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _LazyPackage
