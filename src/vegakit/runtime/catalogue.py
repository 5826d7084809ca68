"""The models of a runtime by name, and the lane that everybody who calls one of them shares."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vegakit.errors import UserError
from vegakit.policy import RateRule, RetryRule
from vegakit.ports import Clock, Model
from vegakit.runtime.agents import Agent
from vegakit.runtime.lanes import Lane, LaneRules

__all__ = ["Catalogue", "Limits"]

Limits = Mapping[str, RateRule] | Callable[[str], LaneRules]


class Catalogue:
    """`find` turns a name into a model; `limits` gives the rules of its lane."""

    def __init__(
        self, find: Callable[[str], Model] | None, limits: Limits | None, clock: Clock
    ) -> None:
        self._find = find
        self._limits = limits if callable(limits) else _limits_from(limits or {})
        self._clock = clock
        self._lanes: dict[str, Lane] = {}
        self._known: dict[str, Model] = {}
        self._building = asyncio.Lock()

    async def prepare(self, names: Iterable[str]) -> None:
        """Build these models in a thread, so that `model_of` finds them.

        The first model of a provider loads its libraries, which takes seconds on a slow machine.
        On the event loop that would stall every other call, and a lease that was taken before.
        """
        missing = {name for name in names if name not in self._known}
        if missing and self._find is not None:
            async with self._building:  # who waited finds what was built meanwhile
                for name in sorted(missing - self._known.keys()):
                    self._known[name] = await asyncio.to_thread(self._find, name)

    async def prepare_for(self, agent: Agent[Any]) -> None:
        if isinstance(agent.model, str) and agent.model not in self._known:
            await self.prepare([agent.model])

    def model_of(self, agent: Agent[Any]) -> Model:
        if not isinstance(agent.model, str):
            return agent.model
        if agent.model not in self._known:
            if self._find is None:
                raise UserError(
                    f"agent {agent.name} names the model {agent.model!r}, and this runtime knows "
                    "none by name; use Runtime.from_config(), or give the agent a model object"
                )
            self._known[agent.model] = self._find(agent.model)
        return self._known[agent.model]

    def lane_of(self, model: Model) -> Lane:
        """What the provider says of its limits is heeded in this lane."""
        lane = self._lanes.get(model.name)
        if lane is None:
            lane = self._lanes[model.name] = Lane(model.name, self._limits(model.name), self._clock)
        if (tell_limits := getattr(model, "tell_limits", None)) is not None:
            tell_limits(lane.heed_limits)
        return lane

    def retry_of(self, agent: Agent[Any]) -> RetryRule:
        """Its own rule, or else that of its model's limits."""
        if agent.retry is not None:
            return agent.retry
        return self._limits(self.model_of(agent).name).retry

    async def aclose(self) -> None:
        for model in self._known.values():
            if (aclose := getattr(model, "aclose", None)) is not None:
                await aclose()


def _limits_from(limits: Mapping[str, RateRule]) -> Callable[[str], LaneRules]:
    return lambda name: LaneRules(limits.get(name) or RateRule())
