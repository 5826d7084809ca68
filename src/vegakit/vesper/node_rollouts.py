"""A node under a rollout: its paths are the paths of the rollout, under its own contract (host).

    async with node_rollout(rt, node, candidate=node_agent(node, model="fast")) as pay:
        outcome = await pay(source=100, target=0, fees=0, amount=10)

| path        | given as                    | what runs                                          |
|-------------|-----------------------------|----------------------------------------------------|
| by its name | `"python"`, `"direct"`      | the generated Python, the interpreter              |
| an agent    | `node_agent(node, model=…)` | a model, told the intent, the types and the rules  |
| a function  | `async def` of its inputs   | your code: returns outputs, raises `NodeFailed`    |

All of them get the same inputs and give a `NodeOutcome`, so that an error of the node is an answer
that is compared, and no failure of a path. Inputs that the contract refuses are the caller's fault:
they are refused before any path is asked, and bring no evidence. After a run the contract decides:

| reference   | candidate   | what follows                                                         |
|-------------|-------------|----------------------------------------------------------------------|
| holds       | holds       | they are compared                                                    |
| holds       | breaks it   | a breach: a difference, and the candidate is demoted before the next |
|             |             | call, also where the reference is noisy, and not promoted again      |
| breaks it   | holds       | nothing is said of the candidate; a caller gets the reference's error|
| breaks it   | breaks it   | where the candidate answered, a breach; a caller gets the reference's|

The rollout has the name of the node's id, which `vega rollout status`, `promote` and `demote` take.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, cast

from vegakit.contracts import (
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    NodeValueError,
    Rollout,
    RolloutRule,
    StageChange,
    first_broken,
    read_value,
    show_type,
    show_value,
)
from vegakit.errors import ContractViolated, UserError
from vegakit.events import CallKind
from vegakit.host import Agent, AskCost
from vegakit.money import Money
from vegakit.ports import Model
from vegakit.records import digest128
from vegakit.sdk import Runtime
from vegakit.vesper.comparisons import ComparedVerdict, Comparison, Same, comparison_of, exact
from vegakit.vesper.node_files import NodeFile
from vegakit.vesper.node_paths import NodePath
from vegakit.vesper.node_tools import INLINE_COST, executed, outputs_type, path_named, record_type
from vegakit.vesper.paths import (
    AgentPath,
    CallInputs,
    ExecutionPath,
    FunctionPath,
    PathAnswer,
    PerformedCall,
    ToolLog,
    title_of,
)
from vegakit.vesper.repository import compiler_version, node_digest
from vegakit.vesper.rollouts import RolledOut, rollout

NodeFunction: TypeAlias = Callable[..., Awaitable[Mapping[str, Any]]]


class NodeFailed(UserError):  # noqa: N818  (as a node ends, in its own words)
    """A function that stands for a node ends with one of the node's error codes."""

    def __init__(self, error_code: str) -> None:
        super().__init__(error_code)
        self.error_code = error_code


# The agent path.


def node_agent(
    node: NodeFile,
    model: str | Model | Sequence[str | Model] = "smart",
    *,
    instructions: str = "",
    **settings: Any,  # noqa: ANN401  (those of an agent)
) -> Agent[Any]:
    """Return an agent that does what a node is for, with typed outputs. `instructions` are told
    beside what the node says of itself; `settings` are those of an agent, such as a budget."""
    program = node.program
    return Agent(
        program.node_id,
        model=model,
        instructions="\n\n".join(filter(None, [_told(program), instructions])),
        output_type=_answer_type(program),
        **settings,
    )


def _answer_type(program: NodeProgram) -> Any:  # noqa: ANN401
    outputs = outputs_type(program)
    if not program.error_codes:
        return outputs
    codes: Any = Literal[program.error_codes]
    fields = {"outputs": outputs | None, "error_code": codes | None}
    return record_type(f"{outputs.__name__}Answer", fields)


def _told(program: NodeProgram) -> str:
    """Return what an agent is told of the node that it stands for."""
    rows = [
        program.intent,
        "You get the inputs as JSON, and answer with the outputs.",
        "Decimals are texts with all of their places.",
        "Inputs:",
        *(f"- {each.name}: {show_type(each.type)}" for each in program.inputs),
        "Outputs:",
        *(f"- {name}: {show_type(kind)}" for name, kind in program.outputs),
    ]
    if program.after:
        rows += ["These rules hold of every answer; old(x) is the input x:"]
        rows += [f"- {each.text}" for each in program.after]
    if program.error_codes:
        codes = ", ".join(program.error_codes)
        rows.append(f"Where there is no such answer give an error_code and no outputs: {codes}.")
    return "\n".join(rows)


# Paths, under the contract.


