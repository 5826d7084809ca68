"""What a sandboxed command costs, and that bombs are contained: `python -m benchmarks.sandbox`.

Bare bubblewrap is started by `subprocess` from this process with the arguments that the sandbox
gives it, once as they are and once with the same guards over the workspace, by name, as arguments;
all take turns, so that what else the machine does falls on each alike. Of several rounds the
quietest counts: that in which bare bubblewrap was fastest.
"""

import asyncio
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from campaigns.containment import contained

from benchmarks.figures import Figure, at_most, show
from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.tools import Bubblewrap
from vegakit.tools.protected_names import ABSENT_FILES, ABSENT_FOLDERS
from vegakit.tools.sandbox.seccomp import filter_file

__all__ = ["main"]

ROUNDS = 5
TURNS = 40
AT_ONCE = 8
MOST_MS = 12
MOST_TIMES = 1.4
MOST_TOGETHER_S = 1.15


def bare_ms(argv: list[str], descriptor: int, folder: Path) -> float:
    began = time.perf_counter()
    at = argv.index("--seccomp") + 1
    words = [*argv[:at], str(descriptor), *argv[at + 1 :]]
    subprocess.run(words, cwd=folder, env={}, pass_fds=[descriptor], check=True)
    return (time.perf_counter() - began) * 1_000


def bare(argv: list[str], folder: Path) -> list[str]:
    """The workspace by its name: nobody hands it over as a descriptor."""
    at = argv.index("--bind-fd") if "--bind-fd" in argv else argv.index("--bind")
    return [*argv[:at], "--bind", str(folder), *argv[at + 2 :]]


def guarded(argv: list[str], folder: Path) -> list[str]:
    """The same with guards by name over what is absent."""
    guards: list[str] = []
    for name in ABSENT_FOLDERS:
        guards += ["--size", "4096", "--perms", "0555", "--tmpfs", str(folder / name)]
    for name in ABSENT_FILES:
        guards += ["--ro-bind", os.devnull, str(folder / name)]
    at = argv.index("--chdir")
    return [*argv[:at], *guards, *argv[at:]]


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
    guarded: float
    exec: float


class Measured(NamedTuple):
    rounds: list[Round]
    together: float
    contained: list[Figure]


async def one_round(sandbox: Bubblewrap, folder: Path) -> Round:
    plain, filter_ = bare(sandbox.wrap(["true"]), folder), filter_file(platform.machine())
    each: list[Round] = []
    for _ in range(TURNS):
        took = await exec_ms(sandbox)
        bares: list[float] = []
        for argv in (plain, guarded(plain, folder)):
            with filter_.open("rb") as opened:
                bares.append(bare_ms(argv, opened.fileno(), folder))
            clear(folder)
        each.append(Round(bares[0], bares[1], took))
    return Round(
        statistics.median(one.bare for one in each),
        statistics.median(one.guarded for one in each),
        statistics.median(one.exec for one in each),
    )


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
    times = quietest.exec / quietest.guarded
    all_times = ", ".join(f"{each.exec / each.guarded:.2f}" for each in rounds)
    figures = [
        Figure("exec in bare bubblewraps, each round", all_times),
        Figure("bare bubblewrap, the same guards by name, p50", f"{quietest.guarded:.1f} ms"),
        Figure("bare bubblewrap, nothing guarded, p50", f"{quietest.bare:.1f} ms"),
        Figure("exec in those", f"{quietest.exec / quietest.bare:.2f} x"),
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
