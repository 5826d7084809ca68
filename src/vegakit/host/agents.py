"""Users hold the objects of this module: agents and their replies, children and supervisors, and
the handle of a process (host)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeAlias, TypedDict, Unpack, cast, overload

from msgspec import Struct
from typing_extensions import TypeVar

from vegakit.agent import SETTING_FORMS, CompactedHistory, HistoryPolicy, TurnRule, check_settings
from vegakit.conversation import Conversation, Effort, Finish, Media, Message, ModelSettings, Usage
from vegakit.effects import SharedBudget
from vegakit.errors import InvalidRuleError, UserError
from vegakit.host.budgets import cap_of, shared_budget_of
from vegakit.ids import Pid, TraceId
from vegakit.money import Dollars, Money, dollars
from vegakit.policy import (
    BINDING,
    Backoff,
    BreakerRule,
    ChildType,
    ExitReason,
    OnExceed,
    RateRule,
    RestartRule,
    RestartStrategy,
    RetryRule,
)
from vegakit.ports import Model, Tool
from vegakit.program import GroupSpec, ProcessSpec, ProgramQuote
from vegakit.tools import OutputType, as_tools, by_name

# What an agent says in a program in Python: there it is called like a function.
#
# The program is read and not run, so these have types for who writes it, and an answer for who
# calls them from plain Python.


R = TypeVar("R")


def only_in_program(what: str) -> NoReturn:
    """Raise that a word means something only in a program."""
    raise UserError(
        f"{what} means something only in a program: put it into a function below @program, and run "
        "that with `await main(...)` or: vega run FILE.py"
    )


class AgentStub:
    """An agent as a program in Python calls it: `reviewer("…")`, `reviewer.ask("…",
    returns=Finding)`. Elsewhere `await rt.ask(reviewer, …)` asks an agent."""

    def __call__(self, message: str) -> str:
        only_in_program("calling an agent")

    @overload
    def ask(self, message: str, *, timeout: str = ..., budget: str = ...) -> str: ...
    @overload
    def ask(
        self, message: str, *, returns: type[R], timeout: str = ..., budget: str = ...
    ) -> R: ...

    def ask(self, message: str, **_: Any) -> Any:
        """Ask the agent, for text or for a value of `returns`."""
        only_in_program("asking an agent")

    def stream(self, message: str) -> Iterator[str]:
        """Ask the agent, and take its answer piece by piece."""
        only_in_program("a stream of an agent")

    def submit(self, message: str, **_: Any) -> Any:  # noqa: ANN401
        """Ask the agent, and take its answer later with `.result()`."""
        only_in_program("asking an agent")


# Tools of programs, told apart before the module that makes one is loaded: it needs the language,
# and an agent without such a tool does not.


class ValueTool:
    """A tool that only code of a program calls: it gives a value in JSON, which no model reads."""


class FiberTool:
    """A tool that is written in Vega: the machine runs it as a fiber of `process`."""

    process: ProcessSpec


class AuthorTool:
    """A tool with which a model runs programs that it writes."""


# An agent: who is asked, with which instructions and tools, and within which bounds.


T = TypeVar("T", default=str)
_USUAL_MODEL = "smart"


class AskOptions(TypedDict, total=False):
    """Names what an ask takes beside the agent and the prompt. `timeout` is in seconds or like
    "30s", `budget` caps this ask alone, `history` is said before the prompt, `on_chunk` is called
    with each piece of text as it comes; `wait_for_budget` is how long it waits for money that other
    calls hold; `max_wait` is the longest that it waits for a limit."""

    timeout: float | str | None
    budget: str | float | None
    deps: object
    files: Sequence[str | Path | Media]
    history: Conversation | Sequence[Message]
    wait_for_budget: bool | float | str
    max_wait: float | str | None
    on_chunk: Callable[[str], object] | None


@dataclass(frozen=True)
class Agent(AgentStub, Generic[T]):
    """An agent: a model, its instructions, its tools and the type of its answers. `name` has no
    colon, and is not the name of a model unless `model` is given. `model` is an
    alias of vega.toml, `provider:name`, or an object of your own that implements `ports.Model`; of
    a list of them, each is asked when the one before is not available. `effort` is how much a model
    that reasons shall do so: "low", "medium" or "high"; its thoughts are a part of `max_tokens`,
    which is 4,096 if nobody says, and 16,000 for such a model. `budget` caps one ask with its whole
    tool loop and retries, or, as "$5/day", all asks in a day (hour, month) together, in every run
    on the ledger; `on_exceed` says what a call does that does not fit it: "block" and "ask" refuse
    it (after "ask" `vega resume --budget` goes on), "warn" and "allow" make it, within the budgets
    around it. `timeout` is how long it may take where the ask says nothing, in seconds or like
    "30s". `max_wait` is the longest that a call waits for a rate limit or a slot, or because a
    provider asks to; then it fails with `RateLimited`, unpaid. `rate` is the agent's own and
    applies in addition to its model's; `retry` and `breaker` are its own instead of its model's.
    `memory="conversation"` lets a process remember what was said to it; its messages are then
    answered in turn. `system` is another word for `instructions`."""

    name: str
    model: str | Model | Sequence[str | Model] = _USUAL_MODEL
    instructions: str = ""
    output_type: type[T] = cast("type[T]", str)  # noqa: RUF009  (it makes nothing)
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
    timeout: float | str | None = None
    effort: str | None = None
    max_wait: float | str | None = None
    on_exceed: str = OnExceed.BLOCK
    shared_budget: SharedBudget | None = None
    system: InitVar[str] = ""

    def __post_init__(self, system: str) -> None:
        if system and self.instructions:
            raise UserError(f"agent {self.name} has instructions and system; write instructions")
        if system:
            object.__setattr__(self, "instructions", system)
        if isinstance(self.output_type, str):  # what pydantic says of it is hard to read
            said = f"output_type of agent {self.name} is the text {self.output_type!r}"
            raise UserError(f"{said}; write the class itself: output_type={self.output_type}")
        self._check()

    def _check(self) -> None:
        """Refuse what cannot be meant where it is written, and not in the middle of a run."""
        check_settings(self.name, {name: getattr(self, name) for name in SETTING_FORMS})
        for name, kind in _RULES.items():
            rule = getattr(self, name)
            # In a program it is a word of the language, such as vega.rate_limit(…).
            if not isinstance(rule, kind | dict | None):
                raise InvalidRuleError(
                    f"{name} of agent {self.name} is {rule!r:.60}; write a {kind.__name__}(…) of "
                    "vegakit.policy"
                )
        self._check_name()
        for model in self.models:
            if isinstance(model, type) or not (isinstance(model, str) or hasattr(model, "name")):
                raise InvalidRuleError(
                    f"the model of agent {self.name} is {model!r:.60}; write a name such as "
                    '"smart", or give an object with the methods of `ports.Model`'
                )
        _ = self.models, self.cap, self.exceeding, self.max_wait_ms, self.timeout_s

    def _check_name(self) -> None:
        """Refuse a model in the place of the name: the agent would ask another one. Names of models
        that have no provider are names of agents, too, where a model is given. An agent of an
        imported module is named `module::agent`."""
        model_name = self.name
        provider, slash, model = model_name.partition("/")
        if slash:
            from vegakit.providers import provider_names  # rare, and loads much

            if provider in provider_names():  # as others write a model
                model_name = f"{provider}:{model}"
        if ":" not in model_name.replace("::", ""):
            if self.model != _USUAL_MODEL:
                return
            from vegakit.providers import is_model_name  # a model that is given is no doubt

            if not is_model_name(model_name):
                return
        raise UserError(
            f"an agent is named {self.name!r:.60} and would ask the model {self.model!r:.60}; the "
            "first argument of Agent is a name without a colon, not a model; write "
            f'Agent("assistant", model="{model_name:.60}")'
        )

    @cached_property
    def models(self) -> tuple[str | Model, ...]:
        """The models that it asks, in order."""
        if isinstance(self.model, str) or not isinstance(self.model, Sequence):
            return (self.model,)
        if not self.model:
            raise InvalidRuleError(f"agent {self.name} has an empty list as model; name one")
        return tuple(self.model)

    @cached_property
    def cap(self) -> Money | None:
        """The budget of one ask, or None."""
        return cap_of(self.budget)

    @cached_property
    def shared(self) -> SharedBudget | None:
        """The budget for each period, which all its asks share, or None."""
        return shared_budget_of(self.name, self.budget, self.exceeding) or self.shared_budget

    def run_sync(self, prompt: str, **options: Unpack[AskOptions]) -> "Reply[T]":
        """Ask this agent from a script, and wait for the reply: `reviewer.run_sync("…")`. It takes
        what `Runtime.ask` takes, and opens a runtime as the settings say for this one ask."""
        # By its package and late: the runtime is above agents, and an agent opens one only here.
        sdk: Any = import_module("vegakit.sdk")
        return sdk.Runtime.from_config().run_sync(self, prompt, **options)

    @cached_property
    def max_wait_ms(self) -> int | None:
        """The longest wait for a limit in milliseconds, or None."""
        return None if self.max_wait is None else round(seconds_of(self.max_wait) * 1000)

    def varied(
        self, budget: str | float | None = None, max_wait: float | str | None = None
    ) -> "Agent[T]":
        """Return this agent for asks that may spend no more than `budget`, nor more than its own,
        and wait for limits no longer than `max_wait`. The same one for the same values, so that
        what is known of it is not made anew."""
        cap, on_exceed = self.cap, self.exceeding
        if budget is not None:
            # What an ask names is a cap, also for an agent whose own budget only warns.
            own, cap = cap if on_exceed in BINDING else None, dollars(budget)
            cap = cap if own is None else min(own, cap)
            on_exceed = on_exceed if on_exceed in BINDING else OnExceed.BLOCK
        key = (cap, on_exceed, self.max_wait if max_wait is None else max_wait)
        if key == (self.cap, self.exceeding, self.max_wait):
            return self
        if key not in self._variants:
            if len(self._variants) >= _MOST_VARIANTS:  # amounts that are left are ever others
                self._variants.clear()
            paid = None if cap is None else Dollars.of_nanos(cap)
            made = replace(self, budget=paid, on_exceed=on_exceed, shared_budget=self.shared)
            self._variants[key] = replace(made, max_wait=key[2])
        return self._variants[key]

    @cached_property
    def _variants(self) -> "dict[tuple[Money | None, OnExceed, float | str | None], Agent[T]]":
        return {}

    @cached_property
    def timeout_s(self) -> float | None:
        """Return how many seconds it may take where the ask says nothing."""
        return None if self.timeout is None else seconds_of(self.timeout)

    @cached_property
    def exceeding(self) -> OnExceed:
        """Return what happens when its budget is not enough for the next call."""
        if self.on_exceed not in {*OnExceed}:
            raise InvalidRuleError(
                f"on_exceed of agent {self.name} is {self.on_exceed!r}; write one of: "
                f"{', '.join(OnExceed)}"
            )
        return OnExceed(self.on_exceed)

    @cached_property
    def answer(self) -> OutputType[T]:
        """The type of the answers."""
        return OutputType(self.output_type)

    @cached_property
    def tools_by_name(self) -> dict[str, Tool]:
        """The tools by the names that the model calls."""
        return by_name(as_tools(self.tools))

    @cached_property
    def _instructions(self) -> str:
        """Return the instructions with what the tools want the agent to know beside their
        descriptions."""
        notes = (getattr(tool, "notes", "") for tool in self.tools_by_name.values())
        return "\n\n".join(text for text in (self.instructions, *notes) if text)

    @property
    def writes_programs(self) -> bool:
        """Whether one of the tools runs programs that the agent writes."""
        return any(hasattr(tool, "notes") for tool in self.tools_by_name.values())

    def rule_for(self, model: Model) -> TurnRule:
        """Return the rule of one turn with this model."""
        return TurnRule(
            model.name,
            ModelSettings(
                self.max_tokens or model.default_max_tokens,
                self.temperature,
                effort=None if self.effort is None else Effort(self.effort),
            ),
            system=self._instructions,
            tools=tuple(tool.spec for tool in self.tools_by_name.values()),
            output=self.answer.spec,
            max_steps=self.max_steps,
            history=HistoryPolicy(self.history),
            context_tokens=model.context_tokens,
        )


_MOST_VARIANTS = 64
_RULES = {"retry": RetryRule, "rate": RateRule, "breaker": BreakerRule}


BUDGET_WAIT_MS = 60_000
"""How long an ask waits for money that other calls hold, if it does not say. A fan-out whose calls
fail at once would cancel its other calls, and pay for them."""


def budget_wait_ms_of(wait: bool | float | str) -> int:
    """Return how long an ask waits for money that other calls hold; False is not at all."""
    if isinstance(wait, bool):
        return BUDGET_WAIT_MS if wait else 0
    seconds = seconds_of(wait)
    if not seconds >= 0:  # nor is nan
        raise UserError(
            f"wait_for_budget is {wait}, which is no time to wait; give seconds as in "
            'wait_for_budget=30 or a text like "30s", or False to be refused at once'
        )
    return round(seconds * 1000)


def seconds_of(duration: float | str) -> float:
    """Return a duration in seconds; a text is like "30s"."""
    if not isinstance(duration, str):
        return duration
    from vegakit.config import parse_duration_ms

    return parse_duration_ms(duration) / 1000


# What an ask gives back, whole or piece by piece.


ReplyT = TypeVar("ReplyT", default=str)


@dataclass(frozen=True, slots=True)
class Reply(Generic[ReplyT]):
    """The answer of an agent, with what it cost. `messages` is the whole conversation; pass it as
    `history` to go on with it."""

    output: ReplyT
    text: str
    cost: Dollars
    usage: Usage
    messages: Conversation
    trace_id: TraceId
    finish: Finish = Finish.STOP
    steps: int = 1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of text that an agent has just said."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """An agent has called a tool."""

    name: str
    arguments: object
    index: int
    step: int = 0

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool has returned to an agent."""

    name: str
    content: str
    is_error: bool
    index: int
    step: int = 0

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class TurnEnded(Generic[ReplyT]):
    """The last event of a stream."""

    reply: Reply[ReplyT]

    def __str__(self) -> str:
        return ""


