"""Who plays in a simulation: agents, tools, reducers, functions, services, groups of them.

Each misbehaves now and then, as chance says. Messages are plain JSON, as they must be in a program
that is stored.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, cast

from vegakit.conversation import ToolSpec
from vegakit.errors import Raised, UserError
from vegakit.policy import (
    Backoff,
    BreakerRule,
    ChildType,
    ExitKind,
    ExitReason,
    InterruptKind,
    RateRule,
    RestartStrategy,
    RetryRule,
)
from vegakit.program import After, Ask, AskPerson, Do, Exit, Later, Make, ProcessSpec, Respond, Tell
from vegakit.runtime import Agent, Child, Reducer, Runtime, Supervisor
from vegakit.testing.simulation.world import Faults, SimulatedModel

__all__ = ["Cast"]

_NEVER_RESTART = (RestartStrategy.STOP, RestartStrategy.ESCALATE)


@dataclass
class _Tool:
    """Implements `ports.Tool`: answers, raises or takes longer than it may."""

    name: str
    repeatable: bool
    cast: "Cast"
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


class Cast:
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

        async def function(message: Any) -> Any:  # noqa: ANN401
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

    def body(self) -> Any:  # noqa: ANN401
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

    def message(self) -> Any:  # noqa: ANN401
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
        except (Raised, UserError) as refused:
            return type(refused).__name__

    def _member(self, number: int, depth: int) -> Child | Supervisor:
        if depth > 0 and self.chance.random() < 0.25:
            return self.supervisor(depth - 1)
        return replace(self.child(), name=f"c{number}")

    async def _function(self, message: Any) -> Any:  # noqa: ANN401
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

    def _react(self, state: int, message: Any) -> tuple[int, list[Do]]:  # noqa: ANN401
        """Pure: what it does follows from what it is told."""
        if not isinstance(message, list):
            return state, [Respond("heard", f"w{state}")]
        word, other = cast("list[str]", message)
        match word:
            case "boom":
                raise ValueError("boom")
            case "later":
                return state + 1, [Later(f"w{state + 1}"), After(700, ["wait", ""])]
            case "ask":
                return state + 1, [
                    Later(f"w{state + 1}"),
                    Ask(other, ["hello", ""], f"{state}", 900),
                ]
            case "person":
                kind = InterruptKind.CONFIRMATION if state % 2 else InterruptKind.CLARIFICATION
                asks = AskPerson("May I?", f"{state}", kind, 8_000 if state % 3 else None)
                return state + 1, [Later(f"w{state + 1}"), asks]
            case "tell":
                return state, [Tell(other, ["hello", ""]), Respond(state)]
            case "make":
                spec = ProcessSpec(self.chance.choice(["reducer", "service"]))
                return state, [Make(spec, f"made{state}"), Respond(state)]
            case "exit":
                kind = self.chance.choice([ExitKind.NORMAL, ExitKind.SHUTDOWN, ExitKind.CRASHED])
                return state, [Respond(state), Exit(ExitReason(kind, ""))]
            case "wait":
                return state, [Respond("waited", f"w{state}")]
            case _:
                return state + 1, [Respond(state)]
