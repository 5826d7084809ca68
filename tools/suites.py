"""Runs named suites, each within its time budget, and prints what ran and how long it took.

    python tools/suites.py check     format, lint, layers; types and tests of what changed and of
                                     what imports it (tools/changes.py): before every commit
    python tools/suites.py ci        everything that must hold
    python tools/suites.py tests     one suite by its name

A suite that fails or exceeds its budget fails the run. The last line is pytest's own summary.
"""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TextIO

import changes

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
PURE = (
    "agent/** contracts/** conversation errors lazy effects events ids lang/** money policy/** "
    "ports/** prices program/** records vm/**".split()
)
PURE_FILES = ",".join(f"src/vegakit/{room}{'' if '/' in room else '.py'}" for room in PURE)


KILLS = [
    "tests/durable",
    "tests/journal/test_kills.py",
    "tests/durability/test_kill_campaign.py",
    "tests/durability/test_going_on.py",
]
PURE_TESTS = [
    f"tests/{place}"
    for place in (
        "agent authored/test_admission.py authored/test_running.py cli/test_cost.py "
        "cli/test_repl.py contracts language language_python lang parallel policy program "
        "test_money.py test_prices.py vesper/test_node_native.py vesper/test_node_programs.py "
        "vm".split()
    )
]
"""The tests of the pure packages, which alone have to cover them. Where a pure part is there for
one caller, its tests are those of the caller."""
APART = ["tests/simulation", "tests/wheel", *KILLS]
"""Suites of their own: the runtime simulated, the wheel, Temporal, programs that are killed."""
_EVERY_MODULE_ALONE = "tests/architecture/test_rules.py::test_our_tree_keeps"
SLOW = [
    "--ignore-glob=*_faults.py",
    f"--deselect={_EVERY_MODULE_ALONE}[importing_has_no_effects]",
    f"--deselect={_EVERY_MODULE_ALONE}[imports_without_unix]",
    "--deselect=tests/architecture/test_shape.py::test_a_flow_enters_few_files",
    *(
        f"--ignore={path}"
        for path in (
            *APART,
            "tests/cli/test_demo.py",
            "tests/kernel/test_attacks_web.py",
            "tests/kernel/test_chaos.py",
            "tests/kernel/test_openapi.py",
            "tests/runtime/children",
            "tests/runtime/test_kill_leaks.py",
            "tests/runtime/test_timeouts_on_the_wire.py",
            "tests/store/test_ledger_kills.py",
            "tests/store/test_postgres_processes.py",
            "tests/tools/mcp/test_attacks.py",
            "tests/tools/mcp/test_nothing_survives.py",
            "tests/tools/sandbox/test_isolated.py",
            "tests/tools/sandbox/test_nothing_survives.py",
        )
    ),
]
"""Left out of the fast tests: faults planted to be found, modules loaded one by one, flows that are
traced, and processes that are killed."""


class Suite(NamedTuple):
    budget_s: int
    commands: list[list[str]]
    histories: int = 100


def _measured(chosen: list[str]) -> list[list[str]]:
    """Run these tests and count which lines they reach."""
    return [
        ["coverage", "erase"],
        [*"coverage run -m pytest -q -n2".split(), *chosen],
        ["coverage", "combine", "--quiet"],
    ]


SUITES = {
    "format": Suite(60, [["ruff", "format", "--check", "--quiet", "."]]),
    "lint": Suite(60, [["ruff", "check", "--quiet", "."]]),
    "types": Suite(900, [["basedpyright"]]),
    "layers": Suite(90, [["lint-imports", "--no-cache"]]),
    "catalog": Suite(120, [["python", "tools/make_catalog.py", "--check"]]),
    "fast": Suite(150, [["pytest", "-q", "-n2", *SLOW]], histories=20),
    # Measuring coverage takes a third of the time again: CI measures the pure packages, by the
    # tests of their own; `just test` measures all.
    "pure": Suite(
        1_800,
        [
            *_measured(PURE_TESTS),
            ["coverage", "report", "-i", f"--include={PURE_FILES}", "--fail-under=95"],
        ],
        histories=30,
    ),
    "tests": Suite(
        3_000,
        [["pytest", "-q", "-n2", *(f"--ignore={path}" for path in (*APART, *PURE_TESTS))]],
        histories=30,
    ),
    "coverage": Suite(
        5_400,
        [
            *_measured([f"--ignore={path}" for path in APART]),
            ["coverage", "report", "-i", "--fail-under=80"],
            ["coverage", "report", "-i", f"--include={PURE_FILES}", "--fail-under=95"],
        ],
        histories=30,
    ),
    "properties": Suite(
        900, [["pytest", "-q", "-n2", "--timeout=500", "-m", "properties"]], histories=300
    ),
    "simulate": Suite(480, [["pytest", "-q", "-n2", "tests/simulation"]]),
    "parallel": Suite(480, [["python", "-m", "campaigns.parallel", "400"]]),
    "kills": Suite(900, [["pytest", "-q", "-n2", *KILLS]]),
    "bench": Suite(150, [["python", "-m", "benchmarks"], ["python", "-m", "benchmarks.starting"]]),
    # Short curves are noisy: here a square is found; 1.15 is held at the sizes of `just growth`.
    "growth": Suite(180, [["python", "-m", "benchmarks.growth", "--rounds", "3", "--most", "1.4"]]),
    "wheel": Suite(480, [["bash", "tools/try_wheel.sh"], ["pytest", "-q", "-n0", "tests/wheel"]]),
    "e2e": Suite(300, [["bash", ".ci/setup_e2e"], ["pytest", "-q", "tests/e2e"]]),
}
GROUPS = {
    "check": ["format", "lint", "layers", "chosen types", "chosen tests"],
    "ci": (
        "format lint types layers catalog parallel wheel e2e properties simulate kills bench "
        "growth pure tests".split()
    ),
}
BESIDE = "types"
ON_ONE_CORE = ["layers", "catalog", "parallel", "wheel", "e2e"]
"""The checker of types takes one core for minutes. These take one core, too, and time nothing, so
they run beside it: two cores are what CI has."""


