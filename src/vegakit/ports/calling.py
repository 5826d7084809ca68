"""Models and tools: what the gate calls."""

from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Any, Protocol

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest, ToolSpec
from vegakit.prices import PriceRow

__all__ = [
    "Model",
    "Tool",
]


class Model(Protocol):
    """One model of one provider. Only the gate calls it; it never retries and never waits its turn.

    Failures are `WorldError`s with class, phase and retry-after. Cancelling a call, or closing a
    stream early, closes its connection.
    """

    @property
    def name(self) -> str:
        """`provider:name`, as prices and traces know it."""
        ...

    @property
    def price(self) -> PriceRow | None:
        """None fails closed: what has no price is not called."""
        ...

    @property
    def context_tokens(self) -> int | None: ...

    @property
    def default_max_tokens(self) -> int: ...

    def bound_input(self, request: ModelRequest) -> int:
        """No fewer tokens than the provider will bill as input, worked out without asking it."""
        ...

    def ask(self, request: ModelRequest) -> Awaitable[ModelReply]: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Deltas, then the whole reply as the last chunk."""
        ...


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    @property
    def repeatable(self) -> bool:
        """Whether calling it again with the same arguments does no harm."""
        ...

    @property
    def timeout_ms(self) -> int: ...

    def call(self, arguments: Mapping[str, Any], deps: object) -> Awaitable[str]:
        """Raises what it raises; the gate turns it into an error result that the model sees."""
        ...
