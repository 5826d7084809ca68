"""What a journal file holds, run by run, looked at from outside: nothing is written to it."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vegakit.errors import StoreError
from vegakit.money import Money
from vegakit.ports import Run
from vegakit.records import from_json
from vegakit.store.sqlite_file import explained
from vegakit.store.sqlite_journal import locked

if TYPE_CHECKING:
    import sqlite3

__all__ = ["RunSummary", "list_runs"]

_RUNS = """
    SELECT run, ended_ms, COUNT(outcome), COUNT(key) - COUNT(outcome),
        SUM(CASE kind WHEN 'CallModel' THEN json_extract(outcome, '$.charged') END)
    FROM runs LEFT JOIN effects USING (program) GROUP BY program ORDER BY program
"""


class RunSummary(Struct, frozen=True):
    """`cut_off` are calls without an outcome: of a run that goes on, they are under way."""

    run: Run
    ended_ms: int | None
    is_running: bool
    recorded: int
    cut_off: int
    spent: Money


def list_runs(path: Path) -> list[RunSummary]:
    """The first first."""
    import sqlite3

    if not path.is_file():
        raise StoreError(f"there is no journal {path}; name the file that Runtime(journal=…) names")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            return _summaries(file, is_running=_is_running(path))
    except sqlite3.Error as error:
        if "no such table" in str(error):
            raise StoreError(
                f"{path} holds no journal; name the file that Runtime(journal=…) names"
            ) from None
        raise explained(str(path), error) from error


def _summaries(file: "sqlite3.Connection", *, is_running: bool) -> list[RunSummary]:
    return [
        RunSummary(
            from_json(Run, text),
            ended_ms,
            is_running and ended_ms is None,
            recorded,
            cut_off,
            Money(spent or 0),
        )
        for text, ended_ms, recorded, cut_off, spent in file.execute(_RUNS)
    ]


def _is_running(path: Path) -> bool:
    if not Path(f"{path}.lock").exists():
        return False
    lock = locked(path)
    if lock is not None:
        lock.close()
    return lock is None
