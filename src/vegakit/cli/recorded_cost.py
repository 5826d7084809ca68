"""Recorded runs of a program tell what they came to, and which `max_tokens` their answers suggest:
an estimate, which is no promise."""

import re
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path

from msgspec import Struct

from vegakit.cli.look import Rounding, count, money, one_line
from vegakit.money import Money
from vegakit.store import RecordedCall, RunSummary, list_runs, recorded_calls

FEW_CALLS = 20
_STEP = 50
_NUMBERED = re.compile(r"(~?)(-\d+)?$")


class TypicalCost(Struct, frozen=True):
    """The cost of runs that came to their end and bought all their answers."""

    runs: int
    mean: Money
    p95: Money


class TokenAdvice(Struct, frozen=True):
    """Advice on the `max_tokens` of an agent. `p99` is of the tokens of an answer, `max_tokens`
    what is suggested; None where there are too few calls, or answers were cut off, so that nobody
    knows how long they would have been."""

    agent: str
    calls: int
    cut: int
    p99: int
    max_tokens: int | None


def runs_of(program: Path, journal: str) -> list[RunSummary]:
    """Return the runs that a command on this file started."""
    wanted = program.resolve()
    return [one for one in list_runs(journal) if wanted in _named_in(one)]


def _named_in(summary: RunSummary) -> list[Path]:
    folder = Path(summary.run.folder)
    words = (word for word in summary.run.command if word.endswith((".vega", ".vgb", ".py")))
    return [(folder / word).resolve() for word in words]


def typical_cost(runs: Iterable[RunSummary]) -> TypicalCost | None:
    """Return what runs cost that came to their end, or None if there are none. One that kept
    answers of another run did not pay for them, and tells nothing of what a new run costs."""
    ended = (run for run in runs if run.ended_ms is not None and not run.run.is_given_up)
    spent = sorted(run.spent for run in ended if not run.kept)
    if not spent:
        return None
    return TypicalCost(len(spent), Money(-(-sum(spent) // len(spent))), Money(_rank(spent, 95)))


def token_advice(
    runs: Sequence[RunSummary], journal: str, agents: Sequence[str]
) -> list[TokenAdvice]:
    """Return advice on each agent, in the order of the agents."""
    ids = {one.run.program for one in runs}
    calls = [call for call in recorded_calls(journal) if call.program in ids]
    return [
        _tuned(agent, [one for one in calls if _NUMBERED.sub("", one.process) == agent])
        for agent in agents
    ]


def _tuned(agent: str, calls: Sequence[RecordedCall]) -> TokenAdvice:
    tokens = sorted(call.output_tokens for call in calls if call.output_tokens is not None)
    cut = sum(call.is_cut for call in calls)
    p99 = _rank(tokens, 99) if tokens else 0
    is_known = len(tokens) >= FEW_CALLS and not cut
    most = max(ceil(p99 / _STEP), 1) * _STEP
    return TokenAdvice(agent, len(tokens), cut, p99, most if is_known else None)


def _rank(values: Sequence[int], percent: int) -> int:
    """The least that so many of a hundred do not pass."""
    return values[max(ceil(len(values) * percent / 100), 1) - 1]


def render_typical_cost(known: TypicalCost) -> str:
    """Return the typical cost for people, never in one line with the quote: it is no promise."""
    many = f"95 of 100 to {_up(known.p95)} or less"
    most = many if known.runs >= FEW_CALLS else f"the most expensive to {_up(known.p95)}"
    runs, mean = count(known.runs, "run"), _up(known.mean)
    return f"recorded: {runs} came to {mean} on average, {most}"


def render_token_advice(rows: Sequence[TokenAdvice]) -> str:
    """Return the advice on agents for people."""
    return "\n".join(map(_advice_line, rows))


def _advice_line(row: TokenAdvice) -> str:
    name = one_line(row.agent)
    if row.max_tokens is not None:
        rests = f"99 of 100 of {count(row.calls, 'answer')} had {row.p99:,} tokens or less"
        return f"{name}: max_tokens {row.max_tokens} – {rests}"
    if row.cut:
        return f"{name}: raise max_tokens – {count(row.cut, 'answer')} of {row.calls} were cut off"
    have = count(row.calls, "recorded answer")
    return f"{name}: too little to say, {have}; {FEW_CALLS} are needed"


def _up(nanos: int) -> str:
    return money(nanos, rounding=Rounding.UP)
