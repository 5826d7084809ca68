"""A host works with one frozen record, `HostServices`, instead of the `Runtime` (host).

Effect handlers, the registry of bodies and the run of a program are given these services and
nothing else. So they know nothing of the class that users hold, and another host (Temporal's
activities, a test) can put the same parts together in another way.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vegakit.child_process import Children
from vegakit.host.approvals import Approvals
from vegakit.host.budgets import Budgets
from vegakit.host.gate import Gate
from vegakit.host.journal import JournaledRun
from vegakit.host.limiter import ModelRegistry
from vegakit.host.recovery import Backlog
from vegakit.ports import Clock, Memory, Tool
from vegakit.telemetry import Tracer
from vegakit.tools import SandboxPool

if TYPE_CHECKING:
    from vegakit.host.admission import AdmissionService
    from vegakit.host.python_interop import PythonInterop
    from vegakit.lang import Module


class CompiledProgram(Protocol):
    """A program as a host runs it: its module, the folder that its files are relative to, and how
    values of Python cross into it if it was written in Python."""

    module: "Module"
    root: Path
    interop: "PythonInterop | None"


@dataclass(frozen=True, slots=True)
class HostServices:
    """The parts of one entered runtime. `on_spent` is told every charge; `mcp_tools` returns the
    tools of a configured MCP server, which it starts if need be; `admission_service` the one that
    looks at programs, which is made for the first of them."""

    clock: Clock
    model_registry: ModelRegistry
    budgets: Budgets
    gate: Gate
    backlog: Backlog
    tracer: Tracer
    approvals: Approvals
    children: Children
    sandboxes: SandboxPool
    admission_service: "Callable[[], AdmissionService]"
    memory: Memory | None
    journaled: JournaledRun | None
    on_spent: Callable[[int], None]
    mcp_tools: Callable[[str], Awaitable[tuple[Tool, ...]]]
