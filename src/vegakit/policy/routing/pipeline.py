"""The description of a pipeline: stages, what calls what, and the bounds of it all.

A stage is called in one of two ways, never both, and then waits for the stages it names in `after`
to finish if they are in play at all.

| way    | called by                                                                            |
|--------|--------------------------------------------------------------------------------------|
| routed | `start` (absent: the first stage), another stage's routing rule, `default_next` or   |
|        | `error_next`, or `resume_at` when an interrupt of that kind is settled               |
| joined | the completion of all, or any, of the stages it `requires`                           |

`check_pipeline` in `pipeline_problems` says whether a description holds together.
"""

from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct

from vegakit.policy.interrupts.kinds import InterruptKind
from vegakit.policy.routing.conditions import Condition, condition_holds

__all__ = ["Bounds", "Join", "Pipeline", "RoutingRule", "Stage", "edge"]


class Join(StrEnum):
    ALL = "all"
    ANY = "any"


class RoutingRule(Struct, frozen=True):
    target: str
    condition: Condition = Condition.ALWAYS
    field: str = ""
    value: Any = None


class Stage(Struct, frozen=True):
    """`retries` is how often a failed run is tried again; `tools` None leaves the agent its own."""

    name: str
    agent: str
    requires: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    join: Join = Join.ALL
    routing: tuple[RoutingRule, ...] = ()
    default_next: str | None = None
    error_next: str | None = None
    timeout_ms: int | None = None
    retries: int = 0
    tools: tuple[str, ...] | None = None

    def next_after(self, output: object) -> str | None:
        """The target of the first rule that fires, else the default."""
        for rule in self.routing:
            if condition_holds(rule.condition, output, rule.field, rule.value):
                return rule.target
        return self.default_next

    @property
    def targets(self) -> list[str]:
        named = (*(rule.target for rule in self.routing), self.default_next, self.error_next)
        return [name for name in dict.fromkeys(named) if name is not None]


class Bounds(Struct, frozen=True):
    """`edge_limits` says how often one stage may lead to another: `{"check->plan": 3}`."""

    max_iterations: int | None = None
    max_llm_calls: int | None = None
    max_agent_hops: int = 100
    edge_limits: dict[str, int] = {}


class Pipeline(Struct, frozen=True, dict=True):
    """`resume_at` names the stage to go on at after an interrupt; absent, the one that asked."""

    stages: tuple[Stage, ...]
    start: tuple[str, ...] = ()
    bounds: Bounds = Bounds()
    resume_at: dict[InterruptKind, str] = {}
    lease_ms: int = 60_000

    @property
    def first(self) -> tuple[str, ...]:
        return self.start or tuple(stage.name for stage in self.stages[:1])

    @cached_property
    def by_name(self) -> dict[str, Stage]:
        """Built at most once: `dict=True` gives it a place that is never stored or compared."""
        return {stage.name: stage for stage in self.stages}

    def requirers(self, name: str) -> list[Stage]:
        return [stage for stage in self.stages if name in stage.requires]


def edge(source: str, target: str) -> str:
    return f"{source}->{target}"
