"""What a quote says, and what it needs to know of models. Amounts are nano-dollars."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from vegakit.conversation import ModelRequest
from vegakit.lang.bytecode import AgentSpec
from vegakit.prices import PriceRow

__all__ = ["ModelTerms", "Quote", "QuotedLine", "Terms", "Unbounded"]


class ModelTerms(Struct, frozen=True):
    """`window` is what question and answer share, None if nobody knows; `count` gives no fewer
    tokens than a request is billed as input. `attempts` is how often an agent calls it at most that
    has no `retry` of its own."""

    price: PriceRow
    window: int | None
    max_tokens: int
    count: Callable[[ModelRequest], int]
    attempts: int = 3


Terms: TypeAlias = Callable[[AgentSpec], ModelTerms | None]
"""None of a model whose price nobody knows."""


class QuotedLine(Struct, frozen=True):
    """One send in the source with all the times it may run; None is no bound."""

    file: str
    line: int
    what: str
    calls: int | None
    worst: int | None


class Unbounded(Struct, frozen=True):
    """Where the source sets no bound, and the budget that does; None where none does."""

    file: str
    line: int
    why: str
    cap: int | None


class Quote(Struct, frozen=True):
    """`total` and `calls` are None where nothing bounds them; `processes` are those it spawns."""

    total: int | None
    calls: int | None
    processes: int | None
    lines: tuple[QuotedLine, ...]
    unbounded: tuple[Unbounded, ...]
