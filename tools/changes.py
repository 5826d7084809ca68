"""Chooses tests for a change: what `just check` runs, and what CI runs beyond its own tests.

    python tools/changes.py                 what would be chosen now, and what is left out
    python tools/changes.py FILE …          the same if these files had changed

`check_plan` takes files of tests in an order, as many as fit into `CHECK_CPU_S`: the changed ones,
those named for a changed module, then those of the packages that changed and of the packages that
import them, near ones and cheap ones first. `nightly_plan` takes the nightly suites of each package
that changed, cheap ones first, as many as fit into `PULLED_CPU_S`. What a file or a suite costs is
measured (tools/costs.py), so a choice depends on the change and never on the machine.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import costs
import grimp

ROOT = Path(__file__).parent.parent
CHECK_CPU_S = 40.0
PULLED_CPU_S = 300.0
UNMEASURED = costs.Cost(float("inf"))
"""A nightly suite is left to the night until a night has measured it."""
CI_SINCE = "1 day ago"
"""On the main branch itself CI takes the changes of a day for the change that it looks at."""

FOLDERS = {
    "agent": "agent",
    "architecture": "*",
    "authored": "program host sdk lang",
    "cli": "cli control sdk",
    "config": "config",
    "contracts": "contracts",
    "control": "control",
    "docs": "docs",
    "durability": "host store sdk",
    "durable": "durable",
    "e2e": "providers",
    "examples": "lang vm cli",
    "hosts": "testing host",
    "journal": "host store",
    "kernel": "kernel server control",
    "lang": "lang",
    "language": "lang vm program sdk",
    "language_python": "lang",
    "mcp_server": "server",
    "models": "providers",
    "parallel": "lang vm program",
    "policy": "policy",
    "program": "program",
    "runtime": "host sdk control child_process concurrency",
    "sage": "sage server",
    "simulation": "host program policy",
    "store": "store",
    "telemetry": "telemetry",
    "test_cli.py": "cli",
    "test_drawing.py": "cli",
    "test_money.py": "money",
    "test_parsers.py": "control lang providers sage sdk server tools vesper wires",
    "test_prices.py": "prices",
    "test_words.py": "errors ids records value_types conversation effects events lazy ports",
    "testing": "testing",
    "tools": "tools child_process",
    "vesper": "vesper contracts",
    "vm": "vm",
    "wheel": "*",
    "wires": "wires",
}
"""The packages that a folder or file below `tests` tests. `*` is chosen after every change."""
NO_TESTS = {"data"}

NIGHTLY_TESTS = (
    "tests/**/*_faults.py",  # faults that are planted to be found
    "tests/architecture/test_starting.py",  # modules loaded one by one
    "tests/cli/test_node_samples.py",
    "tests/durability/test_going_on.py",  # `just resume` in small
    "tests/durability/test_kill_campaign.py",
    "tests/durable/test_*.py",  # Temporal
    "tests/kernel/test_chaos.py",
    "tests/kernel/test_openapi.py",
    "tests/lang/flows/test_in_flight.py",  # random programs, as `just parallel` takes them
    "tests/lang/quoting/test_soundness.py",
    "tests/runtime/children/test_*.py",
    "tests/runtime/test_kill_leaks.py",
    "tests/runtime/test_timeouts_on_the_wire.py",
    "tests/sage/test_complaints.py",
    "tests/sage/test_plugins.py",
    "tests/simulation/test_*.py",
    "tests/store/test_ledger_kills.py",
    "tests/store/test_postgres_processes.py",
    "tests/tools/sandbox/test_harmless.py",
    "tests/tools/sandbox/test_swaps.py",
    "tests/tools/sandbox/test_unprivileged.py",
    "tests/tools/sandbox/test_workspace_races.py",
    "tests/vesper/test_processes.py",
)
"""Tests that `just nightly` runs, and CI only after a change of a package that they test."""


class NightlySuite(NamedTuple):
    """Commands that CI runs only after a change of one of the `packages`."""

    packages: str
    commands: tuple[str, ...]


NIGHTLY_SUITES = {
    "e2e": NightlySuite("providers wires", ("bash .ci/setup_e2e", "pytest -q tests/e2e")),
    "parallel 1000": NightlySuite("lang vm program", ("python -m campaigns.parallel 1000",)),
    "growth": NightlySuite(
        "host program vm", ("python -m benchmarks.growth --rounds 3 --most 1.4",)
    ),
    "bench": NightlySuite(
        "policy money", ("python -m benchmarks", "python -m benchmarks.starting")
    ),
    "admission": NightlySuite("program", ("python -m campaigns.admission",)),
    "attacks": NightlySuite("tools policy child_process", ("python -m campaigns.attacks",)),
    "consent": NightlySuite("lang vm program", ("python -m campaigns.consent 300",)),
    "edits": NightlySuite("sage", ("python -m campaigns.edits 500",)),
    "fuzz": NightlySuite(
        "lang providers sage sdk server tools vesper wires",
        ("python -m campaigns.fuzz planted", "python -m campaigns.fuzz 10"),
    ),
    "grammar": NightlySuite("lang", ("python -m tests.lang.bombs",)),
    "kernel": NightlySuite("kernel server", ("python -m campaigns.kernel",)),
    "kills": NightlySuite(
        "host store control",
        (
            "python -m campaigns.kill_campaign 150 --cold 10",
            "python -m campaigns.kills 50 5",
            "python -m campaigns.signals 3 --cold 1",
        ),
    ),
    "money": NightlySuite(
        "policy host store",
        (
            "python -m campaigns.money",
            "python -m campaigns.disagreement 3",
            "python -m campaigns.disagreement 3 postgres",
        ),
    ),
    "nodes": NightlySuite("vesper contracts", ("python -m campaigns.nodes",)),
    "plugins": NightlySuite("sage", ("python -m campaigns.plugins",)),
    "programs": NightlySuite("lang", ("python -m benchmarks.python_programs 500",)),
    "providers": NightlySuite("providers wires testing", ("python -m campaigns.providers",)),
    "quotes": NightlySuite("lang", ("python -m campaigns.quotes 200",)),
    "resume": NightlySuite(
        "host store", ("python -m campaigns.resume_matrix", "python -m campaigns.damage 60 20")
    ),
    "settings": NightlySuite("config", ("python -m campaigns.settings",)),
    "simulate": NightlySuite("host program policy", ("python -m campaigns.simulation 1000",)),
    "telemetry": NightlySuite("telemetry", ("python -m campaigns.telemetry",)),
    "trust": NightlySuite("config", ("python -m campaigns.trust",)),
    "undo": NightlySuite("sage", ("python -m campaigns.undo 200",)),
    "wrong uses": NightlySuite("cli", ("python -m campaigns.wrong_uses",)),
}
"""Campaigns and benchmarks. `just nightly` runs all of them."""


class Plan(NamedTuple):
    """`files` are tests to run; `left` says what a change reaches too and does not fit."""

    packages: list[str]
    files: list[str]
    suites: list[str]
    left: list[str]

    def __str__(self) -> str:
        lines = [f"packages: {' '.join(self.packages) or 'none'}"]
        if self.suites:
            lines.append(f"suites: {', '.join(self.suites)}")
        lines.append(f"tests: {' '.join(path.removeprefix('tests/') for path in self.files)}")
        if self.left:
            lines.append(f"left out ({len(self.left)}): {' '.join(self.left[:12])} …")
        return "\n".join(lines)


def importers() -> dict[str, set[str]]:
    """Return each package, with those that import it."""
    graph = grimp.build_graph("vegakit")
    packages = graph.find_children("vegakit")
    for package in packages:
        graph.squash_module(package)
    return {
        package.removeprefix("vegakit."): {
            importer.removeprefix("vegakit.")
            for importer in graph.find_modules_that_directly_import(package)
            if importer != "vegakit"
        }
        for package in packages
    }


def distances(changed: Iterable[str], imported_by: Mapping[str, set[str]]) -> dict[str, int]:
    """Return how many imports lie between each package and the next one that changed."""
    reached = {package for package in changed if package in imported_by}
    distance_of: dict[str, int] = {}
    for distance in range(len(imported_by)):
        distance_of.update(dict.fromkeys(reached - distance_of.keys(), distance))
        reached = {
            importer for package in reached for importer in imported_by[package]
        } - distance_of.keys()
    return distance_of


def package_of(path: str) -> str:
    """Return the package of a source file, `docs` for a page, and nothing for anything else."""
    parts = Path(path).parts
    if parts[:2] == ("src", "vegakit"):
        return parts[2].removesuffix(".py")
    return "docs" if path.endswith(".md") else ""


def test_files() -> list[str]:
    """Return all files of tests."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))


