"""What holds for a turn: whom it asks, with what, and how far it may go."""

from enum import StrEnum

from msgspec import Struct

from vegakit.conversation import ModelSettings, OutputSpec, ToolSpec
from vegakit.errors import InvalidRuleError

__all__ = ["HistoryPolicy", "TurnRule"]


class HistoryPolicy(StrEnum):
    """What gives way when a conversation has outgrown the model's window."""

    ERROR = "error"
    DROP_OLDEST = "drop_oldest"
    SUMMARISE = "summarise"


_LEAST = {
    "max_steps": 1,
    "max_tool_calls": 0,
    "max_total_tokens": 1,
    "identical_failures": 1,
    "output_retries": 0,
    "context_tokens": 1,
}


class TurnRule(Struct, frozen=True, omit_defaults=True):
    """`max_steps` counts model calls, summaries too; `context_tokens` is the model's window, which
    question and answer share, None if nobody knows it."""

    model: str
    settings: ModelSettings
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    max_steps: int = 8
    max_tool_calls: int = 64
    max_total_tokens: int | None = None
    identical_failures: int = 3
    output_retries: int = 2
    history: HistoryPolicy = HistoryPolicy.ERROR
    context_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidRuleError(f"{name} is at least {least}; got {value}")
        if self.settings.max_tokens < 1:
            raise InvalidRuleError(f"max_tokens is at least 1; got {self.settings.max_tokens}")
        names = [tool.name for tool in self.tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRuleError(
                f"a model calls tools by name, so each name stands for one tool; "
                f"got two or more called {', '.join(twice)}; rename them"
            )

    @property
    def input_room(self) -> int | None:
        """What the window leaves for a request when its answer is as long as it may be."""
        if self.context_tokens is None:
            return None
        return self.context_tokens - self.settings.max_tokens
