"""Pipelines: stages, the conditions that route between them, bounds, and every problem of a
description at once (pure).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard

from msgspec import Struct

from vegakit.errors import InvalidRuleError
from vegakit.policy.interrupts import InterruptKind
from vegakit.records import Json, to_json

# When a routing rule fires: a closed set of comparisons with a field of a stage's output.
#
# | condition     | holds when the field                                                    |
# |---------------|-------------------------------------------------------------------------|
# | always        | is anything, or absent                                                  |
# | exists        | is there, even if null                                                  |
# | equals        | is that text, number, truth value or null: 1 is 1.0, true is not 1      |
# | not_equals    | is another value, or absent                                             |
# | contains      | is a text with that part, a list with that member among its first ten   |
# |               | thousand, a map with that key                                           |
# | greater, less | is a number above, or below, that number                                |
#
# A field is a path of keys such as `review.verdict`; the empty field is the whole output.


class _Absent:
    """Stands for a field that an output does not have: null is a value."""


_Found: TypeAlias = Json | _Absent

_ABSENT: Final = _Absent()
_MOST_MEMBERS = 10_000


class Condition(StrEnum):
    """The conditions of a route."""

    ALWAYS = "always"
    EXISTS = "exists"
    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    CONTAINS = "contains"
    GREATER = "greater"
    LESS = "less"


def condition_holds(condition: Condition, output: Json, field: str, value: Json) -> bool:
    """Return whether a condition holds for a field of an output."""
    return _HOLDS[condition](_look_up(output, field), value)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _look_up(output: Json, field: str) -> _Found:
    found = output
    for key in field.split(".") if field else ():
        if not isinstance(found, dict) or key not in found:
            return _ABSENT
        found = found[key]
    return found


def _is_same(found: object, value: object) -> bool:
    return found == value and isinstance(found, bool) == isinstance(value, bool)


def _contains(found: _Found, value: Json) -> bool:
    if isinstance(found, list):
        return any(_is_same(member, value) for member in found[:_MOST_MEMBERS])
    return isinstance(value, str) and isinstance(found, str | dict) and value in found


def _is_above(found: object, value: object) -> bool:
    return is_number(found) and is_number(value) and found > value


_HOLDS: Final[Mapping[Condition, Callable[[_Found, Json], bool]]] = MappingProxyType(
    {
        Condition.ALWAYS: lambda _found, _value: True,
        Condition.EXISTS: lambda found, _value: found is not _ABSENT,
        Condition.EQUALS: _is_same,
        Condition.NOT_EQUALS: lambda found, value: not _is_same(found, value),
        Condition.CONTAINS: _contains,
        Condition.GREATER: _is_above,
        Condition.LESS: lambda found, value: _is_above(value, found),
    }
)


# The description of a pipeline: stages, what calls what, and the bounds of it all.
#
# A stage is called in one of two ways, never both, and then waits for the stages it names in
# `after` to finish if they are in play at all.
#
# | way    | called by                                                                            |
# |--------|--------------------------------------------------------------------------------------|
# | routed | `start` (absent: the first stage), another stage's routing rule, `default_next` or   |
# |        | `error_next`, or `resume_at` when an interrupt of that kind is settled               |
# | joined | the completion of all, or any, of the stages it `requires`                           |
#
# `check_pipeline` in `pipeline_problems` says whether a description holds together.


class Join(StrEnum):
    """A stage with several predecessors waits for all of them or for any."""

    ALL = "all"
    ANY = "any"


class RoutingRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A route leads to its target if its condition holds."""

    target: str
    condition: Condition = Condition.ALWAYS
    field: str = ""
    value: Any = None


class Stage(Struct, frozen=True, forbid_unknown_fields=True):
    """`retries` is how often a failed run is tried again; `tools` None leaves the agent its own."""

    name: str
    agent: str
    requires: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    join: Join = Join.ALL
    routing: tuple[RoutingRule, ...] = ()
    default_next: str | None = None
    error_next: str | None = None
    timeout_ms: int | None = None
    retries: int = 0
    tools: tuple[str, ...] | None = None

    def next_after(self, output: Json) -> str | None:
        """The target of the first rule that fires, else the default."""
        for rule in self.routing:
            if condition_holds(rule.condition, output, rule.field, rule.value):
                return rule.target
        return self.default_next

    @property
    def targets(self) -> list[str]:
        """Return every stage this one may lead to, each once."""
        named = (*(rule.target for rule in self.routing), self.default_next, self.error_next)
        return [name for name in dict.fromkeys(named) if name is not None]


