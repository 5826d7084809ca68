"""`vega gc`: forget runs that ended long ago, and give their space back."""

import argparse
import time
from collections.abc import Sequence

from vegakit.cli.looking import duration
from vegakit.cli.recorded import journal_of_user
from vegakit.config import load
from vegakit.store import forget_runs, list_runs

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    settings, path = load(), journal_of_user()
    if not path.is_file():
        print(f"nothing is recorded in {path}")
        return 0
    now = time.time_ns() // 1_000_000
    before = path.stat().st_size
    forgotten = forget_runs(
        path,
        now - settings.journal_keep_ms,
        settings.journal_bytes,
        dry_run=chosen.dry_run,
        shrink=True,
    )
    freed = forgotten.bytes if chosen.dry_run else before - path.stat().st_size
    verb = "would forget" if chosen.dry_run else "forgot"
    print(f"{verb} {len(forgotten.runs)} ended runs, {_size(max(0, freed))}, of {path}")
    old = [
        one
        for one in list_runs(path)
        if one.ended_ms is None and one.run.started_ms < now - settings.journal_keep_ms
    ]
    if old:
        age = duration(settings.journal_keep_ms)
        print(
            f"{len(old)} unfinished runs are older than {age} and are kept, since each can go on; "
            "to see them, type: vega runs"
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega gc",
        description="Forget ended runs that are older, or make the journal larger, than [journal] "
        "in vega.toml says (30d and 1GB), and give the space back. Unfinished runs are kept.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be forgotten")
    return parser


def _size(count: int) -> str:
    for unit, size in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
