"""Bodies by name: what the machine needs to know of each, and what the host runs."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from vegakit.errors import UserError
from vegakit.ports import Tool
from vegakit.program import AgentBody, FiberBody, ForeignBody, ReducerBody
from vegakit.program import Body as ProgramBody
from vegakit.runtime.agents import Agent
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

    def register(self, body: Body) -> str:
        known = self._names.get(id(body))
        if known is not None:
            return known
        wanted = name = name_of(body)
        number = 1
        while name in self.code:
            number += 1
            name = f"{wanted}~{number}"
        self.code[name] = self._compiled(body)
        self._given[name] = body
        self._names[id(body)] = name
        return name

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        self.code[name] = body
        self._fiber_tools[name] = tools

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
            agent.priority,
            timeout_ms=None if agent.timeout is None else round(agent.timeout * 1000),
        )
