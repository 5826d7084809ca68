"""A description that holds together, and every way in which one does not."""

import msgspec
import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import (
    Condition,
    InterruptKind,
    Join,
    Pipeline,
    PipelineBounds,
    RoutingRule,
    Stage,
    begin_session,
    pipeline_problems,
)
from vegakit.records import from_json, to_json


def stage(name: str, default_next: str | None = None, **more: object) -> Stage:
    return msgspec.convert(
        {"name": name, "agent": f"{name}er", "default_next": default_next, **more}, Stage
    )


def pipeline(*stages: Stage, **more: object) -> Pipeline:
    return Pipeline(stages, **more)  # pyright: ignore[reportArgumentType]


ENDLESS = "may go round for ever; set max_iterations, or an edge limit on one of its edges"
NOTHING_LEADS = (
    "nothing leads to it; name it in start or in another stage's routing, "
    "or let it require stages that run"
)

REVIEW = Pipeline(
    (
        Stage("plan", "planner", timeout_ms=1000, retries=1, error_next="report"),
        Stage("write", "writer", requires=("plan",), tools=("read", "write")),
        Stage("test", "tester", requires=("plan",), after=("write",)),
        Stage(
            "check",
            "checker",
            requires=("write", "test"),
            routing=(
                RoutingRule("plan", Condition.EQUALS, "verdict", "again"),
                RoutingRule("report", Condition.EXISTS, "verdict"),
            ),
        ),
        Stage("report", "reporter"),
    ),
    bounds=PipelineBounds(max_llm_calls=20, edge_limits={"check->plan": 2}),
    resume_at={InterruptKind.CLARIFICATION: "plan"},
)


def test_a_whole_pipeline_has_no_problems_and_is_stored_as_written() -> None:
    """Loop, fan-out, join, errors, limits and resuming in one."""
    assert pipeline_problems(REVIEW) == []
    assert from_json(Pipeline, to_json(REVIEW)) == REVIEW


def test_the_index_is_not_part_of_the_record() -> None:
    """Looking stages up changes neither its JSON nor its equality."""
    before = to_json(REVIEW)
    assert REVIEW.by_name["test"].agent == "tester"
    assert [s.name for s in REVIEW.requirers("plan")] == ["write", "test"]
    assert REVIEW.requirers("report") == []
    assert to_json(REVIEW) == before


def test_what_is_not_written() -> None:
    """One attempt, a minute's lease, a hundred hops, and no other bound."""
    bare = from_json(Pipeline, b'{"stages": [{"name": "a", "agent": "x"}]}')
    assert (bare.stages[0].retries, bare.stages[0].join, bare.lease_ms) == (0, Join.ALL, 60_000)
    assert bare.bounds == PipelineBounds(None, None, 100, {})
    assert pipeline_problems(bare) == []


def test_it_can_be_published_as_a_schema() -> None:
    """Every stage field is in it."""
    schema = msgspec.json.schema(Pipeline)
    assert {"requires", "after", "join", "routing"} <= schema["$defs"]["Stage"]["properties"].keys()


def test_the_first_rule_that_fires_wins_then_the_default() -> None:
    """Rules are read from the top."""
    rules = (
        RoutingRule("b", Condition.GREATER, "n", 5),
        RoutingRule("c", Condition.GREATER, "n", 3),
    )
    a = Stage("a", "x", routing=rules, default_next="d", error_next="b")
    assert [a.next_after({"n": n}) for n in (9, 4, 1)] == ["b", "c", "d"]
    assert Stage("a", "x").next_after({}) is None
    assert a.targets == ["b", "c", "d"]


