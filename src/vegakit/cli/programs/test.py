"""`vega test`: programs that say beside their lines what they shall do."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from vegakit.cli.programs.sources import check_loading
from vegakit.errors import UserError
from vegakit.testing import run_test, tests_below

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    began, failed = time.monotonic(), 0
    paths = list(tests_below(chosen.paths))
    if not paths:
        raise UserError(
            "no program here says what it shall do; add a line: print(1);  // expect: 1"
        )
    for path in paths:
        ran = run_test(path, loading=check_loading)
        failed += bool(ran.problems)
        if ran.problems:
            print("\n".join([f"FAILED {path}", *(f"  {problem}" for problem in ran.problems)]))
        elif chosen.verbose:
            print(f"passed {path}")
    took_s = time.monotonic() - began
    print(f"{len(paths) - failed} of {len(paths)} passed in {took_s:.1f} s", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega test",
        description="Run test programs: scripted answers in their comments, virtual time, no key.",
    )
    parser.add_argument("paths", nargs="*", type=Path, default=[Path()], metavar="FILE|FOLDER")
    parser.add_argument("-v", "--verbose", action="store_true", help="name those that passed too")
    return parser
