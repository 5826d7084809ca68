"""`vega replay`: a recorded program runs again, offline, on the answers in its journal."""

import argparse
from collections.abc import Sequence

from vegakit.cli.recorded import named_run, runs_in, short_id, start_again, where
from vegakit.config import Replayed, replay_variables

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    path, wanted = where(chosen.named)
    summary = named_run(runs_in(path), chosen.run or wanted, path)
    said = f"replaying run {short_id(summary.run)} of {path}: no model or tool is called"
    variables = replay_variables(Replayed(path, summary.run.program))
    return start_again(said, summary.run, variables)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega replay",
        description="Run a recorded program again, offline: every answer comes from the journal, "
        "which is not changed. It stops at the first call that differs.",
    )
    parser.add_argument(
        "named", metavar="RUN|FILE", help="the beginning of a run's id, or a journal"
    )
    parser.add_argument("run", nargs="?", default="", help="a run of that journal; the last")
    return parser