StreamEvent: TypeAlias = (
    TextChunk | ToolCalled | ProgramQuote | ToolReturned | CompactedHistory | TurnEnded[ReplyT]
)
"""Printed one after the other they are the text."""


# Trees of processes in Python: `Supervisor("restart_all", [coder, reviewer])`, to any depth.


@dataclass(frozen=True)
class Reducer:
    """A process as a pure function: `react(state, message)` gives the next state and what to do."""

    name: str
    react: Callable[[Any, Any], tuple[Any, Sequence[Any]]]
    initial: Any = None


Body: TypeAlias = Agent[Any] | Reducer | Callable[..., Any]
Register: TypeAlias = Callable[[Body], str]


class ChildOptions(TypedDict, total=False):
    """Names what `Child` and `Runtime.spawn` take beside the body."""

    restart: str
    wallet: str | float | None
    cost_alert: str | float | None
    stuck_after: float | None
    stop_within: float


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
        """Return the spec of the process; `register` names its body."""
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
    """A supervisor and its children. `strategy` is restart, restart_all, rest_for_one, stop or
    escalate. After more than `max_restarts` within `window` seconds it gives up: its children end,
    and whoever is above decides."""

    strategy: str = "restart"
    children: Sequence["Body | Child | Supervisor"] = ()
    max_restarts: int = 3
    window: float = 60.0
    backoff: Backoff | None = None
    name: str = ""
    restart: str = "permanent"

    @property
    def rule(self) -> RestartRule:
        """The rule of restarts."""
        strategy = RestartStrategy(self.strategy)
        return RestartRule(strategy, self.max_restarts, round(self.window * 1000), self.backoff)

    def spec(self, register: Register) -> GroupSpec:
        """Return the spec of the supervisor and of all below it; `register` names the bodies."""
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
    """Return the name of a body."""
    return body.name if isinstance(body, Agent | Reducer) else body.__name__


