"""Programs that come and go in a long life: bodies of each, forgotten when no process has one."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vegakit.policy import Grant
from vegakit.ports import Tool
from vegakit.program import FiberBody, Machine
from vegakit.runtime.agents import Agent
from vegakit.runtime.compiled.deploying import deploy

if TYPE_CHECKING:
    from vegakit.runtime.compiled.loading import VegaProgram
    from vegakit.runtime.processes.registry import Registry

__all__ = ["Apart"]


class Apart:
    def __init__(self, registry: "Registry", machine: Callable[[], Machine]) -> None:
        self._registry, self._machine = registry, machine
        self._over: set[str] = set()
        self._count = 0

    def install(self, program: "VegaProgram", most: Grant, fuel: int) -> tuple[str, str]:
        """The prefix of its bodies, and the body of its main. `most` is what it may touch at most,
        `fuel` how long it may compute."""
        self.sweep()
        self._count += 1
        prefix, module = f"{self._count}!", program.module
        bodies = _Bodies(self._registry, prefix, fuel)
        deployed = deploy(module, program.root, bodies, most=most)
        return prefix, deployed.bodies[module.functions[module.main].name]

    def leave(self, prefix: str) -> None:
        self._over.add(prefix)
        self.sweep()

    def sweep(self) -> None:
        """What was ended may still be settling its last calls."""
        processes = self._machine().state.processes.values()
        bodies = [process.spec.body for process in processes]
        for prefix in sorted(self._over):
            if not any(body.startswith(prefix) for body in bodies):
                self._registry.forget(prefix)
                self._over.discard(prefix)


class _Bodies:
    """The registry, for names with one prefix."""

    def __init__(self, registry: "Registry", prefix: str, fuel: int) -> None:
        self._registry, self._prefix, self._fuel = registry, prefix, fuel

    def prefix_for(self, names: Iterable[str]) -> str:
        return self._prefix

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        self._registry.register_fiber(name, replace(body, fuel=self._fuel), tools)

    def register(self, body: Agent[Any]) -> str:
        kind = "+memory" if body.memory else ""
        return self._registry.register(body, f"{self._prefix}{body.name}{kind}")
