"""Agents of a runtime, run for a kernel: the port `AgentRunner` over the SDK.

    Kernel(store, clock, agents=RuntimeAgents(rt, models=["fast"], tenant_budget="$5/day"))

What a run may spend is capped by every budget around it, before a call is sent:

    runtime            all that this server may spend
    └── tenant         what was set for it, else `tenant_budget`, on the ledger of the servers
        └── token      its wallet, for all calls under it, if it has one
        └── process    the money of its quota, over all servers and their deaths
            └── server what the process had left, as the kernel knew, when this server first ran it
                └── ask

The account of a process is on the ledger of the runtime: give all servers one, as the kernel has
one store. With a ledger in memory, the money that a killed server spent and did not report is not
known to the next. Give it a runtime without a journal: after a kill the kernel goes on, not the
runtime.

While an agent runs nobody is asked: a tool that would need a person's approval is refused, and its
run fails, unless the application listens itself (`rt.on(Question, …)`). A pipeline asks by a stage
of its own, which waits without a run.
"""

import asyncio
import logging
import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from msgspec import to_builtins
from typing_extensions import TypedDict

from vegakit.control import Question
from vegakit.errors import (
    AgentFailed,
    BudgetExceeded,
    CapabilityDenied,
    UserError,
    VegaError,
    did_you_mean,
    error_name,
)
from vegakit.host import AGAIN, Agent, TextChunk, ToolCalled, ToolReturned, TurnEnded
from vegakit.ids import TenantId
from vegakit.money import Dollars, Money, dollars, format_money, parse_allowance
from vegakit.policy import (
    AgentDefinition,
    OutputField,
    definition_problems,
    failure_of,
)
from vegakit.ports import AgentResult, AgentRun, TenantSpending, Tool
from vegakit.sdk import Runtime
from vegakit.tools import as_tools, by_name

_LOG = logging.getLogger("vegakit")

_NOT_APPROVED: Final = "needs an approval of exactly this"

_TYPES: Final[Mapping[OutputField, Any]] = {
    OutputField.TEXT: str,
    OutputField.NUMBER: float,
    OutputField.INTEGER: int,
    OutputField.TRUTH: bool,
    OutputField.TEXTS: list[str],
}


_typed_dict: Any = TypedDict
"""A type whose fields are known only when a definition comes, which types cannot say."""


