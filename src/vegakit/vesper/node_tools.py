"""A node as it is called: a function of Python, a tool of agents, a function of programs (host).

    pay = callable_node(load_node(Path("transfer.vsp")))
    pay(source=100, target=0, fees=0, amount=10)          # its outputs, or an error
    Agent("clerk", tools=[pay.tool()])                    # schema by its types, rights as declared
    load("month.vega", tools=[pay.tool()])                # there: node pay = "transfer_v1"

| a run ends with | a caller gets                                                     |
|-----------------|-------------------------------------------------------------------|
| `success`       | the outputs                                                       |
| `error`, `trap` | `ToolFailed`, which begins with the error code or the trap        |
| `broken`        | `ContractViolated`, with the clause                               |
| unfit inputs    | `NodeValueError`, with the input, what came and what is wanted    |

Every call is a span `sir.execute` of the run that it is made in, and is counted. A node without
capabilities has no effects, so its results may be kept: under a digest of the node, of all that it
depends on and of the compiler, and of the inputs as they were read. Nothing kept is ever wrong
because one of these has changed; it is only not found any more.
"""

import asyncio
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from vegakit.contracts import (
    ArrayType,
    BooleanType,
    BytesType,
    DecimalType,
    EnumType,
    IntegerType,
    MapType,
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    NodeType,
    RecordType,
    SetType,
    TextType,
    TimestampType,
    show_type,
)
from vegakit.errors import ContractViolated, ToolFailed, UserError, did_you_mean
from vegakit.records import digest128, from_json, to_json
from vegakit.sdk import nodes_in, project_root
from vegakit.telemetry import Tracer, current_tracer
from vegakit.tools import FunctionTool, ToolContext
from vegakit.vesper.monitoring import RolloutMetrics
from vegakit.vesper.native import NativePath
from vegakit.vesper.node_files import NODE_SUFFIX, NodeFile
from vegakit.vesper.node_host import grant_of
from vegakit.vesper.node_paths import DirectPath, NodePath, PythonPath
from vegakit.vesper.repository import NodeRepository, capabilities_of, compiler_version, node_digest

NODE_PATHS: dict[str, Callable[[NodeProgram], NodePath]] = {
    "python": PythonPath,
    "direct": DirectPath,
    "native": NativePath,
}
"""The paths that a node has by itself, by the names that people type."""
INLINE_COST = 2_000
"""Operations that may be run on the loop: below a few milliseconds. More of them have a thread."""


def path_named(name: str, node: NodeProgram) -> NodePath:
    """Return a path of a node by its name."""
    if name not in NODE_PATHS:
        raise UserError(f"a node has no path {name[:40]!a}; {did_you_mean(name, NODE_PATHS)}")
    return NODE_PATHS[name](node)


# Results that are kept.


class ResultCache:
    """Outcomes of nodes without effects, in memory: the ones that were used last."""

    def __init__(self, max_entries: int = 10_000) -> None:
        if max_entries < 1:
            raise UserError("a cache of results keeps 1 or more; give max_entries=1000")
        # As JSON: nobody who changes what they were given changes what is kept.
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._most = max_entries
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str) -> NodeOutcome | None:
        """Return what is kept under a key."""
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return from_json(NodeOutcome, found)

    def put(self, key: str, outcome: NodeOutcome) -> None:
        """Keep an outcome; the one that was not used for longest may go for it."""
        self._kept[key] = to_json(outcome)
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


# A node that is called.


