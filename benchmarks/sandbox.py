"""What a sandboxed command costs, and that bombs are contained: `python -m benchmarks.sandbox`.

Bare bubblewrap gets the very arguments that the sandbox gives it, started by `subprocess` from this
process; both take turns, so that what else the machine does falls on each alike. Of several rounds
the quietest counts: that in which bare bubblewrap was fastest.
"""

import asyncio
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from benchmarks.containment import contained
from benchmarks.figures import Figure, at_most, show
from vegakit.runtime import SteadyClock
from vegakit.runtime.children import Children
from vegakit.tools.sandbox import Bubblewrap
from vegakit.tools.sandbox.seccomp import filter_file
from vegakit.tools.sandbox.workspace import look

__all__ = ["main"]

ROUNDS = 5
TURNS = 40
AT_ONCE = 8
MOST_MS = 12
MOST_TIMES = 1.3
MOST_TOGETHER_S = 1.15


def bare_ms(argv: list[str], descriptor: int, folder: Path) -> float:
    began = time.perf_counter()
    at = argv.index("--seccomp") + 1
    words = [*argv[:at], str(descriptor), *argv[at + 1 :]]
    subprocess.run(words, cwd=folder, env={}, pass_fds=[descriptor], check=True)
    return (time.perf_counter() - began) * 1_000


def clear(folder: Path) -> None:
    """What bubblewrap made to mount on: it makes it anew each time, as for the sandbox."""
    for path in folder.iterdir():
        path.rmdir() if path.is_dir() else path.unlink()


async def exec_ms(sandbox: Bubblewrap) -> float:
    began = time.perf_counter()
    ran = await sandbox.run(["true"], owner="bench")
    assert ran.exit_code == 0, ran.stderr
    return (time.perf_counter() - began) * 1_000


async def together_s(sandbox: Bubblewrap) -> float:
    began = time.perf_counter()
    runs = (sandbox.run(["sleep", "1"], owner="bench") for _ in range(AT_ONCE))
    assert all(ran.exit_code == 0 for ran in await asyncio.gather(*runs))
    return time.perf_counter() - began


class Round(NamedTuple):
    """Medians, in milliseconds."""

    bare: float
    exec: float


class Measured(NamedTuple):
    rounds: list[Round]
    together: float
    contained: list[Figure]


async def one_round(sandbox: Bubblewrap, folder: Path) -> Round:
    argv, filter_ = sandbox.wrap(["true"], look(folder)), filter_file(platform.machine())
    bare: list[float] = []
    execs: list[float] = []
    for _ in range(TURNS):
        execs.append(await exec_ms(sandbox))
        with filter_.open("rb") as opened:
            bare.append(bare_ms(argv, opened.fileno(), folder))
        clear(folder)
    return Round(statistics.median(bare), statistics.median(execs))


async def measure(folder: Path) -> Measured:
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        sandbox = Bubblewrap(children, clock, folder)
        rounds = [await one_round(sandbox, folder) for _ in range(ROUNDS)]
        together = min([await together_s(sandbox) for _ in range(3)])
        return Measured(rounds, together, await contained(children, clock, folder))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rounds, together, bombs = asyncio.run(measure(Path(folder)))
    quietest = min(rounds)
    times = quietest.exec / quietest.bare
    all_times = ", ".join(f"{each.exec / each.bare:.2f}" for each in rounds)
    figures = [
        Figure("exec in bare bubblewraps, each round", all_times),
        Figure("bare bubblewrap, the same arguments, p50", f"{quietest.bare:.1f} ms"),
        at_most(MOST_MS, quietest.exec, "ms", "exec of true, p50"),
        Figure(
            "that in bare bubblewraps", f"{times:.2f} x", f"≤ {MOST_TIMES} x", times <= MOST_TIMES
        ),
        Figure(
            f"{AT_ONCE} tools of 1 s at once, best of 3",
            f"{together:.3f} s",
            f"≤ {MOST_TOGETHER_S} s",
            together <= MOST_TOGETHER_S,
        ),
        *bombs,
    ]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