def chosen_suites(plan: changes.Plan) -> dict[str, Suite]:
    """What `check` looks at beyond what is looked at always; together at most two minutes."""
    fast = ["pytest", "-q", "-n2", *SLOW]
    tests = [[*fast, *plan.whole]] if plan.whole else []
    if plan.sampled:
        tests += [["env", f"VEGA_TEST_SHARE={plan.share}", *fast, *plan.sampled]]
    types = [["basedpyright", *plan.types]] if plan.types else []
    return {
        "chosen types": Suite(90, types),
        "chosen tests": Suite(120, tests, histories=20),
    }


PYTEST_SUMMARY = re.compile(r"^(=+ )?\d+ (passed|failed|error).* in [\d.]+s")


def main() -> int:
    wanted = sys.argv[1:] or ["check"]
    suites = SUITES
    if "check" in wanted:
        plan = changes.current_plan()
        print(plan)
        suites = SUITES | chosen_suites(plan)
    names = [name for word in wanted for name in GROUPS.get(word, [word])]
    unknown = [name for name in names if name not in suites]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are {', '.join([*GROUPS, *suites])}")
        return 2
    rows = list(run_all(names, suites))
    print("\nsuite          took  budget")
    for row in rows:
        print(f"{row.name:<12} {row.took_s:6.1f} s {row.budget_s:4d} s  {row.verdict}")
    print(f"total        {sum(row.took_s for row in rows):6.1f} s")
    for summary in [row.summary for row in rows if row.summary][-1:]:
        print(summary)
    return int(any(row.verdict != "ok" for row in rows))


class Row(NamedTuple):
    name: str
    took_s: float
    budget_s: int
    verdict: str
    summary: str


def run_all(names: list[str], suites: dict[str, Suite]) -> Iterator[Row]:
    """Run suites one after the other, but those of one core beside each other, what the one prints
    after what the others do."""
    others = [name for name in names if name in ON_ONE_CORE]
    is_paired = BESIDE in names and bool(others)
    for name in names:
        if is_paired and name in ON_ONE_CORE:
            continue  # it ran beside the checker
        if not is_paired or name != BESIDE:
            yield run(name, suites[name])
            continue
        kept = io.StringIO()
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(run, name, suites[name], kept)
            yield from (run(other, suites[other]) for other in others)
            row = beside.result()
        print(kept.getvalue(), end="", flush=True)
        yield row


def run(name: str, suite: Suite, out: TextIO = sys.stdout) -> Row:
    print(f"\n── {name} (at most {suite.budget_s} s)", file=out, flush=True)
    started = time.monotonic()
    verdict, summary = "ok", ""
    for command in suite.commands:
        left = suite.budget_s - (time.monotonic() - started)
        try:
            code, found = stream(command, suite.histories, max(left, 1), out)
        except subprocess.TimeoutExpired:
            verdict = "TOO SLOW"
            break
        summary = found or summary
        if code != 0:
            verdict = f"FAILED ({' '.join(command[:3])}: exit {code})"
            break
    return Row(name, time.monotonic() - started, suite.budget_s, verdict, summary)


def stream(command: list[str], histories: int, seconds: float, out: TextIO) -> tuple[int, str]:
    """Shows the output as it comes; answers the exit code and pytest's summary line."""
    program = BIN / command[0]
    line = [str(program) if program.exists() else command[0], *command[1:]]
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    env = {"VEGA_HISTORIES": str(histories), **os.environ, "PATH": path}
    summary = ""
    with subprocess.Popen(
        line,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        late = threading.Event()
        killer = threading.Timer(seconds, _kill, [process, late])
        killer.start()
        for text in process.stdout or ():
            print(text, end="", file=out, flush=True)
            summary = text.strip() if PYTEST_SUMMARY.match(text) else summary
        code = process.wait()
        killer.cancel()
    if late.is_set():
        raise subprocess.TimeoutExpired(command, seconds)
    return code, summary


def _kill(process: "subprocess.Popen[str]", late: threading.Event) -> None:
    late.set()
    os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
