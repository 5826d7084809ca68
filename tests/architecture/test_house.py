"""What the house says of itself: documents, public names, versions and the size of an import."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import vegakit
from tests.architecture import rules

ROOT_NAMES = """
    Agent AgentFailed Bounds BudgetExceeded Cancelled CapabilityDenied Child CircuitOpen
    ContractViolated Dollars Failed LimitReached MaxLen OutputTruncated Process ProgramChanged
    ProgramRights RateLimited Reducer Reply Runtime Supervisor Timeout ToolFailed VegaError adopt
    card load map_all parallel program race retry_until run_program session spawn tool trace vega
""".split()

PYPROJECT = tomllib.loads((rules.REPOSITORY / "pyproject.toml").read_text())


def test_the_front_door_has_these_names() -> None:
    """Adding a public name is a decision, so it is written down twice."""
    assert vegakit.__all__ == ROOT_NAMES  # pyright: ignore[reportAttributeAccessIssue]
    assert dir(vegakit) == sorted([*ROOT_NAMES, "__version__"])
    assert vegakit.__version__ == PYPROJECT["project"]["version"]


@pytest.mark.parametrize("name", ROOT_NAMES)
def test_a_public_name_comes_from_its_room(name: str) -> None:
    """It is loaded on first use, and is the object that type checkers take it for."""
    front = ast.parse((rules.SRC / "__init__.pyi").read_text())
    [room] = [
        node.module
        for node in ast.walk(front)
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]
    ]
    assert getattr(vegakit, name) is getattr(import_module(room or ""), name)


def test_an_unknown_name_lists_the_known_ones() -> None:
    """The error says what there is."""
    with pytest.raises(AttributeError, match="no 'Agnet'; it has Agent, AgentFailed"):
        vegakit.Agnet  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnusedExpression]


@pytest.mark.parametrize("room", sorted(rules.rooms(rules.SRC)))
def test_a_room_holds_what_it_lists(room: str) -> None:
    """`__all__` names exist."""
    module = import_module(f"vegakit.{room}")
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_linter_and_the_page_know_the_same_layers() -> None:
    """pyproject.toml repeats the layers of ARCHITECTURE.md for import-linter."""
    contract = PYPROJECT["tool"]["importlinter"]["contracts"][0]
    lines = [frozenset(re.findall(r"\w+", line)) for line in contract["layers"]]
    assert lines == rules.architecture_layers()


def test_the_linter_and_the_page_know_the_same_pure_rooms() -> None:
    """A new pure room is also forbidden the world by import-linter."""
    contract = PYPROJECT["tool"]["importlinter"]["contracts"][1]
    listed = {name.removeprefix("vegakit.") for name in contract["source_modules"]}
    assert listed == rules.pure_rooms() & set(rules.rooms(rules.SRC))


def test_the_page_marks_what_is_planned() -> None:
    """A room that exists is not called planned, and one that does not exist is."""
    page = (rules.REPOSITORY / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `(\w+)`( \*planned\*)? \|", page, re.MULTILINE)
    assert {room for room, planned in rows if not planned} == set(rules.rooms(rules.SRC))


def test_the_error_tree_is_drawn_as_it_is() -> None:
    """Every error class stands in the docstring of errors.py."""
    tree = ast.parse((rules.SRC / "errors.py").read_text())
    drawn = ast.get_docstring(tree) or ""
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    missing = {name for name in classes if not re.search(rf"\b{name}\b", drawn)}
    assert missing == set()


def test_import_vegakit_loads_nothing_heavy() -> None:
    """The front door is lazy: no room but `lazy`, no third party, a handful of modules."""
    code = (
        "import sys; before = set(sys.modules); import vegakit; print(*set(sys.modules) - before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in ran.stdout.split() if name.startswith(("vegakit", "msgspec"))}
    assert loaded == {"vegakit", "vegakit.lazy"}


def test_nothing_committed_names_a_machine_or_a_registry() -> None:
    """No absolute path of a workplace, no package-registry host."""
    hosts = "|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "npm" + r"js\.org"])
    places = "|".join(["/" + place + "/" for place in ("work", "root", "farm")])
    pattern = re.compile(f"{hosts}|(?<![\\w.])(?:{places})")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=rules.REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    tracked = [rules.REPOSITORY / name for name in listed.stdout.splitlines()]
    assert [p for p in tracked if _is_text(p) and pattern.search(p.read_text())] == []


def _is_text(path: Path) -> bool:
    return (
        path.is_file() and path.suffix not in {".png", ".jsonl"} and b"\0" not in path.read_bytes()
    )
