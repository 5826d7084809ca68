"""What is claimed of the kernel's decisions, read from their syntax: no lock, no cast, and nothing
that is written or read by hand.

Decisions are the modules of `kernel` and `policy`. What puts them in order is the store, and what
writes and reads their records is made from the types of these.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "vegakit"
MODULES = sorted([*(SRC / "kernel").rglob("*.py"), *(SRC / "policy").rglob("*.py")])

LOCKS = {"Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Barrier"}
LOCK_MODULES = {"threading", "multiprocessing", "fcntl", "filelock", "portalocker"}
BY_HAND_MODULES = {"json", "pickle", "marshal", "shelve", "struct"}
BY_HAND_NAMES = re.compile(
    r"^_*(to|from|as|parse)_(dict|json|state|mapping|builtins)|^_*(de)?seriali[sz]e"
    r"|^__(getstate|setstate|reduce)"
)
IGNORED = re.compile(r"#\s*(type|pyright|basedpyright):\s*ignore")


def modules_of(node: ast.AST) -> Iterator[str]:
    """The modules that a statement brings in; `from msgspec import json` is one, too."""
    if isinstance(node, ast.Import):
        yield from (one.name.partition(".")[0] for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield (node.module or "").partition(".")[0]
        yield from (one.name for one in node.names if one.name == "json")


def is_lock(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "asyncio" and any(one.name in LOCKS for one in node.names)
    if isinstance(node, ast.Attribute):
        of_asyncio = isinstance(node.value, ast.Name) and node.value.id == "asyncio"
        return node.attr == "acquire" or (of_asyncio and node.attr in LOCKS)
    return not LOCK_MODULES.isdisjoint(modules_of(node))


def is_cast(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Name | ast.Attribute)
        and (node.id if isinstance(node, ast.Name) else node.attr) == "cast"
    )


def is_by_hand(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return BY_HAND_NAMES.search(node.name) is not None
    return not BY_HAND_MODULES.isdisjoint(modules_of(node))


def faults(source: str) -> list[str]:
    rules = {"a lock": is_lock, "a cast": is_cast, "written by hand": is_by_hand}
    found = [
        f"{what}: {ast.unparse(node)[:80]}"
        for node in ast.walk(ast.parse(source))
        for what, rule in rules.items()
        if rule(node)
    ]
    return found + [f"a cast: {text}" for text in source.splitlines() if IGNORED.search(text)]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(SRC).as_posix())
def test_a_decision_has_no_lock_no_cast_and_nothing_by_hand(module: Path) -> None:
    assert faults(module.read_text("utf-8")) == []


def test_the_modules_are_found() -> None:
    names = {path.relative_to(SRC).as_posix() for path in MODULES}
    assert {"kernel/services.py", "kernel/sessions.py", "policy/services.py"} <= names


@pytest.mark.parametrize(
    "planted",
    [
        "import threading",
        "from asyncio import Lock",
        "async def f() -> None:\n    async with asyncio.Semaphore(1):\n        pass",
        "def f(guard: object) -> None:\n    guard.acquire()",
        "from typing import cast\nx = cast(int, 'a')",
        "x: int = f()  # type: ignore[assignment]",
        "x: int = f()  # pyright: ignore",
        "import json",
        "from msgspec import json as codec",
        "import pickle",
        "def to_dict(self: object) -> dict[str, object]:\n    return {}",
        "class A:\n    def from_state_dict(self) -> None: ...",
        "class A:\n    def __getstate__(self) -> None: ...",
    ],
)
def test_a_fault_is_seen(planted: str) -> None:
    assert faults(planted)