class NodeSource:
    """One path of a node, as a rollout takes it."""

    def __init__(self, node: NodeFile, path: "str | Agent[Any] | NodeFunction") -> None:
        self._node, self._path = node, path
        self.title = path if isinstance(path, str) else title_of(path)

    def execution_path(self, runtime: Runtime, role: str) -> ExecutionPath:
        """Return the path, which checks what it gives by the contract."""
        if isinstance(self._path, str):
            inner = _NodePathRun(self._node, path_named(self._path, self._node.program))
            return ContractPath(self._node, inner, role, self.title, runtime)
        if isinstance(self._path, Agent):
            agent = _AgentRun(self._node, AgentPath(runtime, self._path, role))
            return ContractPath(self._node, agent, role, self.title, runtime)
        function = _FunctionRun(self._node, self._path)
        return ContractPath(self._node, function, role, self.title, runtime)


class _NodePathRun(FunctionPath):
    """A path that a node has by itself. Its answers change with the node and the compiler."""

    def __init__(self, node: NodeFile, path: NodePath) -> None:
        async def run(**inputs: Any) -> NodeOutcome:  # noqa: ANN401
            if node.program.cost <= INLINE_COST:
                return path.run(inputs)
            return await asyncio.to_thread(path.run, inputs)

        super().__init__(run)
        name = type(path).__name__
        self.version = digest128([name, node_digest(node), compiler_version()])


class _FunctionRun(FunctionPath):
    """A function that stands for a node."""

    def __init__(self, node: NodeFile, function: NodeFunction) -> None:
        codes = node.program.error_codes

        async def run(**inputs: Any) -> NodeOutcome:  # noqa: ANN401
            try:
                return NodeOutcome(NodeStatus.SUCCESS, dict(await function(**inputs)))
            except NodeFailed as failed:
                if failed.error_code not in codes:
                    raise ContractViolated(
                        f"{failed.error_code!a} is no error code of {node.program.node_id}"
                    ) from None
                return NodeOutcome(NodeStatus.ERROR, None, failed.error_code)

        super().__init__(run)
        self.version = digest128([FunctionPath(function).version, node_digest(node)])


class _AgentRun:
    """An agent that stands for a node: it gets the inputs as JSON, and what it costs is counted as
    that of any agent."""

    def __init__(self, node: NodeFile, inner: AgentPath) -> None:
        self._node, self._inner = node.program, inner
        self.version = digest128([inner.version, node_digest(node)])
        self.tool_names = inner.tool_names

    async def perform(self, inputs: CallInputs, log: ToolLog) -> PathAnswer:
        return self._outcome(await self._inner.perform(self._asked(inputs), log))

    async def shadow(self, inputs: CallInputs, performed: Sequence[PerformedCall]) -> PathAnswer:
        return self._outcome(await self._inner.shadow(self._asked(inputs), performed))

    async def first_call(self, inputs: CallInputs) -> Money:
        return await self._inner.first_call(self._asked(inputs))

    async def bound(self, inputs: CallInputs | None) -> AskCost:
        return await self._inner.bound(None if inputs is None else self._asked(inputs))

    def _asked(self, inputs: CallInputs) -> CallInputs:
        return CallInputs((json.dumps(dict(inputs.options), ensure_ascii=False),), {})

    def _outcome(self, answer: PathAnswer) -> PathAnswer:
        said = cast("dict[str, Any]", answer.output)
        if not self._node.error_codes:
            return answer._replace(output=NodeOutcome(NodeStatus.SUCCESS, said))
        outputs, code = said.get("outputs"), said.get("error_code")
        if (outputs is None) == (code is None):
            raise ContractViolated(f"{self._node.node_id}: neither outputs nor an error, or both")
        if code is not None:
            return answer._replace(output=NodeOutcome(NodeStatus.ERROR, None, code))
        return answer._replace(output=NodeOutcome(NodeStatus.SUCCESS, outputs))


class ContractPath:
    """A path whose answers are held to the contract of a node: each run is a span of its own, and
    outputs that break the contract are no answer but a `ContractViolated`."""

    def __init__(
        self, node: NodeFile, inner: ExecutionPath, role: str, title: str, runtime: Runtime
    ) -> None:
        self._node, self._inner, self._runtime = node.program, inner, runtime
        self._role, self._title = role, title
        self.version, self.tool_names = inner.version, inner.tool_names
        self.first_call, self.bound = inner.first_call, inner.bound

    async def perform(self, inputs: CallInputs, log: ToolLog) -> PathAnswer:
        """Answer, and note in the log what is performed."""
        return await self._held(inputs, self._inner.perform(inputs, log))

    async def shadow(self, inputs: CallInputs, performed: Sequence[PerformedCall]) -> PathAnswer:
        """Answer without performing anything."""
        return await self._held(inputs, self._inner.shadow(inputs, performed))

    async def _held(self, inputs: CallInputs, run: Awaitable[PathAnswer]) -> PathAnswer:
        with executed(self._node, self._role, self._runtime.tracer, counts=False) as ran:
            try:
                answer = await run
                outcome = ran.ended(cast("NodeOutcome", answer.output))
                held = held_to_contract(self._node, inputs.options, outcome)
            except ContractViolated as broken:
                if self._role == "candidate":
                    tell_divergence(self._runtime, self._node, str(broken))
                raise
        return answer._replace(output=held)


