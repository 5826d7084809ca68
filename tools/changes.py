"""Chooses what `just check` looks at: what changed, what imports it, and the tests of both.

    python tools/changes.py                 what would be looked at now, and what is left to CI
    python tools/changes.py FILE …          the same if these files had changed

Changed is what differs from where this branch left the main one; on the main branch itself, what
the last commit and the working tree changed. A package that changed, and each that imports it,
however far, is type-checked. Tests are taken in the order of their distance from the change, as
many as fit into `TESTS_CPU_S`; from the distance on at which they do not fit, an even share of
them is run. CI runs everything.
"""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).parent.parent
TESTS_CPU_S = 160
"""For two quiet cores within a minute and a half: the table was measured on busy ones."""
FEWEST_PERCENT = 2


class Folder(NamedTuple):
    """A folder or file of tests: the packages it tests, and about how many CPU seconds it takes."""

    packages: str
    cpu_s: int


FOLDERS = {
    "agent": Folder("agent", 2),
    "architecture": Folder("*", 61),
    "authored": Folder("program host sdk lang", 94),
    "cli": Folder("cli control sdk", 189),
    "config": Folder("config", 6),
    "contracts": Folder("contracts", 6),
    "control": Folder("control", 1),
    "docs": Folder("docs", 96),
    "durability": Folder("host store sdk", 176),
    "examples": Folder("lang vm cli", 11),
    "hosts": Folder("testing host", 8),
    "journal": Folder("host store", 19),
    "kernel": Folder("kernel", 19),
    "lang": Folder("lang", 151),
    "language": Folder("lang vm program sdk", 18),
    "language_python": Folder("lang", 1),
    "mcp_server": Folder("server", 29),
    "models": Folder("providers", 87),
    "parallel": Folder("lang vm program", 14),
    "policy": Folder("policy", 17),
    "program": Folder("program", 1),
    "runtime": Folder("host sdk control child_process concurrency", 131),
    "sage": Folder("sage", 50),
    "store": Folder("store", 50),
    "telemetry": Folder("telemetry", 71),
    "test_cli.py": Folder("cli", 1),
    "test_drawing.py": Folder("cli", 8),
    "test_money.py": Folder("money", 1),
    "test_prices.py": Folder("prices", 1),
    "test_words.py": Folder(
        "errors ids records value_types conversation effects events lazy ports", 1
    ),
    "testing": Folder("testing", 19),
    "tools": Folder("tools child_process", 516),
    "vesper": Folder("vesper", 30),
    "vm": Folder("vm", 7),
    "wires": Folder("wires", 37),
}
"""By the name below `tests`. `*` is looked at after every change. The seconds are sums of a whole
run of the fast tests by two workers."""
ELSEWHERE = {
    "data": "no tests",
    "durable": "the suite `kills`",
    "e2e": "the suite `e2e`",
    "simulation": "the suite `simulate`",
    "wheel": "the suite `wheel`",
}
"""Folders below `tests` that are not among the fast tests."""
EVERYTHING = ("pyproject.toml", "locks/", "tests/conftest.py", "tests/patience.py")
"""What all tests depend on."""


class Plan(NamedTuple):
    """`whole` is run test by test, of `sampled` the share in percent; `types` are paths."""

    types: list[str]
    whole: list[str]
    sampled: list[str]
    share: int
    packages: list[str]

    def __str__(self) -> str:
        lines = [f"packages: {' '.join(self.packages) or 'none'}", f"tests: {' '.join(self.whole)}"]
        if self.sampled:
            lines.append(f"{self.share} % of the tests, the rest is left to CI: {self._sampled()}")
        return "\n".join([*lines, "left to CI: planted faults, kills, types of other tests"])

    def _sampled(self) -> str:
        return " ".join(path.removeprefix("tests/") for path in self.sampled)


def importers() -> dict[str, set[str]]:
    """Each package, with those that import it."""
    graph = grimp.build_graph("vegakit")
    packages = graph.find_children("vegakit")
    for package in packages:
        graph.squash_module(package)
    return {
        package.removeprefix("vegakit."): {
            one.removeprefix("vegakit.")
            for one in graph.find_modules_that_directly_import(package)
            if one != "vegakit"
        }
        for package in packages
    }


