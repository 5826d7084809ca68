"""Bodies by name: what the machine needs to know of each, and what the host runs."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from vegakit.errors import UserError
from vegakit.ports import Tool
from vegakit.program import (
    AgentBody,
    Author,
    Authored,
    FiberBody,
    ForeignBody,
    ReducerBody,
    restore,
)
from vegakit.program import Body as ProgramBody
from vegakit.runtime.agents import Agent
from vegakit.runtime.authored import RunProgram
from vegakit.runtime.compiled.tools import VegaTool
from vegakit.runtime.processes.supervisors import Body, Reducer, name_of
from vegakit.runtime.refusals import price_of

if TYPE_CHECKING:
    from vegakit.runtime.runtime import Runtime

__all__ = ["Registry"]


class Registry:
    """`code` is the machine's; two bodies of one name are told apart by a number."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._given: dict[str, Body] = {}
        self._names: dict[int, str] = {}
        self._fiber_tools: dict[str, Mapping[str, Tool]] = {}
        self.code: dict[str, ProgramBody] = {}

    def register(self, body: Body, name: str = "") -> str:
        known = self._names.get(id(body))
        if known is not None:
            return known
        compiled = self._compiled(body)  # which may register others, of the same name too
        wanted = name = name or name_of(body)
        number = 1
        while name in self.code:
            number += 1
            name = f"{wanted}~{number}"
        self.code[name] = compiled
        self._given[name] = body
        self._names[id(body)] = name
        return name

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        self.code[name] = body
        self._fiber_tools[name] = tools

    def forget(self, prefix: str) -> None:
        """All bodies whose names begin so; no process has one of them."""
        for name in [name for name in self.code if name.startswith(prefix)]:
            del self.code[name]
            self._fiber_tools.pop(name, None)
            if (body := self._given.pop(name, None)) is not None:
                del self._names[id(body)]

    def restore(self, made: Authored) -> None:
        """The bodies of a program that a model wrote, where another worker accepted it."""
        if not any(name.startswith(made.prefix) for name in self.code):
            restore(self.code, made)

    def prefix_for(self, names: Iterable[str]) -> str:
        """What tells the bodies of another program of the same names apart."""
        wanted, prefix, number = list(names), "", 1
        while any(f"{prefix}{name}" in self.code for name in wanted):
            number += 1
            prefix = f"{number}~"
        return prefix

    def tools(self, name: str) -> Mapping[str, Tool]:
        known = self._fiber_tools.get(name)
        return self.agent(name).tools_by_name if known is None else known

    def agent(self, name: str) -> Agent[Any]:
        return cast("Agent[Any]", self._given[name])

    def function(self, name: str) -> Callable[..., Awaitable[Any]]:
        return cast("Callable[..., Awaitable[Any]]", self._given[name])

    def is_agent(self, name: str) -> bool:
        return isinstance(self.code[name], AgentBody)

    def _compiled(self, body: Body) -> ProgramBody:
        if isinstance(body, Agent):
            return self._agent_body(cast("Agent[Any]", body))
        if isinstance(body, Reducer):
            return ReducerBody(body.react, body.initial)
        if not inspect.iscoroutinefunction(body):
            raise UserError(
                f"{body!r} cannot be a process; give an Agent, a Reducer or an `async def` function"
            )
        return ForeignBody(whole_life=not inspect.signature(body).parameters)

    def _author(self, tool: RunProgram) -> Author:
        from vegakit.runtime.authored.authors import HostAuthor

        return HostAuthor(tool, self, self._runtime.catalogue)

    def _agent_body(self, agent: Agent[Any]) -> AgentBody:
        model = self._runtime.catalogue.model_of(agent)
        tools = agent.tools_by_name.values()
        return AgentBody(
            agent.rule_for(model),
            price_of(model),
            model.bound_input,
            agent.answer.problem if agent.answer.spec else None,
            agent.cap,
            agent.memory == "conversation",
            agent.retry,
            agent.breaker,
            agent.rate,
            frozenset(tool.spec.name for tool in tools if tool.repeatable),
            {tool.spec.name: tool.process for tool in tools if isinstance(tool, VegaTool)},
            {tool.spec.name: self._author(tool) for tool in tools if isinstance(tool, RunProgram)},
            agent.priority,
            timeout_ms=None if agent.timeout is None else round(agent.timeout * 1000),
        )
