"""Pipelines that define their own agents: what a file says of an agent, the message that a stage
sends to it, and every problem of such a definition at once (pure).

A stage is run by an agent, or answered by a person:

| an agent has | a task of its stage is                                                           |
|--------------|----------------------------------------------------------------------------------|
| a `model`    | asked of that model, with its instructions and tools, within its bounds          |
| `asks`       | a question to a person, of that kind; the answer is the output of the stage      |
| neither      | no definition: write the model, or leave the agent out if the server knows it    |

The message to either is `prompt`, in which `{input}` is the input of the session and `{STAGE}` the
output of a stage; without a `prompt` it is the input and all outputs there are, each under its
name.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from vegakit.errors import InvalidMoneyError, did_you_mean
from vegakit.money import dollars
from vegakit.policy.interrupts import (
    Approved,
    Declined,
    InterruptAnswer,
    InterruptKind,
    Replied,
)
from vegakit.policy.pipeline import INPUT, Pipeline, Stage
from vegakit.records import to_json

_MOST_TEXT = 100_000
_MOST_TOKENS = 10_000_000
_MOST_STEPS = 1_000
_HOLE = re.compile(r"\{\{(?P<literal>\w[\w.-]*)\}\}|\{(?P<name>\w[\w.-]*)\}")
"""A name to fill in; in two pairs of braces it is a text, and stays with one. Other braces, as of
JSON in a prompt, stay as they are."""
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_ASKABLE = (InterruptKind.CLARIFICATION, InterruptKind.CONFIRMATION, InterruptKind.AGENT_REVIEW)

Description = Annotated[str, Meta(max_length=_MOST_TEXT)]


class OutputField(StrEnum):
    """The types of the fields of an answer."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    TRUTH = "truth"
    TEXTS = "texts"


class AgentDefinition(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An agent as a pipeline defines it. `output` names the fields of its answer and their types;
    without it the answer is text. `budget` caps one task, as in "$0.05". `asks` makes it a person,
    who is asked a question of that kind."""

    model: Annotated[str, Meta(max_length=200)] = ""
    instructions: Description = ""
    prompt: Description = ""
    tools: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    output: Annotated[dict[str, OutputField], Meta(max_length=100)] = {}
    max_tokens: Annotated[int, Meta(ge=1, le=_MOST_TOKENS)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_steps: Annotated[int, Meta(ge=1, le=_MOST_STEPS)] = 8
    budget: Annotated[str, Meta(max_length=40)] = ""
    asks: InterruptKind | None = None


class PipelineDefinition(Pipeline, frozen=True, dict=True, omit_defaults=True):
    """A pipeline with the agents of its stages. One that is not here must be known to the server
    that runs it."""

    agents: dict[str, AgentDefinition] = {}  # noqa: RUF012  (a Struct, which copies it)

    @property
    def pipeline(self) -> Pipeline:
        """Return the pipeline alone, as a session keeps it."""
        return Pipeline(self.stages, self.start, self.bounds, self.resume_at, self.lease_ms)

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Return the agents that stages name, each once."""
        return tuple(dict.fromkeys(stage.agent for stage in self.stages))


def agent_problems(definition: PipelineDefinition) -> list[str]:
    """Return what is wrong with the agents of a pipeline, each with the field it is about and what
    to write. What is wrong with the pipeline itself, `pipeline_problems` says."""
    known = [INPUT, *definition.by_name]
    found = [
        f"agents.{name}.{problem}"
        for name, agent in definition.agents.items()
        for problem in definition_problems(agent, known)
    ]
    used = definition.agent_names
    colons = [
        f"{stage.name}: agent {stage.agent} has a colon, like a model; write agent: {stage.name}, "
        f"and under agents {stage.name}: {{model: {stage.agent}}}"
        for stage in definition.stages
        if ":" in stage.agent
    ]
    found += [
        f"agents.{name}: no stage names it; {did_you_mean(name, used, 'remove it')}"
        for name in definition.agents
        if name not in used
    ]
    return [*colons, *found]


def definition_problems(
    agent: AgentDefinition, known: Collection[str] | None = None
) -> Iterator[str]:
    """Yield what is wrong with a definition; `known` are the names that its prompt may hold, if it
    is of a pipeline."""
    if bool(agent.model) == (agent.asks is not None):
        yield "model: write the model that is asked, or `asks` if a person is; one of the two"
    if agent.asks is not None and agent.asks not in _ASKABLE:
        kinds = ", ".join(_ASKABLE)
        yield f"asks: {agent.asks} is no question to a person; write one of: {kinds}"
    if agent.asks is not None and not (agent.prompt or agent.instructions):
        yield "prompt: write the question, such as: May this be sent? {draft}"
    for found in _HOLE.finditer(agent.prompt):
        hole = found["name"]
        if known is not None and hole is not None and hole not in known:
            yield f"prompt: {{{hole}}} is no stage; {did_you_mean(hole, known)}"
    for field in agent.output:
        if not _FIELD.fullmatch(field):
            yield f"output: {field!r} is no name of a field; write letters, digits and '_'"
    try:
        _ = dollars(agent.budget) if agent.budget else None
    except InvalidMoneyError as error:
        yield f"budget: {error}"


def stage_prompt(agent: AgentDefinition | None, given: object, outputs: Mapping[str, Any]) -> str:
    """Return the message of a stage: the agent's prompt with its holes filled, or all there is.
    The output of a stage that has not run is empty."""
    if agent is not None and (agent.prompt or agent.asks is not None):
        known = {INPUT: given, **outputs}
        filled = agent.prompt or agent.instructions
        return _HOLE.sub(
            lambda hole: (
                as_text(known.get(hole["name"], "")) if hole["name"] else f"{{{hole['literal']}}}"
            ),
            filled,
        )
    if not outputs:
        return as_text(given)
    parts = {INPUT: given, **outputs}
    return "\n\n".join(f"## {name}\n\n{as_text(value)}" for name, value in parts.items())


def stage_agent(stage: Stage) -> str:
    """Return the name of the agent that a stage asks: one of its own if it narrows the tools."""
    return stage.agent if stage.tools is None else f"{stage.agent}.{stage.name}"


def answer_output(answer: InterruptAnswer) -> Any:  # noqa: ANN401
    """Return the output of a stage that a person answered."""
    match answer:
        case Replied(value):
            return value
        case Approved():
            return {"approved": True}
        case Declined(why):
            return {"approved": False, "why": why}


def as_text(value: object) -> str:
    """Return a value as an agent reads it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()
