"""Bodies by name: what the machine needs to know of each and what the host runs, with the bodies of
ephemeral and of model-written programs.
"""

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, cast

from vegakit.errors import BugError, UserError
from vegakit.host.admission import AdmissionService, PreparedGrant
from vegakit.host.agents import Agent, Body, Reducer, name_of
from vegakit.host.deployment import Externals, VegaTool, deploy
from vegakit.host.gate import price_of
from vegakit.host.limiter import ModelRegistry
from vegakit.host.python_interop import RunProgram
from vegakit.host.services import CompiledProgram
from vegakit.lang import AgentSpec, ModelTerms
from vegakit.money import Money
from vegakit.policy import ChildType, Grant, RetryRule
from vegakit.ports import Model, Tool
from vegakit.prices import DEFAULT_SEND_BUDGET
from vegakit.program import (
    MOST_BYTES,
    MOST_TRIES,
    AdmissionRequest,
    AdmittedProgram,
    AgentBody,
    AgentTerms,
    Author,
    AuthoredProgram,
    Body as ProgramBody,
    CoroutineBody,
    FiberBody,
    Machine,
    ProcessSpec,
    Program,
    ProgramGrant,
    ReducerBody,
    RefusedProgram,
    admit,
    restore,
)
from vegakit.records import to_json
from vegakit.tools import FunctionTool

# Bodies by name: what the machine needs to know of each, and what the host runs.


_MOST_PASSING = 512
"""Agents that were only asked, never spawned, and are still known."""
_LONGEST = 150
"""Of a name in a path, with room for which question it is."""


