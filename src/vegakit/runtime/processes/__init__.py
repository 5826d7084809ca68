"""Processes on the local host: the program machine, driven (host)."""

from vegakit.runtime.processes.handles import Process
from vegakit.runtime.processes.localhost import LocalHost
from vegakit.runtime.processes.programs import ProgramRun
from vegakit.runtime.processes.recent import LogEntry, Recent, is_within
from vegakit.runtime.processes.supervisors import Child, Reducer, Supervisor
from vegakit.runtime.processes.views import (
    Health,
    HostFacts,
    Kind,
    ProcessView,
    State,
    views_of,
)

__all__ = [
    "Child",
    "Health",
    "HostFacts",
    "Kind",
    "LocalHost",
    "LogEntry",
    "Process",
    "ProcessView",
    "ProgramRun",
    "Recent",
    "Reducer",
    "State",
    "Supervisor",
    "is_within",
    "views_of",
]
