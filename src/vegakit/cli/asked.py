"""What `interrupts` and `answer` share: which runtime asks, and what to do if none runs."""

from pathlib import Path

from vegakit.cli.recorded import journal_of_user, runs_in, short_id
from vegakit.errors import UserError
from vegakit.runtime import BlockingRemote, Question, connect

__all__ = ["questions_at"]

_FILE = Path("run.db")
"""What programs usually call a journal of their own."""


def questions_at(at: str | None) -> tuple[BlockingRemote, list[Question]]:
    try:
        remote = connect(at).blocking
        return remote, remote.interrupts()
    except UserError as error:
        if at is None and (resting := _resting()):
            raise UserError(f"{error}; {resting}") from error
        raise


def _resting() -> str:
    """A run that was cut off while it waited asks again when it goes on."""
    for path in (_FILE, journal_of_user()):
        runs = runs_in(path) if path.is_file() else ()
        waiting = [one for one in runs if one.ended_ms is None and not one.is_running]
        if waiting:
            run = short_id(waiting[-1].run)
            named = str(path) if path == _FILE else run
            return (
                f"run {run} of {path} rests, and asks again what is open when it goes on: "
                f"type vega resume {named}, then this again"
            )
    return ""
