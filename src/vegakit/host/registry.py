"""Bodies by name: what the machine needs to know of each and what the host runs, with the bodies of
programs, which are forgotten when they are over.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from vegakit.errors import UserError
from vegakit.host.agents import Agent, AuthorTool, Body, FiberTool, Reducer, name_of
from vegakit.host.budgets import price_of
from vegakit.host.limiter import ModelRegistry
from vegakit.host.services import AgentStandIn, CompiledProgram, HostServices
from vegakit.money import Money
from vegakit.policy import ChildType, Grant
from vegakit.ports import Tool, tokenizer_of
from vegakit.program import (
    AgentBody,
    Author,
    AuthoredProgram,
    Body as ProgramBody,
    CoroutineBody,
    FiberBody,
    Machine,
    ModelChoice,
    ProcessSpec,
    Program,
    ReducerBody,
    StandInBody,
    restore,
)
from vegakit.records import to_json

if TYPE_CHECKING:
    from vegakit.host.admission import AdmissionService
    from vegakit.host.deployment import Deployed
    from vegakit.lang import AgentSpec

_Wanted: TypeAlias = tuple[CompiledProgram, tuple[str, ...] | None]

# Bodies by name: what the machine needs to know of each, and what the host runs.


_MOST_PASSING = 512
"""Agents that were only asked, never spawned, and are still known."""
_MOST_PROGRAMS = 512
"""Programs that were run, and are still known."""
_LONGEST = 150
"""Of a name in a path, with room for which question it is."""


class Registry:
    """The bodies of a runtime by name. `code` is the machine's; two bodies of one name are told
    apart by a number."""

    def __init__(
        self,
        model_registry: ModelRegistry,
        admission_service: "Callable[[], AdmissionService]",
    ) -> None:
        self._model_registry = model_registry
        self._admission_service = admission_service
        self._given: dict[str, Body] = {}
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._questions: dict[int, ProcessSpec] = {}
        self._passing: dict[str, int] = {}
        self._guards: dict[object, str] = {}
        self._fiber_tools: dict[str, Mapping[str, Tool]] = {}
        self._stand_ins: dict[str, AgentStandIn] = {}
        self._programs, self._has_forgotten = 0, False
        self.code: dict[str, ProgramBody] = {}

    def register(self, body: Body, name: str = "") -> str:
        """Put a body for good, and return its name: its processes may come and go for ever."""
        name = self._register(body, name)
        self._passing.pop(name, None)
        return name

    def _register(self, body: Body, name: str = "") -> str:
        known = self._names.get(id(body))
        if known is not None:
            return known
        compiled = self._compiled(body)  # which may register others, of the same name too
        wanted = name = name or name_of(body)
        while name in self.code or (name == wanted and wanted in self._numbers):
            number = self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            name = f"{wanted}~{number}"
        self.code[name] = compiled
        self._given[name] = body
        self._names[id(body)] = name
        return name

    def question(self, agent: Agent[Any], state: Program) -> ProcessSpec:
        """Return the body of a process for one question to an agent. Who makes a new agent for each
        question does not fill the memory: those that were asked longest ago are forgotten."""
        known = self._questions.get(id(agent))
        if known is not None and self._names.get(id(agent)) == known.body:
            return known
        fresh = id(agent) not in self._names
        name = self._register(agent)
        spec = self._questions[id(agent)] = ProcessSpec(name, ChildType.TEMPORARY)
        if fresh:
            self._passing[name] = id(agent)
            if len(self._passing) > _MOST_PASSING:
                self._forget_passing(state)
        return spec

    def _forget_passing(self, state: Program) -> None:
        used = {process.spec.body for process in state.processes.values()}
        for name in list(self._passing)[: _MOST_PASSING // 2]:
            if name not in used:
                number = self._passing.pop(name)
                # Its name is not given again: what was decided by it is known by that name.
                self._numbers.setdefault(self.agent(name).name, 1)
                del self.code[name], self._given[name], self._names[number]
                self._questions.pop(number, None)

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        """Put a function of a program."""
        self.code[name] = body
        self._fiber_tools[name] = tools

    def register_stand_in(
        self, agent: Agent[Any], spec: "AgentSpec", stand_in: AgentStandIn
    ) -> str:
        """Put who answers in place of an agent of a program, and return the name of its body. A
        send may spend what one to the agent may, so that the quote of the program holds."""
        name = f"{self.prefix_for([spec.name])}{spec.name}"
        self.code[name] = StandInBody(self._agent_body(agent), spec, agent.cap or Money(0))
        self._stand_ins[name] = stand_in
        return name

    def for_program(self, program: CompiledProgram) -> "_ProgramBodies":
        """Return the registry, for one more program."""
        self._programs += 1
        return _ProgramBodies(self, program)

    def forget_program(self, names: Iterable[str]) -> None:
        """Remove the bodies of a program. No process may still use them."""
        self._has_forgotten = True
        for name in names:
            del self.code[name]
            self._fiber_tools.pop(name, None)
            self._stand_ins.pop(name, None)
            if (body := self._given.pop(name, None)) is not None:
                self._numbers.setdefault(name_of(body), 1)  # nor is its name given again
                del self._names[id(body)]

    def forget(self, prefix: str) -> None:
        """Remove every body whose name starts with `prefix`. The caller guarantees that no process
        still uses them."""
        for name in [name for name in self.code if name.startswith(prefix)]:
            del self.code[name]
            self._fiber_tools.pop(name, None)
            self._passing.pop(name, None)
            if (body := self._given.pop(name, None)) is not None:
                del self._names[id(body)]

    def restore(self, made: AuthoredProgram) -> None:
        """The bodies of a program that a model wrote, where another worker accepted it."""
        if not any(name.startswith(made.prefix) for name in self.code):
            restore(self.code, made)

    def prefix_for(self, names: Iterable[str]) -> str:
        """Return what tells these bodies from those of another program of the same names. What was
        forgotten had a name that is not given again: what was decided by it is known by that."""
        wanted, number = list(names), max(self._programs - 1, 1)
        prefix = f"{self._programs}~" if self._has_forgotten else ""
        while any(f"{prefix}{name}" in self.code for name in wanted):
            number += 1
            prefix = f"{number}~"
        return prefix

    def tools(self, name: str) -> Mapping[str, Tool]:
        """Return the tools of a body."""
        known = self._fiber_tools.get(name)
        return self.agent(name).tools_by_name if known is None else known

    def agent(self, name: str) -> Agent[Any]:
        """Return the agent of this name."""
        return cast("Agent[Any]", self._given[name])

    def function(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return the function of this name."""
        if (stand_in := self._stand_ins.get(name)) is not None:
            return stand_in.answer
        return cast("Callable[..., Awaitable[Any]]", self._given[name])

    def is_agent(self, name: str) -> bool:
        """Return whether the body of this name is an agent."""
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
        return CoroutineBody(whole_incarnation=not inspect.signature(body).parameters)

    def _author(self, tool: AuthorTool) -> Author:
        # The language and its checker are loaded for the first agent that writes programs.
        from vegakit.host.authors import HostAuthor
        from vegakit.host.python_interop import RunProgram

        assert isinstance(tool, RunProgram)
        return HostAuthor(tool, self, self._model_registry, self._admission_service())

    def _agent_body(self, agent: Agent[Any]) -> AgentBody:
        registry = self._model_registry
        model, *others = registry.models_of(agent)
        tools = agent.tools_by_name.values()
        return AgentBody(
            agent.rule_for(model),
            price_of(model),
            model.bound_input,
            agent.answer.problem if agent.answer.spec else None,
            agent.cap,
            agent.exceeding,
            agent.memory == "conversation",
            registry.retry_of(agent, model),
            agent.breaker,
            agent.rate,
            frozenset(tool.spec.name for tool in tools if tool.idempotent),
            {tool.spec.name: tool.process for tool in tools if isinstance(tool, FiberTool)},
            {tool.spec.name: self._author(tool) for tool in tools if isinstance(tool, AuthorTool)},
            agent.priority,
            timeout_ms=None if agent.timeout_s is None else round(agent.timeout_s * 1000),
            max_wait_ms=agent.max_wait_ms,
            guard=self._guard(agent),
            fallbacks=tuple(
                ModelChoice(
                    agent.rule_for(other),
                    price_of(other),
                    other.bound_input,
                    registry.retry_of(agent, other),
                    tokenizer_of(other),
                )
                for other in others
            ),
            tokenizer=tokenizer_of(model),
            shared=agent.shared,
        )

    def _guard(self, agent: Agent[Any]) -> str:
        """Return the name under which limits are shared: agents of one name with the same limits
        share them, so whoever makes an agent anew for each question has not lifted its limits."""
        if agent.rate is None and agent.breaker is None:
            return ""
        wanted = name = step_name(agent.name)
        rules = (wanted, to_json([agent.rate, agent.breaker]))
        if rules not in self._guards:
            taken, number = set(self._guards.values()), 1
            while name in taken:
                number += 1
                name = f"{wanted}~{number}"
            self._guards[rules] = name
        return self._guards[rules]