# A process as Python code sees it: something to ask, to watch and to end.


ProcessT = TypeVar("ProcessT", default=Any)


current_process: ContextVar[str] = ContextVar("vega_process", default="")
"""The process whose body is running, so that what it spawns is its child."""


class Process(Struct, Generic[ProcessT], frozen=True, gc=False):
    """A process to ask, to watch and to end. Answers are of the type its body gives: a `Reply` of
    an agent, a value of anything else.

    It stands for all lives of the process: after a restart the same handle reaches the next one.
    """

    _program: Any
    path: str

    @property
    def pid(self) -> Pid:
        """The pid of the current incarnation."""
        return self._program.pid_of(self.path)

    async def ask(
        self,
        message: Any,  # noqa: ANN401
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        deps: object = None,
        files: Sequence[str | Path] = (),
    ) -> ProcessT:
        """Send a message and wait for the answer."""
        return await self.send(message, timeout=timeout, deps=deps, files=files)

    def send(
        self,
        message: Any,  # noqa: ANN401
        *,
        timeout: float | None = None,
        deps: object = None,
        files: Sequence[str | Path] = (),
    ) -> "asyncio.Future[ProcessT]":
        """Starts at once; await the future for the answer, cancel it to cancel the work."""
        return self._program.send(self.path, message, timeout=timeout, deps=deps, files=files)

    def tell(self, message: Any) -> None:  # noqa: ANN401
        """Send a message; nobody waits for an answer."""
        self._program.tell(self.path, message)

    def stream(
        self,
        message: object,
        *,
        timeout: float | None = None,
        deps: object = None,
    ) -> "AsyncGenerator[StreamEvent[Any]]":
        """Yield what an agent says while it says it; leaving the loop early cancels it."""
        return self._program.stream(self.path, message, timeout=timeout, deps=deps)

    async def recall(self, limit: int = 100) -> int:
        """Gives an agent with memory, before it is first asked, what an agent of this path said in
        earlier programs: at most so many messages. How many it knows now."""
        return await self._program.recall(self.path, limit)

    def link(self, other: "Process[Any]") -> None:
        """Link two processes: if one ends abnormally for good, the other crashes too."""
        self._program.link(self.path, other.path)

    def unlink(self, other: "Process[Any]") -> None:
        """Undo a link."""
        self._program.unlink(self.path, other.path)

    def monitor(self) -> "asyncio.Future[ExitReason]":
        """Return a future that is done when the process has ended for good; cancel it to watch no
        longer."""
        return self._program.monitor(self.path)

    def exit(self, reason: str = "exit") -> None:
        """An exit signal: this life crashes, its supervisor decides what follows."""
        self._program.exit(self.path, reason)

    async def stop(self) -> ExitReason:
        """End the process for good: it is asked to end, and killed if it takes too long."""
        return await self._program.end(self.path, kill=False)

    async def kill(self) -> ExitReason:
        """End the process for good and at once, with everything that it started."""
        return await self._program.end(self.path, kill=True)

    @property
    def spent(self) -> Dollars:
        """The amount that the process has spent."""
        return Dollars.of_nanos(self._program.machine.wallets.spent(self.path))

    @property
    def alive(self) -> bool:
        """Whether the process has not ended for good."""
        return self._program.is_alive(self.path)

    def __repr__(self) -> str:
        return f"<Process {self.path}>"
