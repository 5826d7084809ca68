"""What an import costs: best of ten new interpreters, in turn with one that imports nothing."""

import subprocess
import sys
import time

from benchmarks.figures import Figure, at_most

__all__ = ["import_figures"]

RUNS = 10
BARE = "import sys"
FRONT_DOOR = "import sys, vegakit"
IN_USE = "import sys; from vegakit import Agent, Runtime"


def import_figures() -> list[Figure]:
    statements = (BARE, FRONT_DOOR, IN_USE)
    runs = [[_took_ms(statement) for statement in statements] for _ in range(RUNS)]
    bare, front_door, in_use = (min(took) for took in zip(*runs, strict=True))
    modules = _modules(FRONT_DOOR) - _modules(BARE)
    more = _modules(IN_USE) - _modules(BARE)
    return [
        at_most(100, front_door - bare, "ms", f"import vegakit, {modules} modules"),
        Figure(f"from vegakit import Agent, Runtime, {more} modules", f"{in_use - bare:.1f} ms"),
    ]


def _took_ms(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - started) * 1_000


def _modules(statement: str) -> int:
    command = [sys.executable, "-c", f"{statement}; print(len(sys.modules))"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
