"""A host works with one frozen record, `HostServices`, instead of the `Runtime` (host).

Effect handlers, the registry of bodies and the run of a program are given these services and
nothing else. So they know nothing of the class that users hold, and another host (Temporal's
activities, a test) can put the same parts together in another way.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vegakit.child_process import Children
from vegakit.errors import UserError
from vegakit.host.approvals import Approvals
from vegakit.host.budgets import Budgets
from vegakit.host.gate import Gate
from vegakit.host.journal import JournaledRun
from vegakit.host.limiter import ModelRegistry
from vegakit.host.recovery import Backlog
from vegakit.ids import EffectKey
from vegakit.ports import Clock, Memory, Tool
from vegakit.program import Prompt
from vegakit.telemetry import Span, Tracer
from vegakit.tools import SandboxPool

if TYPE_CHECKING:
    from vegakit.host.admission import AdmissionService
    from vegakit.host.python_interop import PythonInterop
    from vegakit.lang import Module
    from vegakit.policy import PipelineDefinition


# What is given to a runtime is looked at before anything is opened: a wrong part that is only found
# when it is used, or closed, would leave the others held.


_METHODS = {
    "clock": "wait_until",
    "journal": "begin",
    "ledger": "reserve",
    "cache": "aclose",
    "trace": "record",
    "store": "put",
    "memory": "load",
    "audit": "append",
}
_FILES = {"journal", "ledger", "cache", "audit"}


def check_parts(parts: Mapping[str, object]) -> None:
    """Refuse a part of a runtime that cannot do what such a part does."""
    for name, part in parts.items():
        if part is None or (name in _FILES and isinstance(part, str | PathLike)):
            continue
        if not hasattr(part, _METHODS[name]):
            a_file = ", or name a file" if name in _FILES else ""
            raise UserError(
                f"{name}={part!r:.60} has no method {_METHODS[name]!r}; give an object as "
                f"vegakit.ports describes it{a_file}"
            )


def check_numbers(numbers: Mapping[str, tuple[object, int]]) -> None:
    """Refuse a setting of a runtime that is no whole number, or less than it may be."""
    for name, (value, least) in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UserError(f"{name}={value!r:.60}: write a whole number of at least {least}")


class ProgramSend(NamedTuple):
    """A send of a program to an agent that somebody stands in for. `key` names it by its place in
    the program, equal in every incarnation of a run; what is asked for it goes below `span`, and is
    paid from the session of `prompt`."""

    prompt: Prompt
    key: EffectKey
    span: Span


class AgentStandIn(Protocol):
    """Answers the sends of a program to one of its agents, as text, or JSON where a type is asked
    for. `tool_names` are those of all tools that it may call."""

    @property
    def tool_names(self) -> Collection[str]: ...

    def answer(self, send: ProgramSend) -> Awaitable[str]:
        """Answer a send. All that this asks has ended when it returns: it is of the program."""
        ...


class CompiledProgram(Protocol):
    """A program as a host runs it: its module, the folder that its files are relative to, and how
    values of Python cross into it if it was written in Python. With a `pipeline` its main walks
    through that; its module holds the agents. `stand_ins` answer in place of agents, by name."""

    module: "Module"
    root: Path
    interop: "PythonInterop | None"
    pipeline: "PipelineDefinition | None"
    stand_ins: "Mapping[str, AgentStandIn]"


@dataclass(frozen=True, slots=True)
class HostServices:
    """The parts of one entered runtime. `mcp_tools` returns the
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
    mcp_tools: Callable[[str], Awaitable[tuple[Tool, ...]]]
