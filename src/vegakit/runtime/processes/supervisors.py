"""Trees of processes in Python: `Supervisor("restart_all", [coder, reviewer])`, to any depth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from vegakit.errors import InvalidRuleError
from vegakit.money import dollars
from vegakit.policy import Backoff, ChildType, RestartRule, RestartStrategy
from vegakit.program import GroupSpec, ProcessSpec
from vegakit.runtime.agents import Agent

__all__ = ["Body", "Child", "Reducer", "Register", "Supervisor", "name_of"]


@dataclass(frozen=True)
class Reducer:
    """A process as a pure function: `react(state, message)` gives the next state and what to do."""

    name: str
    react: Callable[[Any, Any], tuple[Any, Sequence[Any]]]
    initial: Any = None


Body: TypeAlias = Agent[Any] | Reducer | Callable[..., Any]
Register: TypeAlias = Callable[[Body], str]


@dataclass(frozen=True)
class Child:
    """A process as somebody's child. `restart` is permanent, transient or temporary; `wallet` caps
    its whole life, restarts included. `cost_alert` and `stuck_after` bring news to `rt.on`."""

    body: Body
    name: str = ""
    restart: str = "transient"
    wallet: str | float | None = None
    cost_alert: str | float | None = None
    stuck_after: float | None = None
    stop_within: float = 5.0

    def spec(self, register: Register, rule: RestartRule | None = None) -> ProcessSpec:
        return ProcessSpec(
            register(self.body),
            ChildType(self.restart),
            rule or RestartRule(),
            None if self.wallet is None else dollars(self.wallet),
            None if self.cost_alert is None else dollars(self.cost_alert),
            None if self.stuck_after is None else round(self.stuck_after * 1000),
            round(self.stop_within * 1000),
        )


@dataclass(frozen=True)
class Supervisor:
    """`strategy` is restart, restart_all, rest_for_one, stop or escalate. More than `max_restarts`
    within `window` seconds, and it gives up: its children end, and whoever is above decides."""

    strategy: str = "restart"
    children: Sequence["Body | Child | Supervisor"] = ()
    max_restarts: int = 3
    window: float = 60.0
    backoff: Backoff | None = None
    name: str = ""
    restart: str = "permanent"

    @property
    def rule(self) -> RestartRule:
        strategy = RestartStrategy(self.strategy)
        return RestartRule(strategy, self.max_restarts, round(self.window * 1000), self.backoff)

    def spec(self, register: Register) -> GroupSpec:
        children: dict[str, ProcessSpec | GroupSpec] = {}
        for given in self.children:
            name, spec = _made(given, register)
            if name in children:
                raise InvalidRuleError(
                    f"two children are called {name!r}; name one of them: Child(body, name=…)"
                )
            children[name] = spec
        return GroupSpec(self.rule, children, ChildType(self.restart))


def _made(
    given: "Body | Child | Supervisor", register: Register
) -> tuple[str, ProcessSpec | GroupSpec]:
    if isinstance(given, Supervisor):
        return given.name or "group", given.spec(register)
    child = given if isinstance(given, Child) else Child(given)
    return child.name or name_of(child.body), child.spec(register)


def name_of(body: Body) -> str:
    return body.name if isinstance(body, Agent | Reducer) else body.__name__
