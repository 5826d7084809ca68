"""The models of a runtime by name, and the lane that everybody who calls one of them shares."""

from collections.abc import Callable, Mapping
from typing import Any

from vegakit.errors import UserError
from vegakit.policy import BreakerRule, RateRule
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
        lane = self._lane(model.name, self._limits(model.name))
        if (tell_limits := getattr(model, "tell_limits", None)) is not None:
            tell_limits(lane.heed_limits)
        return lane

    def lanes_of(self, agent: Agent[Any], model: Model) -> list[Lane]:
        """Its model's, and its own if it has limits of its own."""
        lanes = [self.lane_of(model)]
        if agent.rate is not None or agent.breaker is not None:
            own = LaneRules(agent.rate or RateRule(), agent.breaker or BreakerRule())
            lanes.append(self._lane(f"agent {agent.name}", own))
        return lanes

    async def aclose(self) -> None:
        for model in self._known.values():
            if (aclose := getattr(model, "aclose", None)) is not None:
                await aclose()

    def _lane(self, name: str, rules: LaneRules) -> Lane:
        if name not in self._lanes:
            self._lanes[name] = Lane(name, rules, self._clock)
        return self._lanes[name]


def _limits_from(limits: Mapping[str, RateRule]) -> Callable[[str], LaneRules]:
    return lambda name: LaneRules(limits.get(name) or RateRule())
