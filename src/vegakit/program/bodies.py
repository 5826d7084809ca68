"""Bodies of processes: code, which is never part of the state; and one run of a fiber (pure).

| body      | what it does with a message                                       | messages at once |
|-----------|-------------------------------------------------------------------|------------------|
| agent     | one turn, a fiber of the program: its calls are effects           | all; with        |
|           |                                                                   | memory one       |
| reducer   | `react(state, message)` gives the next state and what to do; pure | one              |
| fiber     | runs a function of a compiled program; its calls are effects      | all              |
| pipeline  | walks through stages, as a session of `policy` says; as a fiber   | all              |
| coroutine | a coroutine that only the local host can run, once for each       | one              |
|           | message, or once for a whole incarnation                          |                  |
| stand-in  | as a coroutine, in place of an agent of a program, within a part  | all              |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from vegakit.agent import Check, Count, TurnRule
from vegakit.conversation import Tokenizer
from vegakit.effects import SharedBudget
from vegakit.errors import ProgramChanged
from vegakit.money import Money
from vegakit.policy import (
    BreakerRule,
    ExitKind,
    ExitReason,
    MailboxRule,
    OnExceed,
    RateRule,
    RetryRule,
)
from vegakit.prices import PriceRow
from vegakit.program.protocol import ChildSpec, ProcessSpec, ReducerAction
from vegakit.program.refusals import RefusedProgram
from vegakit.program.state import AuthoredProgram, Fiber, ProcessRecord
from vegakit.records import digest128

if TYPE_CHECKING:
    from vegakit.lang import AgentSpec, ModelTerms, Module
    from vegakit.policy import PipelineDefinition
    from vegakit.program.admission import AdmittedProgram
    from vegakit.vm import Vm

# The kinds of bodies.


React: TypeAlias = Callable[[Any, Any], tuple[Any, Sequence[ReducerAction]]]

_RETRY = RetryRule()
_MAILBOX = MailboxRule()


class Author(Protocol):
    """An author lets the model of an agent write programs: at most `most` in a turn, nested
    `nested` deep, each for at most `timeout_ms` and `cost`; `guesses` limits the part in vain, None
    for no limit. `admit` quotes a program in which `repeats` of a hundred sends may be paid once
    more. `install` adds the bodies of a program to the code, under names that start with `prefix`,
    and returns the name of its main function; `remove` removes them."""

    @property
    def most(self) -> int: ...

    @property
    def nested(self) -> int: ...

    @property
    def timeout_ms(self) -> int: ...

    @property
    def cost(self) -> Money: ...

    @property
    def guesses(self) -> Money | None: ...

    def admit(
        self, source: str, language: str, repeats: int | None
    ) -> "AdmittedProgram | RefusedProgram": ...

    def install(self, prefix: str, accepted: "AdmittedProgram") -> str: ...

    def remove(self, prefix: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model that an agent may ask: the rule of a turn with it, its price, its token count and how
    often it is tried."""

    rule: TurnRule
    price: PriceRow | None
    count: Count
    retry: RetryRule = _RETRY
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, slots=True)
class AgentBody:
    """An agent. `budget` is what one send may spend, its tool calls and retries included, and
    `on_exceed` what happens when that is not enough; `timeout_ms` how long it may take if the
    sender sets no limit. `fibers` are its tools that are written in Vega, by name; `authors` those
    with which its model writes programs. `guard` names its breaker and rate limiter, which equal
    agents share; if empty, that is the name of the body. `max_wait_ms` is how long a call waits
    for its turn there. `fallbacks` are the models that are asked in turn when the one before is
    not available. `shared` is what all runs together may spend on it in a period."""

    rule: TurnRule
    price: PriceRow | None
    count: Count
    check: Check | None = None
    budget: Money | None = None
    on_exceed: OnExceed = OnExceed.BLOCK
    memory: bool = False
    retry: RetryRule = _RETRY
    breaker: BreakerRule | None = None
    rate: RateRule | None = None
    idempotent: frozenset[str] = frozenset()
    fibers: Mapping[str, ProcessSpec] = field(default_factory=dict[str, ProcessSpec])
    authors: Mapping[str, Author] = field(default_factory=dict[str, Author])
    priority: int = 2
    mailbox: MailboxRule = _MAILBOX
    timeout_ms: int | None = None
    max_wait_ms: int | None = None
    guard: str = ""
    fallbacks: tuple[ModelChoice, ...] = ()
    tokenizer: Tokenizer | None = None
    shared: SharedBudget | None = None

    @property
    def first(self) -> ModelChoice:
        """Return the model that every send asks first."""
        return ModelChoice(self.rule, self.price, self.count, self.retry, self.tokenizer)

    def shared_with(self, around: tuple[SharedBudget, ...]) -> tuple[SharedBudget, ...]:
        """Return the budgets that its calls draw on below those around them, each once."""
        return around if self.shared in (None, *around) else (*around, self.shared)

    @property
    def choices(self) -> tuple[ModelChoice, ...]:
        """Return all models of the agent, in the order in which they are asked."""
        return self.first, *self.fallbacks


