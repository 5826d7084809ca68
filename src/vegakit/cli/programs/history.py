"""What recorded runs of a program came to: an estimate, which is no promise."""

import re
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path

from msgspec import Struct

from vegakit.money import Money
from vegakit.store import RecordedCall, RunSummary, list_runs, recorded_calls

__all__ = ["FEW_CALLS", "Estimate", "Tuned", "estimate_of", "runs_of", "tuned_by"]

FEW_CALLS = 20
_STEP = 50
_NUMBERED = re.compile(r"(~?)(-\d+)?$")


class Estimate(Struct, frozen=True):
    """Of runs that came to their end."""

    runs: int
    expected: Money
    p95: Money


class Tuned(Struct, frozen=True):
    """`p99` is of the tokens of an answer, `max_tokens` what is suggested; None where there are
    too few calls, or answers were cut off, so that nobody knows how long they would have been."""

    agent: str
    calls: int
    cut: int
    p99: int
    max_tokens: int | None


def runs_of(program: Path, journal: Path) -> list[RunSummary]:
    """Those that a command on this file started."""
    wanted = program.resolve()
    return [one for one in list_runs(journal) if wanted in _named_in(one)]


def _named_in(summary: RunSummary) -> list[Path]:
    folder = Path(summary.run.folder)
    words = (word for word in summary.run.command if word.endswith((".vega", ".vgb", ".py")))
    return [(folder / word).resolve() for word in words]


def estimate_of(runs: Iterable[RunSummary]) -> Estimate | None:
    spent = sorted(run.spent for run in runs if run.ended_ms is not None)
    if not spent:
        return None
    return Estimate(len(spent), Money(-(-sum(spent) // len(spent))), Money(_rank(spent, 95)))


def tuned_by(runs: Sequence[RunSummary], journal: Path, agents: Sequence[str]) -> list[Tuned]:
    """In the order of the agents."""
    ids = {one.run.program for one in runs}
    calls = [call for call in recorded_calls(journal) if call.program in ids]
    return [_tuned(agent, [one for one in calls if _agent(one) == agent]) for agent in agents]


def _agent(call: RecordedCall) -> str:
    return _NUMBERED.sub("", call.process)


def _tuned(agent: str, calls: Sequence[RecordedCall]) -> Tuned:
    tokens = sorted(call.output_tokens for call in calls if call.output_tokens is not None)
    cut = sum(call.is_cut for call in calls)
    p99 = _rank(tokens, 99) if tokens else 0
    is_known = len(tokens) >= FEW_CALLS and not cut
    most = max(ceil(p99 / _STEP), 1) * _STEP
    return Tuned(agent, len(tokens), cut, p99, most if is_known else None)


def _rank(values: Sequence[int], percent: int) -> int:
    """The least that so many of a hundred do not pass."""
    return values[max(ceil(len(values) * percent / 100), 1) - 1]