class PipelineBounds(Struct, frozen=True, forbid_unknown_fields=True):
    """`edge_limits` says how often one stage may lead to another: `{"check->plan": 3}`."""

    max_iterations: int | None = None
    max_llm_calls: int | None = None
    max_agent_hops: int = 100
    edge_limits: dict[str, int] = {}


class Pipeline(Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """`resume_at` names the stage to go on at after an interrupt; absent, the one that asked."""

    stages: tuple[Stage, ...]
    start: tuple[str, ...] = ()
    bounds: PipelineBounds = PipelineBounds()
    resume_at: dict[InterruptKind, str] = {}
    lease_ms: int = 60_000

    @property
    def first(self) -> tuple[str, ...]:
        """Return the stages a session starts with."""
        return self.start or tuple(stage.name for stage in self.stages[:1])

    @cached_property
    def by_name(self) -> dict[str, Stage]:
        """Built at most once: `dict=True` gives it a place that is never stored or compared."""
        return {stage.name: stage for stage in self.stages}

    def requirers(self, name: str) -> list[Stage]:
        """Return the stages that require the output of `name`."""
        return [stage for stage in self.stages if name in stage.requires]


def edge(source: str, target: str) -> str:
    """Return the name of an edge, as in the limits of edges."""
    return f"{source}->{target}"


# Everything that is wrong with a pipeline, at once, each as a sentence that says what to write.
#
# | check            | why it is a problem                                                        |
# |------------------|----------------------------------------------------------------------------|
# | names            | a stage nobody can name, or two of one name                                |
# | references       | a name that is no stage                                                    |
# | ways of calling  | join without requires; a joined stage that is also routed to               |
# | numbers          | bounds, limits, times and compared values that can hold for nothing        |
# | edge limits      | a limit on an edge that is never taken                                     |
# | reach            | a stage that nothing leads to                                              |
# | cycles           | a loop that neither max_iterations nor an edge limit ends; stages that     |
# |                  | wait for each other by `after`                                             |
#
# `max_agent_hops` is always set and stops every loop in the end, but a pipeline that means to loop
# says how often.


Graph: TypeAlias = dict[str, list[str]]

INPUT = "input"
"""What a prompt calls the input of the pipeline, so that no stage may."""
_MAX_STAGES = 200
_MAX_BYTES = 256 * 1024
_MAX_PROBLEMS = 100
_MAX_NAME = 100
_MAX_RULES = 100
_MAX_MS = 7 * 86_400_000
_NAME = re.compile(r"\w[\w.-]*")
_COMPARED_BY_SIZE = {Condition.GREATER, Condition.LESS}


def check_pipeline(pipeline: Pipeline) -> None:
    """Raise `InvalidRuleError` with every problem of a pipeline."""
    problems = pipeline_problems(pipeline)
    if problems:
        raise InvalidRuleError("the pipeline cannot run:\n- " + "\n- ".join(problems))


def pipeline_problems(pipeline: Pipeline) -> list[str]:
    """All of them, up to a hundred: a hostile description must not cost more than a look."""
    stages, size = len(pipeline.stages), len(to_json(pipeline))
    if stages > _MAX_STAGES or size > _MAX_BYTES:
        most = f"{_MAX_STAGES} stages in {_MAX_BYTES} bytes"
        return [f"{stages} stages in {size} bytes are too much; write at most {most}"]
    found = chain.from_iterable(check(pipeline) for check in _CHECKS)
    return list(islice(found, _MAX_PROBLEMS))


def _naming(pipeline: Pipeline) -> Iterator[str]:
    if not pipeline.stages:
        yield "a pipeline needs at least one stage; write one with a name and an agent"
    for name, times in Counter(stage.name for stage in pipeline.stages).items():
        if len(name) > _MAX_NAME:
            yield f"a stage's name has {len(name)} characters; write at most {_MAX_NAME}"
        elif not _NAME.fullmatch(name):
            yield f"{name!r} is not a stage's name; write letters, digits, '_', '-' and '.'"
        elif name == INPUT:
            yield f"{name!r} is what a prompt calls the input; give the stage another name"
        if times > 1:
            yield f"{times} stages are named {name!r}; give each its own name"


def _references(pipeline: Pipeline) -> Iterator[str]:
    for place, name in _named_stages(pipeline):
        if name not in pipeline.by_name:
            suggestion = _suggestion(name, list(pipeline.by_name))
            yield f"{place} names {name!r}, which is no stage; {suggestion}"


def _named_stages(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    yield from (("start", name) for name in pipeline.start)
    yield from ((f"resume_at {kind}", name) for kind, name in pipeline.resume_at.items())
    for stage in pipeline.stages:
        lists: dict[str, Iterable[str | None]] = {
            "requires": stage.requires,
            "after": stage.after,
            "routing": [rule.target for rule in stage.routing],
            "default_next": [stage.default_next],
            "error_next": [stage.error_next],
        }
        for field, names in lists.items():
            yield from ((f"{stage.name}: {field}", name) for name in names if name is not None)


def _suggestion(name: str, choices: list[str]) -> str:
    # To look for a similar name takes time by the square of their length.
    choices = [choice for choice in choices[:_MAX_STAGES] if len(choice) <= _MAX_NAME]
    close = get_close_matches(name, choices, n=1) if len(name) <= _MAX_NAME else []
    return f"did you mean {close[0]!r}?" if close else f"write one of: {', '.join(choices)}"


def _ways_of_calling(pipeline: Pipeline) -> Iterator[str]:
    routed = _routed(pipeline)
    for stage in pipeline.stages:
        if stage.join is Join.ANY and not stage.requires:
            yield f"{stage.name}: join any has nothing to join; write the stages it requires"
        if stage.requires and stage.name in routed:
            yield (
                f"{stage.name}: it has requires and is also named by {routed[stage.name]}; "
                "keep one of the two"
            )


def _routed(pipeline: Pipeline) -> dict[str, str]:
    """Each stage that something routes to, and what does."""
    routed = dict.fromkeys(pipeline.first, "start")
    routed |= {name: f"resume_at {kind}" for kind, name in pipeline.resume_at.items()}
    return routed | {target: stage.name for stage in pipeline.stages for target in stage.targets}


def _numbers(pipeline: Pipeline) -> Iterator[str]:
    bounds = pipeline.bounds
    at_least_1: dict[str, int | None] = {
        "lease_ms": pipeline.lease_ms,
        "max_iterations": bounds.max_iterations,
        "max_llm_calls": bounds.max_llm_calls,
        "max_agent_hops": bounds.max_agent_hops,
    }
    at_least_1 |= {f"edge limit {name}": limit for name, limit in bounds.edge_limits.items()}
    at_least_1 |= {f"{stage.name}: timeout_ms": stage.timeout_ms for stage in pipeline.stages}
    for name, number in at_least_1.items():
        if number is not None and number < 1:
            yield f"{name} is {number}; write 1 or more"
        if number is not None and number > _MAX_MS:
            yield f"{name} is {number}; write at most {_MAX_MS}"
    for stage in pipeline.stages:
        if stage.retries < 0:
            yield f"{stage.name}: retries is {stage.retries}; write 0 or more"
        if len(stage.routing) > _MAX_RULES:
            yield f"{stage.name}: {len(stage.routing)} routing rules; write at most {_MAX_RULES}"


def _compared_values(pipeline: Pipeline) -> Iterator[str]:
    rules = ((stage.name, rule) for stage in pipeline.stages for rule in stage.routing)
    for name, rule in rules:
        value: object = rule.value
        if rule.condition in _COMPARED_BY_SIZE and not is_number(value):
            yield f"{name}: {rule.condition} compares with {value!r}; write a number"
        elif isinstance(value, list | dict):
            yield (
                f"{name}: {rule.condition} compares with a list or map; "
                "write a text, a number, true, false or null"
            )


def _edge_limits(pipeline: Pipeline) -> Iterator[str]:
    edges = [edge(stage.name, target) for stage in pipeline.stages for target in stage.targets]
    for name in pipeline.bounds.edge_limits:
        if not edges:
            yield f"edge limit {name!r} is on no edge, as no stage routes to another; remove it"
        elif name not in edges:
            yield f"edge limit {name!r} is on no edge; {_suggestion(name, edges)}"


def _reach(pipeline: Pipeline) -> Iterator[str]:
    reached = _reached(pipeline)
    for name in pipeline.by_name:
        if name not in reached:
            yield (
                f"{name}: nothing leads to it; name it in start or in another stage's routing, "
                "or let it require stages that run"
            )


def _reached(pipeline: Pipeline) -> set[str]:
    reached: set[str] = set()
    fresh = {*pipeline.first, *pipeline.resume_at.values()} & pipeline.by_name.keys()
    while fresh:
        reached |= fresh
        fresh = {target for name in fresh for target in pipeline.by_name[name].targets}
        fresh |= {stage.name for stage in pipeline.stages if _is_joined_by(stage, reached)}
        fresh = (fresh & pipeline.by_name.keys()) - reached
    return reached


def _is_joined_by(stage: Stage, reached: set[str]) -> bool:
    met = all if stage.join is Join.ALL else any
    return bool(stage.requires) and met(name in reached for name in stage.requires)


def _endless_loops(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.bounds.max_iterations is not None:
        return
    limited = pipeline.bounds.edge_limits
    unlimited: Graph = {
        stage.name: [
            *(target for target in stage.targets if edge(stage.name, target) not in limited),
            *(requirer.name for requirer in pipeline.requirers(stage.name)),
        ]
        for stage in pipeline.stages
    }
    for cycle in _cycles(unlimited):
        yield (
            f"{_round(cycle)} may go round for ever; "
            "set max_iterations, or an edge limit on one of its edges"
        )


def _waits_in_circles(pipeline: Pipeline) -> Iterator[str]:
    for cycle in _cycles({stage.name: list(stage.after) for stage in pipeline.stages}):
        yield f"{_round(cycle)} wait for each other by after; take one of these out"


def _round(cycle: list[str]) -> str:
    return " -> ".join((*cycle, cycle[0]))


def _cycles(graph: Graph) -> Iterator[list[str]]:
    """One cycle through each knot of the graph; no two share a stage."""
    left = _without_dead_ends(graph)
    while left:
        path = [next(iter(left))]
        while (following := left[path[-1]][0]) not in path:
            path.append(following)
        cycle = path[path.index(following) :]
        yield cycle
        left = _without_dead_ends({name: left[name] for name in left if name not in cycle})


def _without_dead_ends(graph: Graph) -> Graph:
    while True:
        kept = {name: [to for to in following if to in graph] for name, following in graph.items()}
        kept = {name: following for name, following in kept.items() if following}
        if kept.keys() == graph.keys():
            return kept
        graph = kept


_CHECKS = (
    _naming,
    _references,
    _ways_of_calling,
    _numbers,
    _compared_values,
    _edge_limits,
    _reach,
    _endless_loops,
    _waits_in_circles,
)


# How often each stage may run at most, whatever it answers.
#
# | a stage that is        | runs at most                                                         |
# |------------------------|----------------------------------------------------------------------|
# | routed                 | once if the session begins there, and for each run of a stage that   |
# |                        | may lead to it; an edge limit bounds that                            |
# | joined by all, any     | as often as the least, the most frequent of those it requires        |
# | resumed at             | as often as any stage may ask                                        |
#
# No stage begins more than `max_iterations` runs, nor does a session issue more than
# `max_agent_hops` tasks. What still grows after as many rounds as there are stages is in a cycle.


def most_runs(pipeline: Pipeline) -> dict[str, int]:
    """Return the most runs of each stage, each on its own: together they also share the hops."""
    bounds = pipeline.bounds
    cap = min(bounds.max_agent_hops, bounds.max_iterations or bounds.max_agent_hops)
    runs = dict.fromkeys(pipeline.by_name, 0)
    for turn in range(2 * len(runs) + 2):
        counted = {
            stage.name: min(cap, _runs_of(pipeline, stage, runs)) for stage in pipeline.stages
        }
        grown = [name for name in runs if counted[name] > runs[name]]
        if not grown:
            break
        runs = counted
        if turn > len(runs):
            runs |= dict.fromkeys(grown, cap)
    return runs


def _runs_of(pipeline: Pipeline, stage: Stage, runs: Mapping[str, int]) -> int:
    if stage.requires:
        among = [runs[name] for name in stage.requires]
        return min(among) if stage.join is Join.ALL else max(among)
    limits = pipeline.bounds.edge_limits
    called = sum(
        min(runs[one.name], limits.get(edge(one.name, stage.name), runs[one.name]))
        for one in pipeline.stages
        if stage.name in one.targets
    )
    is_resumed = stage.name in pipeline.resume_at.values()
    return pipeline.first.count(stage.name) + called + (sum(runs.values()) if is_resumed else 0)