class Registry:
    """The bodies of a runtime by name. `code` is the machine's; two bodies of one name are told
    apart by a number."""

    def __init__(self, model_registry: ModelRegistry, admission_service: AdmissionService) -> None:
        self._model_registry = model_registry
        self._admission_service = admission_service
        self._given: dict[str, Body] = {}
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._questions: dict[int, ProcessSpec] = {}
        self._passing: dict[str, int] = {}
        self._guards: dict[object, str] = {}
        self._fiber_tools: dict[str, Mapping[str, Tool]] = {}
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
        """Return what tells these bodies from those of another program of the same names."""
        wanted, prefix, number = list(names), "", 1
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

    def _author(self, tool: RunProgram) -> Author:

        return HostAuthor(tool, self, self._model_registry, self._admission_service)

    def _agent_body(self, agent: Agent[Any]) -> AgentBody:
        model = self._model_registry.model_of(agent)
        tools = agent.tools_by_name.values()
        return AgentBody(
            agent.rule_for(model),
            price_of(model),
            model.bound_input,
            agent.answer.problem if agent.answer.spec else None,
            agent.cap,
            agent.memory == "conversation",
            self._model_registry.retry_of(agent),
            agent.breaker,
            agent.rate,
            frozenset(tool.spec.name for tool in tools if tool.idempotent),
            {tool.spec.name: tool.process for tool in tools if isinstance(tool, VegaTool)},
            {tool.spec.name: self._author(tool) for tool in tools if isinstance(tool, RunProgram)},
            agent.priority,
            timeout_ms=None if agent.timeout is None else round(agent.timeout * 1000),
            guard=self._guard(agent),
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


@lru_cache(maxsize=1024)
def step_name(name: str) -> str:
    """Return the name of an agent as a step of a path, whatever it is called."""
    plain = "".join(c if c.isprintable() and c not in "/#|" else "_" for c in name)
    return plain[:_LONGEST]


# Programs that come and go in a long life: bodies of each, forgotten when no process has one.


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


# From an accepted source to bodies of a runtime: `program.Author` for one tool of one agent.


_KEPT = 64
_MOST_INSTALLED = 1_000
"""A worker that only carries out calls is never told that a program is over."""
_MILD = frozenset({"fs::read", "net::get"})


class HostAuthor:
    """Implements `program.Author`."""

    def __init__(
        self,
        tool: RunProgram,
        registry: "Registry",
        model_registry: "ModelRegistry",
        admission_service: "AdmissionService",
    ) -> None:
        self._tool, self._registry = tool, registry
        self.most, self.nested = tool.most, tool.nested
        self.timeout_ms, self.cost = tool.timeout_ms, tool.cost
        self._models = _models(tool, model_registry)
        self._given = {agent.name: _GivenAgent(agent, registry) for agent in tool.agents}
        self._grant = self._all_it_may_use(model_registry)
        self._admission_service = admission_service
        self._known: OrderedDict[tuple[str, str], AdmittedProgram | RefusedProgram] = OrderedDict()
        self._installed: dict[str, str] = {}

    def admit(self, source: str, language: str) -> AdmittedProgram | RefusedProgram:
        """Return the verdict on a program that a model wrote."""
        key = source, language
        if key not in self._known:
            self._keep(key, admit(source, language, self._grant))
        return self._known[key]

    def warm(self) -> None:
        """Start the admission while the model still thinks."""
        self._admission_service.warm()

    async def prepare_admission(self, written: Sequence[tuple[str, str]], client: str) -> None:
        """The sources and languages of one answer, in a process of its own, so that `admit` only
        has to look them up; as many as a turn may try. They are the latest that are known when
        this ends, whatever others sent meanwhile."""
        found: dict[tuple[str, str], AdmittedProgram | RefusedProgram] = {}
        for key in dict.fromkeys(written[: self.most * MOST_TRIES]):
            verdict = self._known.get(key) or await self._reviewed(key, client)
            if verdict is not None:
                found[key] = verdict
        for key, verdict in found.items():
            self._keep(key, verdict)

    async def _reviewed(
        self, key: tuple[str, str], client: str
    ) -> AdmittedProgram | RefusedProgram | None:
        """Return the verdict, or None for a bug: the state machine comes to it again and crashes
        the process of whoever sent the program, as it does where nobody was ahead."""
        source, language = key
        if len(source) > MOST_BYTES:
            return None
        try:
            reviewed = await self._admission_service.inspect_program(
                AdmissionRequest.ADMIT, source, language, self._permit, client
            )
        except BugError:
            return None
        return reviewed.verdict

    def _keep(self, key: tuple[str, str], verdict: AdmittedProgram | RefusedProgram) -> None:
        self._known.pop(key, None)
        self._known[key] = verdict
        if len(self._known) > max(_KEPT, 2 * self.most * MOST_TRIES):
            self._known.popitem(last=False)

    @cached_property
    def _permit(self) -> "PreparedGrant":
        from vegakit.host.admission import PreparedGrant

        return PreparedGrant(self._grant)

    def install(self, prefix: str, accepted: AdmittedProgram) -> str:
        """Put the bodies of an admitted program."""
        if prefix not in self._installed:
            if len(self._installed) >= _MOST_INSTALLED:
                self.remove(next(iter(self._installed)))
            module, tool = accepted.module, self._tool
            bodies = _AuthoredBodies(self._registry, prefix, self._given, self._models, tool.fuel)
            externals = Externals(tool.interop.called, self._tools_of(module.agents))
            deployed = deploy(module, tool.root, bodies, None, externals, tool.may.grant)
            self._installed[prefix] = deployed.bodies[module.functions[module.main].name]
        return self._installed[prefix]

    def remove(self, prefix: str) -> None:
        """Remove the bodies of a program."""
        if self._installed.pop(prefix, None) is not None:
            self._registry.forget(prefix)

    def _tools_of(self, agents: Iterable[AgentSpec]) -> dict[str, Mapping[str, Tool]]:
        python = self._tool.interop.tools
        return {
            spec.name: {name: python[name] for name in spec.tools if name in python}
            for spec in agents
            if spec.name not in self._given
        }

    def _all_it_may_use(self, model_registry: "ModelRegistry") -> ProgramGrant:
        tool = self._tool
        agents = {agent.name: _spec(agent, model_registry.retry_of(agent)) for agent in tool.agents}
        terms = {
            agent.name: None
            if _spends_in_tools(agent)
            else _terms(model_registry.model_of(agent), model_registry)
            for agent in tool.agents
        }
        models = {name: _terms(model, model_registry) for name, model in self._models.items()}
        return ProgramGrant(
            tool.cost,
            tool.may,
            agents,
            frozenset(models),
            AgentTerms(terms, models),
            tool.interop.signatures,
            tool.interop.types,
            tool.languages,
        )


class _GivenAgent:
    """The bodies of a given agent: for sends to its name, and for processes of it. What type an
    answer has is said where it is asked for."""

    def __init__(self, agent: Agent[Any], registry: "Registry") -> None:
        self._kept = replace(agent, output=str)
        self._stateless = replace(self._kept, memory=None) if agent.memory else self._kept
        self.kept = registry.register(self._kept)
        self.stateless = registry.register(self._stateless)


class _AuthoredBodies:
    """The registry, for one written program: all its names begin with its prefix."""

    def __init__(
        self,
        registry: "Registry",
        prefix: str,
        given: Mapping[str, _GivenAgent],
        models: Mapping[str, Model],
        fuel: int,
    ) -> None:
        self._registry, self._prefix = registry, prefix
        self._given, self._models, self._fuel = given, models, fuel

    def prefix_for(self, names: Iterable[str]) -> str:
        return self._prefix

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        self._registry.register_fiber(name, replace(body, fuel=self._fuel), tools)

    def register(self, body: Agent[Any]) -> str:
        known = self._given.get(body.name)
        if known is not None:
            return known.kept if body.memory else known.stateless
        assert isinstance(body.model, str)
        own = replace(body, model=self._models[body.model], priority=max(body.priority, 2))
        kind = "+memory" if body.memory else ""
        return self._registry.register(own, f"{self._prefix}{body.name}{kind}")


def _models(tool: RunProgram, model_registry: "ModelRegistry") -> dict[str, Model]:
    """Return the models by the names that agents of a program may write."""
    models: dict[str, Model] = {}
    for agent in (*tool.agents, *(Agent("program", name) for name in tool.models)):
        model = model_registry.model_of(agent)
        models.setdefault(agent.model if isinstance(agent.model, str) else model.name, model)
    return models


def _terms(model: Model, model_registry: "ModelRegistry") -> ModelTerms | None:
    if model.price is None:
        return None
    return ModelTerms(
        model.price,
        model.context_tokens,
        model.default_max_tokens,
        model.bound_input,
        model_registry.retry_of(Agent("program", model)).max_attempts,
    )


def _spec(agent: Agent[Any], retry: RetryRule) -> AgentSpec:
    """Return the spec of an agent for its quote and its place in the manifest. Tools that only read
    leave its sends free to run at once; of others nobody knows."""
    tools = tuple(agent.tools_by_name.values())
    names = tuple(tool.spec.name for tool in tools)
    mild = all(map(_only_reads, tools))
    return AgentSpec(
        agent.name,
        agent.model if isinstance(agent.model, str) else agent.model.name,
        agent.system,
        max_tokens=agent.max_tokens,
        max_steps=agent.max_steps,
        budget=_part(agent),
        memory=agent.memory is not None,
        retry={"max_attempts": retry.max_attempts},
        tools=names if mild else (),
        yaml=() if mild else (f"the tools of {agent.name}",),
    )


def _part(agent: Agent[Any]) -> Money | None:
    """Return what one send to an agent holds, all that its tools spend included."""
    if agent.cap is not None or not agent.tools:
        return agent.cap
    programs = (t.cost for t in agent.tools_by_name.values() if isinstance(t, RunProgram))
    return Money(DEFAULT_SEND_BUDGET + max(programs, default=0))


def _spends_in_tools(agent: Agent[Any]) -> bool:
    kinds = (RunProgram, VegaTool)
    return any(isinstance(tool, kinds) for tool in agent.tools_by_name.values())


def _only_reads(tool: Tool) -> bool:
    if not isinstance(tool, FunctionTool):
        return False
    rights = tool.rights({})
    return rights.wanted is not None and _MILD.issuperset(rights.grant.capabilities)
