"""An agent: who is asked, with which instructions and tools, and within which bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from vegakit.agent import HistoryPolicy, TurnRule
from vegakit.conversation import ModelSettings
from vegakit.money import Money, dollars
from vegakit.policy import BreakerRule, RateRule, RetryRule
from vegakit.ports import Model, Tool
from vegakit.runtime.askable import Askable
from vegakit.runtime.outputs import Output
from vegakit.tools import by_name, function_tool

__all__ = ["Agent"]

T = TypeVar("T", default=str)

_TEXT = cast("type[Any]", str)


@dataclass(frozen=True)
class Agent(Askable, Generic[T]):
    """`model` is an alias of vega.toml, `provider:name`, or an object of your own that implements
    `ports.Model`. `budget` caps one ask with its whole tool loop and retries, `timeout` is
    how many seconds it may take where the ask says nothing. `rate` and `breaker`
    are the agent's own and apply in addition to its model's; `retry` is its own instead of its
    model's. `memory="conversation"` lets a process
    remember what was said to it; its messages are then answered in turn."""

    name: str
    model: str | Model = "smart"
    system: str = ""
    output: type[T] = _TEXT
    tools: Sequence[Tool | Callable[..., Any]] = ()
    budget: str | float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    max_steps: int = 8
    history: str = "error"
    memory: str | None = None
    retry: RetryRule | None = None
    rate: RateRule | None = None
    breaker: BreakerRule | None = None
    priority: int = 2
    timeout: float | None = None

    @cached_property
    def cap(self) -> Money | None:
        return None if self.budget is None else dollars(self.budget)

    @cached_property
    def answer(self) -> Output[T]:
        return Output(self.output)

    @cached_property
    def tools_by_name(self) -> dict[str, Tool]:
        return by_name([_as_tool(tool) for tool in self.tools])

    @cached_property
    def _instructions(self) -> str:
        """With what its tools want it to know beside their descriptions."""
        notes = (getattr(tool, "notes", "") for tool in self.tools_by_name.values())
        return "\n\n".join(text for text in (self.system, *notes) if text)

    @property
    def writes_programs(self) -> bool:
        return any(hasattr(tool, "notes") for tool in self.tools_by_name.values())

    def rule_for(self, model: Model) -> TurnRule:
        return TurnRule(
            model.name,
            ModelSettings(self.max_tokens or model.default_max_tokens, self.temperature),
            system=self._instructions,
            tools=tuple(tool.spec for tool in self.tools_by_name.values()),
            output=self.answer.spec,
            max_steps=self.max_steps,
            history=HistoryPolicy(self.history),
            context_tokens=model.context_tokens,
        )


def _as_tool(given: Tool | Callable[..., Any]) -> Tool:
    if hasattr(given, "spec") and hasattr(given, "call"):
        return cast("Tool", given)
    return function_tool(cast("Callable[..., Any]", given))