def nightly_files() -> list[str]:
    """Return the files of tests that CI runs only after a change of what they test."""
    found = {path for pattern in NIGHTLY_TESTS for path in ROOT.glob(pattern)}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def packages_of(test: str) -> set[str]:
    """Return the packages that a file of tests is there for."""
    return set(FOLDERS[Path(test).parts[1]].split())


def check_plan(
    changed: Iterable[str], imported_by: Mapping[str, set[str]], most_cpu_s: float = CHECK_CPU_S
) -> Plan:
    """Choose the tests of `just check`, the nearest first."""
    changed = sorted(changed)
    distance_of = distances({package_of(path) for path in changed}, imported_by)
    if any(package_of(path) == "docs" for path in changed):
        distance_of["docs"] = 0
    nightly = set(nightly_files())
    candidates = [path for path in test_files() if path not in nightly]
    ranked = [
        (rank, measured.of([path]), path)
        for path in candidates
        if (rank := _rank(path, changed, distance_of)) is not None
    ]
    fitting, left = _fitting(sorted(ranked), most_cpu_s)
    return Plan(sorted(distance_of), fitting, [], left)


def _rank(test: str, changed: list[str], distance_of: Mapping[str, int]) -> int | None:
    """Return how near a file of tests is to a change: 0 is nearest, None not reached."""
    if test in changed:
        return 0
    modules = {Path(path).stem for path in changed if path.startswith("src/")}
    words = set(Path(test).stem.split("_")[1:])
    near = [distance_of[package] for package in packages_of(test) if package in distance_of]
    if near and min(near) == 0 and words & modules:
        return 1
    beside = {str(Path(path).parent) for path in changed if path.startswith("tests/")}
    if str(Path(test).parent) in beside:
        return 2
    if near:
        return 3 + min(near)
    return 2 if test in ALWAYS else None


