"""No test waits by sleeping: a sleep is too long on a quiet machine and too short on a busy one.

`tests/patience.py` is the one module that may sleep. It looks again and again for what no event
tells of (what another process does, the clock of a server or of a file system), within a bounded
time, and it moves virtual time. Programs under test may sleep: `process::sleep` of Vega is on the
clock of their runtime.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

TESTS = Path(__file__).parents[1]
PATIENT = Path("patience.py")
PROGRAMS = ("data", "language_python", "lang/python/refused")
"""Folders of programs that tests run, not of tests."""
MODULES = {"asyncio", "time", "anyio", "trio"}
IN_A_SCRIPT = re.compile(rf"\b(?:{'|'.join(sorted(MODULES))})\.sleep(?!\(0\))")
SHELL_LOOP = re.compile(r"\b(?:until|while) (?!:)[^\n]*\bdo sleep\b")


def sleeps(tests: Path) -> Iterator[str]:
    for path in sorted(tests.rglob("*.py")):
        place = path.relative_to(tests)
        if place == PATIENT or str(place).startswith(PROGRAMS):
            continue
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text if "sleep" in text else "")
        for line in {*_in_code(tree), *(() if path == Path(__file__) else _in_strings(tree))}:
            yield f"{place}:{line} sleeps; wait for what it waits for, as tests/patience.py says"


def _in_code(tree: ast.Module) -> Iterator[int]:
    """Every mention of a function that sleeps, but for the call which only lets others run."""
    yielding = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and [ast.unparse(each) for each in node.args] == ["0"]
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            if any(alias.name == "sleep" for alias in node.names):
                yield node.lineno
        elif _is_sleep(node) and id(node) not in yielding:
            yield node.lineno


def _is_sleep(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "sleep"
        and isinstance(node.value, ast.Name)
        and node.value.id in MODULES
    )


def _in_strings(tree: ast.Module) -> Iterator[int]:
    """Scripts that tests give to other processes."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and (IN_A_SCRIPT.search(text) or SHELL_LOOP.search(text)):
            yield node.lineno  # pyright: ignore[reportAttributeAccessIssue]


def test_no_test_sleeps() -> None:
    assert [*sleeps(TESTS)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n",
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(x)\n",
        "import time\ntime.sleep(1)\n",
        "import time, threading\nthreading.Thread(target=time.sleep, args=(1,))\n",
        "from asyncio import sleep\n",
        "SCRIPT = 'import time; time.sleep(60)'\n",
        "SCRIPT = f'{1}: until [ -e go ]; do sleep 0.05; done'\n",
    ],
)
def test_a_planted_sleep_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(text)
    assert [*sleeps(tmp_path)]


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n",
        "import vega\ndef f():\n    vega.process.sleep('1s')\n",
        "async def f(clock):\n    await clock.sleep(5)\n",
        "COMMAND = 'touch began; sleep 60'\n",
    ],
)
def test_what_is_no_sleep_of_a_test_is_left_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(text)
    (tmp_path / "patience.py").write_text("import time\ntime.sleep(1)\n")
    assert [*sleeps(tmp_path)] == []