class CallableNode:
    """A node with the path that runs it. `digest` is of all that its results depend on."""

    def __init__(
        self, file: NodeFile, path: str, digest: str, cache: ResultCache | None = None
    ) -> None:
        self.file, self.node, self.path = file, file.program, path
        self.digest = digest
        self.is_pure = not capabilities_of(file) and self.node.only_evaluates
        self._runner = path_named(path, self.node)
        self._cache = cache if self.is_pure else None

    def __call__(self, **inputs: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return the outputs by their names, or raise what the run ended with."""
        return outputs_of(self.node, self.outcome(inputs))

    def outcome(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node, or return what is kept of an equal run."""
        key, found = self._kept(inputs)
        if found is None:
            with executed(self.node, self.path) as run:
                found = run.ended(self._runner.run(inputs))
            self._keep(key, found)
        return found

    async def answer(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Do the same without keeping the loop from others: a large node runs in a thread."""
        if self.node.cost <= INLINE_COST:
            return self.outcome(inputs)
        key, found = self._kept(inputs)
        if found is None:
            with executed(self.node, self.path) as run:
                found = run.ended(await asyncio.to_thread(self._runner.run, inputs))
            self._keep(key, found)
        return found

    def _kept(self, inputs: Mapping[str, Any]) -> tuple[str, NodeOutcome | None]:
        if self._cache is None:
            return "", None
        # As they were read: "1.5" and "1.50" of two places are the same input.
        read = self.node.show_inputs(self.node.read_inputs(inputs))
        key = digest128([self.digest, self.path, read])
        return key, self._cache.get(key)

    def _keep(self, key: str, outcome: NodeOutcome) -> None:
        if self._cache is not None:
            self._cache.put(key, outcome)

    def tool(self, name: str = "") -> "NodeTool":
        """Return the node as a tool: of agents, and of programs that name it."""
        return NodeTool(self, name or self.node.node_id)


def callable_node(
    node: NodeFile,
    *,
    path: str = "python",
    cache: ResultCache | None = None,
    repository: NodeRepository | None = None,
) -> CallableNode:
    """Return a node that can be called. With the repository that it is of, what is kept of it is
    good until one of its dependencies changes, too."""
    if repository is None:
        digest = digest128([compiler_version(), node_digest(node)])
    else:
        digest = repository.digest(node.program.node_id)
    return CallableNode(node, path, digest, cache)


def outputs_of(node: NodeProgram, outcome: NodeOutcome) -> dict[str, Any]:
    """Return the outputs of a run, or raise what it ended with."""
    where = f" at step {outcome.step}" if outcome.step else ""
    match outcome.status:
        case NodeStatus.SUCCESS:
            return dict(outcome.outputs or {})
        case NodeStatus.BROKEN:
            raise ContractViolated(f"{node.node_id}: {outcome.reason} does not hold{where}")
        case NodeStatus.ERROR | NodeStatus.TRAP:
            raise ToolFailed(
                f"{outcome.reason}: {node.node_id} ends with this {outcome.status}{where}"
            )


class NodeTool(FunctionTool):
    """A node as a tool. Its rights are what the node declares: one without effects needs none, so
    nobody is asked about it, and it may be called again after a kill."""

    def __init__(self, node: CallableNode, name: str) -> None:
        grant = grant_of([*capabilities_of(node.file)])
        super().__init__(
            _function_of(node, name),
            name=name,
            idempotent=node.is_pure,
            context=ToolContext(Path(), grant),
        )
        self.node_id, self.is_pure = node.node.node_id, node.is_pure


def _function_of(node: CallableNode, name: str) -> Callable[..., Any]:
    """Return a function with the types of a node, as tools are made of."""
    program = node.node

    async def run(**inputs: Any) -> dict[str, Any]:  # noqa: ANN401
        return outputs_of(program, await node.answer(inputs))

    hints = {each.name: python_type(each.type) for each in program.inputs}
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if each.has_default else inspect.Parameter.empty,
        )
        for each in program.inputs
    ]
    run.__name__ = name
    run.__doc__ = _told(program)
    run.__annotations__ = {**hints, "return": outputs_type(program)}
    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return run


def _told(program: NodeProgram) -> str:
    """Return what a model is told of a node: what it is for, and how it may end."""
    rules = [f"- {each.text}" for each in program.before]
    codes = ", ".join(program.error_codes)
    return "\n".join(
        [
            program.intent,
            *([f"It is refused unless:\n{chr(10).join(rules)}"] if rules else []),
            *([f"It may end with one of these errors: {codes}."] if codes else []),
        ]
    )


def program_nodes(program: str | PathLike[str], names: Iterable[str] = ()) -> list[NodeTool]:
    """Return the nodes that a program declares, as `load(…, tools=…)` takes them: those of its own
    folder, and of the folders `nodes` there and at the root of its project. One that is not there
    is left out, and told where the program is checked."""
    path = Path(program).resolve()
    wanted = [*(names or nodes_in(path))]
    repositories = [
        NodeRepository.of_files(path.parent, sorted(path.parent.glob(f"*{NODE_SUFFIX}"))),
        *(NodeRepository.at(each) for each in _node_folders(path.parent, project_root(path))),
    ]
    made = list[NodeTool]()
    for name in wanted:
        for repository in repositories:
            if name in repository.nodes:
                node = callable_node(repository.nodes[name], repository=repository)
                made.append(node.tool())
                break
        else:
            # A file that cannot be read may be the one that is meant.
            if wrong := [error for each in repositories for error in each.wrong]:
                raise wrong[0]
    return made


def _node_folders(*places: Path) -> list[Path]:
    folders = dict.fromkeys(place / "nodes" for place in places)
    return [each for each in folders if any(each.rglob(f"*{NODE_SUFFIX}"))]


# Types of nodes as types of Python, which schemas are made of.


def python_type(kind: NodeType) -> Any:  # noqa: ANN401, C901  (one row a type)
    """Return the type of a value as JSON has it. Decimals are texts: a number would be a float."""
    from pydantic import Field

    match kind:
        case TextType(max_length=most):
            return Annotated[str, Field(max_length=most)]
        case IntegerType():
            return int
        case BooleanType():
            return bool
        case DecimalType(scale=scale):
            said = f'a decimal of at most {scale} places, as a text: "12.50"'
            return Annotated[
                str, Field(pattern=r"^-?[0-9]{1,38}(\.[0-9]{1,38})?$", description=said)
            ]
        case BytesType():
            return Annotated[str, Field(description="bytes, in base64")]
        case TimestampType():
            return Annotated[str, Field(description="an instant: 2026-01-31T12:00:00Z")]
        case EnumType(choices=choices):
            return Literal[choices]
        case ArrayType(item=item, max_items=most) | SetType(item=item, max_items=most):
            return Annotated[list[python_type(item)], Field(max_length=most)]
        case MapType(value=value):
            return dict[str, python_type(value)]
        case RecordType(name=name, fields=fields):
            inner = {field: python_type(part) for field, part in fields}
            return record_type(name or "Record", inner)


def record_type(name: str, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return a record of these fields and no others."""
    from pydantic import ConfigDict, with_config
    from typing_extensions import TypedDict  # typing's own is too old before 3.12

    make: Any = TypedDict
    made = make(name, dict(fields))
    return with_config(ConfigDict(extra="forbid"))(made)


def outputs_type(program: NodeProgram) -> Any:  # noqa: ANN401
    """Return the outputs of a node as a record."""
    words = program.node_id.split("_")
    name = "".join(word.capitalize() for word in words)
    return record_type(name, {field: python_type(kind) for field, kind in program.outputs})


# Spans and metrics, by the names that monitoring of nodes uses.


class NodeRun:
    """One run of a node, while it lasts. `error` is what it ended with, if not with outputs."""

    error = ""

    def ended(self, outcome: NodeOutcome) -> NodeOutcome:
        """Note what it ended with, and return that."""
        if outcome.status is not NodeStatus.SUCCESS:
            # Not the words of a clause: labels of metrics are a closed set.
            is_closed = outcome.status in (NodeStatus.ERROR, NodeStatus.TRAP)
            self.error = outcome.reason if is_closed else str(outcome.status)
        return outcome


@contextmanager
def executed(
    node: NodeProgram, path: str, tracer: Tracer | None = None, *, counts: bool = True
) -> Generator[NodeRun]:
    """Record a block as a run of a node: a span, its duration, and what it ended with. Without a
    tracer it is that of the run of Vega that this is called in; outside of one nothing is recorded.
    Without `counts` somebody else counts it, as rollouts do."""
    run, began = NodeRun(), time.monotonic()
    tracer = tracer or current_tracer()
    with nullcontext() if tracer is None else tracer.span("sir.execute") as span:
        try:
            yield run
        except Exception as error:
            run.error = type(error).__name__
            raise
        finally:
            ms = (time.monotonic() - began) * 1000
            if span is not None:
                span.attributes |= _attributes(node, path, ms, run.error)
            if tracer is not None and counts:
                _count(tracer, node, path, ms, run.error)


def _attributes(node: NodeProgram, path: str, ms: float, error: str) -> dict[str, Any]:
    known = {
        "sir.node_id": node.node_id,
        "sir.node_type": node.kind,
        "sir.intent": node.intent,
        "sir.execution_path": path,
        "sir.duration_ms": round(ms, 6),
    }
    return {**known, "sir.error": error} if error else known


def _count(tracer: Tracer, node: NodeProgram, path: str, ms: float, error: str) -> None:
    sources: dict[str, Any] | None = getattr(tracer.sink, "metric_sources", None)
    if sources is None:
        return
    metrics = RolloutMetrics.among(sources)
    metrics.count(node.node_id, path, ms)
    if error:
        metrics.count_error(node.node_id, path, error)


def show_signature(program: NodeProgram) -> str:
    """Return what a node takes and gives, in a line."""
    inputs = ", ".join(
        f"{each.name}{'?' if each.has_default else ''}: {show_type(each.type)}"
        for each in program.inputs
    )
    outputs = ", ".join(f"{name}: {show_type(kind)}" for name, kind in program.outputs)
    return f"{program.node_id}({inputs}) -> {{{outputs}}}"
