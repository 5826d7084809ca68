"""Mutates policy/ and counts what the tests notice: `python tools/mutants.py [sample size]`.

mutmut makes every mutant; a seeded sample of them is run, so that it takes under ten minutes.
A mutant that makes the tests fail or hang is killed. Survivors are printed as diffs, to be judged.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
MUTMUT = Path(sys.executable).parent / "mutmut"
TARGET = 0.90
SEED = 2026
ENVIRONMENT = os.environ | {"VEGA_HISTORIES": "25"}


def mutmut(*arguments: str, quiet: bool = False) -> str:
    ran = subprocess.run(
        [MUTMUT, *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        check=False,
    )
    return ran.stdout


def verdicts() -> dict[str, str]:
    listed = mutmut("results", "--all", "true", quiet=True)
    return dict(re.findall(r"^\s+(\S+): (.+)$", listed, re.MULTILINE))


def main() -> int:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    started = time.monotonic()
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    mutmut("run", "only to make the mutants", quiet=True)
    made = sorted(verdicts())
    if not made:
        print("mutmut made no mutants; run `mutmut run` to see why")
        return 2
    sample = random.Random(SEED).sample(made, min(wanted, len(made)))
    print(f"{len(made)} mutants, {len(sample)} in the sample", flush=True)
    mutmut("run", "--max-children", "2", *sample, quiet=True)
    found = verdicts()
    survivors = sorted(name for name in sample if found[name] in {"survived", "no tests"})
    for name in survivors:
        print(f"\n{found[name]}: {name}")
        print(*[line for line in mutmut("show", name).splitlines() if line[:1] in "+-"], sep="\n")
    killed = 1 - len(survivors) / len(sample)
    took = time.monotonic() - started
    print(f"\n{len(sample) - len(survivors)} of {len(sample)} killed: {killed:.1%} in {took:.0f} s")
    return int(killed < TARGET)


if __name__ == "__main__":
    sys.exit(main())
