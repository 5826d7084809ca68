"""What `interrupts` and `answer` share: which runtime asks, and what to do if none runs."""

from vegakit.cli.recorded import FILE, runs_in, short_id
from vegakit.errors import UserError
from vegakit.runtime import BlockingRemote, Question, connect

__all__ = ["questions_at"]


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
    if not FILE.is_file():
        return ""
    last = runs_in(FILE)[-1]
    if last.ended_ms is not None or last.is_running:
        return ""
    return (
        f"run {short_id(last.run)} of {FILE} rests, and asks again what is open when it goes on: "
        f"type vega resume {FILE}, then this again"
    )
