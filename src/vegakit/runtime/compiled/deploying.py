"""A compiled program among the processes of a runtime: bodies for its functions, agents and tools.

| in the module          | becomes                                                           |
|------------------------|-------------------------------------------------------------------|
| an agent               | two bodies: one for processes, one for sends to its name          |
| a tool written in Vega | a fiber below the agent that calls it, with the tool's rights for |
|                        | all that it calls                                                 |
| a supervisor           | the spec of a group                                               |
| rights                 | the tools of the library that its functions may reach             |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vegakit.lang import Module, SupervisorSpec
from vegakit.policy import ChildType, Grant, RestartRule, RestartStrategy
from vegakit.ports import Tool
from vegakit.program import ChildSpec, FiberBody, GroupSpec, ProcessSpec
from vegakit.records import digest128
from vegakit.runtime.agents import Agent
from vegakit.runtime.compiled.agents import agent_of
from vegakit.runtime.compiled.library import library_tools
from vegakit.runtime.compiled.outside import Outside
from vegakit.runtime.compiled.tools import VegaTool

__all__ = ["Bodies", "Deployed", "deploy"]


class Bodies(Protocol):
    """Where bodies are put: the registry, or a part of it."""

    def prefix_for(self, names: Iterable[str]) -> str: ...

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None: ...

    def register(self, body: Agent[Any]) -> str: ...


@dataclass(frozen=True)
class Deployed:
    """`tools` are those that its fibers may call, by the names they call them."""

    module: Module
    bodies: Mapping[str, str]
    tools: Mapping[str, Tool]

    def function(self, name: str) -> str:
        return self.bodies[name]


def deploy(
    module: Module,
    root: Path,
    registry: Bodies,
    allowed: Sequence[str] | None = None,
    outside: Outside | None = None,
    most: Grant | None = None,
) -> Deployed:
    """Once for each program of a runtime, and for what it is allowed; `most` is what it may touch
    at most, whatever it declares."""
    outside = outside or Outside()
    prefix = registry.prefix_for(function.name for function in module.functions)
    tools = library_tools(module, root, allowed, most=most) | dict(outside.called)
    narrow = {
        tool.name: library_tools(module, root, allowed, module.rights[tool.rights], most)
        | dict(outside.called)
        for tool in module.tools
    }
    spawns: dict[str, ChildSpec] = {}
    stateless: dict[str, ProcessSpec] = {}
    bodies: dict[str, str] = {}
    known, digest = _parameters(tools), _digest(module)
    for number, function in enumerate(module.functions):
        name = bodies[function.name] = f"{prefix}{function.name}"
        body = FiberBody(module, number, spawns, stateless, function.names, known, digest)
        registry.register_fiber(name, body, narrow.get(function.name, tools))
    vega = {tool.name: VegaTool(tool, ProcessSpec(bodies[tool.name])) for tool in module.tools}
    for spec in module.agents:
        own = {name: vega[name] for name in spec.tools if name in vega}
        theirs = own | dict(outside.given.get(spec.name, {}))
        stateless[spec.name] = ProcessSpec(registry.register(agent_of(spec, theirs, memory=False)))
        spawns[spec.name] = stateless[spec.name]
        if spec.memory:
            kept = registry.register(agent_of(spec, theirs, memory=True))
            spawns[spec.name] = ProcessSpec(kept)
    for group in module.supervisors:
        spawns[group.name] = _group(group, spawns)
    return Deployed(module, bodies, tools)


def _parameters(tools: Mapping[str, Tool]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(tool.spec.parameters.get("properties", ())) for name, tool in tools.items()}


def _digest(module: Module) -> str:
    """Of what runs: a comment, or a line further down, changes nothing."""
    code = [
        (f.name, f.registers, f.code, f.handlers, [(s.ordinal, s.loops) for s in f.sites])
        for f in module.functions
    ]
    return digest128([code, module.constants, module.types])


def _group(spec: SupervisorSpec, known: Mapping[str, ChildSpec]) -> GroupSpec:
    rule = RestartRule(RestartStrategy(spec.strategy), spec.max_restarts, spec.window_ms)
    return GroupSpec(rule, {name: known[name] for name in spec.children}, ChildType.TRANSIENT)