class _ProgramBodies:
    """The registry, for a program of which some agents may not be asked themselves. `names` are
    those of its bodies."""

    def __init__(self, registry: Registry, program: CompiledProgram) -> None:
        self._registry, self._stand_ins = registry, program.stand_ins
        self._specs = {spec.name: spec for spec in program.module.agents}
        self.prefix_for = registry.prefix_for
        self.names: list[str] = []

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        self._registry.register_fiber(name, body, tools)
        self.names.append(name)

    def register(self, body: Agent[Any]) -> str:
        stand_in = self._stand_ins.get(body.name)
        if stand_in is None:
            name = self._registry.register(body)
        else:
            name = self._registry.register_stand_in(body, self._specs[body.name], stand_in)
        self.names.append(name)
        return name


@lru_cache(maxsize=1024)
def step_name(name: str) -> str:
    """Return the name of an agent as a step of a path, whatever it is called."""
    plain = "".join(c if c.isprintable() and c not in "/#|" else "_" for c in name)
    return plain[:_LONGEST]


# Programs that come and go in a long life: bodies of each, forgotten when no process has one.


class DeployedPrograms:
    """The programs that were run, by what they are allowed. Who makes a new program for each run
    does not fill the memory: those that were wanted longest ago are forgotten. A run that is
    recorded keeps them, since its next incarnation has to give them the same names."""

    def __init__(
        self, registry: Registry, machine: Callable[[], Machine], *, recorded: bool
    ) -> None:
        self._registry, self._machine = registry, machine
        self._most = None if recorded else _MOST_PROGRAMS
        self._known: dict[_Wanted, tuple[Deployed, list[str]]] = {}

    async def get(
        self, program: CompiledProgram, allowed: Sequence[str] | None, services: HostServices
    ) -> "Deployed":
        """Return the bodies of a program, made when they are first wanted. They are there for a
        process that is begun without waiting again."""
        # A program loads the language; processes that are agents do without.
        from vegakit.host.deployment import deploy, find_externals

        key = (program, None if allowed is None else tuple(sorted(allowed)))
        if key not in self._known:
            models = (name for agent in program.module.agents for name in agent.models)
            await services.model_registry.prepare(models)
            externals = await find_externals(program, services, allowed)
            if key not in self._known:  # nor was it made by another run in the meantime
                if self._most is not None and len(self._known) >= self._most:
                    self._forget_unused(self._most // 2)
                bodies, pipeline = self._registry.for_program(program), program.pipeline
                root = program.root
                deployed = deploy(
                    program.module, root, bodies, allowed, externals, pipeline=pipeline
                )
                self._known[key] = deployed, bodies.names
        found = self._known[key] = self._known.pop(key)
        return found[0]

    def _forget_unused(self, most: int) -> None:
        used = {process.spec.body for process in self._machine().state.processes.values()}
        for key, (_, names) in [*self._known.items()][:most]:
            if used.isdisjoint(names):
                del self._known[key]
                self._registry.forget_program(names)


class EphemeralPrograms:
    """The programs that run once, whose bodies are removed afterwards."""

    def __init__(self, registry: "Registry", machine: Callable[[], Machine]) -> None:
        self._registry, self._machine = registry, machine
        self._over: set[str] = set()
        self._count = 0

    def install(self, program: CompiledProgram, most: Grant, fuel: int) -> tuple[str, str]:
        """The prefix of its bodies, and the body of its main. `most` is what it may touch at most,
        `fuel` how long it may compute."""
        self.sweep()
        self._count += 1
        prefix, module = f"{self._count}!", program.module
        bodies = _EphemeralBodies(self._registry, prefix, fuel)
        from vegakit.host.deployment import deploy

        deployed = deploy(module, program.root, bodies, most=most)
        return prefix, deployed.bodies[module.functions[module.main].name]

    def leave(self, prefix: str) -> None:
        """Remove a program, as soon as nothing of it is left."""
        self._over.add(prefix)
        self.sweep()

    def sweep(self) -> None:
        """Remove what is over. What was ended may still be settling its last calls."""
        processes = self._machine().state.processes.values()
        bodies = [process.spec.body for process in processes]
        for prefix in sorted(self._over):
            if not any(body.startswith(prefix) for body in bodies):
                self._registry.forget(prefix)
                self._over.discard(prefix)


class _EphemeralBodies:
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
