"""Processes on the local host: the program machine, driven (host)."""

from vegakit.runtime.processes.driving import Driver
from vegakit.runtime.processes.handles import Process
from vegakit.runtime.processes.localhost import LocalHost, Perform
from vegakit.runtime.processes.performing import Context, Performing
from vegakit.runtime.processes.programs import ProgramRun
from vegakit.runtime.processes.recent import LogEntry, Recent, is_within
from vegakit.runtime.processes.recording import Recording
from vegakit.runtime.processes.registry import Registry
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
    "Context",
    "Driver",
    "Health",
    "HostFacts",
    "Kind",
    "LocalHost",
    "LogEntry",
    "Perform",
    "Performing",
    "Process",
    "ProcessView",
    "ProgramRun",
    "Recent",
    "Recording",
    "Reducer",
    "Registry",
    "State",
    "Supervisor",
    "is_within",
    "views_of",
]
