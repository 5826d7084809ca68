"""Make bodies of a runtime from an accepted source: `program.Author` for one tool of one agent;
and quote agents, for programs that ask them and for one ask.

Loaded with the first agent that writes programs or is quoted: it needs the language.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple, Protocol, TypeAlias

from vegakit.conversation import ModelRequest, Text, UserMessage
from vegakit.errors import BugError
from vegakit.host.admission import AdmissionService, PreparedGrant
from vegakit.host.agents import Agent
from vegakit.host.budgets import price_of
from vegakit.host.deployment import Externals, VegaTool, deploy
from vegakit.host.limiter import ModelRegistry
from vegakit.host.python_interop import RunProgram
from vegakit.lang import STR, AgentSpec, ListOf, ModelTerms, SendTerms, cost_of, in_order
from vegakit.money import Money
from vegakit.policy import BINDING, OnExceed
from vegakit.ports import Model, Tool, tokenizer_of
from vegakit.prices import DEFAULT_SEND_BUDGET, worst_case
from vegakit.program import (
    MOST_BYTES,
    MOST_TRIES,
    AdmissionRequest,
    AdmittedProgram,
    AgentTerms,
    FiberBody,
    ProgramGrant,
    RefusedProgram,
    admit,
)
from vegakit.tools import FunctionTool

_KEPT = 64
_MOST_INSTALLED = 1_000
"""A worker that only carries out calls is never told that a program is over."""
_MILD = frozenset({"fs::read", "net::get"})


class AgentBodies(Protocol):
    """The place where the bodies of programs and their agents are put: the registry."""

    def register(self, body: Agent[Any], name: str = "") -> str:
        """Put an agent, and return its name."""
        ...

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        """Put a function of a program."""
        ...

    def forget(self, prefix: str) -> None:
        """Remove every body whose name starts with `prefix`."""
        ...


_Written: TypeAlias = tuple[str, str, int | None]
"""Source and language of a program, and how many of a hundred sends may be paid once more."""


class HostAuthor:
    """Implements `program.Author`."""

    def __init__(
        self,
        tool: RunProgram,
        registry: AgentBodies,
        model_registry: ModelRegistry,
        admission_service: AdmissionService,
    ) -> None:
        self._tool, self._registry = tool, registry
        self.most, self.nested = tool.most, tool.nested
        self.timeout_ms, self.cost, self.guesses = tool.timeout_ms, tool.cost, tool.guesses
        self._models = _models(tool, model_registry)
        self._given = {agent.name: _GivenAgent(agent, registry) for agent in tool.agents}
        self._grant = self._all_it_may_use(model_registry)
        self._admission_service = admission_service
        self._known: OrderedDict[_Written, AdmittedProgram | RefusedProgram] = OrderedDict()
        self._permits: dict[int | None, PreparedGrant] = {}
        self._installed: dict[str, str] = {}

    def admit(
        self, source: str, language: str, repeats: int | None
    ) -> AdmittedProgram | RefusedProgram:
        """Return the verdict on a program that a model wrote."""
        key = source, language, repeats
        if key not in self._known:
            self._keep(key, admit(source, language, self._permit(repeats).grant))
        return self._known[key]

    def warm(self) -> None:
        """Start the admission while the model still thinks."""
        self._admission_service.warm()

    async def prepare_admission(
        self, written: Sequence[tuple[str, str]], client: str, repeats: int | None
    ) -> None:
        """The sources and languages of one answer, in a process of its own, so that `admit` only
        has to look them up; as many as a turn may try. They are the latest that are known when
        this ends, whatever others sent meanwhile."""
        found: dict[_Written, AdmittedProgram | RefusedProgram] = {}
        for source, language in dict.fromkeys(written[: self.most * MOST_TRIES]):
            key = source, language, repeats
            verdict = self._known.get(key) or await self._reviewed(key, client)
            if verdict is not None:
                found[key] = verdict
        for key, verdict in found.items():
            self._keep(key, verdict)

    async def _reviewed(
        self, key: "_Written", client: str
    ) -> AdmittedProgram | RefusedProgram | None:
        """Return the verdict, or None for a bug: the state machine comes to it again and crashes
        the process of whoever sent the program, as it does where nobody was ahead."""
        source, language, repeats = key
        if len(source) > MOST_BYTES:
            return None
        try:
            reviewed = await self._admission_service.inspect_program(
                AdmissionRequest.ADMIT, source, language, self._permit(repeats), client
            )
        except BugError:
            return None
        return reviewed.verdict

    def _keep(self, key: "_Written", verdict: AdmittedProgram | RefusedProgram) -> None:
        self._known.pop(key, None)
        self._known[key] = verdict
        if len(self._known) > max(_KEPT, 2 * self.most * MOST_TRIES):
            self._known.popitem(last=False)

    def _permit(self, repeats: int | None) -> PreparedGrant:
        if repeats not in self._permits:
            self._permits[repeats] = PreparedGrant(replace(self._grant, repeats=repeats))
        return self._permits[repeats]

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

    def _all_it_may_use(self, model_registry: ModelRegistry) -> ProgramGrant:
        tool = self._tool
        agents = {agent.name: _spec(agent, model_registry) for agent in tool.agents}
        terms = {
            agent.name: None
            if _spends_in_tools(agent)
            else in_order(_terms(one, model_registry) for one in model_registry.models_of(agent))
            for agent in tool.agents
        }
        models = {
            name: in_order(_terms(one, model_registry) for one in known)
            for name, known in self._models.items()
        }
        return ProgramGrant(
            tool.cost,
            tool.may,
            agents,
            frozenset(models),
            AgentTerms(terms, models),
            tool.interop.signatures,
            tool.interop.types,
            tool.languages,
            admit=tool.admit,
        )


class _GivenAgent:
    """The bodies of a given agent: for sends to its name, and for processes of it. What type an
    answer has is said where it is asked for."""

    def __init__(self, agent: Agent[Any], registry: AgentBodies) -> None:
        self._kept = replace(agent, output_type=str)
        self._stateless = replace(self._kept, memory=None) if agent.memory else self._kept
        self.kept = registry.register(self._kept)
        self.stateless = registry.register(self._stateless)


class _AuthoredBodies:
    """The registry, for one written program: all its names begin with its prefix."""

    def __init__(
        self,
        registry: AgentBodies,
        prefix: str,
        given: Mapping[str, _GivenAgent],
        models: Mapping[str, tuple[Model, ...]],
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
        models = [one for name in body.models for one in self._models[str(name)]]
        own = replace(body, model=models, priority=max(body.priority, 2))
        kind = "+memory" if body.memory else ""
        return self._registry.register(own, f"{self._prefix}{body.name}{kind}")


def _models(tool: RunProgram, model_registry: ModelRegistry) -> dict[str, tuple[Model, ...]]:
    """Return the models by the names that agents of a program may write."""
    models: dict[str, tuple[Model, ...]] = {}
    for given in (*(one for agent in tool.agents for one in agent.models), *tool.models):
        found = model_registry.models_of(Agent("program", given))
        models.setdefault(given if isinstance(given, str) else found[0].name, found)
    return models


def _terms(
    model: Model, model_registry: ModelRegistry, agent: Agent[Any] | None = None
) -> ModelTerms | None:
    if model.price is None:
        return None
    return ModelTerms(
        model.price,
        model.context_tokens,
        model.default_max_tokens,
        model.bound_input,
        model_registry.retry_of(agent or Agent("program", model), model).max_attempts,
        tokenizer=tokenizer_of(model),
    )


class AskCost(NamedTuple):
    """Bounds the cost of one ask: `once` if the first call is answered, as long as the answer may
    be; `most` with all its steps, retries and tools, None if nothing bounds that, for the reason
    `why`."""

    once: Money
    most: Money | None
    why: str = ""
    answer_tokens: int = 0


def cost_of_ask(
    agent: Agent[Any], model_registry: ModelRegistry, prompt: str, *, is_all: bool = True
) -> AskCost:
    """Return the cost of an ask. `is_all`: nothing but the prompt is said, no files or history. The
    schema of a typed answer is known to the provider only, so the window bounds such an ask."""
    models = model_registry.models_of(agent)
    spec = _spec(agent, model_registry)
    is_bounded = is_all and agent.answer.spec is None
    sending = SendTerms(
        spec,
        STR if agent.answer.spec is None else ListOf(STR),
        size=len(prompt.encode()) if is_bounded else None,
        part=None if agent.exceeding not in BINDING else spec.budget,
        specs=tuple(tool.spec for tool in agent.tools_by_name.values()),
    )
    terms = in_order(_terms(model, model_registry, agent) for model in models)
    found = cost_of(sending, lambda _: terms)
    amount = found.fund.amount
    return AskCost(
        cost_of_call(agent, model_registry, prompt),
        None if amount == inf else Money(int(amount)),
        found.why,
        max(agent.rule_for(model).settings.max_tokens for model in models),
    )


def cost_of_call(agent: Agent[Any], model_registry: ModelRegistry, prompt: str) -> Money:
    """Return what the first call of an ask costs at most, of whichever of its models."""
    said, costs = (UserMessage((Text(prompt),)),), list[Money]()
    for model in model_registry.models_of(agent):
        rule = agent.rule_for(model)
        asked = ModelRequest(rule.model, said, rule.settings, rule.system, rule.tools, rule.output)
        tokens = model.bound_input(asked)
        costs.append(worst_case(price_of(model), tokens, rule.settings.max_tokens))
    return max(costs)


def _spec(agent: Agent[Any], model_registry: ModelRegistry) -> AgentSpec:
    """Return the spec of an agent for its quote and its place in the manifest. Tools that only read
    leave its sends free to run at once; of others nobody knows."""
    tools = tuple(agent.tools_by_name.values())
    names = tuple(tool.spec.name for tool in tools)
    mild = all(map(_only_reads, tools))
    attempts = max(
        model_registry.retry_of(agent, one).max_attempts for one in model_registry.models_of(agent)
    )
    model, *fallbacks = (one if isinstance(one, str) else one.name for one in agent.models)
    return AgentSpec(
        agent.name,
        model,
        agent.instructions,
        max_tokens=agent.max_tokens,
        max_steps=agent.max_steps,
        budget=_part(agent),
        on_exceed="" if agent.exceeding is OnExceed.BLOCK else agent.exceeding,
        memory=agent.memory is not None,
        retry={"max_attempts": attempts},
        fallbacks=tuple(fallbacks),
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
