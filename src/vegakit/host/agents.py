"""Users hold the objects of this module: agents and their replies, children and supervisors, and
the handle of a process (host)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, cast, overload

from msgspec import Struct
from typing_extensions import TypeVar

from vegakit.agent import HistoryPolicy, TurnRule
from vegakit.conversation import Conversation, Finish, Media, ModelSettings, OutputSpec, Usage
from vegakit.errors import InvalidRuleError, UserError
from vegakit.ids import Pid, TraceId
from vegakit.money import Money, dollars
from vegakit.policy import (
    Backoff,
    BreakerRule,
    ChildType,
    ExitReason,
    RateRule,
    RestartRule,
    RestartStrategy,
    RetryRule,
)
from vegakit.ports import Model, Tool
from vegakit.program import GroupSpec, ProcessSpec
from vegakit.tools import by_name, function_tool, problems_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter


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


# A Python type as the shape of an answer: its schema for the model, its check for what came back.
#
# Models answer with objects, so a type that is not one (bool, a list, a union) is wrapped in
# `{"result": …}` on the way out and unwrapped on the way in.


OutputT = TypeVar("OutputT")


class OutputType(Generic[OutputT]):
    """The type of an agent's answers, with its schema."""

    def __init__(self, kind: type[OutputT]) -> None:
        self._kind = kind
        self._adapter: TypeAdapter[Any] | None = None
        self._wrapped = False
        self.spec: OutputSpec | None = None
        if kind is not str:
            self._prepare()

    def _prepare(self) -> None:
        from pydantic import TypeAdapter

        adapter = TypeAdapter(self._kind)
        schema = adapter.json_schema()
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            definitions = schema.pop("$defs", None)
            schema = {
                "type": "object",
                "properties": {"result": schema},
                "required": ["result"],
                "additionalProperties": False,
            } | ({"$defs": definitions} if definitions else {})
        self._adapter = adapter
        self.spec = OutputSpec(getattr(self._kind, "__name__", "Output"), schema)

    def problem(self, text: str) -> str | None:
        """Return what is wrong with an answer, in words the model can act on."""
        from pydantic import ValidationError

        try:
            self.value(text)
        except ValidationError as error:
            return problems_of(error)
        return None

    def value(self, text: str) -> OutputT:
        """Return an answer as a value of the type."""
        if self._adapter is None:
            return text  # pyright: ignore[reportReturnType]
        if not self._wrapped:
            return self._adapter.validate_json(text)
        from pydantic import TypeAdapter

        whole = TypeAdapter(dict[str, Any]).validate_json(text)
        return self._adapter.validate_python(whole.get("result"))


# An agent: who is asked, with which instructions and tools, and within which bounds.


T = TypeVar("T", default=str)

_TEXT = cast("type[Any]", str)


@dataclass(frozen=True)
class Agent(AgentStub, Generic[T]):
    """An agent: a model, its instructions and its tools. `model` is an alias of vega.toml,
    `provider:name`, or an object of your own that implements `ports.Model`. `budget` caps one ask
    with its whole tool loop and retries, `timeout` is how many seconds it may take where the ask
    says nothing. `rate` and `breaker` are the agent's own and apply in addition to its model's;
    `retry` is its own instead of its model's. `memory="conversation"` lets a process remember what
    was said to it; its messages are then answered in turn."""

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
        """The budget of one ask, or None."""
        return None if self.budget is None else dollars(self.budget)

    @cached_property
    def answer(self) -> OutputType[T]:
        """The type of the answers."""
        return OutputType(self.output)

    @cached_property
    def tools_by_name(self) -> dict[str, Tool]:
        """The tools by the names that the model calls."""
        return by_name([_as_tool(tool) for tool in self.tools])

    @cached_property
    def _instructions(self) -> str:
        """Return the instructions with what the tools want the agent to know beside their
        descriptions."""
        notes = (getattr(tool, "notes", "") for tool in self.tools_by_name.values())
        return "\n\n".join(text for text in (self.system, *notes) if text)

    @property
    def writes_programs(self) -> bool:
        """Whether one of the tools runs programs that the agent writes."""
        return any(hasattr(tool, "notes") for tool in self.tools_by_name.values())

    def rule_for(self, model: Model) -> TurnRule:
        """Return the rule of one turn with this model."""
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


# What an ask gives back, whole or piece by piece.


ReplyT = TypeVar("ReplyT", default=str)


@dataclass(frozen=True, slots=True)
class Reply(Generic[ReplyT]):
    """The answer of an agent, with what it cost. `messages` is the whole conversation; pass it as
    `history` to go on with it."""

    output: ReplyT
    text: str
    cost: Money
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

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool has returned to an agent."""

    name: str
    content: str
    is_error: bool
    index: int

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class TurnEnded(Generic[ReplyT]):
    """The last event of a stream."""

    reply: Reply[ReplyT]

    def __str__(self) -> str:
        return ""


StreamEvent: TypeAlias = TextChunk | ToolCalled | ToolReturned | TurnEnded[ReplyT]
"""Printed one after the other they are the text."""


# Files that are sent along with a prompt.


_MAX_BYTES = 20_000_000


def read_media(path: str | Path) -> Media:
    """Return a file as a part of a prompt."""
    file = Path(path)
    from mimetypes import guess_type  # reads the tables of the system when it is first used

    kind, _ = guess_type(file.name)
    if kind is None:
        raise UserError(f"{file}: its ending does not say what it is; name it like photo.png")
    if not file.is_file():
        raise UserError(f"{file} is not a file; files= takes paths of files that exist")
    if (size := file.stat().st_size) > _MAX_BYTES:
        raise UserError(f"{file} has {size:,} bytes; at most {_MAX_BYTES:,} can be sent")
    return Media(kind, file.read_bytes())


# Trees of processes in Python: `Supervisor("restart_all", [coder, reviewer])`, to any depth.


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
    """Answers are of the type its body gives: a `Reply` of an agent, a value of anything else.

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
    ) -> AsyncGenerator[Any]:
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
    def spent(self) -> Money:
        """The amount that the process has spent."""
        return self._program.machine.wallets.spent(self.path)

    @property
    def alive(self) -> bool:
        """Whether the process has not ended for good."""
        return self._program.is_alive(self.path)

    def __repr__(self) -> str:
        return f"<Process {self.path}>"
