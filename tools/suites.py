"""Runs suites of checks and tests, and prints what ran, how long it took and what it cost.

    python tools/suites.py check     what fits into a minute: format, lint, layers, types, the tests
                                     nearest to the change (tools/changes.py): before every commit
    python tools/suites.py ci        everything that protects a change
    python tools/suites.py pulled    the nightly suites of the packages that changed: a part of ci
    python tools/suites.py nightly   everything
    python tools/suites.py lint      one suite by its name
    python tools/suites.py ci --measure    keep what it cost in tools/costs.json

A verdict never depends on how fast the machine is. Only a suite that is still running after
`HANGS_S` is ended, and fails.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import NamedTuple, TextIO

import changes
import costs

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
HANGS_S = 4_000
CHECK_S = 45.0
"""After this time `check` begins no further test."""
PURE = (
    "agent/** contracts/** conversation errors lazy effects events ids lang/** money policy/** "
    "ports/** prices program/** records vm/**".split()
)
PURE_FILES = ",".join(f"src/vegakit/{room}{'' if '/' in room else '.py'}" for room in PURE)
WORKERS = (os.cpu_count() or 1) + 1
"""Many tests wait for a process or a server: one worker more than cores keeps the cores busy."""
PYTEST = f"pytest -q -n {WORKERS}".split()
BY_FILE = [*PYTEST, "--dist", "loadfile", "--no-loadscope-reorder"]
"""A worker takes a whole file, so that its fixtures are made once. `tests/conftest.py` orders the
files: the most expensive ones first."""


class Suite(NamedTuple):
    """`histories` is how many random histories a property runs; `alone` keeps a suite that takes
    all cores from running beside another; it does not collect the files `left_out`."""

    commands: list[list[str]]
    histories: int = 30
    alone: bool = False
    left_out: tuple[str, ...] = ()


SUITES = {
    "format": Suite([["ruff", "format", "--check", "--quiet", "."]]),
    "lint": Suite([["ruff", "check", "--quiet", "."]]),
    "layers": Suite([["lint-imports", "--no-cache"]]),
    "catalog": Suite([["python", "tools/make_catalog.py", "--check"]]),
    "types": Suite([["basedpyright", "src"]]),
    "all types": Suite([["basedpyright"]]),
    "quick types": Suite([["python", "tools/quick_types.py"]]),
    "parallel": Suite([["python", "-m", "campaigns.parallel", "100"]]),
    "prose": Suite([["python", "tools/prose.py"]]),
    "empty environment": Suite([["bash", "tools/try_wheel.sh"]]),
    "wheel": Suite([["bash", "tools/try_wheel.sh"], [*BY_FILE, "tests/wheel"]], alone=True),
    # One process compiles the tests, while types are checked. Otherwise each worker would.
    "compiled tests": Suite(
        [
            [
                *"env -u PYTHONDONTWRITEBYTECODE VEGA_TEST_SHARE=0".split(),
                *"pytest -q --collect-only".split(),
            ]
        ],
        left_out=tuple(changes.nightly_files()),
    ),
    "tests": Suite([BY_FILE], alone=True, left_out=tuple(changes.nightly_files())),
    "all tests": Suite(
        [
            ["coverage", "erase"],
            [*"coverage run -m".split(), *BY_FILE],
            ["coverage", "combine", "--quiet"],
            ["coverage", "report", "-i", "--fail-under=80"],
            ["coverage", "report", "-i", f"--include={PURE_FILES}", "--fail-under=95"],
        ],
        alone=True,
    ),
    "properties": Suite(
        [[*BY_FILE, "--timeout=0", *[p for p in changes.test_files() if "_properties" in p]]],
        histories=1_000,
        alone=True,
    ),
} | {
    name: Suite([command.split() for command in suite.commands], histories=100, alone=True)
    for name, suite in changes.NIGHTLY_SUITES.items()
}
GROUPS = {
    "check": ["format", "lint", "layers", "quick types", "chosen tests"],
    "ci": [
        *("types", "parallel", "compiled tests", "empty environment"),
        *"catalog format lint layers tests".split(),
    ],
    "nightly": [
        "all types",
        *"format lint layers catalog prose".split(),
        "empty environment",
        "all tests",
        "properties",
        *changes.NIGHTLY_SUITES,
    ],
}


def chosen_tests() -> Suite:
    """Return the tests that `check` runs."""
    plan = changes.check_plan(changes.changed_files(), changes.importers())
    print(plan)
    until = f"VEGA_TESTS_UNTIL={time.time() + CHECK_S}"
    tests = ["env", until, *PYTEST, "--dist", "worksteal", *plan.files]
    return Suite([tests] if plan.files else [], histories=20)


def pulled_suites() -> tuple[list[str], dict[str, Suite]]:
    """Return the nightly suites of the packages that changed, tests as one of them."""
    plan = changes.nightly_plan(changes.changed_for_ci())
    print("nightly suites of what changed:", plan, sep="\n")
    if not plan.files:
        return plan.suites, {}
    tests = Suite([[*BY_FILE, *plan.files]], histories=100, alone=True)
    return [*plan.suites, "pulled tests"], {"pulled tests": tests}


PYTEST_SUMMARY = re.compile(r"^(=+ )?\d+ (passed|failed|error).* in [\d.]+s")


class Row(NamedTuple):
    name: str
    took_s: float
    cost: costs.Cost
    verdict: str
    summary: str


def main() -> int:
    _take_signals()
    words = [word for word in sys.argv[1:] if word != "--measure"] or ["check"]
    suites = SUITES
    names: list[str] = []
    for word in words:
        if word in {"ci", "pulled"}:
            pulled, more = pulled_suites()
            suites = suites | more
            names += [*GROUPS.get(word, []), *pulled]
        elif word == "check":
            suites = suites | {"chosen tests": chosen_tests()}
            names += GROUPS[word]
        else:
            names += GROUPS.get(word, [word])
    unknown = [name for name in names if name not in suites]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are {', '.join([*GROUPS, *suites])}")
        return 2
    with tempfile.TemporaryDirectory(prefix="vega-costs-") as folder:
        rows = list(run_all(names, suites, folder))
        files = costs.collected(Path(folder))
    show(rows, files)
    if "--measure" in sys.argv:
        keep(rows, files)
    return int(any(row.verdict != "ok" for row in rows))


def _take_signals() -> None:
    """Let the tests see signals as at a terminal. A command in the background of a shell, or under
    `nohup`, ignores these signals, and so would every process that a test starts."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


