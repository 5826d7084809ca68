"""The two paths of a rollout: an agent or an `async def` function, each run for its effects or in
the shadow.

In the shadow nothing is performed. An agent's tools are replaced by ones without any rights, which
answer as the path that was performed was answered; a call that it did not make is refused, and so
shows as a difference. A function cannot be intercepted: one that is put under a rollout computes
its answer and does nothing else.

| run       | tool calls                                                          | who            |
|-----------|---------------------------------------------------------------------|----------------|
| `perform` | are made; those that a candidate made before it failed are answered | who answers,   |
|           | from its log                                                        | its fallback   |
| `shadow`  | are answered from what was performed, others refused                | the other path |
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import msgspec

from vegakit.conversation import (
    AssistantMessage,
    Conversation,
    Message,
    Text,
    ToolCall,
    ToolMessage,
)
from vegakit.errors import ContractViolated, ToolFailed, UserError
from vegakit.host import Agent, AskCost, ProgramSend, cost_of_ask, cost_of_call
from vegakit.money import Money
from vegakit.policy import unmarked
from vegakit.ports import Tool
from vegakit.program import problem_of
from vegakit.records import canonical, digest128, to_json
from vegakit.sdk import Runtime
from vegakit.tools import ToolRights, as_tools, returns_untrusted_text
from vegakit.vesper.comparisons import plain
from vegakit.vesper.versions import agent_version, function_version

T = TypeVar("T")


class PerformedCall(NamedTuple):
    """A tool call that was made, and what came of it."""

    name: str
    arguments: str
    content: str
    is_error: bool = False

    @property
    def what(self) -> tuple[str, str]:
        """Return what was asked of the world."""
        return self.name, self.arguments


class PathAnswer(NamedTuple):
    """The answer of a path, the tool calls that it made or would have made, and what it cost in
    nano-dollars."""

    output: object
    calls: tuple[PerformedCall, ...] = ()
    nanos: int = 0

    def copied(self) -> "PathAnswer":
        """Return the answer as it is now: who has it may change it before it is compared."""
        return self._replace(output=_snapshot(self.output))

    @property
    def effects(self) -> list[tuple[str, str]]:
        """Return what was asked of the world, in an order that says nothing: calls of one step are
        made side by side."""
        return sorted(call.what for call in self.calls)


class CallInputs(NamedTuple):
    """The inputs of a call, as the caller gave them; of a `send` of a program, its text."""

    args: tuple[Any, ...]
    options: Mapping[str, Any]
    send: ProgramSend | None = None

    def copied(self) -> "CallInputs":
        """Return the inputs as they are now, for a path that is run later or beside: the caller,
        or the other path, may change them. What serves the call, such as `deps`, stays."""
        if all(isinstance(each, _UNCHANGING) for each in (*self.args, *self.options.values())):
            return self
        kept = {name: self.options[name] for name in self.options if name in _SERVING}
        options = {name: each for name, each in self.options.items() if name not in _SERVING}
        return self._replace(args=_snapshot(self.args), options=_snapshot(options) | kept)

    def digest(self) -> str:
        """Return a digest of the inputs, the same in every process where they read the same."""
        if self.send is not None:
            return digest128(self.send.prompt.question)
        options = [(name, _spelled(self.options[name])) for name in sorted(self.options)]
        return digest128([[_spelled(each) for each in self.args], options])


_UNCHANGING = (str, bytes, int, float, bool, type(None))
_SERVING = frozenset({"deps", "on_chunk"})


def _snapshot(value: T) -> T:
    """Return a copy; of what cannot be copied, itself."""
    if isinstance(value, _UNCHANGING):
        return value
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001  (objects of users may raise anything)
        return value


def _spelled(value: object) -> str:
    """Return a value as JSON; of one that has none, its type: an address would differ elsewhere."""
    try:
        return canonical(plain(value)).decode()
    except TypeError:
        return type(value).__qualname__


def inputs_of(send: ProgramSend) -> CallInputs:
    """Return a send of a program as inputs: paths that are functions get its text."""
    said = "\n".join(part.text for part in send.prompt.parts if isinstance(part, Text))
    return CallInputs((said,), {}, send)


class ExecutionPath(Protocol):
    """A way to answer. `version` changes with whatever could change its answers. With tools it may
    ask something of the world, so that it is run in the shadow after the other one only."""

    version: str
    tool_names: frozenset[str]

    def perform(self, inputs: CallInputs, log: "ToolLog") -> Awaitable[PathAnswer]:
        """Answer, and note in the log what is performed."""
        ...

    def shadow(
        self, inputs: CallInputs, performed: Sequence[PerformedCall]
    ) -> Awaitable[PathAnswer]:
        """Answer without performing anything."""
        ...

    def first_call(self, inputs: CallInputs) -> Awaitable[Money]:
        """Return what it costs at most to be answered at once."""
        ...

    def bound(self, inputs: CallInputs | None) -> Awaitable[AskCost]:
        """Return what an answer costs at most; without inputs, to whatever is asked."""
        ...


@dataclass
class ToolLog:
    """The tool calls of one run. `known` are answered without being made; `deps` are the user's."""

    known: list[PerformedCall] = field(default_factory=list[PerformedCall])
    made: list[PerformedCall] = field(default_factory=list[PerformedCall])
    deps: object = None

    def take(self, what: tuple[str, str]) -> PerformedCall | None:
        """Return a known call, once: a second one of the same kind would be a second effect."""
        for place, call in enumerate(self.known):
            if call.what == what:
                return self.known.pop(place)
        return None


