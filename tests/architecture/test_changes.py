"""What `just check` chooses: the packages that a change reaches, and the tests that fit."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tools import changes  # pyright: ignore[reportAttributeAccessIssue]

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "vegakit"
importers = cache(changes.importers)


def test_every_folder_of_tests_has_its_packages() -> None:
    """A folder that nobody wrote down would never be chosen."""
    there = {
        path.name
        for path in (ROOT / "tests").iterdir()
        if (path.is_dir() and path.name != "__pycache__") or path.name.startswith("test_")
    }
    assert there == changes.FOLDERS.keys() | changes.ELSEWHERE.keys()


def test_every_package_has_tests() -> None:
    tested = {package for folder in changes.FOLDERS.values() for package in folder.packages.split()}
    packages = importers().keys() - {"__main__", "durable"}
    assert packages <= tested
    assert tested - packages == {"*", "docs"}


def test_a_change_reaches_whoever_imports_it() -> None:
    chosen = changes.plan(["src/vegakit/telemetry/otel.py"], importers())
    assert {"telemetry", "host", "sdk", "cli"} <= set(chosen.packages)
    assert not {"lang", "vm", "policy", "program"} & set(chosen.packages)
    assert "src/vegakit/host" in chosen.types
    assert {"tests/telemetry", "tests/architecture"} <= set(chosen.whole)
    assert "tests/lang" not in [*chosen.whole, *chosen.sampled]


def test_the_nearest_tests_are_run_whole() -> None:
    chosen = changes.plan(["src/vegakit/money.py"], importers())
    assert {"tests/test_money.py"} <= set(chosen.whole)
    assert "tests/runtime" in chosen.sampled
    assert changes.FEWEST_PERCENT <= chosen.share < 100
    assert "% of the tests, the rest is left to CI: " in str(chosen)


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("docs/README.md", {"tests/docs"}),
        ("tests/vm/test_tasks.py", {"tests/vm/test_tasks.py"}),
        ("tests/vm/samples.py", {"tests/vm"}),
        ("tests/vm/test_planted_faults.py", {"tests/vm"}),
        ("tests/wheel/test_contract.py", set[str]()),
        ("tools/shape.py", set[str]()),
        ("LICENSE", set[str]()),
    ],
)
def test_what_is_no_source_chooses_its_own_tests(changed: str, tests: set[str]) -> None:
    chosen = changes.plan([changed], importers())
    assert chosen.packages == []
    assert set(chosen.whole) == {*tests, "tests/architecture"}
    assert chosen.types == ([changed] if changed.endswith(".py") else [])


def test_a_change_of_everything_runs_a_share_of_all_that_fits() -> None:
    chosen = changes.plan(["pyproject.toml"], importers())
    assert set(chosen.packages) == importers().keys()
    names = {path.removeprefix("tests/") for path in [*chosen.whole, *chosen.sampled]}
    assert names == changes.FOLDERS.keys() - {"docs"}
    costs = {name: folder.cpu_s for name, folder in changes.FOLDERS.items()}
    whole = sum(costs[path.removeprefix("tests/")] for path in chosen.whole)
    sampled = sum(costs[path.removeprefix("tests/")] for path in chosen.sampled)
    assert whole + sampled * chosen.share / 100 <= changes.TESTS_CPU_S


def test_distances_are_counted_in_imports() -> None:
    imported_by = {"base": {"middle"}, "middle": {"top"}, "top": set[str](), "beside": set[str]()}
    assert changes.distances(["base"], imported_by) == {"base": 0, "middle": 1, "top": 2}
    assert changes.distances(["middle", "gone"], imported_by) == {"middle": 0, "top": 1}


def test_a_share_of_the_tests_is_run() -> None:
    def collected(share: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/test_money.py"]
        env = {**os.environ, "VEGA_TEST_SHARE": share}
        ran = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        return [line for line in ran.stdout.splitlines() if "::" in line]

    half, everything = collected("50"), collected("100")
    assert set(half) < set(everything)
    assert len(everything) // 4 < len(half)
