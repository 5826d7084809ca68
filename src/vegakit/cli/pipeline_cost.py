"""The quote of a pipeline: each stage as often as it may run, each run at its agent's worst.

a stage      runs × attempts, which the hops of the session bound together
one attempt  the budget of its agent, or all calls that it may make, each with a full window
typical      each stage once, with what the one before it typically answers
"""

from collections.abc import Callable
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vegakit.lang import (
    STR,
    AgentSpec,
    ListOf,
    ModelTerms,
    Quote,
    QuotedLine,
    SendTerms,
    Unbounded,
    cost_of,
    typical_cost,
)
from vegakit.policy import AgentDefinition, most_runs
from vegakit.sdk import PipelineFile, agent_spec


class PipelineQuote(Struct, frozen=True):
    """A quote, and which bound of the pipeline decides it."""

    quoted: Quote
    decided_by: str


def quote_pipeline(
    path: Path, file: PipelineFile, terms: Callable[[AgentSpec], ModelTerms | None]
) -> PipelineQuote:
    """Return the most that a session of a pipeline may spend; all its agents are defined in it.
    Tasks that are issued again because a worker died are not in it."""
    definition, lines, gaps = file.definition, list[QuotedLine](), list[Unbounded]()
    bounds, runs = definition.bounds, most_runs(definition)
    costs: list[tuple[float, int]] = []
    calls: list[tuple[int, int]] = []
    typical, heard = 0.0, None
    for stage in definition.stages:
        line, agent = file.lines.get(stage.name, 0), definition.agents[stage.agent]
        if agent.asks is not None:
            continue
        tasks = min(runs[stage.name] * (1 + stage.retries), bounds.max_agent_hops)
        sending = _sending(stage.agent, agent)
        once = cost_of(sending, terms)
        usual = typical_cost(replace(sending, size=heard), terms, remembers=False)
        typical, heard = typical + usual.fund.amount, _answer_bytes(sending.spec)
        worst = once.fund.amount
        if worst == inf:
            gaps.append(Unbounded(path.name, line, once.why, None))
        most = None if worst == inf else int(worst) * tasks
        lines.append(QuotedLine(path.name, line, stage.name, once.calls * tasks, most))
        costs.append((worst, tasks))
        calls.append((once.calls, tasks))
    total, is_by_hops = _at_most(costs, bounds.max_agent_hops)
    all_calls, _ = _at_most([(float(one), tasks) for one, tasks in calls], bounds.max_agent_hops)
    if is_by_hops:
        decided_by = f"max_agent_hops: {bounds.max_agent_hops}"
    elif bounds.max_iterations is not None and bounds.max_iterations in runs.values():
        decided_by = f"max_iterations: {bounds.max_iterations}"
    else:
        decided_by = "the stages, of which none comes again without bound"
    quoted = Quote(
        None if total == inf else int(total),
        None if len(calls) < len(costs) else int(all_calls),
        None,
        tuple(lines),
        tuple(gaps),
        typical=None if gaps else int(min(typical, total)),
    )
    return PipelineQuote(quoted, decided_by)


def _sending(name: str, agent: AgentDefinition) -> SendTerms:
    spec = agent_spec(name, agent)
    answer = ListOf(STR) if agent.output else STR
    return SendTerms(spec, answer, part=spec.budget, specs=None if agent.tools else ())


def _answer_bytes(spec: AgentSpec) -> int | None:
    """Return how long an answer typically is: half of its tokens, of four bytes each."""
    return None if spec.max_tokens is None else spec.max_tokens * 4 // 2


def _at_most(costs: list[tuple[float, int]], hops: int) -> tuple[float, bool]:
    """Return what so many tasks may come to, the most expensive first, and whether hops end it."""
    total, left = 0.0, hops
    exact = 0
    for cost, tasks in sorted(costs, reverse=True):
        taken = min(tasks, left)
        if cost == inf and taken:
            total = inf
        elif cost != inf:
            exact += int(cost) * taken
        left -= taken
    return (inf if total == inf else exact), sum(tasks for _, tasks in costs) > hops
