"""What those share that ask people: which runtime asks, and how a screen is filled."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from vegakit.cli.recorded import journal_of_user, runs_in, short_id
from vegakit.errors import UserError
from vegakit.runtime import BlockingRemote, Question, connect

__all__ = ["only_ascii", "paged", "questions_at", "width_of"]

_FILE = Path("run.db")
"""What programs usually call a journal of their own."""
_USUAL = (80, 24)
_FEWEST = 5


def questions_at(at: str | None) -> tuple[BlockingRemote, list[Question]]:
    try:
        remote = connect(at).blocking
        return remote, remote.interrupts()
    except UserError as error:
        if at is None and (resting := _resting()):
            raise UserError(f"{error}; {resting}") from error
        raise


def paged(lines: Sequence[str], screen: TextIO) -> list[list[str]]:
    """Each fits on the screen, with a line for a prompt."""
    size = max(_FEWEST, _size(screen)[1] - 2)
    return [list(lines[at : at + size]) for at in range(0, len(lines), size)] or [[]]


def width_of(screen: TextIO) -> int | None:
    """As it is, whatever a variable says: a line that breaks elsewhere than we think could look
    like one of ours. None where nobody looks."""
    return _size(screen)[0] if screen.isatty() else None


def _size(screen: TextIO) -> tuple[int, int]:
    try:
        columns, lines = os.get_terminal_size(screen.fileno())
    except (OSError, ValueError):
        columns, lines = 0, 0
    return columns or _USUAL[0], lines or _USUAL[1]


def only_ascii(stream: TextIO) -> bool:
    return not (stream.encoding or "utf-8").lower().startswith("utf")


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
