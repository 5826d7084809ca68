"""What a journal file holds, run by run, looked at from outside: nothing is written to it."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vegakit.errors import StoreError
from vegakit.money import Money
from vegakit.ports import Run
from vegakit.records import from_json
from vegakit.store.secret import RowSeals, seal_of_user
from vegakit.store.sqlite_file import check_whole, distrust, explained
from vegakit.store.sqlite_journal import RUN_INTACT, locked, run_files

if TYPE_CHECKING:
    import sqlite3

__all__ = ["RunSummary", "list_runs"]

_RUNS = f"""
    SELECT runs.program, {RUN_INTACT}, run, ended_ms, COUNT(outcome), COUNT(key) - COUNT(outcome),
        SUM(CASE kind WHEN 'CallModel' THEN json_extract(outcome, '$.charged') END),
        SUM(CASE json_extract(outcome, '$.type') WHEN 'Unknown'
            THEN json_extract(outcome, '$.charged') END)
    FROM runs LEFT JOIN effects USING (program) GROUP BY program ORDER BY program
"""  # noqa: S608  (our words)


class RunSummary(Struct, frozen=True):
    """`cut_off` are calls without an outcome: of a run that goes on, they are under way. `lost` is
    how much of what was spent is for calls that were cut off."""

    run: Run
    ended_ms: int | None
    is_running: bool
    recorded: int
    cut_off: int
    spent: Money
    lost: Money = Money(0)


def list_runs(path: Path) -> list[RunSummary]:
    """The first first."""
    import sqlite3

    if not path.is_file():
        raise StoreError(f"there is no journal {path}; name the file that Runtime(journal=…) names")
    check_whole(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            distrust(file, str(path))
            seals = RowSeals(str(path), seal_of_user)
            seals.install(file)
            return _summaries(file, path, seals)
    except sqlite3.Error as error:
        if "no such table" in str(error):
            raise StoreError(
                f"{path} holds no journal; name the file that Runtime(journal=…) names"
            ) from None
        raise explained(str(path), error) from error


def _summaries(file: "sqlite3.Connection", path: Path, seals: RowSeals) -> list[RunSummary]:
    """A run tells which command is started again to resume it, so it must be sealed by us."""
    found: list[RunSummary] = []
    for program, intact, *rest in file.execute(_RUNS):
        if not intact:
            raise seals.broken("runs", program)
        text, ended_ms, recorded, cut_off, spent, lost = rest
        run = from_json(Run, text)
        living = ended_ms is None and _is_running(path, run)
        money = Money(spent or 0), Money(lost or 0)
        found.append(RunSummary(run, ended_ms, living, recorded, cut_off, *money))
    return found


def _is_running(path: Path, run: Run) -> bool:
    """Who writes it has locked the journal, or its run in one that is shared."""
    return _is_locked(path) or _is_locked(run_files(path, run.program))


def _is_locked(path: Path) -> bool:
    if not Path(f"{path}.lock").exists():
        return False
    lock = locked(path)
    if lock is not None:
        os.close(lock)
    return lock is None
