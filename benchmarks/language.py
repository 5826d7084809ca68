"""The language by its own test programs: `python -m benchmarks.language [full]`.

Every program of tests/language, whole and stopped after every instruction; then the parser against
the grammar, the formatter, and hostile bytecode, on generated programs: 1,000 of each, or 10,000
with `full`. Prints counts, and exits 1 when one falls short.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.language.test_programs import PROGRAMS, missing_instructions

from vegakit.lang import Op
from vegakit.testing import run_test

__all__ = ["main"]

REPOSITORY = Path(__file__).parents[1]
LEAST_PROGRAMS = 300
GENERATED = {
    "parser as the grammar": ("VEGA_PROGRAMS", "tests/lang/test_grammar_properties.py"),
    "formatter": ("VEGA_PROGRAMS", "tests/lang/test_formatting_properties.py"),
    "hostile bytecode": ("VEGA_MUTANTS", "tests/vm/test_mutants.py"),
}


class Row(NamedTuple):
    what: str
    good: int
    of: int

    @property
    def falls_short(self) -> bool:
        return self.good < self.of


def programs(*, step_by_step: bool) -> Row:
    good = 0
    for path in PROGRAMS:
        problems = run_test(path, step_by_step=step_by_step).problems
        good += not problems
        for problem in problems:
            print(f"{path.relative_to(REPOSITORY)}: {problem}")
    how = "programs, stopped after every instruction" if step_by_step else "programs"
    return Row(how, good, max(len(PROGRAMS), LEAST_PROGRAMS))


def generated(what: str, count: int) -> Row:
    knob, tests = GENERATED[what]
    words = [sys.executable, *"-m pytest -q -n2 --timeout=0 -p no:cacheprovider".split(), tests]
    env = {**os.environ, knob: str(count)}
    ran = subprocess.run(
        words, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        print(ran.stdout + ran.stderr)
    return Row(f"generated: {what}", 0 if ran.returncode else count, count)


def rows(count: int) -> Iterator[Row]:
    yield programs(step_by_step=False)
    yield programs(step_by_step=True)
    yield Row("instructions in some program", len(Op) - len(missing_instructions()), len(Op))
    for what in GENERATED:
        yield generated(what, count)


def main() -> int:
    found = list(rows(10_000 if "full" in sys.argv[1:] else 1_000))
    for row in found:
        verdict = "FALLS SHORT" if row.falls_short else "ok"
        print(f"{row.what:<44} {row.good:>6,} of {row.of:>6,}  {verdict}")
    return int(any(row.falls_short for row in found))


if __name__ == "__main__":
    sys.exit(main())
