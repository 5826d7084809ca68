"""What `runs`, `resume` and `replay` share: which journal, and its command started again."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from vegakit.config import environment_with
from vegakit.errors import UserError
from vegakit.ports import Run
from vegakit.store import RunSummary, list_runs

__all__ = ["FILE", "runs_in", "short_id", "start_again"]

FILE = Path("run.db")
_SHOWN = 12


def runs_in(path: Path) -> Sequence[RunSummary]:
    runs = list_runs(path)
    if not runs:
        raise UserError(f"{path} holds no run yet; start your program first")
    return runs


def short_id(run: Run) -> str:
    return run.program[:_SHOWN]


def start_again(said: str, run: Run, variables: Mapping[str, str]) -> int:
    """In the place of this process. What it prints is its own, so we speak on stderr."""
    if not run.command:
        raise UserError(f"run {short_id(run)} has no command recorded; start it as you did then")
    if not Path(run.folder).is_dir():
        raise UserError(
            f"run {short_id(run)} was started in {run.folder}, which is gone; bring that folder "
            f"back, or type in another: {shlex.join(run.command)}"
        )
    print(f"{said}\n$ cd {shlex.quote(run.folder)} && {shlex.join(run.command)}", file=sys.stderr)
    sys.stderr.flush()
    os.chdir(run.folder)
    try:
        os.execvpe(run.command[0], run.command, environment_with(variables))  # noqa: S606
    except OSError as error:
        raise UserError(
            f"{run.command[0]} cannot be started in {run.folder}: {error.strerror}; "
            "install it again where it was, or start the program by hand"
        ) from error