class WatchedTool:
    """A tool that is called through the log of its run, which comes as its `deps`. With `performs`
    it has the rights of the tool itself, otherwise none."""

    def __init__(self, inner: Tool, *, performs: bool) -> None:
        self._inner, self._performs = inner, performs

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """All that the gate asks of a tool beside this is as the tool says."""
        return getattr(self._inner, name)

    @property
    def idempotent(self) -> bool:
        """Return whether it may be called again after a kill: what does nothing may, and nobody is
        asked about it."""
        return not self._performs or self._inner.idempotent

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return the tool's own rights, or none where it is not performed."""
        if not self._performs:
            return ToolRights(wanted=())
        tell: Callable[[Mapping[str, Any]], ToolRights] | None
        tell = getattr(self._inner, "rights", None)
        return ToolRights() if tell is None else tell(arguments)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Answer from the log, make the call, or refuse it."""
        if not isinstance(deps, ToolLog):
            raise ToolFailed(f"{self._inner.spec.name} was called outside of its rollout")
        name, given = self._inner.spec.name, canonical(arguments).decode()
        known = deps.take((name, given))
        if known is not None:
            deps.made.append(known)
            return self._content(known)
        if not self._performs:
            raise ToolFailed(f"{name} was not performed: this agent runs in the shadow of another")
        try:
            content = await self._inner.call(arguments, deps.deps)
        except BaseException as error:
            # It may have had its effect before it failed, so nobody makes it again.
            told = f"{type(error).__name__}: {error}"
            deps.made.append(PerformedCall(name, given, told, is_error=True))
            raise
        deps.made.append(PerformedCall(name, given, content))
        return content

    def _content(self, call: PerformedCall) -> str:
        # Marks that the other path was told it with are put around it anew.
        is_marked = returns_untrusted_text(self._inner)
        content = unmarked(call.content) if is_marked else call.content
        if call.is_error:
            raise _error_of(content)
        return content


def _error_of(content: str) -> ToolFailed:
    """Return an error that the gate tells an agent in the same words as it told the other one: the
    name of its class, and what it says."""
    name, _, reason = content.partition(": ")
    if not reason or not name.isidentifier():
        return ToolFailed(content)
    return type(name, (ToolFailed,), {})(reason)


class AgentPath:
    """An agent as a path. Its copies have names of their own: a run that is resumed finds the
    answers of each by agent and question."""

    def __init__(self, runtime: Runtime, agent: Agent[Any], role: str) -> None:
        if agent.writes_programs or any(hasattr(tool, "process") for tool in agent.tools):
            raise UserError(
                f"agent {agent.name} has tools that run programs, which cannot be run in a shadow; "
                "put the agents that the program asks under a rollout instead"
            )
        self._runtime = runtime
        tools = as_tools(agent.tools)
        self.tool_names = frozenset(tool.spec.name for tool in tools)
        self._agents = {
            performs: replace(
                agent,
                name=f"{agent.name}-{role}{'' if performs else '-shadow'}",
                tools=[WatchedTool(tool, performs=performs) for tool in tools],
                memory=None,
            )
            for performs in (True, False)
        }
        # The budget of a send of a program is for both paths: none may take it all for itself.
        self._in_programs = {
            performs: replace(made, budget=None) for performs, made in self._agents.items()
        }
        self.version = agent_version(runtime, agent)

    async def perform(self, inputs: CallInputs, log: ToolLog) -> PathAnswer:
        if inputs.send is not None:
            return await self._ask_in_program(inputs.send, log, performs=True)
        log.deps = inputs.options.get("deps")
        return await self._ask(inputs.args, {**inputs.options, "deps": log}, performs=True)

    async def shadow(self, inputs: CallInputs, performed: Sequence[PerformedCall]) -> PathAnswer:
        log = ToolLog([*performed])
        if inputs.send is not None:
            return await self._ask_in_program(inputs.send, log, performs=False)
        # What it says is for nobody's ears but the comparison's.
        options = {key: each for key, each in inputs.options.items() if key != "on_chunk"}
        # Nobody is in a hurry for it: where money is reserved by others, it waits.
        options |= {"deps": log, "wait_for_budget": True}
        return await self._ask(inputs.args, options, performs=False)

    async def first_call(self, inputs: CallInputs) -> Money:
        agent = await self._prepared()
        return cost_of_call(agent, self._runtime.model_registry, _prompt_of(inputs))

    async def bound(self, inputs: CallInputs | None) -> AskCost:
        agent, registry = await self._prepared(), self._runtime.model_registry
        if inputs is None:
            return cost_of_ask(agent, registry, "", is_all=False)
        is_all = not (inputs.options.get("files") or inputs.options.get("history"))
        return cost_of_ask(agent, registry, _prompt_of(inputs), is_all=is_all)

    async def _prepared(self) -> Agent[Any]:
        agent = self._agents[False]
        await self._runtime.model_registry.prepare_for(agent)
        return agent

    async def _ask(
        self, args: tuple[Any, ...], options: dict[str, Any], *, performs: bool
    ) -> PathAnswer:
        reply = await self._runtime.ask(self._agents[performs], *args, **options)
        # From what was said and not from the log: in a run that is resumed, calls that are recorded
        # are not made again.
        return PathAnswer(reply.output, _calls_in(reply.messages), int(reply.cost))

    async def _ask_in_program(
        self, send: ProgramSend, log: ToolLog, *, performs: bool
    ) -> PathAnswer:
        """Ask what the program asks, below its process: of the type that it wants, and paid from
        the part of the send."""
        agent, runtime = self._in_programs[performs], self._runtime
        await runtime.model_registry.prepare_for(agent)
        asked = runtime.program.ask_once(
            agent,
            send.prompt,
            deps=log,
            deadline_ms=None,
            timeout_ms=0,
            above=send.span,
            with_events=False,
            place=send.key,
        )
        try:
            reply = await asked
        except BaseException:
            await runtime.program.finished(asked)
            raise
        output = reply.text if send.prompt.answer is None else msgspec.json.decode(reply.text)
        return PathAnswer(output, _calls_in(reply.messages))


def text_in_program(send: ProgramSend, output: object) -> str:
    """Return an answer as the program reads it, or raise what keeps it from fitting the type."""
    wanted = send.prompt.answer
    if wanted is None:
        return output if isinstance(output, str) else to_json(plain(output)).decode()
    text = to_json(plain(output)).decode()
    if (problem := problem_of(wanted, text)) is not None:
        raise ContractViolated(f"its answer is not what the program asks for: {problem}")
    return text


def _prompt_of(inputs: CallInputs) -> str:
    prompt = inputs.args[0] if inputs.args else inputs.options.get("prompt", "")
    return prompt if isinstance(prompt, str) else ""


def calls_before(failure: Exception, log: ToolLog) -> list[PerformedCall]:
    """Return the calls that an agent made before it failed. Those of its log, and what it said: in
    a run that is resumed, calls that are recorded are not made again, and the log has none."""
    said = list(_calls_in(getattr(failure, "messages", ())))
    for call in log.made:
        same = next((place for place, each in enumerate(said) if each.what == call.what), None)
        if same is not None:
            del said[same]
    return [*log.made, *said]


def _calls_in(messages: Conversation | Sequence[Message]) -> tuple[PerformedCall, ...]:
    asked = list[ToolCall]()
    calls = list[PerformedCall]()
    for message in messages:
        if isinstance(message, AssistantMessage):
            asked = [part for part in message.parts if isinstance(part, ToolCall)]
        elif isinstance(message, ToolMessage):
            # By their order: not every provider gives its calls different ids.
            for call, result in zip(asked, message.results, strict=False):
                given = canonical(call.arguments).decode()
                calls.append(PerformedCall(call.name, given, result.content, result.is_error))
    return tuple(calls)


class FunctionPath:
    """An `async def` function as a path."""

    tool_names = frozenset[str]()

    def __init__(self, function: Callable[..., Awaitable[Any]]) -> None:
        self._function = function
        self.version = function_version(function)

    async def perform(self, inputs: CallInputs, log: ToolLog) -> PathAnswer:
        output = await self._function(*inputs.args, **inputs.options)
        if inputs.send is not None:
            text_in_program(inputs.send, output)  # one that does not fit is a failure of this path
        return PathAnswer(output)

    async def shadow(self, inputs: CallInputs, performed: Sequence[PerformedCall]) -> PathAnswer:
        return await self.perform(inputs, ToolLog())

    async def first_call(self, inputs: CallInputs) -> Money:
        return Money(0)

    async def bound(self, inputs: CallInputs | None) -> AskCost:
        return AskCost(Money(0), Money(0))


class PathSource(Protocol):
    """Something that can be put under a rollout and makes its path itself, as a node does."""

    title: str

    def execution_path(self, runtime: Runtime, role: str) -> ExecutionPath:
        """Return its path in this role."""
        ...


def path_of(runtime: Runtime, path: object, role: str) -> ExecutionPath:
    """Return an agent or a function as a path."""
    if hasattr(path, "execution_path"):
        return cast("PathSource", path).execution_path(runtime, role)
    if isinstance(path, Agent):
        return AgentPath(runtime, cast("Agent[Any]", path), role)
    if callable(path) and inspect.iscoroutinefunction(path):
        return FunctionPath(path)
    raise UserError(
        f"the {role} of a rollout is {path!r:.60}; give an Agent, or an `async def` function that "
        "has no effects of its own"
    )


def title_of(path: object) -> str:
    """Return what people know a path by: an agent's name and models, or a function's name."""
    if isinstance(path, Agent):
        agent = cast("Agent[Any]", path)
        models = [one if isinstance(one, str) else one.name for one in agent.models]
        return f"{agent.name} ({', '.join(models)})" if models else agent.name
    if hasattr(path, "execution_path"):
        return cast("PathSource", path).title
    return getattr(path, "__qualname__", type(path).__name__)


_WORDS = 30
"""So many characters of a prompt tell people which one it is."""


def titles_of(reference: object, candidate: object, versions: tuple[str, str]) -> tuple[str, str]:
    """Return what people know both paths by. Where that is alike it says what differs: the prompt,
    or else the versions."""
    one, two = title_of(reference), title_of(candidate)
    if one != two or versions[0] == versions[1]:
        return one, two
    both = cast("tuple[Agent[Any], Agent[Any]]", (reference, candidate))
    if isinstance(reference, Agent) and isinstance(candidate, Agent):
        prompts = [each.instructions for each in both]
        first, second = (_first_words(prompts, each) for each in prompts)
        if first != second:
            return f"{one}, prompt {first}", f"{two}, prompt {second}"
    return f"{one}, version {versions[0][:8]}", f"{two}, version {versions[1][:8]}"


def _first_words(prompts: list[str], prompt: str) -> str:
    """Return how a prompt begins, or goes on where it begins as the other one does."""
    pairs = enumerate(zip(*prompts, strict=False))
    same = next((at for at, (one, two) in pairs if one != two), min(map(len, prompts)))
    begin = 0 if same < _WORDS else prompt.rfind(" ", 0, same) + 1
    said = " ".join(prompt[begin : begin + _WORDS].split())
    before, after = "…" * (begin > 0), "…" * (begin + _WORDS < len(prompt))
    return f'"{before}{said}{after}"' if prompt else "none"
