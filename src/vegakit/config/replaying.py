"""Which recorded run the runtimes of a program answer from, when it is replayed.

Not a setting: it holds for one start of one program, and no file may say it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Replayed", "environment_with", "replay_variables", "replayed"]

_VARIABLE = "VEGA_JOURNAL_REPLAY"


class Replayed(NamedTuple):
    """`run` is empty for the last one."""

    journal: Path
    run: str = ""


def replayed(environment: Mapping[str, str] | None = None) -> Replayed | None:
    variables = os.environ if environment is None else environment
    run, colon, path = variables.get(_VARIABLE, "").partition(":")
    return Replayed(Path(path), run) if colon else None


def replay_variables(which: Replayed) -> dict[str, str]:
    """For a program that is to be replayed."""
    return {_VARIABLE: f"{which.run}:{which.journal.resolve()}"}


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """What a program that takes our place gets."""
    return {**os.environ, **variables}