def model_terms(body: AgentBody) -> "ModelTerms | None":
    """Return what a quote needs to know of the models of an agent; None if one has no price."""
    from vegakit.lang import ModelTerms, in_order

    return in_order(
        None
        if choice.price is None
        else ModelTerms(
            choice.price,
            choice.rule.context_tokens,
            choice.rule.settings.max_tokens,
            choice.count,
            choice.retry.max_attempts,
            tokenizer=choice.tokenizer,
        )
        for choice in body.choices
    )


@dataclass(frozen=True, slots=True)
class ReducerBody:
    """The body of a process that is a pure function from its memory and a message to actions."""

    react: React
    initial: Any = None
    mailbox: MailboxRule = _MAILBOX


@dataclass(frozen=True, slots=True)
class CoroutineBody:
    """A coroutine of the host. With `whole_incarnation` it runs from start to end and takes no
    messages."""

    whole_incarnation: bool = False
    mailbox: MailboxRule = _MAILBOX


@dataclass(frozen=True, slots=True)
class StandInBody:
    """A coroutine of the host that answers sends in place of an agent of a program, which is quoted
    by its `spec`. `budget` is what one send may spend, whatever is asked for it."""

    agent: AgentBody
    spec: "AgentSpec"
    budget: Money

    @property
    def timeout_ms(self) -> int | None:
        """Return how long a send may take if the sender sets no limit."""
        return self.agent.timeout_ms

    @property
    def mailbox(self) -> MailboxRule:
        """Return the rule of its mailbox."""
        return self.agent.mailbox


@dataclass(frozen=True, slots=True)
class FiberBody:
    """A function of a compiled program. `spawns` are the processes and groups that it may start, by
    name; `stateless` those that answer messages to an agent's name. `names` are its parameters, for
    callers that pass arguments by name, as models do; `parameters` are those of tools outside the
    library. `digest` is the digest of the module: a run cannot continue with another one. `fuel` is
    how much a run may use, None for no limit."""

    module: "Module"
    function: int
    spawns: Mapping[str, ChildSpec] = field(default_factory=dict[str, ChildSpec])
    stateless: Mapping[str, ProcessSpec] = field(default_factory=dict[str, ProcessSpec])
    names: tuple[str, ...] = ()
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    digest: str = ""
    fuel: int | None = None
    mailbox: MailboxRule = _MAILBOX


@dataclass(frozen=True, slots=True)
class PipelineBody(FiberBody):
    """A pipeline: it runs as a fiber, whose machine is a walk through its stages."""

    definition: "PipelineDefinition | None" = None


Body: TypeAlias = AgentBody | ReducerBody | CoroutineBody | StandInBody | FiberBody
Code: TypeAlias = Mapping[str, Body]


def code_digest(body: Body) -> str:
    """Return a digest of the code that makes the requests of a body. Python code has no digest that
    could be computed here."""
    match body:
        case AgentBody(fallbacks=()):
            return digest128(body.rule)
        case AgentBody():
            return digest128([choice.rule for choice in body.choices])
        case FiberBody():
            return body.digest
        case _:
            return ""


# Programs written by models, as the state keeps them: source and printed text.


MOST_KEPT = 16_000
"""How many characters of a result, and of the printed text, the model sees."""

_REFUSED_NOW = "a program of {tool} was accepted by another version, and is not by this one: {why}"


def author_of(code: Code, made: AuthoredProgram) -> Author | None:
    """Return the author that admitted a program, or None if its agent is gone."""
    agent = code.get(made.by)
    return agent.authors.get(made.tool) if isinstance(agent, AgentBody) else None


def restore(code: Code, made: AuthoredProgram) -> None:
    """Install the bodies of a program again, in a host that loaded the state and did not admit the
    program."""
    author = author_of(code, made)
    if author is None:
        return
    admitted = author.admit(made.source, made.language, made.repeats)
    if isinstance(admitted, RefusedProgram):
        raise ProgramChanged(_REFUSED_NOW.format(tool=made.tool, why=admitted.text))
    author.install(made.prefix, admitted)


def keep_printed(made: AuthoredProgram | None, text: str) -> None:
    """Keep one character more than is shown, so that the model can be told that there was more."""
    if made is not None and len(made.printed) <= MOST_KEPT:
        made.printed = f"{made.printed}{text}\n"[: MOST_KEPT + 1]


# A running fiber: its process, its message, and the names of its sessions and asks.


NORMAL = ExitReason(ExitKind.NORMAL)


@dataclass(slots=True)
class FiberRun:
    """A fiber that is being run, with the process and message it belongs to."""

    path: str
    process: ProcessRecord
    message_id: int
    fiber: Fiber
    vm: "Vm"
    body: FiberBody
    exits: ExitReason = NORMAL

    @property
    def ask_prefix(self) -> str:
        """Return what the asks of this fiber start with."""
        return f"{self.path}|{self.message_id}:"

    def session(self, scope: str) -> str:
        """Return the key of a session. Outside of its own scopes a fiber uses the session of its
        message."""
        if scope:
            return f"{self.path}#{self.process.generation}|{self.message_id}:{scope}"
        taken = (
            None if self.process.mailbox is None else self.process.mailbox.taken(self.message_id)
        )
        return "" if taken is None else taken.message.session
