"""Vega: supervised agent programs whose worst-case bill is known before the first call.

The front door: a hand-listed set of at most 40 names, each loaded when it is first used, so that
`import vegakit` costs nothing. What a running program tells (`rt.on(CostAlert, …)`, the pieces of a
stream) is in `vegakit.sdk`. Rooms never import it.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (from a clone nothing else says so)
    raise ImportError(
        f"vegakit needs Python 3.11 or newer, and this is {sys.version.split()[0]}; type: "
        "python3.11 -m venv .venv, and install it there"
    )

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
    from vegakit.money import Dollars
    from vegakit.program import Bounds, ProgramRights
    from vegakit.sdk import (
        Failed,
        MaxLen,
        Runtime,
        adopt,
        load,
        map_all,
        parallel,
        program,
        race,
        retry_until,
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
    "BudgetExceeded",
    "Cancelled",
    "CapabilityDenied",
    "Child",
    "CircuitOpen",
    "ContractViolated",
    "Dollars",
    "Failed",
    "LimitReached",
    "MaxLen",
    "OutputTruncated",
    "Process",
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
    "adopt",
    "card",
    "load",
    "map_all",
    "parallel",
    "program",
    "race",
    "retry_until",
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
        "money": "Dollars",
        "program": "Bounds ProgramRights",
        "sdk": (
            "Agent Child Failed MaxLen Process Reducer Reply Runtime Supervisor adopt load map_all "
            "parallel program race retry_until run_program session spawn vega"
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