def distances(changed: Iterable[str], imported_by: Mapping[str, set[str]]) -> dict[str, int]:
    """How many imports lie between each package and the next one that changed."""
    found: dict[str, int] = {}
    reached = {package for package in changed if package in imported_by}
    for distance in range(len(imported_by)):
        found.update(dict.fromkeys(reached - found.keys(), distance))
        reached = {one for package in reached for one in imported_by[package]} - found.keys()
    return found


def package_of(path: str) -> str:
    """The package of a source file; `docs` of a page, and nothing of anything else."""
    parts = Path(path).parts
    if parts[:2] == ("src", "vegakit"):
        return parts[2].removesuffix(".py")
    return "docs" if path.endswith(".md") else ""


def plan(changed: Iterable[str], imported_by: Mapping[str, set[str]]) -> Plan:
    changed = sorted(changed)
    touched = {package_of(path) for path in changed}
    if any(path.startswith(EVERYTHING) for path in changed):
        touched |= imported_by.keys()
    far = distances(touched, imported_by)
    known = {**far, "*": -1} | ({"docs": 0} if "docs" in touched else {})
    folders = {
        name: min(known[package] for package in folder.packages.split() if package in known)
        for name, folder in FOLDERS.items()
        if known.keys() & set(folder.packages.split())
    }
    folders |= dict.fromkeys(_folders_of_tests(changed), 0)
    own = [path for path in changed if _is_test(path)]
    whole, sampled, share = _fitted(folders)
    types = [f"src/vegakit/{package}" for package in sorted(far)]
    types = [path if (ROOT / path).is_dir() else f"{path}.py" for path in types]
    types += [path for path in changed if path.endswith(".py") and not path.startswith("src/")]
    return Plan(types, sorted({*whole, *own}), sampled, share, sorted(far))


def _fitted(folders: Mapping[str, int]) -> tuple[list[str], list[str], int]:
    """Folders by their distance: those that are run whole, those of which a share is, and the
    share in percent. Folders at one distance are treated alike."""
    whole: list[str] = []
    rest, left = dict(folders), TESTS_CPU_S
    for distance in sorted(set(folders.values())):
        near = [name for name in rest if rest[name] == distance]
        if _cost(near) > left:
            break
        whole += near
        left -= _cost(near)
        rest = {name: rest[name] for name in rest if name not in near}
    share = max(FEWEST_PERCENT, 100 * left // max(1, _cost(rest))) if rest else 100
    return [f"tests/{name}" for name in whole], [f"tests/{name}" for name in rest], share


def _cost(names: Iterable[str]) -> int:
    return sum(FOLDERS[name].cpu_s for name in names)


def _is_test(path: str) -> bool:
    first, _, rest = path.partition("/")
    is_fast = first == "tests" and rest.partition("/")[0] in FOLDERS
    return is_fast and Path(path).name.startswith("test_") and not path.endswith("_faults.py")


def _folders_of_tests(changed: Iterable[str]) -> set[str]:
    """Folders in which something that is no test itself changed: many tests may lean on it."""
    below = {
        Path(path).parts[1] for path in changed if path.startswith("tests/") and not _is_test(path)
    }
    return below & FOLDERS.keys()


def changed_files() -> list[str]:
    base = _git("merge-base", "HEAD", "main")
    if not base or base == _git("rev-parse", "HEAD"):
        base = _git("rev-parse", "--verify", "--quiet", "HEAD~1") or "HEAD"
    listed = _git("diff", "--name-only", "--diff-filter=d", *base.split())
    return sorted(
        {*listed.splitlines(), *_git("ls-files", "-o", "--exclude-standard").splitlines()}
    )


def _git(*words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def current_plan() -> Plan:
    return plan(changed_files(), importers())


if __name__ == "__main__":
    print(plan(sys.argv[1:] or changed_files(), importers()))
