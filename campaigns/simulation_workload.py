"""The simulated world and workload: a model and a ledger that fail at random, and agents, tools,
functions and supervisors that misbehave.

Everything follows from the seed. The model keeps its own account of what is due.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias, cast

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelChunk,
    ModelReply,
    ModelRequest,
    Text,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
)
from vegakit.errors import CatchableError, ErrorClass, Phase, UserError, WorldError
from vegakit.host import Agent, Child, Reducer, Supervisor
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, dollars
from vegakit.policy import (
    LEASE_MS,
    NO_RULES,
    Admission,
    Backoff,
    BreakerRule,
    ChildType,
    ExitKind,
    ExitReason,
    InterruptKind,
    RateRule,
    RestartStrategy,
    RetryRule,
    ScopeRules,
    Settlement,
)
from vegakit.prices import PriceRow, PriceTier, bill, worst_case
from vegakit.program import (
    AskPerson,
    AskProcess,
    DeferReply,
    Exit,
    ProcessSpec,
    ReducerAction,
    Respond,
    SendAfter,
    SpawnChild,
    Tell,
)
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger

# A provider and a ledger that fail as chance says, and keep books of their own.
#
# | a call …              | the runtime sees                   | the provider counts as due   |
# |-----------------------|------------------------------------|------------------------------|
# | answers, calls a tool | a reply with its usage             | its bill                     |
# | says no usage         | a reply without                    | what was reserved for it     |
# | is lost, drops        | a timeout, a cut connection        | what was reserved for it     |
# | limited, overloaded,  | 429, 529, 500; with or without a   | nothing                      |
# | errs                  | Retry-After                        |                              |
# | cannot connect        | a failure before it was sent       | nothing                      |
# | crashes               | the adapter raises what it may not | what was reserved for it     |
# | is cancelled          |                                    | what was reserved for it     |


Faults: TypeAlias = Counter[str]

_CENT = dollars("$10000")
"""A million tokens; so a token costs a cent."""
_PRICE = PriceRow("sim", (PriceTier(_CENT, _CENT, cache_read=_CENT, cache_write=_CENT),))

_FATES = {
    "answers": 50,
    "calls a tool": 25,
    "says no usage": 3,
    "lost": 4,
    "drops": 2,
    "limited": 4,
    "overloaded": 3,
    "errs": 3,
    "cannot connect": 2,
    "crashes": 4,
}
_FAILURES = {
    "lost": (ErrorClass.TIMEOUT, Phase.UNKNOWN),
    "drops": (ErrorClass.CONNECTION, Phase.UNKNOWN),
    "limited": (ErrorClass.RATE_LIMIT, Phase.ANSWERED),
    "overloaded": (ErrorClass.OVERLOADED, Phase.ANSWERED),
    "errs": (ErrorClass.SERVER, Phase.ANSWERED),
    "cannot connect": (ErrorClass.CONNECTION, Phase.NOTHING_SENT),
}


class SimulatedModel:
    """Implements `ports.Model`. `due` is what all calls so far have to be charged."""

    name = "sim:model"
    price = _PRICE
    context_tokens = None
    default_max_tokens = 5

    def __init__(self, chance: Random, faults: Faults) -> None:
        self._chance = chance
        self._faults = faults
        self.due = 0
        self.calls = 0

    def bound_input(self, request: ModelRequest) -> int:
        return 2 + len(request.messages)

    async def ask(self, request: ModelRequest) -> ModelReply:
        fate = self._fate(request)
        due = worst_case(_PRICE, self.bound_input(request), request.settings.max_tokens)
        try:
            await asyncio.sleep(self._chance.choice([0, 1, 20, 300, 2_000, 9_000]) / 1000)
            if fate in _FAILURES:
                error = self._error(fate)
                due = due if error.phase is Phase.UNKNOWN else Money(0)
                raise error
            if fate == "crashes":
                raise ZeroDivisionError("in the adapter")
            reply = self._reply(request, fate)
            due = due if reply.usage is None else bill(_PRICE, reply.usage)
            return reply  # noqa: TRY300
        except asyncio.CancelledError:
            self._faults["call cancelled"] += 1
            raise
        finally:
            self.due += due

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Says a word before it fails or answers."""
        fate = self._fate(request)
        due = worst_case(_PRICE, self.bound_input(request), request.settings.max_tokens)
        try:
            for word in self._words():
                await asyncio.sleep(self._chance.choice([0, 5, 400]) / 1000)
                yield word
            if fate == "crashes":
                raise ZeroDivisionError("in the adapter")
            if fate in _FAILURES:
                raise WorldError("the stream broke", ErrorClass.CONNECTION, phase=Phase.UNKNOWN)
            reply = self._reply(request, fate)
            due = due if reply.usage is None else bill(_PRICE, reply.usage)
            yield reply
        finally:
            self.due += due

    def _fate(self, request: ModelRequest) -> str:
        self.calls += 1
        [fate] = self._chance.choices(list(_FATES), list(_FATES.values()))
        if fate == "calls a tool" and not request.tools:
            return "answers"
        if fate not in {"answers", "calls a tool"}:
            self._faults[f"model {fate}"] += 1
        return fate

    def _words(self) -> Iterator[ModelChunk]:
        for _ in range(self._chance.randint(0, 3)):
            yield TextDelta("word ")

    def _error(self, fate: str) -> WorldError:
        kind, phase = _FAILURES[fate]
        after_ms = self._chance.choice([None, None, 700]) if phase is Phase.ANSWERED else None
        return WorldError(f"it {fate}", kind, phase=phase, retry_after_ms=after_ms)

    def _reply(self, request: ModelRequest, fate: str) -> ModelReply:
        spoken = self._chance.randint(0, request.settings.max_tokens)
        usage = Usage(self._chance.randint(0, self.bound_input(request)), spoken)
        if fate == "calls a tool":
            made = self._chance.choices(request.tools, k=self._chance.randint(1, 2))
            calls = tuple(ToolCall(f"c{n}", tool.name, {"n": n}) for n, tool in enumerate(made))
            return ModelReply(AssistantMessage(calls), usage, Finish.TOOL_CALLS)
        said = AssistantMessage((Text(f"answer {self.calls}"),))
        return ModelReply(said, None if fate == "says no usage" else usage)


