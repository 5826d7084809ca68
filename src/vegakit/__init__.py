"""Vega: supervised agent programs whose worst-case bill is known before the first call.

The front door: a hand-listed set of names, each loaded when it is first used, so that
`import vegakit` costs nothing. Rooms never import it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vegakit.lazy import lazy_exports

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
        ProcessExited,
        ProcessRestarted,
        ProcessSpawned,
        ProcessStuck,
        ProgramRights,
    )
    from vegakit.sdk import (
        Failed,
        MaxLen,
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
    "MaxLen",
    "Money",
    "OutputTruncated",
    "Process",
    "ProcessExited",
    "ProcessRestarted",
    "ProcessSpawned",
    "ProcessStuck",
    "ProgramChanged",
    "ProgramRights",
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


_load, _names = lazy_exports(
    __name__,
    {
        "errors": (
            "AgentFailed BudgetExceeded Cancelled CapabilityDenied CircuitOpen ContractViolated "
            "LimitReached OutputTruncated ProgramChanged RateLimited Timeout ToolFailed "
            "VegaError"
        ),
        "lang": "card",
        "money": "Money dollars",
        "program": (
            "Bounds BreakerClosed BreakerOpened CostAlert ProcessExited ProcessRestarted "
            "ProcessSpawned ProcessStuck ProgramRights"
        ),
        "sdk": (
            "Agent Child Failed MaxLen Process Reducer Reply Runtime Supervisor load map_all "
            "parallel program race retry_until run run_program session spawn vega"
        ),
        "telemetry": "trace",
        "tools": "tool",
    },
)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name == "__version__":
        return import_module("importlib.metadata").version("vegakit")
    return _load(name)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]


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
