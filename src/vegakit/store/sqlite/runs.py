"""The runs in a journal file, seen from outside: listed, summed up, and forgotten when they are
old.

Listing writes nothing to the file. Unfinished runs are never forgotten, because each of them can
go on.
"""

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vegakit.errors import StoreError
from vegakit.ids import ProgramId
from vegakit.money import Money
from vegakit.ports import RunRecord
from vegakit.records import from_json
from vegakit.store.seals import RowSeals, user_seal
from vegakit.store.sqlite import BUSY_S, check_whole, reject_foreign_schema, sqlite_error
from vegakit.store.sqlite.journal import RUN_INTACT, lock_file, run_files

if TYPE_CHECKING:
    import sqlite3


# The model calls that a journal holds, looked at from outside: nothing is written to it.


_CALLS = """
    SELECT program, path, json_extract(outcome, '$.charged'),
        json_extract(outcome, '$.value.usage.output_tokens'),
        json_extract(outcome, '$.value.finish')
    FROM effects WHERE kind = 'CallModel' AND outcome IS NOT NULL
"""


class RecordedCall(Struct, frozen=True):
    """`process` is its last name in the path of the process that called; `output_tokens` is None
    where there was no answer, or nobody counted."""

    program: ProgramId
    process: str
    charged: Money
    output_tokens: int | None
    is_cut: bool


def recorded_calls(path: Path) -> list[RecordedCall]:
    """Of a file that `list_runs` can read."""
    import sqlite3

    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            return [
                RecordedCall(
                    program, _process(place), Money(charged or 0), tokens, finish == "length"
                )
                for program, place, charged, tokens, finish in file.execute(_CALLS)
            ]
    except sqlite3.Error as error:
        raise sqlite_error(str(path), error) from error


def _process(place: str) -> str:
    """`main#1/A~#1/send …` is of `A~`."""
    process_path = place.partition("/send ")[0]
    return process_path.rpartition("/")[2].rpartition("#")[0]


# What a journal file holds, run by run, looked at from outside: nothing is written to it.


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

    run: RunRecord
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
            reject_foreign_schema(file, str(path))
            seals = RowSeals(str(path), user_seal)
            seals.install(file)
            return _summaries(file, path, seals)
    except sqlite3.Error as error:
        if "no such table" in str(error):
            raise StoreError(
                f"{path} holds no journal; name the file that Runtime(journal=…) names"
            ) from None
        raise sqlite_error(str(path), error) from error


def _summaries(file: "sqlite3.Connection", path: Path, seals: RowSeals) -> list[RunSummary]:
    """A run tells which command is started again to resume it, so it must be sealed by us."""
    found: list[RunSummary] = []
    for program, intact, *rest in file.execute(_RUNS):
        if not intact:
            raise seals.broken("runs", program)
        text, ended_ms, recorded, cut_off, spent, lost = rest
        run = from_json(RunRecord, text)
        living = ended_ms is None and is_running(path, run)
        money = Money(spent or 0), Money(lost or 0)
        found.append(RunSummary(run, ended_ms, living, recorded, cut_off, *money))
    return found


def is_running(path: Path, run: RunRecord) -> bool:
    """Who writes it has locked the journal, or its run in one that is shared."""
    return _is_locked(path) or _is_locked(run_files(path, run.program))


def _is_locked(path: Path) -> bool:
    if not Path(f"{path}.lock").exists():
        return False
    lock = lock_file(path)
    if lock is not None:
        os.close(lock)
    return lock is None


# What a journal forgets: runs that ended long ago, or that make it too large.
#
# Unfinished runs are never forgotten: each of them can go on. Space that is freed is used again by
# the next runs; only `vega gc` gives it back to the disk, since that writes the whole file anew.


_ENDED = "SELECT program, ended_ms FROM runs WHERE ended_ms IS NOT NULL ORDER BY ended_ms"
_BESIDE = (".spool", ".lock")


class ForgottenRuns(Struct, frozen=True):
    """`bytes` is what was freed, or would be."""

    runs: tuple[str, ...] = ()
    bytes: int = 0


def forget_runs(
    path: Path,
    before_ms: int,
    most_bytes: int,
    *,
    at_most: int | None = None,
    dry_run: bool = False,
    shrink: bool = False,
) -> ForgottenRuns:
    """Forget runs that ended before then, and the oldest ones while the rest is larger than
    `most_bytes`. `at_most` bounds the work, for who has something else to do."""
    import sqlite3

    if not path.is_file():
        return ForgottenRuns()
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as file:
            forgotten = _forget(file, path, before_ms, most_bytes, at_most, dry_run=dry_run)
            if shrink and not dry_run:
                file.execute("VACUUM")
            return forgotten
    except sqlite3.Error as error:
        raise sqlite_error(str(path), error) from error


def _forget(
    file: "sqlite3.Connection",
    path: Path,
    before_ms: int,
    most_bytes: int,
    at_most: int | None,
    *,
    dry_run: bool,
) -> ForgottenRuns:
    """One transaction a run, so that nobody who records waits long."""
    size, freed, runs = _used(file), 0, list[str]()
    for program, ended_ms in file.execute(_ENDED).fetchall()[:at_most]:
        if ended_ms >= before_ms and size - freed <= most_bytes:
            break
        freed += _size_of(file, program)
        runs.append(program)
        if not dry_run:
            _delete(file, path, program)
    return ForgottenRuns((*runs,), freed)


def _delete(file: "sqlite3.Connection", path: Path, program: str) -> None:
    file.execute("BEGIN IMMEDIATE")
    file.execute("DELETE FROM effects WHERE program = ?", (program,))
    file.execute("DELETE FROM runs WHERE program = ?", (program,))
    file.execute("COMMIT")
    for suffix in _BESIDE:
        with suppress(OSError):
            Path(f"{run_files(path, program)}{suffix}").unlink()


def _size_of(file: "sqlite3.Connection", program: str) -> int:
    """About: what its rows hold."""
    query = (
        "SELECT SUM(LENGTH(key) + LENGTH(path) + LENGTH(digest) + IFNULL(LENGTH(outcome), 0))"
        " FROM effects WHERE program = ?"
    )
    return file.execute(query, (program,)).fetchone()[0] or 0


def _used(file: "sqlite3.Connection") -> int:
    pages, free, size = (
        file.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