def tell_divergence(runtime: Runtime, node: NodeProgram, reason: str) -> None:
    """Record in the trace that the candidate of a node is not what its reference is."""
    event = runtime.tracer.begin(CallKind.EVENT, "divergence_detected")
    event.attributes |= {
        "sir.node_id": node.node_id,
        "sir.node_type": node.kind,
        "sir.divergence": True,
        "sir.reason": reason,
    }
    runtime.tracer.end(event)


class WatchedComparison(Comparison, frozen=True):
    """A comparison that tells of each difference."""

    on_difference: Callable[[], object] = lambda: None

    async def verdict(
        self, runtime: Runtime, reference: object, candidate: object
    ) -> ComparedVerdict:
        """Compare, and tell if both are not the same."""
        found = await super().verdict(runtime, reference, candidate)
        if not found.is_same:
            self.on_difference()
        return found


def _watched(same: Comparison, tell: Callable[[], object]) -> Comparison:
    fields = {name: getattr(same, name) for name in same.__struct_fields__}
    return WatchedComparison(**fields, on_difference=tell)


def held_to_contract(
    node: NodeProgram, inputs: Mapping[str, Any], outcome: NodeOutcome
) -> NodeOutcome:
    """Return an outcome with its outputs as they are written, or raise `ContractViolated` if the
    node promises otherwise. A step is no part of it: only some paths have steps."""
    if outcome.status is NodeStatus.BROKEN:
        raise ContractViolated(f"{node.node_id}: {outcome.reason} does not hold")
    if outcome.status is not NodeStatus.SUCCESS:
        return NodeOutcome(outcome.status, None, outcome.reason)
    values = _outputs(node, outcome.outputs or {})
    given = node.read_inputs(inputs)
    names = {**given, **{f"old({name})": given[name] for name in node.changed}, **values}
    if broken := first_broken(node.after, names):
        raise ContractViolated(f"{node.node_id}: {broken.kind}: {broken.text} does not hold")
    shown = {name: show_value(kind, values[name]) for name, kind in node.outputs}
    return NodeOutcome(NodeStatus.SUCCESS, shown)


def _outputs(node: NodeProgram, given: Mapping[str, Any]) -> dict[str, Any]:
    kinds = dict(node.outputs)
    if given.keys() != kinds.keys():
        raise ContractViolated(
            f"{node.node_id} gives {', '.join(kinds)}; got {', '.join(given) or 'nothing'}"
        )
    try:
        return {name: read_value(kind, given[name], name) for name, kind in kinds.items()}
    except NodeValueError as error:
        raise ContractViolated(f"{node.node_id}: {error}") from None


# The rollout.


class NodeRollout:
    """A node that is called as its reference is, while its candidate is compared. Leaving its block
    waits for the comparisons that are in flight."""

    def __init__(self, node: NodeProgram, rolled: "RolledOut[..., NodeOutcome]") -> None:
        self.node, self.rolled = node, rolled

    async def __aenter__(self) -> Self:
        await self.rolled.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.rolled.__aexit__(kind, error, trace)

    async def __call__(self, **inputs: Any) -> NodeOutcome:  # noqa: ANN401
        """Answer a call as the stage of the rollout says."""
        return await self.rolled(**self._accepted(inputs))

    async def check(self, **inputs: Any) -> Any:  # noqa: ANN401
        """Compare both paths on inputs that were made for that, counted apart from production."""
        return await self.rolled.check(**self._accepted(inputs))

    def status(self) -> Rollout:
        """Return the state of the rollout, as this process knows it."""
        return self.rolled.status()

    def _accepted(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs, each as it is written; whoever calls with others is told, no path."""
        values = self.node.read_inputs(inputs)
        if broken := first_broken(self.node.before, values):
            raise ContractViolated(
                f"{self.node.node_id}: {broken.kind}: {broken.text} does not hold"
            )
        return self.node.show_inputs(values)


def node_rollout(
    runtime: Runtime,
    node: NodeFile,
    *,
    candidate: "str | Agent[Any] | NodeFunction",
    reference: "str | Agent[Any] | NodeFunction" = "python",
    compare: Comparison | Same | None = None,
    rule: RolloutRule | None = None,
    on_change: Callable[[StageChange], object] = lambda _change: None,
    budget: str | float | None = None,
    webhook: str | None = None,
) -> NodeRollout:
    """Put a path of a node beside the one that is trusted. Each is `"python"`, `"direct"`,
    `"native"`, an agent of `node_agent(…)`, or an `async def` function. `compare` is of two
    outcomes, as records of `status`, `outputs` and `reason`; the others are those of `rollout`."""
    given = exact() if compare is None else comparison_of(compare)
    same = _watched(given, lambda: tell_divergence(runtime, node.program, "the outcomes differ"))
    rolled: RolledOut[..., NodeOutcome] = rollout(
        runtime,
        node.program.node_id,
        reference=cast("Any", NodeSource(node, reference)),
        candidate=cast("Any", NodeSource(node, candidate)),
        compare=same,
        rule=rule or RolloutRule(),
        on_change=on_change,
        budget=budget,
        webhook=webhook,
    )
    return NodeRollout(node.program, rolled)
