"""`vega replay`: a recorded program runs again, offline, on the answers in its journal."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from vegakit.cli.recorded import runs_in, short_id, start_again
from vegakit.config import Replayed, replay_variables
from vegakit.errors import UserError
from vegakit.store import RunSummary

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    summary = _only(runs_in(chosen.file), chosen.run, chosen.file)
    said = f"replaying run {short_id(summary.run)} of {chosen.file}: no model or tool is called"
    variables = replay_variables(Replayed(chosen.file, summary.run.program))
    return start_again(said, summary.run, variables)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega replay",
        description="Run a recorded program again, offline: every answer comes from the journal, "
        "which is not changed. It stops at the first call that differs.",
    )
    parser.add_argument("file", type=Path, help="the journal")
    parser.add_argument("run", nargs="?", default="", help="the beginning of a run's id; the last")
    return parser


def _only(runs: Sequence[RunSummary], wanted: str, path: Path) -> RunSummary:
    found = [summary for summary in runs if summary.run.program.startswith(wanted)]
    if not found:
        raise UserError(f"no run in {path} begins with {wanted!r}; type: vega runs {path}")
    if wanted and len(found) > 1:
        ids = ", ".join(summary.run.program[: len(wanted) + 8] for summary in found[-5:])
        raise UserError(f"{len(found)} runs begin with {wanted!r}; type more of one of: {ids}")
    return found[-1]
