"""Compiled programs in the test's hands, beside agents whose calls cost what the test says."""

from typing import Any

from tests.program.rooms import agent
from vegakit.lang import Module, check_program, compile_program
from vegakit.program import ChildSpec, FiberBody, ProcessSpec

__all__ = ["code_of", "module_of"]


def module_of(text: str) -> Module:
    checked, diagnostics = check_program(text, "main.vega", lambda _path: None)
    assert checked is not None, diagnostics
    return compile_program(checked)


def code_of(text: str) -> dict[str, Any]:
    """Its functions by their names, its agents by theirs."""
    module, agents = module_of(text), {}
    for spec in module.agents:
        agents[spec.name] = agent(memory=spec.memory)
    spawns: dict[str, ChildSpec] = {name: ProcessSpec(name) for name in agents}
    stateless = {name: ProcessSpec(name) for name in agents}
    functions = {
        function.name: FiberBody(module, number, spawns, stateless)
        for number, function in enumerate(module.functions)
    }
    return {**agents, **functions}
