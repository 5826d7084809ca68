"""Tables of what is asked of a part of the product: rows, and whether what they name is there."""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from vegakit.cli import COMMANDS

ROOT = Path(__file__).parents[1]
DIFFERENT = "different, because "


class Part(NamedTuple):
    title: str
    total: int
    rows: str


class Row(NamedTuple):
    part: str
    name: str
    ours: str
    test: str


def rows_of(part: Part) -> list[Row]:
    found: list[Row] = []
    for line in re.sub(r"\n +", " ", part.rows.strip()).splitlines():
        name, _, rest = line.partition(" : ")
        ours, _, test = rest.partition(" @ ")
        found.append(Row(part.title, name.strip(), ours.strip(), test.strip()))
    return found


def found(ours: str) -> bool:
    """Whether there is such a command, recipe or name."""
    kind, _, name = ours.partition(" ")
    if name:
        recipes = (ROOT / "justfile").read_text("utf-8")
        known = {"vega": name in COMMANDS, "just": bool(re.search(rf"(?m)^{name}\b.*:", recipes))}
        return known.get(kind, False)
    here: Any = importlib.import_module("vegakit")
    path = "vegakit"
    for part in ours.split("."):
        path = f"{path}.{part}"
        inner = getattr(here, part, None)
        if inner is None and isinstance(here, ModuleType):
            try:
                inner = importlib.import_module(path)
            except ModuleNotFoundError:
                return False
        if inner is None:
            return False
        here = inner
    return True


@cache
def functions(file: str) -> set[str]:
    """The tests of a file."""
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def misfits(parts: Sequence[Part]) -> list[str]:
    """The parts that have not as many rows as are asked for, and the rows that stand twice."""
    rows = [rows_of(part) for part in parts]
    short = [part.title for part, have in zip(parts, rows, strict=True) if len(have) != part.total]
    places = Counter((row.part, row.name) for have in rows for row in have)
    return short + [f"{part}: {name}" for (part, name), times in places.items() if times > 1]
