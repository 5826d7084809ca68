"""What a server may ask of a model, and who answers it."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from vegakit.conversation import Message
from vegakit.policy import Untrusted

__all__ = ["Answer", "McpSample", "McpSampled"]


class McpSample(Struct, frozen=True):
    """The last message is the user's. `system` is the server's wish, no more."""

    messages: tuple[Message, ...]
    system: Untrusted
    max_tokens: int


class McpSampled(Struct, frozen=True):
    text: str
    model: str


Answer: TypeAlias = Callable[[McpSample], Awaitable[McpSampled]]
"""Pays from the server's own budget; raises `BudgetExceeded` when that is used up."""
