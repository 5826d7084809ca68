"""Files of pipelines: YAML or JSON, read strictly, with the line of what is wrong.

    stages:
      - {name: plan, agent: planner, default_next: write}
      - {name: write, agent: writer}
    agents:
      planner: {model: fast, prompt: "Plan a text about {input}."}
      writer: {model: fast, prompt: "Write it: {plan}", budget: "$0.05"}

YAML is read as a file of tools is: what could be read in two ways is refused. JSON needs no extra,
and says fields instead of lines.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from vegakit.errors import UserError
from vegakit.money import dollars
from vegakit.policy import (
    AgentDefinition,
    PipelineDefinition,
    agent_problems,
    pipeline_problems,
    stage_agent,
)
from vegakit.records import UNREADABLE_JSON
from vegakit.tools import ToolFileProblem, YamlNode, convert_node, read_yaml

if TYPE_CHECKING:
    from vegakit.lang import AgentSpec, Module

PIPELINE_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_BYTES = 256 * 1024
_NO_LINE = 0


class PipelineFile(NamedTuple):
    """A pipeline as its file describes it, with the line of each stage; 0 where it is not known."""

    definition: PipelineDefinition
    lines: dict[str, int]


def read_pipeline(path: str | Path) -> PipelineFile:
    """Read the file of a pipeline, or raise `UserError` with everything that is wrong in it."""
    path = Path(path)
    node = _node(path)
    try:
        definition = convert_node(PipelineDefinition, node)
    except ToolFileProblem as problem:
        raise UserError(_place(path, problem.line) + str(problem)) from None
    lines = _stage_lines(node)
    found = [*pipeline_problems(definition), *agent_problems(definition)]
    if found:
        told = (_place(path, _line_of(problem, node, lines)) + problem for problem in found)
        raise UserError("\n".join(told))
    return PipelineFile(definition, lines)


def pipeline_module(path: Path, file: PipelineFile) -> "Module":
    """Return the agents of a pipeline as the module of a program, whose main takes the input. What
    main does is no code: the host walks through the pipeline."""
    from vegakit.lang import ANY, STR, Function, Module, Rights

    definition, specs = file.definition, dict[str, "AgentSpec"]()
    for stage in definition.stages:
        agent, name = definition.agents.get(stage.agent), stage_agent(stage)
        if agent is None:
            raise UserError(
                f"{_place(path, file.lines[stage.name])}{stage.name}: agent {stage.agent} is not "
                "defined in this file, and only a kernel may know others; define it under `agents`"
            )
        if agent.asks is None:
            specs[name] = agent_spec(name, agent, stage.tools)
    main = Function("main", path.name, (STR,), ANY, 1, (), (), (), (), 0, ("input",))
    none = ((), (), (), ())
    return Module(path.name, 0, (main,), (), (), (Rights(),), (*specs.values(),), *none)


def agent_spec(
    name: str, agent: AgentDefinition, tools: Collection[str] | None = None
) -> "AgentSpec":
    """Return an agent of a pipeline as one of a program; `tools` are those that it may use of its
    own."""
    from vegakit.lang import AgentSpec

    return AgentSpec(
        name,
        agent.model,
        agent.instructions,
        agent.temperature,
        agent.max_tokens,
        agent.max_steps,
        dollars(agent.budget) if agent.budget else None,
        tools=tuple(tool for tool in agent.tools if tools is None or tool in tools),
    )


def pipeline_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the file of a pipeline, for editors and others."""
    made = msgspec.json.schema(PipelineDefinition)
    for table in made["$defs"].values():
        if table.get("type") == "object":
            table["additionalProperties"] = False
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pipeline.yaml"}
    return msgspec.json.decode(msgspec.json.encode(named | made))


def _node(path: Path) -> YamlNode:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; correct its name") from None
    if not content.strip() or len(content) > _MOST_BYTES:
        raise UserError(
            f"{path} has {len(content)} bytes; write `stages:` and `agents:` in at most "
            f"{_MOST_BYTES}"
        )
    try:
        if path.suffix == ".json":
            return _of_json(msgspec.json.decode(content))
        return read_yaml(content)
    except UNREADABLE_JSON as error:
        raise UserError(f"{path} is no JSON: {error}; correct it there") from None
    except ToolFileProblem as problem:
        raise UserError(_place(path, problem.line) + str(problem)) from None


def _of_json(value: object) -> YamlNode:
    """Return a value as nodes. What is null is as if it were not there."""
    if isinstance(value, dict):
        return YamlNode(
            _NO_LINE,
            {
                key: _of_json(part)
                for key, part in cast("dict[str, object]", value).items()
                if part is not None
            },
        )
    if isinstance(value, list):
        return YamlNode(_NO_LINE, [_of_json(part) for part in cast("list[object]", value)])
    return YamlNode(_NO_LINE, cast("Any", value))


def _place(path: Path, line: int) -> str:
    return f"{path.name}:{line}: " if line else f"{path.name}: "


def _stage_lines(node: YamlNode) -> dict[str, int]:
    stages = node.child("stages").value
    parts: Iterable[YamlNode] = stages if isinstance(stages, list) else ()
    return {str(part.child("name").value): part.line for part in parts}


def _line_of(problem: str, node: YamlNode, lines: dict[str, int]) -> int:
    """Return the line that a problem begins with the name of: a stage, or a field of an agent."""
    named = problem.partition(":")[0]
    if named in lines:
        return lines[named]
    found = node
    for key in named.split("."):
        found = found.child(key)
    return found.line
