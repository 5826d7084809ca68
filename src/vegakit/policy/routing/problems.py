"""Everything that is wrong with a pipeline, at once, each as a sentence that says what to write.

| check            | why it is a problem                                                        |
|------------------|----------------------------------------------------------------------------|
| names            | a stage nobody can name, or two of one name                                |
| references       | a name that is no stage                                                    |
| ways of calling  | join without requires; a joined stage that is also routed to               |
| numbers          | bounds, limits, times and compared values that can hold for nothing        |
| edge limits      | a limit on an edge that is never taken                                     |
| reach            | a stage that nothing leads to                                              |
| cycles           | a loop that neither max_iterations nor an edge limit ends; stages that     |
|                  | wait for each other by `after`                                             |

`max_agent_hops` is always set and stops every loop in the end, but a pipeline that means to loop
says how often.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain, islice
from typing import TypeAlias

from vegakit.errors import InvalidRuleError
from vegakit.policy.routing.conditions import Condition, is_number
from vegakit.policy.routing.pipeline import Join, Pipeline, Stage, edge
from vegakit.records import to_json

__all__ = ["check_pipeline", "pipeline_problems"]

Graph: TypeAlias = dict[str, list[str]]

_MAX_STAGES = 200
_MAX_BYTES = 256 * 1024
_MAX_PROBLEMS = 100
_NAME = re.compile(r"\w[\w.-]*")
_COMPARED_BY_SIZE = {Condition.GREATER, Condition.LESS}


def check_pipeline(pipeline: Pipeline) -> None:
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
        if not _NAME.fullmatch(name):
            yield f"{name!r} is not a stage's name; write letters, digits, '_', '-' and '.'"
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
    choices = choices[:_MAX_STAGES]
    close = get_close_matches(name, choices, n=1)
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
    for stage in pipeline.stages:
        if stage.retries < 0:
            yield f"{stage.name}: retries is {stage.retries}; write 0 or more"


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
