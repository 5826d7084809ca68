"""What `runs`, `resume`, `replay` and `gc` share: which journal, which run of it, and its command
started again."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from vegakit.config import environment_with, load
from vegakit.errors import UserError
from vegakit.ports import Run
from vegakit.store import RunSummary, list_runs

__all__ = ["journal_of_user", "named_run", "runs_in", "short_id", "start_again", "where"]

_SHOWN = 12


def journal_of_user() -> Path:
    """Where `vega run` records, also while the settings say that it does not."""
    return Path(load().journal.path or "vega.db")


def where(named: str) -> tuple[Path, str]:
    """The journal that is named, or the beginning of the id of a run in the user's own."""
    path = Path(named)
    is_file = bool(named) and (path.exists() or path.suffix != "" or len(path.parts) > 1)
    return (path, "") if is_file else (journal_of_user(), named)


def runs_in(path: Path) -> Sequence[RunSummary]:
    if not path.is_file() and path == journal_of_user():
        raise UserError(
            f"no run is recorded in {path} yet; start one with vega run FILE, or name the journal "
            "of your program"
        )
    runs = list_runs(path)
    if not runs:
        raise UserError(f"{path} holds no run yet; start your program first")
    return runs


def named_run(runs: Sequence[RunSummary], wanted: str, path: Path) -> RunSummary:
    """The only one whose id begins so; of several journals' worth of runs the last, if any will
    do."""
    found = [summary for summary in runs if summary.run.program.startswith(wanted)]
    if not found:
        raise UserError(f"no run in {path} begins with {wanted!r}; type: vega runs {path}")
    if wanted and len(found) > 1:
        ids = ", ".join(summary.run.program[: len(wanted) + 8] for summary in found[-5:])
        raise UserError(f"{len(found)} runs begin with {wanted!r}; type more of one of: {ids}")
    return found[-1]


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
