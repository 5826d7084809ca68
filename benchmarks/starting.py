"""How long commands take to begin, and what an import costs: CPU time beside that of a bare Python.

CPU time, as others may be busy on the same machine; the best of several runs counts.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, at_most

__all__ = ["starting_figures"]

RUNS = 5
HELP_S, CHECK_S, IMPORT_S = 0.15, 0.25, 0.6
VEGA = (sys.executable, "-c", "from vegakit.cli.main import main; main()")


def starting_figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        hello = Path(folder) / "hello.vega"
        hello.write_text('print("hello");\n', encoding="utf-8")
        commands = {
            "bare": (sys.executable, "-c", "pass"),
            "vega --help": (*VEGA, "--help"),
            "vega check hello.vega": (*VEGA, "check", str(hello)),
            "from vegakit import Agent, Runtime": (
                *(sys.executable, "-c"),
                "from vegakit import Agent, Runtime",
            ),
        }
        runs = [[_cpu_s(command) for command in commands.values()] for _ in range(RUNS)]
    bare, *took = (min(of_one) for of_one in zip(*runs, strict=True))
    limits = (HELP_S, CHECK_S, IMPORT_S)
    names = [f"{name}, more than python" for name in list(commands)[1:]]
    rows = zip(limits, took, names, strict=True)
    return [at_most(limit * 1_000, (cpu - bare) * 1_000, "ms", name) for limit, cpu, name in rows]


def _cpu_s(command: tuple[str, ...]) -> float:
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    from benchmarks.figures import show

    print(show(starting_figures()))