class RuntimeAgents:
    """Implements `ports.AgentRunner`. `agents` are known by name; what a request defines itself may
    have these `models` and `tools`, and no others: a name of a model can lead to any file or
    address. `tenant_budget` caps each tenant, as in "$5/day"."""

    def __init__(
        self,
        runtime: Runtime,
        agents: Sequence[Agent[Any]] = (),
        *,
        models: Collection[str] = (),
        tools: Sequence[Tool | Callable[..., Any]] = (),
        tenant_budget: str | float | None = None,
    ) -> None:
        self._runtime = runtime
        self._agents = {agent.name: agent for agent in agents}
        self._models = frozenset(models)
        self._tools = by_name(as_tools(tools))
        self._tenant_budget = tenant_budget
        self._server = secrets.token_hex(8)
        self._first_quotas: dict[str, tuple[Money, Money]] = {}
        self._defined = lru_cache(maxsize=1_000)(self._make)
        self._running: Counter[str] = Counter()
        self._answering: set[asyncio.Future[None]] = set()
        runtime.approvals.listeners.append(self._on_question)

    def problem(self, name: str, definition: AgentDefinition | None) -> str:
        """Return why such an agent cannot be run here; empty if it can."""
        if definition is None:
            if name in self._agents:
                return ""
            return (
                f"agent {name[:80]!r} is not known here; {did_you_mean(name, self._agents)}; or "
                "define it, with a model"
            )
        if definition.asks is not None:
            return f"agent {name[:80]!r} is a person; ask by a pipeline, or by create_interrupt"
        if found := [*definition_problems(definition)]:
            return f"agent {name[:80]!r}: {'; '.join(found)}"
        if definition.model not in self._models:
            known = did_you_mean(definition.model, sorted(self._models))
            return f"agent {name[:80]!r}: model {definition.model!r} is not granted here; {known}"
        for tool in definition.tools:
            if tool not in self._tools:
                return (
                    f"agent {name[:80]!r}: tool {tool[:80]!r} is not granted here; "
                    f"{did_you_mean(tool, self._tools)}"
                )
        try:
            made = self._defined(name, _Key(definition))
            self._runtime.model_registry.models_of(made)
        except UserError as error:
            return f"agent {name[:80]!r}: {error}"
        return ""

    def most_calls(
        self, name: str, definition: AgentDefinition | None, tools: tuple[str, ...] | None
    ) -> int:
        """Return how many calls of a model a run may make: words without tools are one."""
        if self.problem(name, definition):
            return 1  # it is not run at all
        agent = self._known(name, definition)
        has_tools = any(tools is None or tool in tools for tool in agent.tools_by_name)
        return agent.max_steps if has_tools or agent.output_type is not str else 1

    async def run(
        self, run: AgentRun, on_text: Callable[[str], object] | None = None
    ) -> AgentResult:
        """Run an agent to its end, within every budget around it."""
        runtime, started_ms = self._runtime, self._runtime.clock.now()
        with ExitStack() as blocks:
            for allowance, name in self._caps(run):
                blocks.enter_context(runtime.budget(allowance, name))
            blocks.enter_context(runtime.budget(None))  # counts this run alone
            seen = _Seen(on_text)
            self._running[run.agent] += 1
            try:
                result = await self._ask(run, seen)
            except asyncio.CancelledError:
                # The caller counts what it cost; it runs this in a task of its own.
                cut = seen.failed(AgentFailed("the run was cut off"))
                result = replace(cut, was_cut=True)
            except BudgetExceeded as error:
                result = seen.failed(
                    BudgetExceeded(
                        _by_known_names(error, run, self._known(run.agent, run.definition).cap)
                    )
                )
            except VegaError as error:
                result = seen.failed(error)
            except Exception:  # noqa: BLE001  (a bug of one run ends that run)
                _LOG.exception("agent %s failed by a bug", run.agent)
                result = seen.failed(AgentFailed("a bug of the server; its log says more"))
            finally:
                self._running[run.agent] -= 1
            cost = Money(int(await runtime.spent()))
        # A call that failed may have been billed, and then it was one.
        calls = max(result.llm_calls, seen.rounds + bool(cost))
        return replace(
            result, cost=cost, llm_calls=calls, duration_ms=runtime.clock.now() - started_ms
        )

    def _on_question(self, question: Question) -> None:
        """Decline what nobody who calls a kernel could see: the run would wait for it in vain."""
        approvals, name = self._runtime.approvals, question.process.partition("~")[0]
        if approvals.listeners == [self._on_question] and self._running[name]:
            declining = asyncio.ensure_future(approvals.answer(question.id, False, "the kernel"))
            self._answering.add(declining)
            declining.add_done_callback(self._answering.discard)

    async def spending(
        self, tenant: TenantId, budget: str, wallet: str = "", wallet_cap: Money | None = None
    ) -> TenantSpending:
        """Return how a tenant stands by the budget that was set for it, or by that of all; and a
        wallet in it."""
        runtime, allowance = self._runtime, budget or self._tenant_budget
        of_wallet: tuple[Money | None, Money | None] = (None, None)
        with runtime.budget(allowance, _place_of(tenant)):
            of_tenant = await self._stands()
            if wallet and wallet_cap is not None:
                with runtime.budget(Dollars.of_nanos(wallet_cap), _wallet_place(wallet)):
                    of_wallet = await self._stands()
        shown = f"${allowance:g}" if isinstance(allowance, int | float) else allowance or ""
        return TenantSpending(shown, *of_tenant, *of_wallet)

    async def _stands(self) -> tuple[Money, Money | None]:
        """Return what is spent of the budget around this, and the largest call that fits now."""
        spent, left = await self._runtime.spent(), await self._runtime.remaining()
        return Money(int(spent)), None if left is None else Money(int(left))

    async def _ask(self, run: AgentRun, seen: "_Seen") -> AgentResult:
        # It may come from a server that was granted more than this one.
        if problem := self.problem(run.agent, run.definition):
            raise CapabilityDenied(problem)
        agent = self._agent(run)
        ask = self._runtime.ask(
            agent,
            run.prompt,
            history=run.history,
            timeout=None if run.timeout_ms is None else run.timeout_ms / 1_000,
            budget=self._part(run),
            wait_for_budget=run.waits,
        )
        async with aclosing(ask.events(stream=seen.on_text is not None)) as events:
            async for event in events:
                seen.add(event)
                if isinstance(event, ToolReturned) and _NOT_APPROVED in event.content:
                    raise CapabilityDenied(
                        f"tool {event.name!r} needs a person's approval, and nobody approves while "
                        "an agent runs on a server of the kernel; ask in a stage before it "
                        "(`asks`), or allow the tool in the permissions of the server"
                    )
                if isinstance(event, TurnEnded):
                    reply = event.reply
                    return AgentResult(
                        reply.text,
                        to_builtins(reply.output),
                        reply.finish,
                        reply.steps,
                        seen.tools,
                        reply.usage.input_tokens,
                        reply.usage.output_tokens,
                    )
        raise AssertionError("a stream ends with its reply")

    def _agent(self, run: AgentRun) -> Agent[Any]:
        """Return the agent, with what this run leaves of its tools and steps."""
        agent = self._known(run.agent, run.definition)
        changed: dict[str, Any] = {}
        if run.calls is not None and run.calls < agent.max_steps:
            if run.calls < 1:
                raise BudgetExceeded("no model call is left to this process; raise its bound")
            changed["max_steps"] = run.calls
        if run.tools is not None:
            own = agent.tools_by_name.items()
            changed["tools"] = [tool for name, tool in own if name in run.tools]
        return replace(agent, **changed) if changed else agent

    def _known(self, name: str, definition: AgentDefinition | None) -> Agent[Any]:
        return self._agents[name] if definition is None else self._defined(name, _Key(definition))

    def _caps(self, run: AgentRun) -> list[tuple[str | float | None, str]]:
        caps: list[tuple[str | float | None, str]] = []
        # Also where nothing limits it: what is inside keeps its place when somebody sets a budget.
        caps.append((run.tenant_budget or self._tenant_budget, _place_of(run.tenant)))
        if run.wallet and run.wallet_cap is not None:
            caps.append((Dollars.of_nanos(run.wallet_cap), _wallet_place(run.wallet)))
        if run.pid and run.money is not None and run.money_left is not None:
            place = f"process {quote(run.tenant, safe='')} {quote(run.pid, safe='')}"
            caps.append((Dollars.of_nanos(run.money), place))
            money, room = self._first_quotas.setdefault(place, (run.money, run.money_left))
            # The block keeps counting over the runs of a process, so its cap is what was left when
            # this server first worked for the process, and what its quota has grown by since.
            cap = max(0, room + run.money - money)
            caps.append((Dollars.of_nanos(cap), f"server {self._server}"))
        return caps

    def _part(self, run: AgentRun) -> Dollars | None:
        """Return what the run may take of what its process has left: no more than each budget
        around it holds, as a part that is larger than a budget is refused whole."""
        if run.money_left is None:
            return None
        tenant = run.tenant_budget or self._tenant_budget
        around = [run.money_left]
        if run.wallet_cap is not None:
            around.append(run.wallet_cap)
        if tenant is not None:
            amount = parse_allowance(tenant).amount if isinstance(tenant, str) else dollars(tenant)
            around.append(Money(amount))
        return Dollars.of_nanos(min(around))

    def _make(self, name: str, key: "_Key") -> Agent[Any]:
        definition = key.definition
        output: type[Any] = str
        if definition.output:
            fields: Any = {field: _TYPES[kind] for field, kind in definition.output.items()}
            output = _typed_dict("Output", fields)
        return Agent(
            name,
            model=definition.model,
            instructions=definition.instructions,
            output_type=output,
            tools=[self._tools[tool] for tool in definition.tools],
            max_tokens=definition.max_tokens,
            temperature=definition.temperature,
            max_steps=definition.max_steps,
            budget=Dollars.of_nanos(dollars(definition.budget)) if definition.budget else None,
        )


