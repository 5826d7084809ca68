"""What a journal forgets: runs that ended long ago, or that make it too large.

Unfinished runs are never forgotten: each of them can go on. Space that is freed is used again by
the next runs; only `vega gc` gives it back to the disk, since that writes the whole file anew.
"""

from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vegakit.store.sqlite_file import BUSY_S, explained
from vegakit.store.sqlite_journal import run_files

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Forgotten", "forget_runs"]

_ENDED = "SELECT program, ended_ms FROM runs WHERE ended_ms IS NOT NULL ORDER BY ended_ms"
_BESIDE = (".spool", ".lock")


class Forgotten(Struct, frozen=True):
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
) -> Forgotten:
    """Forget runs that ended before then, and the oldest ones while the rest is larger than
    `most_bytes`. `at_most` bounds the work, for who has something else to do."""
    import sqlite3

    if not path.is_file():
        return Forgotten()
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as file:
            forgotten = _forget(file, path, before_ms, most_bytes, at_most, dry_run=dry_run)
            if shrink and not dry_run:
                file.execute("VACUUM")
            return forgotten
    except sqlite3.Error as error:
        raise explained(str(path), error) from error


def _forget(
    file: "sqlite3.Connection",
    path: Path,
    before_ms: int,
    most_bytes: int,
    at_most: int | None,
    *,
    dry_run: bool,
) -> Forgotten:
    """One transaction a run, so that nobody who records waits long."""
    size, freed, runs = _used(file), 0, list[str]()
    for program, ended_ms in file.execute(_ENDED).fetchall()[:at_most]:
        if ended_ms >= before_ms and size - freed <= most_bytes:
            break
        freed += _size_of(file, program)
        runs.append(program)
        if not dry_run:
            _delete(file, path, program)
    return Forgotten((*runs,), freed)


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