def show(rows: list[Row], files: dict[str, costs.Cost]) -> None:
    """Print the tables, and pytest's last line last."""
    if files:
        print("\n" + costs.table("tests by directory", costs.by_directory(files)))
    print("\nsuite                 took        CPU")
    for row in rows:
        print(f"{row.name:<16} {row.took_s:8.1f} s {row.cost.cpu_s:8.1f} s  {row.verdict}")
    for summary in [row.summary for row in rows if row.summary][-1:]:
        print(summary)


def keep(rows: list[Row], files: dict[str, costs.Cost]) -> None:
    """Write what this run cost into the table that plans are made from."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    costs.keep(
        costs.Costs(
            date=datetime.now(UTC).date().isoformat(),
            commit=commit,
            command=" ".join(["python tools/suites.py", *sys.argv[1:]]),
            files=files,
            suites={row.name: row.cost for row in rows},
        )
    )


def run_all(names: list[str], suites: dict[str, Suite], folder: str) -> Iterator[Row]:
    """Run suites two at a time, each on one core, and show what each prints when it has ended. Then
    run those that take all cores, one after the other. Tests write into `folder` what they cost."""
    beside = [name for name in names if not suites[name].alone]
    with ThreadPoolExecutor(2 if len(beside) > 1 else 1) as pool:
        pages = [StringIO() for _ in beside]
        running = [
            pool.submit(run, name, suites[name], folder, page)
            for name, page in zip(beside, pages, strict=True)
        ]
        for future, page in zip(running, pages, strict=True):
            row = future.result()
            print(page.getvalue(), end="", flush=True)
            yield row
    for name in names:
        if suites[name].alone:
            yield run(name, suites[name], folder, sys.stdout)


def run(name: str, suite: Suite, folder: str, out: TextIO) -> Row:
    print(f"\n── {name}", file=out, flush=True)
    started = time.monotonic()
    env = {
        "VEGA_HISTORIES": str(suite.histories),
        **os.environ,
        "VEGA_COSTS": folder,
        "VEGA_TESTS_LEFT_OUT": ":".join(suite.left_out),
    }
    cpu_s = 0.0
    verdict = "ok"
    summary = ""
    for command in suite.commands:
        left_s = HANGS_S - (time.monotonic() - started)
        code, usage, last = stream(command, env, left_s, out)
        cpu_s += usage
        summary = last or summary
        if code != 0:
            verdict = f"FAILED ({' '.join(command[:3])}: exit {code})"
            break
    counted = re.search(r"(\d+) passed", summary)
    cost = costs.Cost(cpu_s, int(counted[1]) if counted else 0)
    return Row(name, time.monotonic() - started, cost, verdict, summary)


def stream(
    command: list[str], env: dict[str, str], seconds: float, out: TextIO
) -> tuple[int, float, str]:
    """Show the output as it comes. Return the exit code, the CPU seconds of the command and of all
    that it waited for, and pytest's summary."""
    program = BIN / command[0]
    line = [str(program) if program.exists() else command[0], *command[1:]]
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    summary = ""
    with subprocess.Popen(
        line,
        cwd=ROOT,
        env={**env, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        killer = threading.Timer(seconds, os.killpg, [process.pid, signal.SIGKILL])
        killer.start()
        for text in process.stdout or ():
            print(text, end="", file=out, flush=True)
            summary = text.strip() if PYTEST_SUMMARY.match(text) else summary
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        killer.cancel()
    return process.returncode, _cpu_s(usage), summary


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
