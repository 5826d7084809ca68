"""A provider and a ledger that fail as chance says, and keep books of their own.

| a call …              | the runtime sees                   | the provider counts as due   |
|-----------------------|------------------------------------|------------------------------|
| answers, calls a tool | a reply with its usage             | its bill                     |
| says no usage         | a reply without                    | what was reserved for it     |
| is lost, drops        | a timeout, a cut connection        | what was reserved for it     |
| limited, overloaded,  | 429, 529, 500; with or without a   | nothing                      |
| errs                  | Retry-After                        |                              |
| cannot connect        | a failure before it was sent       | nothing                      |
| crashes               | the adapter raises what it may not | what was reserved for it     |
| is cancelled          |                                    | what was reserved for it     |
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from random import Random
from typing import TypeAlias

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelChunk,
    ModelReply,
    ModelRequest,
    Text,
    TextDelta,
    ToolCall,
    Usage,
)
from vegakit.errors import ErrorClass, Phase, WorldError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, dollars
from vegakit.policy import LEASE_MS, Admission, Settled
from vegakit.prices import PriceRow, PriceTier, bill, worst_case
from vegakit.store import MemoryLedger

__all__ = ["Faults", "SimulatedLedger", "SimulatedModel"]

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
    ) -> Admission:
        verdict = await super().reserve(
            effect, attempt, scope_id, worst_case, holder, now, sent=sent, lease_ms=lease_ms
        )
        await self._take_time()
        return verdict

    async def answer(self, effect: EffectKey, attempt: int, bill: Money, now: int) -> Settled:
        settled = await super().answer(effect, attempt, bill, now)
        await self._take_time()
        return settled

    async def cut_off(self, effect: EffectKey, attempt: int, now: int) -> Settled:
        settled = await super().cut_off(effect, attempt, now)
        await self._take_time()
        return settled

    async def _take_time(self) -> None:
        for name, scope in self._budget.scopes.by_id.items():
            if scope.cap is not None and scope.used > scope.cap:
                self.broken.append(f"{name} holds {scope.used} over its cap of {scope.cap}")
        await asyncio.sleep(self._chance.choice([0, 3, 50, 400]) / 1000)