def test_the_first_stage_starts_unless_start_says_otherwise() -> None:
    """One by default; several together when named."""
    assert REVIEW.first == ("plan",)
    assert pipeline(stage("a"), stage("b"), start=("b", "a")).first == ("b", "a")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (
            pipeline(),
            "a pipeline needs at least one stage; write one with a name and an agent",
        ),
        (
            pipeline(stage("a>b")),
            "'a>b' is not a stage's name; write letters, digits, '_', '-' and '.'",
        ),
        (
            pipeline(stage("")),
            "'' is not a stage's name; write letters, digits, '_', '-' and '.'",
        ),
        (
            pipeline(stage("input")),
            "'input' is what a prompt calls the input; give the stage another name",
        ),
        (
            pipeline(stage("a"), stage("a")),
            "2 stages are named 'a'; give each its own name",
        ),
        (
            pipeline(stage("plan", "wriet"), stage("write"), start=("plan", "write")),
            "plan: default_next names 'wriet', which is no stage; did you mean 'write'?",
        ),
        (
            pipeline(stage("a", error_next="zzz"), stage("b"), start=("a", "b")),
            "a: error_next names 'zzz', which is no stage; write one of: a, b",
        ),
        (
            pipeline(stage("a", routing=[{"target": "zzz"}])),
            "a: routing names 'zzz', which is no stage; write one of: a",
        ),
        (
            pipeline(stage("a"), stage("b", requires=["a", "zzz"], join="any")),
            "b: requires names 'zzz', which is no stage; write one of: a, b",
        ),
        (
            pipeline(stage("a", after=["zzz"])),
            "a: after names 'zzz', which is no stage; write one of: a",
        ),
        (
            pipeline(stage("a"), start=("a", "zzz")),
            "start names 'zzz', which is no stage; write one of: a",
        ),
        (
            pipeline(stage("a"), resume_at={InterruptKind.TIMEOUT: "zzz"}),
            "resume_at timeout names 'zzz', which is no stage; write one of: a",
        ),
        (
            pipeline(stage("a", join="any")),
            "a: join any has nothing to join; write the stages it requires",
        ),
        (
            pipeline(stage("a", "b"), stage("b", requires=["a"])),
            "b: it has requires and is also named by a; keep one of the two",
        ),
        (
            pipeline(stage("a"), stage("b", requires=["a"]), start=("a", "b")),
            "b: it has requires and is also named by start; keep one of the two",
        ),
        (
            pipeline(
                stage("a"), stage("b", requires=["a"]), resume_at={InterruptKind.TIMEOUT: "b"}
            ),
            "b: it has requires and is also named by resume_at timeout; keep one of the two",
        ),
        (pipeline(stage("a"), lease_ms=0), "lease_ms is 0; write 1 or more"),
        (
            pipeline(stage("a"), bounds=PipelineBounds(max_iterations=0)),
            "max_iterations is 0; write 1 or more",
        ),
        (
            pipeline(stage("a"), bounds=PipelineBounds(max_llm_calls=0)),
            "max_llm_calls is 0; write 1 or more",
        ),
        (
            pipeline(stage("a"), bounds=PipelineBounds(max_agent_hops=0)),
            "max_agent_hops is 0; write 1 or more",
        ),
        (
            pipeline(stage("a", "b"), stage("b"), bounds=PipelineBounds(edge_limits={"a->b": 0})),
            "edge limit a->b is 0; write 1 or more",
        ),
        (pipeline(stage("a", timeout_ms=0)), "a: timeout_ms is 0; write 1 or more"),
        (pipeline(stage("a", retries=-1)), "a: retries is -1; write 0 or more"),
        (
            pipeline(
                stage("a", routing=[{"target": "b", "condition": "greater", "value": "9"}]),
                stage("b"),
            ),
            "a: greater compares with '9'; write a number",
        ),
        (
            pipeline(
                stage("a", routing=[{"target": "b", "condition": "less", "value": [1]}]),
                stage("b"),
            ),
            "a: less compares with [1]; write a number",
        ),
        (
            pipeline(
                stage("a", routing=[{"target": "b", "condition": "equals", "value": [1]}]),
                stage("b"),
            ),
            "a: equals compares with a list or map; write a text, a number, true, false or null",
        ),
        (
            pipeline(stage("a", "b"), stage("b"), bounds=PipelineBounds(edge_limits={"b->a": 1})),
            "edge limit 'b->a' is on no edge; write one of: a->b",
        ),
        (
            pipeline(
                stage("plan", "act"),
                stage("act"),
                bounds=PipelineBounds(edge_limits={"plan>act": 1}),
            ),
            "edge limit 'plan>act' is on no edge; did you mean 'plan->act'?",
        ),
        (
            pipeline(stage("a"), bounds=PipelineBounds(edge_limits={"a->a": 1})),
            "edge limit 'a->a' is on no edge, as no stage routes to another; remove it",
        ),
        (
            pipeline(stage("a"), stage("b")),
            f"b: {NOTHING_LEADS}",
        ),
        (
            pipeline(stage("a", "a")),
            f"a -> a {ENDLESS}",
        ),
        (
            pipeline(stage("a", error_next="b"), stage("b", "c"), stage("c", "b")),
            f"b -> c -> b {ENDLESS}",
        ),
        (
            pipeline(stage("a"), stage("b", "a", requires=["a"])),
            f"a -> b -> a {ENDLESS}",
        ),
        (
            pipeline(stage("a", after=["b"]), stage("b", after=["a"]), start=("a", "b")),
            "a -> b -> a wait for each other by after; take one of these out",
        ),
    ],
)
def test_a_problem_says_what_to_write(broken: Pipeline, problem: str) -> None:
    """One mistake gives exactly one sentence."""
    assert pipeline_problems(broken) == [problem]


