"""Which recorded run a program that is started again belongs to: it is replayed, or goes on.

Not settings: each holds for one start of one program, and no file may say it.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "CutOffTools",
    "Replayed",
    "Resumed",
    "environment_with",
    "replay_variables",
    "replayed",
    "resume_variables",
    "resumed",
]

_REPLAY = "VEGA_JOURNAL_REPLAY"
_RESUME = "VEGA_JOURNAL_RESUME"


class CutOffTools(StrEnum):
    """What a person has decided about tool calls that were cut off and may not be repeated."""

    ASK = "ask"
    """Nothing yet: the run stops when it comes to one."""
    RESEND = "resend"
    SKIP = "skip"


class Replayed(NamedTuple):
    """`run` is empty for the last one."""

    journal: Path
    run: str = ""


class Resumed(NamedTuple):
    """`run` is empty for the unfinished run of a journal that holds one at a time."""

    journal: Path
    run: str = ""
    tools: CutOffTools = CutOffTools.ASK


def replayed(environment: Mapping[str, str] | None = None) -> Replayed | None:
    variables = os.environ if environment is None else environment
    run, colon, path = variables.get(_REPLAY, "").partition(":")
    return Replayed(Path(path), run) if colon else None


def replay_variables(which: Replayed) -> dict[str, str]:
    """For a program that is to be replayed."""
    return {_REPLAY: f"{which.run}:{which.journal.resolve()}"}


def resumed(environment: Mapping[str, str] | None = None) -> Resumed | None:
    variables = os.environ if environment is None else environment
    run, colon, rest = variables.get(_RESUME, "").partition(":")
    if not colon:
        return None
    tools, pid, path = rest.split(":", 2)
    # What the program starts inherits our variables, and is not the program.
    return Resumed(Path(path), run, CutOffTools(tools)) if int(pid) == os.getpid() else None


def resume_variables(which: Resumed) -> dict[str, str]:
    """For a program that takes the place of this process, and is to go on."""
    return {_RESUME: f"{which.run}:{which.tools}:{os.getpid()}:{which.journal.resolve()}"}


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """What a program that takes our place gets."""
    return {**os.environ, **variables}