_REFUSED_BY: Final = re.compile(
    r"more than is left for (?P<send>this send of \S+)|budget '[^']*?(?P<scope>\w+) [^'/]*' (?=has)"
)
"""The part of a refusal that names what had too little: the part of one ask, or a scope."""
_RAISE: Final = "raise the budget, or lower max_tokens"
_LARGER: Final = {
    "tenant": "let an admin set a larger budget (set_tenant_budget), or lower max_tokens",
    "token": "use a token with a larger wallet, or lower max_tokens",
    "": "let whoever runs this server raise its budget, or lower max_tokens",
}
"""What to do, by the scope that had too little, for callers who do not write Python here."""


def _by_known_names(error: BudgetExceeded, run: AgentRun, own: Money | None) -> str:
    """Return a refusal in the words of those who call a kernel: they know tenants, wallets of
    tokens, and processes with a quota, but no sends and scopes of a runtime. `own` is what the
    agent may spend by itself."""
    text = str(error)
    found = _REFUSED_BY.search(text)
    if found is None:
        return text.replace(_RAISE, _LARGER[""])
    scope = found["scope"]
    known = {"tenant": f"the budget of tenant {run.tenant!r}", "token": f"wallet {run.wallet!r}"}
    if scope in known:
        return text.replace(found[0], f"{known[scope]} ").replace(_RAISE, _LARGER[scope])
    what, left = text.partition(", ")[0], run.money_left
    if left is None or (found["send"] and own is not None and own <= left):
        return (
            f"{what}, more than is left of the agent's own budget; raise that, or lower max_tokens"
        )
    quota = format_money(run.money or left)
    return (
        f"{what}, but process {run.pid!r} had {format_money(left)} left of the {quota} of its "
        "quota when this began; make a process with a larger quota, or lower max_tokens"
        + AGAIN
        * (AGAIN in text)
    )


def _place_of(tenant: TenantId) -> str:
    return f"tenant {quote(tenant, safe='')}"


def _wallet_place(wallet: str) -> str:
    return f"token {wallet}"


class _Key:
    """A definition by its value, which has maps in it, as a key."""

    def __init__(self, definition: AgentDefinition) -> None:
        self.definition, self._text = definition, repr(definition)

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._text == self._text


class _Seen:
    """Counts what a run did, of which an error says nothing."""

    def __init__(self, on_text: Callable[[str], object] | None) -> None:
        self.on_text, self.tools, self.rounds = on_text, 0, 0
        self._is_round = False

    def add(self, event: object) -> None:
        """Count an event; calls of tools that one answer makes are one round."""
        if isinstance(event, TextChunk) and self.on_text is not None:
            self.on_text(event.text)
        elif isinstance(event, ToolCalled):
            self.tools += 1
            self.rounds += not self._is_round
            self._is_round = True
        elif isinstance(event, ToolReturned):
            self._is_round = False

    def failed(self, error: VegaError) -> AgentResult:
        """Return the result of a run that ended with an error."""
        text = f"{error_name(error)}: {error}"
        return AgentResult(failure=failure_of(error), error=text, tool_calls=self.tools)