def test_all_problems_come_at_once() -> None:
    """Nobody mends one to find the next; a session does not begin."""
    broken = pipeline(stage("a", "x"), stage("b", retries=-1), stage("c", join="any"))
    problems = pipeline_problems(broken)
    assert len(problems) == 5
    with pytest.raises(InvalidRuleError, match="the pipeline cannot run:\n- a: default_next") as e:
        begin_session(broken)
    assert str(e.value).count("\n- ") == 5


@pytest.mark.parametrize(
    ("join", "reached"),
    [(Join.ALL, ["b: nothing leads", "c: nothing"]), (Join.ANY, ["b: nothing"])],
)
def test_a_join_is_reached_by_all_or_by_any(join: Join, reached: list[str]) -> None:
    """A stage that requires one that never runs, never runs; under any, one is enough."""
    broken = pipeline(stage("a"), stage("b"), stage("c", requires=["a", "b"], join=join))
    problems = pipeline_problems(broken)
    assert [
        p for p, start in zip(problems, reached, strict=True) if p.startswith(start)
    ] == problems


def test_stages_that_only_reach_each_other_are_reached_by_nobody() -> None:
    """Two that route to each other, and two that require each other."""
    lonely = pipeline(
        stage("a"),
        stage("b", "c"),
        stage("c", "b"),
        stage("d", requires=["e"]),
        stage("e", requires=["d"]),
        bounds=PipelineBounds(max_iterations=2),
    )
    assert [p.split(":")[0] for p in pipeline_problems(lonely)] == ["b", "c", "d", "e"]


def test_resuming_reaches_a_stage() -> None:
    """So a stage for people's answers needs no other way in, and what follows it neither."""
    resumed = pipeline(
        stage("a"), stage("b", "c"), stage("c"), resume_at={InterruptKind.CLARIFICATION: "b"}
    )
    assert pipeline_problems(resumed) == []


@pytest.mark.parametrize(
    "bounds",
    [
        PipelineBounds(max_iterations=1),
        PipelineBounds(edge_limits={"b->a": 1}),
        PipelineBounds(edge_limits={"a->b": 1}),
    ],
)
def test_a_loop_with_a_bound_is_fine(bounds: PipelineBounds) -> None:
    """On all stages, or on any one edge of it."""
    assert pipeline_problems(pipeline(stage("a", "b"), stage("b", "a"), bounds=bounds)) == []


def test_each_knot_is_told_once() -> None:
    """Two loops apart give two sentences; what leads to or from a loop is no part of it."""
    knots = pipeline(
        stage("a", "b", error_next="d"),
        stage("b", "c"),
        stage("c", "b", error_next="e"),
        stage("d", "d"),
        stage("e"),
    )
    assert [p.split(" may")[0] for p in pipeline_problems(knots)] == ["b -> c -> b", "d -> d"]


def test_waiting_after_a_stage_that_comes_later_is_fine() -> None:
    """Only circles are not."""
    order = pipeline(
        stage("a", after=["b"]), stage("b", after=["c"]), stage("c"), start=("a", "b", "c")
    )
    assert pipeline_problems(order) == []


def test_a_description_cannot_be_made_to_cost_much() -> None:
    """At most 200 stages and 256 KiB are looked at, and at most a hundred problems told."""
    chain = [stage(f"s{n}", f"s{n + 1}") for n in range(200)]
    assert pipeline_problems(pipeline(*chain[:199], stage("s199"))) == []
    assert len(pipeline_problems(pipeline(stage("a", after=["?"] * 500)))) == 100
    (many,) = pipeline_problems(pipeline(*chain, stage("s200")))
    assert many.startswith("201 stages in ")
    assert many.endswith("too much; write at most 200 stages in 262144 bytes")


def test_the_size_of_a_description_is_bounded() -> None:
    """To the byte."""
    rest = len(to_json(pipeline(stage("a", tools=[""]))))
    fits, not_quite = ("x" * (262_144 - rest + more) for more in (0, 1))
    assert pipeline_problems(pipeline(stage("a", tools=[fits]))) == []
    (large,) = pipeline_problems(pipeline(stage("a", tools=[not_quite])))
    assert large.startswith("1 stages in 262145 bytes are too much")


def test_only_the_first_edges_are_suggested() -> None:
    """Two hundred are more than anyone reads."""
    names = [f"s{n}" for n in range(100)]
    rules = [{"target": name} for name in names]
    broken = pipeline(
        *(stage(name, routing=rules) for name in "abc"),
        *map(stage, names),
        start=tuple("abc"),
        bounds=PipelineBounds(edge_limits={"zzz": 1}),
    )
    (told,) = pipeline_problems(broken)
    assert told.endswith(", b->s99")