ALWAYS = ("tests/architecture/test_house.py", "tests/architecture/test_tables.py")


def nightly_plan(changed: Iterable[str]) -> Plan:
    """Choose the nightly tests and suites that a change brings into CI."""
    changed = sorted(changed)
    packages = {package_of(path) for path in changed} - {""}
    files = [path for path in nightly_files() if path in changed or packages & packages_of(path)]
    suites = [
        name for name, suite in NIGHTLY_SUITES.items() if packages & set(suite.packages.split())
    ]
    known = measured.files | measured.suites
    ranked = [(0, known.get(name, UNMEASURED).cpu_s, name) for name in [*files, *suites]]
    fitting, left = _fitting(sorted(ranked), PULLED_CPU_S)
    chosen = set(fitting)
    return Plan(
        sorted(packages),
        [path for path in files if path in chosen],
        [name for name in suites if name in chosen],
        left,
    )


def _fitting(
    ranked: Iterable[tuple[int, float, str]], most_cpu_s: float
) -> tuple[list[str], list[str]]:
    """Split names into those that fit into a number of CPU seconds, in their order, and others."""
    fitting: list[str] = []
    left: list[str] = []
    for _, cpu_s, name in ranked:
        if cpu_s <= most_cpu_s:
            most_cpu_s -= cpu_s
            fitting.append(name)
        else:
            left.append(name)
    return fitting, left


def changed_files(since: str = "") -> list[str]:
    """Return what differs from where this branch left the main one, and what is not committed. On
    the main branch itself it is what came after `since`, or with the last commit."""
    base = _git("merge-base", "HEAD", "main")
    if not base or base == _git("rev-parse", "HEAD"):
        old = _git("rev-list", "-1", f"--before={since}", "HEAD") if since else ""
        base = old or _git("rev-parse", "--verify", "--quiet", "HEAD~1") or "HEAD"
    listed = _git("diff", "--name-only", "--diff-filter=d", base)
    untracked = _git("ls-files", "-o", "--exclude-standard")
    return sorted({*listed.splitlines(), *untracked.splitlines()})


def changed_for_ci() -> list[str]:
    """Return the files of the change that CI looks at; VEGA_CI_BASE names where it began."""
    base = os.environ.get("VEGA_CI_BASE", "")
    if base:
        return _git("diff", "--name-only", "--diff-filter=d", base).splitlines()
    return changed_files(CI_SINCE)


def _git(*words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ""


measured = costs.kept()

if __name__ == "__main__":
    names = sys.argv[1:] or changed_files()
    print("check\n", check_plan(names, importers()), sep="")
    print("\nCI, beyond its own tests\n", nightly_plan(names), sep="")
