"""What a trajectory is: threads in which people complain, what must hold, and a function that
yields what does not."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from campaigns.code_complaints.agents import Agent, NotOfferedError
from campaigns.code_complaints.bench import Bench, bench

__all__ = ["COMPLAINTS", "PENDING", "Complaint", "Verdict", "complaint", "judge"]

PENDING: dict[str, str] = {}
"""Trajectories that wait for a part of Sage which is not there yet."""

Faults: TypeAlias = Iterator[str]
"""What does not hold, as it is shown in the table; nothing if all holds."""


class Complaint(NamedTuple):
    """A trajectory. `threads` are where people complain, `holds` is what must hold."""

    name: str
    threads: str
    holds: str
    needs: str
    run: Callable[[Bench], Faults]


class Verdict(NamedTuple):
    """What became of one agent in one trajectory; `passed` is None where it lacks what is asked
    for."""

    passed: bool | None
    cell: str


COMPLAINTS: dict[str, Complaint] = {}


def complaint(
    threads: str, holds: str, *, needs: str = ""
) -> Callable[[Callable[[Bench], Faults]], Callable[[Bench], Faults]]:
    """Enter a trajectory into the table. `needs` is what an agent must offer to be judged by it."""

    def enter(run: Callable[[Bench], Faults]) -> Callable[[Bench], Faults]:
        name = run.__name__
        assert name not in COMPLAINTS, name
        COMPLAINTS[name] = Complaint(name, threads, holds, needs, run)
        return run

    return enter


_LACKS = {
    "cap": "no cap on money",
    "undo": "no undo without a terminal",
    "task": "its sub-agents are not driven here",
    "window": "not driven to compaction here",
}


def judge(agent: Agent, trajectory: Complaint, base: Path, kind: type[Bench] = Bench) -> Verdict:
    """Drive an agent through a trajectory, in a new folder below `base`."""
    if agent.program() is None:
        return Verdict(None, "not installed")
    if trajectory.needs and trajectory.needs not in agent.offers:
        return Verdict(None, _LACKS[trajectory.needs])
    place = Path(tempfile.mkdtemp(prefix=f"{agent.name}-", dir=base)) / trajectory.name
    try:
        with bench(agent, place, kind) as it:
            faults = list(trajectory.run(it))
    except NotOfferedError as missing:
        return Verdict(None, str(missing))
    finally:
        place.parent.rmdir()
    return Verdict(not faults, "; ".join(faults) or "holds")
