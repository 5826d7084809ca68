"""Pipelines as programs of the machine: the session decides, agents and people are asked as in any
program. The state goes through JSON after every step.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.program.rooms import Room, agent, says
from vegakit.effects import AskHuman, CallModel
from vegakit.errors import ErrorClass, ProgramChanged
from vegakit.events import Answered, Failed
from vegakit.money import dollars
from vegakit.policy import (
    AgentDefinition,
    Condition,
    InterruptKind,
    Join,
    OutputField,
    PipelineBounds,
    PipelineDefinition,
    RoutingRule,
    Stage,
)
from vegakit.program import Machine, PipelineBody, Printed, ProcessSpec
from vegakit.sdk import PipelineFile, pipeline_module

WRITER = AgentDefinition("fast", prompt="Write about {input}")
AGAIN = RoutingRule("write", Condition.EQUALS, "verdict", "again")
LOOP = PipelineDefinition(
    (
        Stage("write", "writer", default_next="check"),
        Stage("check", "checker", routing=(AGAIN,)),
    ),
    bounds=PipelineBounds(max_iterations=2),
    agents={
        "writer": AgentDefinition("fast", prompt="{input}, better than {write}"),
        "checker": AgentDefinition("fast", output={"verdict": OutputField.TEXT}),
    },
)
SIDE_BY_SIDE = PipelineDefinition(
    (Stage("a", "writer"), Stage("b", "writer"), Stage("both", "joiner", requires=("a", "b"))),
    start=("a", "b"),
    agents={
        "writer": AgentDefinition("fast", prompt="{input}"),
        "joiner": AgentDefinition("fast", prompt="{a} and {b}"),
    },
)


def body(definition: PipelineDefinition, digest: str = "") -> PipelineBody:
    lines = {stage.name: 0 for stage in definition.stages}
    module = pipeline_module(Path("p.yaml"), PipelineFile(definition, lines))
    stateless = {spec.name: ProcessSpec(spec.name) for spec in module.agents}
    return PipelineBody(module, 0, stateless=stateless, digest=digest, definition=definition)


def begun(definition: PipelineDefinition, **spec: Any) -> tuple[Room, str]:
    main = body(definition)
    room = Room({name: agent() for name in main.stateless} | {"main": main})
    return room, room.ask(room.spawn("main", **spec), ["owls"])


def asked(room: Room) -> dict[str, Any]:
    """The model calls in flight, by what they ask."""
    calls = (one for one in room.in_flight.values() if isinstance(one.request, CallModel))
    return {one.request.request.messages[-1].parts[0].text: one for one in calls}


def test_stages_follow_each_other_by_what_is_answered() -> None:
    room, ask = begun(LOOP)
    for text in ("one", '{"verdict":"again"}', "two", '{"verdict":"good"}'):
        room.answer(says(text))
    assert room.told(ask) == {"write": "two", "check": {"verdict": "good"}}
    printed = [news.text for news in room.news(Printed)]
    assert printed[:2] == ["write: one", 'check: {"verdict":"again"}']


def test_a_bound_ends_it() -> None:
    """What was paid for was told, stage by stage."""
    room, ask = begun(LOOP)
    for text in 2 * ("one", '{"verdict":"again"}'):
        room.answer(says(text))
    assert room.fell(ask) == "LimitReached"
    assert "its bound max_iterations" in room.answers[ask].reason
    assert not room.in_flight


def test_stages_that_need_nothing_of_each_other_run_side_by_side() -> None:
    room, ask = begun(SIDE_BY_SIDE)
    first, second = room.in_flight.values()
    room.answer(says("two"), second)
    room.answer(says("one"), first)
    answers = {"one", "two"}
    [joined] = asked(room)
    assert set(joined.split(" and ")) == answers
    room.answer(says("three"))
    assert room.told(ask)["both"] == "three"


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_effects_are_named_by_stage_and_run_not_by_who_came_first(order: str) -> None:
    """A run that goes on after a crash finds its answers, whatever order they come in then."""
    room, _ = begun(SIDE_BY_SIDE)
    calls = dict(zip("ab", sorted(room.in_flight), strict=True))
    for name in order:
        room.answer(says("said"), room.in_flight[calls[name]])
    site = room.only().path.site.function
    assert site.endswith("both:1.1")


def test_a_wallet_caps_all_stages_together() -> None:
    """Two cents are set aside for a call: what does not fit is not sent."""
    room, ask = begun(LOOP, wallet=dollars("$0.025"))
    room.answer(says("one"))
    assert room.fell(ask) == "BudgetExceeded"
    assert room.answers[ask].reason.startswith("stage check: ")


def failing(**stage: Any) -> PipelineDefinition:
    stages = (Stage("write", "writer", **stage), Stage("mend", "other", requires=("write",)))
    agents = {"writer": WRITER, "other": AgentDefinition("fast", prompt="mend")}
    if stage.get("error_next"):
        stages = (stages[0], Stage("mend", "other"))
    return PipelineDefinition(stages, agents=agents)


REFUSED = Failed(ErrorClass.REJECTED, "it is refused")


def test_a_stage_is_tried_again_as_often_as_it_says() -> None:
    room, ask = begun(failing(retries=1))
    room.answer(REFUSED)
    assert list(asked(room)) == ["Write about owls"]
    cause = room.only(CallModel).key
    room.answer(REFUSED)
    assert room.fell(ask) == "AgentFailed"
    assert room.answers[ask].cause == (cause,)


def test_what_fails_goes_to_its_error_next() -> None:
    room, ask = begun(failing(error_next="mend"))
    room.answer(REFUSED)
    room.answer(says("mended"))
    assert room.told(ask) == {"mend": "mended"}


def test_a_time_limit_is_the_deadline_of_the_send() -> None:
    room, ask = begun(failing(timeout_ms=500))
    room.wait(499)
    assert ask not in room.answers
    room.wait(1)
    assert room.fell(ask) == "Timeout"


def with_person(kind: InterruptKind, **more: Any) -> PipelineDefinition:
    rules = (RoutingRule("send", Condition.EQUALS, "approved", True),)
    return PipelineDefinition(
        (
            Stage("review", "editor", routing=rules, **more),
            Stage("send", "sender"),
            Stage("other", "sender", after=("review",)),
        ),
        start=("review", "other"),
        agents={
            "editor": AgentDefinition(asks=kind, prompt="May {input} be sent?"),
            "sender": AgentDefinition("fast", prompt="Send {review}"),
        },
    )


@pytest.mark.parametrize(
    ("kind", "said", "output", "sent"),
    [
        (InterruptKind.AGENT_REVIEW, True, {"approved": True}, 2),
        (InterruptKind.CONFIRMATION, False, {"approved": False, "why": ""}, 1),
        (
            InterruptKind.CONFIRMATION,
            None,
            {"approved": False, "why": "nobody answered in time"},
            1,
        ),
        (InterruptKind.CLARIFICATION, "perhaps", "perhaps", 1),
    ],
)
def test_a_person_is_asked_and_the_answer_is_the_output(
    kind: InterruptKind, said: object, output: object, sent: int
) -> None:
    """A stage that comes after it waits for the person, too."""
    room, ask = begun(with_person(kind))
    question = room.only().request
    assert question == AskHuman(kind, "May owls be sent?", None)
    room.answer(Answered(said))
    calls = list(room.in_flight.values())
    assert len(calls) == sent
    for call in calls:
        room.answer(says("sent"), call)
    assert room.told(ask)["review"] == output


def test_nobody_answers_what_only_a_person_knows() -> None:
    room, ask = begun(with_person(InterruptKind.CLARIFICATION))
    room.answer(Answered(None))
    assert room.fell(ask) == "Timeout"
    assert "stage review: nobody answered" in room.answers[ask].reason


def test_any_of_several_calls_what_joins_them_once() -> None:
    joined = Stage("both", "joiner", requires=("a", "b"), join=Join.ANY)
    stages = (*SIDE_BY_SIDE.stages[:2], joined)
    room, ask = begun(PipelineDefinition(stages, start=("a", "b"), agents=SIDE_BY_SIDE.agents))
    first, second = room.in_flight.values()
    room.answer(says("two"), second)
    room.answer(says("three"), next(one for one in room.in_flight.values() if one is not first))
    room.answer(says("one"), first)
    assert set(room.told(ask)) == {"a", "b", "both"}


def test_a_pipeline_that_changed_meanwhile_is_told() -> None:
    room, _ = begun(LOOP)
    room.machine = Machine(room.state, {**room.code, "main": body(LOOP, "another")})
    with pytest.raises(ProgramChanged, match="its source was another"):
        room.answer(says("one"))


def test_the_bound_on_calls_counts_what_agents_report() -> None:
    bounds = PipelineBounds(max_iterations=5, max_llm_calls=3)
    definition = PipelineDefinition(LOOP.stages, bounds=bounds, agents=LOOP.agents)
    room, ask = begun(definition)
    for text in ("one", '{"verdict":"again"}', "two"):
        room.answer(says(text))
    assert room.fell(ask) == "LimitReached"
    assert "max_llm_calls" in room.answers[ask].reason


def test_an_answer_that_does_not_fit_its_fields_is_asked_for_again() -> None:
    room, ask = begun(LOOP)
    for text in ("one", "it is good", '{"verdict":"good"}'):
        assert ask not in room.answers
        room.answer(says(text))
    assert room.told(ask)["check"] == {"verdict": "good"}
