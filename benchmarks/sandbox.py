"""What a sandboxed command costs: `python -m benchmarks.sandbox`.

Bare bubblewrap gets the very arguments that the sandbox gives it, started by `subprocess` from this
process; both take turns, so that what else the machine does falls on each alike.
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

from benchmarks.figures import Figure, at_most, show
from vegakit.runtime import SteadyClock
from vegakit.runtime.children import Children
from vegakit.tools.sandbox import Bubblewrap
from vegakit.tools.sandbox.seccomp import filter_file
from vegakit.tools.sandbox.workspace import look

__all__ = ["main"]

ROUNDS = 100
AT_ONCE = 8
MOST_MS = 12
MOST_TIMES = 1.3
MOST_TOGETHER_S = 1.15


def bare_argv(sandbox: Bubblewrap, folder: Path) -> list[str]:
    """Without the shell before it."""
    _, _, _, _, *argv = sandbox.wrap(["true"], look(folder))
    return argv


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


async def measure(folder: Path) -> tuple[list[float], list[float], float]:
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        sandbox = Bubblewrap(children, clock, folder)
        argv, filter_ = bare_argv(sandbox, folder), filter_file(platform.machine())
        bare: list[float] = []
        execs: list[float] = []
        for _ in range(ROUNDS):
            execs.append(await exec_ms(sandbox))
            with filter_.open("rb") as opened:
                bare.append(bare_ms(argv, opened.fileno(), folder))
            clear(folder)
        together = min([await together_s(sandbox) for _ in range(3)])
    return execs, bare, together


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        all_execs, all_bare, together = asyncio.run(measure(Path(folder)))
    execs, bare = statistics.median(all_execs), statistics.median(all_bare)
    fastest = f"{min(all_execs):.1f} and {min(all_bare):.1f} ms"
    figures = [
        Figure("the fastest exec and bare bubblewrap", fastest),
        Figure("bare bubblewrap, the same arguments, p50", f"{bare:.1f} ms"),
        at_most(MOST_MS, execs, "ms", "exec of true, p50"),
        Figure(
            "that in bare bubblewraps",
            f"{execs / bare:.2f} x",
            f"≤ {MOST_TIMES} x",
            execs / bare <= MOST_TIMES,
        ),
        Figure(
            f"{AT_ONCE} tools of 1 s at once, best of 3",
            f"{together:.3f} s",
            f"≤ {MOST_TOGETHER_S} s",
            together <= MOST_TOGETHER_S,
        ),
    ]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
