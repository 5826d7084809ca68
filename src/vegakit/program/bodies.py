"""The bodies of processes: code, which is never part of the state.

| body    | what it does with a message                                         | letters at once |
|---------|---------------------------------------------------------------------|-----------------|
| agent   | one turn, a fiber of the program: its calls are effects             | all; with       |
|         |                                                                     | memory one      |
| reducer | `react(state, message)` gives the next state and what to do; pure   | one             |
| foreign | a coroutine that only the local host can run, once for each         | one             |
|         | message, or once for a whole life                                   |                 |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from vegakit.agent import Check, Count, TurnRule
from vegakit.money import Money
from vegakit.policy import BreakerRule, MailboxRule, RateRule, RetryRule
from vegakit.prices import PriceRow
from vegakit.program.reactions import Do

__all__ = ["AgentBody", "Body", "Code", "ForeignBody", "React", "ReducerBody"]

React: TypeAlias = Callable[[Any, Any], tuple[Any, Sequence[Do]]]

_RETRY = RetryRule()
_MAILBOX = MailboxRule()


@dataclass(frozen=True, slots=True)
class AgentBody:
    """`budget` is what one send may spend, its tool loop and retries included."""

    rule: TurnRule
    price: PriceRow | None
    count: Count
    check: Check | None = None
    budget: Money | None = None
    memory: bool = False
    retry: RetryRule = _RETRY
    breaker: BreakerRule | None = None
    rate: RateRule | None = None
    repeatable: frozenset[str] = frozenset()
    priority: int = 2
    mailbox: MailboxRule = _MAILBOX


@dataclass(frozen=True, slots=True)
class ReducerBody:
    react: React
    initial: Any = None
    mailbox: MailboxRule = _MAILBOX


@dataclass(frozen=True, slots=True)
class ForeignBody:
    """`whole_life`: it runs from its start to its end, and is not sent messages."""

    whole_life: bool = False
    mailbox: MailboxRule = _MAILBOX


Body: TypeAlias = AgentBody | ReducerBody | ForeignBody
Code: TypeAlias = Mapping[str, Body]
