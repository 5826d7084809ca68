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
    assert there == changes.FOLDERS.keys() | changes.NO_TESTS


def test_every_package_has_tests() -> None:
    """A package of a few base words is tested through those that import it."""
    packages = importers().keys() - {"__main__"}
    tested = {package for names in changes.FOLDERS.values() for package in names.split()}
    assert packages <= tested
    assert tested - packages == {"*", "docs"}
    nightly = {
        package for suite in changes.NIGHTLY_SUITES.values() for package in suite.packages.split()
    }
    for path in changes.nightly_files():
        nightly |= changes.packages_of(path)
    assert packages - nightly == BASE_WORDS


BASE_WORDS = {
    "conversation",
    "effects",
    "errors",
    "events",
    "ids",
    "lazy",
    "ports",
    "prices",
    "records",
    "value_types",
}


def test_a_package_that_nobody_tests_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {name: names for name, names in changes.FOLDERS.items() if name != "telemetry"}
    suites = {n: one for n, one in changes.NIGHTLY_SUITES.items() if n != "telemetry"}
    monkeypatch.setattr(changes, "FOLDERS", folders)
    monkeypatch.setattr(changes, "NIGHTLY_SUITES", suites)
    with pytest.raises(AssertionError):
        test_every_package_has_tests()


def test_a_change_reaches_whoever_imports_it() -> None:
    chosen = changes.check_plan(["src/vegakit/telemetry/otel.py"], importers())
    assert {"telemetry", "host", "sdk", "cli"} <= set(chosen.packages)
    assert not {"lang", "vm", "policy", "program"} & set(chosen.packages)
    reached = [*chosen.files, *chosen.left]
    assert any(path.startswith("tests/telemetry/") for path in reached)
    assert not any(path.startswith("tests/lang/") for path in reached)


def test_the_tests_of_a_module_come_first() -> None:
    """Those that are named for it, and after them those of its package and of its importers."""
    chosen = changes.check_plan(["src/vegakit/host/gate.py"], importers())
    named = {"tests/runtime/test_gate.py", "tests/runtime/test_turn_gate.py"}
    assert set(chosen.files[:2]) == named
    assert set(changes.ALWAYS) <= set(chosen.files)
    assert any(path.startswith("tests/sage/") for path in chosen.left)


def test_what_is_chosen_fits_and_the_rest_is_named() -> None:
    chosen = changes.check_plan(["src/vegakit/money.py"], importers())
    assert changes.measured.of(chosen.files) <= changes.CHECK_CPU_S
    assert "tests/test_money.py" in chosen.files
    assert f"left out ({len(chosen.left)})" in str(chosen)


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("docs/README.md", {"tests/docs/test_pages.py"}),
        ("tests/vm/test_tasks.py", {"tests/vm/test_tasks.py"}),
        ("tests/vm/samples.py", {"tests/vm/test_tasks.py"}),
        ("tools/shape.py", set[str]()),
        ("LICENSE", set[str]()),
    ],
)
def test_what_is_no_source_chooses_its_own_tests(changed: str, tests: set[str]) -> None:
    chosen = changes.check_plan([changed], importers())
    assert {*tests, *changes.ALWAYS} <= {*chosen.files, *chosen.left}
    folders = {Path(path).parts[1] for path in tests} | {"architecture"}
    assert {Path(path).parts[1] for path in chosen.files} <= folders


def test_a_change_brings_the_nightly_suites_of_its_package_into_ci() -> None:
    chosen = changes.nightly_plan(["src/vegakit/policy/rate.py"])
    reached = {*chosen.files, *chosen.suites, *chosen.left}
    assert {"tests/policy/test_planted_faults.py", "money", "attacks"} <= reached
    assert not {"e2e", "tests/kernel/test_chaos.py"} & reached
    assert changes.nightly_plan(["LICENSE"]) == changes.Plan([], [], [], [])


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
