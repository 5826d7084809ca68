"""The bodies of processes: code, which is never part of the state.

| body    | what it does with a message                                         | letters at once |
|---------|---------------------------------------------------------------------|-----------------|
| agent   | one turn, a fiber of the program: its calls are effects             | all; with       |
|         |                                                                     | memory one      |
| reducer | `react(state, message)` gives the next state and what to do; pure   | one             |
| fiber   | runs a function of a compiled program; its calls are effects        | all             |
| foreign | a coroutine that only the local host can run, once for each         | one             |
|         | message, or once for a whole life                                   |                 |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from vegakit.agent import Check, Count, TurnRule
from vegakit.authoring import Accepted, Refused
from vegakit.lang import Module
from vegakit.money import Money
from vegakit.policy import BreakerRule, MailboxRule, RateRule, RetryRule
from vegakit.prices import PriceRow
from vegakit.program.commands import ChildSpec, ProcessSpec
from vegakit.program.reactions import Do
from vegakit.records import digest128

__all__ = [
    "AgentBody",
    "Author",
    "Body",
    "Code",
    "FiberBody",
    "ForeignBody",
    "React",
    "ReducerBody",
    "code_digest",
]

React: TypeAlias = Callable[[Any, Any], tuple[Any, Sequence[Do]]]

_RETRY = RetryRule()
_MAILBOX = MailboxRule()


class Author(Protocol):
    """Lets the model of an agent write programs: at most `most` in a turn, inside each other
    `nested` deep, each for `timeout_ms` and for `cost` at most. `install` puts the bodies of one
    into the code, under names that begin with `prefix`, and gives that of its main function;
    `remove` takes them out again."""

    @property
    def most(self) -> int: ...

    @property
    def nested(self) -> int: ...

    @property
    def timeout_ms(self) -> int: ...

    @property
    def cost(self) -> Money: ...

    def admit(self, source: str, language: str) -> Accepted | Refused: ...

    def install(self, prefix: str, accepted: Accepted) -> str: ...

    def remove(self, prefix: str) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentBody:
    """`budget` is what one send may spend, its tool loop and retries included, `timeout_ms`
    how long it may take where whoever sends says nothing. `fibers` are the
    tools that are written in Vega, by name, `authors` those by which its model writes programs.
    `guard` names its breaker and rate limit, which agents that are alike share; it is the name of
    the body where it is empty."""

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
    fibers: Mapping[str, ProcessSpec] = field(default_factory=dict[str, ProcessSpec])
    authors: Mapping[str, Author] = field(default_factory=dict[str, Author])
    priority: int = 2
    mailbox: MailboxRule = _MAILBOX
    timeout_ms: int | None = None
    guard: str = ""


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


@dataclass(frozen=True, slots=True)
class FiberBody:
    """`spawns` are the processes and groups that it may start, by name; `stateless` those that
    answer what is sent to an agent's name; `names` are those of its parameters,
    for who gives arguments by name, as models do; `parameters` those of tools that are not in the
    library; `digest` is of the module, which no run of it may outlive; `fuel` is how much a run may
    burn, None any."""

    module: Module
    function: int
    spawns: Mapping[str, ChildSpec] = field(default_factory=dict[str, ChildSpec])
    stateless: Mapping[str, ProcessSpec] = field(default_factory=dict[str, ProcessSpec])
    names: tuple[str, ...] = ()
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    digest: str = ""
    fuel: int | None = None
    mailbox: MailboxRule = _MAILBOX


Body: TypeAlias = AgentBody | ReducerBody | ForeignBody | FiberBody
Code: TypeAlias = Mapping[str, Body]


def code_digest(body: Body) -> str:
    """Of what the requests of a body are made by, besides the messages that it is sent. Code in
    Python has none that could be told from here."""
    match body:
        case AgentBody():
            return digest128(body.rule)
        case FiberBody():
            return body.digest
        case _:
            return ""