class SimulatedLedger(MemoryLedger):
    """Takes its time, so that who waits for it can be cancelled meanwhile."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance
        self.broken: list[str] = []

    @property
    def reserved(self) -> int:
        return sum(scope.reserved for scope in self._budget.scopes.by_id.values())

    def settled(self, scope: ScopeId) -> int:
        return self._budget.scopes.by_id[scope].settled

    async def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        holder: HolderId,
        now: int,
        *,
        sent: bool = False,
        lease_ms: int = LEASE_MS,
        rules: ScopeRules = NO_RULES,
    ) -> Admission:
        verdict = await super().reserve(
            effect,
            attempt,
            scope_id,
            worst_case,
            holder,
            now,
            sent=sent,
            lease_ms=lease_ms,
            rules=rules,
        )
        await self._take_time()
        return verdict

    async def answer(
        self,
        effect: EffectKey,
        attempt: int,
        bill: Money,
        now: int,
        *,
        rules: ScopeRules = NO_RULES,
    ) -> Settlement:
        settled = await super().answer(effect, attempt, bill, now, rules=rules)
        await self._take_time()
        return settled

    async def cut_off(
        self, effect: EffectKey, attempt: int, now: int, *, rules: ScopeRules = NO_RULES
    ) -> Settlement:
        settled = await super().cut_off(effect, attempt, now, rules=rules)
        await self._take_time()
        return settled

    async def _take_time(self) -> None:
        for name, scope in self._budget.scopes.by_id.items():
            cap = scope.rule.cap
            if cap is not None and scope.used > cap:
                self.broken.append(f"{name} holds {scope.used} over its cap of {cap}")
        await asyncio.sleep(self._chance.choice([0, 3, 50, 400]) / 1000)


# Who plays in a simulation: agents, tools, reducers, functions, services, groups of them.
#
# Each misbehaves now and then, as chance says. Messages are plain JSON, as they must be in a
# program that is stored.


_NEVER_RESTART = (RestartStrategy.STOP, RestartStrategy.ESCALATE)


@dataclass
class _Tool:
    """Implements `ports.Tool`: answers, raises or takes longer than it may."""

    name: str
    idempotent: bool
    cast: "Workload"
    timeout_ms: int = 500

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "", {"type": "object"})

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        match self.cast.choose({"answers": 6, "raises": 1, "is slow": 1, "spawns": 1}, "tool"):
            case "raises":
                raise LookupError(f"{self.name} found nothing")
            case "is slow":
                await asyncio.sleep(30)
            case "spawns":
                return await self.cast.spawn_and_ask()
            case _:
                await asyncio.sleep(0.01)
        return f"{self.name} did it"


class Workload:
    def __init__(self, chance: Random, faults: Faults, model: SimulatedModel) -> None:
        self.chance = chance
        self._faults = faults
        self.runtime: Runtime
        look, pay = _Tool("look", True, self), _Tool("pay", False, self)
        fast = RetryRule(total_ms=5_000)
        self.agents: Sequence[Agent[Any]] = [
            Agent("plain", model),
            Agent("keeper", model, memory="conversation"),
            Agent("worker", model, tools=[look, pay], retry=fast),
            Agent("miser", model, tools=[look], budget="$0.30", max_steps=3),
            Agent("shy", model, breaker=BreakerRule(2, 2_000), rate=RateRule(slots=1)),
        ]

        async def function(message: Any) -> Any:
            return await self._function(message)

        async def service() -> None:
            await self._service()

        self.reducer = Reducer("reducer", self._react, 0)
        self.function, self.service = function, service

    def choose(self, weights: Mapping[str, int], who: str) -> str:
        """What is not the first of them is a fault, and counted."""
        usual = next(iter(weights))
        [chosen] = self.chance.choices(list(weights), list(weights.values()))
        if chosen != usual:
            self._faults[f"{who} {chosen}"] += 1
        return chosen

    def body(self) -> Any:
        return self.chance.choice(
            [*self.agents, self.reducer, self.function, self.function, self.service]
        )

    def child(self) -> Child:
        return Child(
            self.body(),
            restart=self.chance.choice(list(ChildType)),
            wallet=self.chance.choice([None, "$0.20", "$2"]),
            cost_alert=self.chance.choice([None, "$0.10"]),
            stuck_after=self.chance.choice([None, 0.5, 2.0]),
            stop_within=self.chance.choice([0.0, 0.5, 5.0]),
        )

    def supervisor(self, depth: int = 2) -> Supervisor:
        strategy = self.chance.choice(list(RestartStrategy))
        restarts = self.chance.randint(0, 3)
        may_wait = strategy not in _NEVER_RESTART and restarts > 0 and self.chance.random() < 0.3
        return Supervisor(
            strategy,
            [self._member(n, depth) for n in range(self.chance.randint(1, 3))],
            restarts,
            self.chance.choice([1.0, 60.0]),
            Backoff(100) if may_wait else None,
            f"group{self.chance.randrange(10**9)}",
            self.chance.choice(list(ChildType)),
        )

    def message(self) -> Any:
        """Understood by everybody, in his own way."""
        others = list(self.runtime.program.machine.state.processes) or ["nobody"]
        words = "boom later exit wait make spawn hello hello ask tell person person".split()
        return [self.chance.choice(words), self.chance.choice(others)]

    async def spawn_and_ask(self) -> str:
        """What is spawned here belongs to the process that is running, and ends with it."""
        child = self.child()
        try:
            process = self.runtime.spawn(child)
            return f"{await process.ask(['hello', ''], timeout=self.chance.choice([0.2, 20]))}"[:40]
        except (CatchableError, UserError) as refused:
            return type(refused).__name__

    def _member(self, number: int, depth: int) -> Child | Supervisor:
        if depth > 0 and self.chance.random() < 0.25:
            return self.supervisor(depth - 1)
        return replace(self.child(), name=f"c{number}")

    async def _function(self, message: Any) -> Any:
        fates = {"answers": 6, "crashes": 2, "is slow": 1, "spawns": 3, "refuses to stop": 8}
        match "crashes" if message[0] == "boom" else self.choose(fates, "function"):
            case "crashes":
                raise ValueError("boom")
            case "is slow":
                await asyncio.sleep(self.chance.choice([1, 40]))
            case "spawns":
                return await self.spawn_and_ask()
            case "refuses to stop":
                await self._stubborn(20)
            case _:
                await asyncio.sleep(self.chance.choice([0, 0.1]))
        return [message, "done"]

    async def _service(self) -> None:
        fates = {"runs": 5, "crashes": 2, "finishes": 1, "spawns": 1, "refuses to stop": 1}
        fate = self.choose(fates, "service")
        wait_s = 3_600.0 if fate == "runs" else self.chance.choice([0.0, 0.3, 2.0])
        if fate == "refuses to stop":
            await self._stubborn(100)
            return
        await asyncio.sleep(wait_s)
        if fate == "crashes":
            raise ValueError("boom")
        if fate == "spawns":
            await self.spawn_and_ask()

    async def _stubborn(self, seconds: float) -> None:
        """Cleans up for longer than some supervisors wait, and then goes on as if nothing was."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(self.chance.choice([0, 0.1, 1, 7]))
            if self.chance.random() < 0.2:
                raise

    def _react(self, state: int, message: Any) -> tuple[int, list[ReducerAction]]:
        """Pure: what it does follows from what it is told."""
        if not isinstance(message, list):
            return state, [Respond("heard", f"w{state}")]
        word, other = cast("list[str]", message)
        match word:
            case "boom":
                raise ValueError("boom")
            case "later":
                return state + 1, [DeferReply(f"w{state + 1}"), SendAfter(700, ["wait", ""])]
            case "ask":
                return state + 1, [
                    DeferReply(f"w{state + 1}"),
                    AskProcess(other, ["hello", ""], f"{state}", 900),
                ]
            case "person":
                kind = InterruptKind.CONFIRMATION if state % 2 else InterruptKind.CLARIFICATION
                asks = AskPerson("May I?", f"{state}", kind, 8_000 if state % 3 else None)
                return state + 1, [DeferReply(f"w{state + 1}"), asks]
            case "tell":
                return state, [Tell(other, ["hello", ""]), Respond(state)]
            case "make":
                spec = ProcessSpec(self.chance.choice(["reducer", "service"]))
                return state, [SpawnChild(spec, f"made{state}"), Respond(state)]
            case "exit":
                kind = self.chance.choice([ExitKind.NORMAL, ExitKind.SHUTDOWN, ExitKind.CRASHED])
                return state, [Respond(state), Exit(ExitReason(kind, ""))]
            case "wait":
                return state, [Respond("waited", f"w{state}")]
            case _:
                return state + 1, [Respond(state)]
