"""What tests and suites cost: CPU seconds and counts by suite, by directory and by file.

    python tools/costs.py            the table of the last measured run
    python tools/costs.py --files    the same with the most expensive files

`tools/suites.py --measure` measures a run and keeps it in `tools/costs.json`, with its date, commit
and command. The plan of a change (tools/changes.py) is made from these figures, so that what is
chosen does not depend on the speed of the machine that chooses.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

KEPT = Path(__file__).parent / "costs.json"
UNMEASURED_CPU_S = 2.0
"""What a file of tests is taken to cost until it was measured."""


class Cost(NamedTuple):
    cpu_s: float
    tests: int = 0

    def __add__(self, other: tuple[object, ...]) -> "Cost":
        cpu_s, tests = Cost(*other)  # pyright: ignore[reportArgumentType]
        return Cost(self.cpu_s + cpu_s, self.tests + tests)


class Costs(NamedTuple):
    """`files` are files of tests by their paths, `suites` whole suites by their names."""

    date: str
    commit: str
    command: str
    files: dict[str, Cost]
    suites: dict[str, Cost]

    def of(self, paths: Iterable[str]) -> float:
        return sum(self.files.get(path, Cost(UNMEASURED_CPU_S)).cpu_s for path in paths)


def kept() -> Costs:
    """Return the figures of the last measured run."""
    page = json.loads(KEPT.read_text("utf-8"))
    files = {path: Cost(*cost) for path, cost in page["files"].items()}
    suites = {name: Cost(*cost) for name, cost in page["suites"].items()}
    return Costs(page["date"], page["commit"], page["command"], files, suites)


def collected(folder: Path) -> dict[str, Cost]:
    """Add up what the workers of a run wrote; `tests/conftest.py` measures each test."""
    total: defaultdict[str, Cost] = defaultdict(lambda: Cost(0.0))
    for page in folder.glob("*.json"):
        for path, cost in json.loads(page.read_text("utf-8")).items():
            total[path] += Cost(*cost)
    return dict(total)


def keep(costs: Costs) -> None:
    """Replace the figures of what was measured now; others stay as they were."""
    before = kept() if KEPT.exists() else Costs("", "", "", {}, {})
    there = {path for path in before.files if (KEPT.parents[1] / path).exists()}
    files = {path: before.files[path] for path in there} | costs.files
    heads = [
        f'"{name}": {json.dumps(value)}'
        for name, value in zip(costs._fields[:3], costs[:3], strict=True)
    ]
    tables = [
        f'"suites": {{\n{_rows(before.suites | costs.suites)}\n}}',
        f'"files": {{\n{_rows(files)}\n}}',
    ]
    KEPT.write_text("{\n" + ",\n".join([*heads, *tables]) + "\n}\n", "utf-8")


def _rows(costs: dict[str, Cost]) -> str:
    """Return a line for each cost, so that a new measurement is a readable change."""
    return ",\n".join(
        f'  "{name}": [{cost.cpu_s:.1f}, {cost.tests}]' for name, cost in sorted(costs.items())
    )


def by_directory(files: dict[str, Cost]) -> dict[str, Cost]:
    total: defaultdict[str, Cost] = defaultdict(lambda: Cost(0.0))
    for path, cost in files.items():
        total["/".join(Path(path).parts[:2])] += cost
    return dict(total)


def table(title: str, costs: dict[str, Cost], most: int = 1000) -> str:
    """Return the costs as lines, the most expensive first, and their sum last."""
    rows = sorted(costs.items(), key=lambda row: -row[1].cpu_s)[:most]
    lines = [f"{name:<44} {cost.cpu_s:8.1f} CPU-s {cost.tests:7,} tests" for name, cost in rows]
    cpu_s = sum(cost.cpu_s for cost in costs.values())
    tests = sum(cost.tests for cost in costs.values())
    return "\n".join([title, *lines, f"{'together':<44} {cpu_s:8.1f} CPU-s {tests:7,} tests"])


def main() -> int:
    costs = kept()
    print(f"{costs.command}, {costs.date}, {costs.commit[:10]}\n")
    print(
        table("by suite", costs.suites),
        table("by directory", by_directory(costs.files)),
        sep="\n\n",
    )
    if "--files" in sys.argv:
        print("\n" + table("by file", costs.files, most=60))
    return 0


if __name__ == "__main__":
    sys.exit(main())
