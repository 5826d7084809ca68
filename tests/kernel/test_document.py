"""Nothing that a kernel of this kind has is missing: each name is ours or a better one, and
tested.
"""

import ast
import importlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from tests.kernel.names import OURS_ALONE, PARTS, PENDING, Row, rows_of
from vegakit.control import (
    KERNEL_OPERATIONS,
    InitializeSessionRequest,
    RegisterServiceRequest,
    ServiceRequest,
    ServiceResponse,
)
from vegakit.policy import INTERRUPT_KINDS, InterruptKind, Priority, ProcessState, UserRateRule

FOLDER = Path(__file__).parent
ROWS = [row for part in PARTS for row in rows_of(part)]


def found(ours: str) -> bool:
    """Whether there is such an operation, class, field, method or member."""
    kind, _, name = ours.rpartition(" ")
    if kind:
        return kind == "op" and name in KERNEL_OPERATIONS
    here: Any = importlib.import_module("vegakit")
    path = "vegakit"
    for part in ours.split("."):
        path = f"{path}.{part}"
        here = next_in(here, part, path)
        if here is None:
            return False
    return True


def next_in(here: Any, part: str, path: str) -> Any:
    if isinstance(here, type) and issubclass(here, Struct):
        if part in {field.name for field in fields(here)}:
            return here
    elif isinstance(here, ModuleType) and not hasattr(here, part):
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError:
            return None
    return getattr(here, part, None)


@cache
def functions(module: str) -> dict[str, set[str]]:
    """The names and texts that each function of a test module uses."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text("utf-8"))
    used: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = used[node.name] = set[str]()
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    names.add(part.id)
                elif isinstance(part, ast.Attribute):
                    names.add(part.attr)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    names.add(part.value)
    return used


def calls(test: str, name: str) -> bool:
    """Whether a test, with the functions of its module that it uses, names something."""
    module, _, function = test.partition(".")
    used = functions(module)
    seen: set[str] = set()
    todo = [function]
    while todo:
        one = todo.pop()
        if one in used and one not in seen:
            seen.add(one)
            todo.extend(used[one])
            if name in used[one]:
                return True
    return False


def faults(rows: Iterable[Row]) -> list[str]:
    """What is wrong with rows: a name that is not there, or a test that is not or does not call."""
    wrong: list[str] = []
    for row in rows:
        if row.ours.startswith("pending "):
            if row.ours.removeprefix("pending ") not in PENDING:
                wrong.append(f"{row.name}: nothing of ours, and not pending")
            continue
        module, _, function = row.test.partition(".")
        if not found(row.ours):
            wrong.append(f"{row.name}: there is no {row.ours}")
        elif not (FOLDER / f"{module}.py").exists() or function not in functions(module):
            wrong.append(f"{row.name}: there is no {row.test}")
        elif row.ours.startswith("op ") and not calls(row.test, row.ours[3:]):
            wrong.append(f"{row.name}: {row.test} does not call {row.ours[3:]}")
    return wrong


def test_every_name_has_ours_and_a_test_that_calls_it() -> None:
    assert faults(ROWS) == []


def test_no_row_is_missing_and_none_is_there_twice() -> None:
    assert {part.title: len(rows_of(part)) for part in PARTS} == {
        part.title: part.total for part in PARTS
    }
    places = [(row.part, row.name) for row in ROWS]
    assert len(places) == len({*places})


def test_every_operation_is_in_the_table_or_ours_alone() -> None:
    named = {row.ours[3:] for row in ROWS if row.ours.startswith("op ")}
    assert not named & {*OURS_ALONE}
    assert {*KERNEL_OPERATIONS} - PENDING == named | {*OURS_ALONE}
    rows = [Row("", name, f"op {name}", test) for name, test in OURS_ALONE.items()]
    assert faults(rows) == []


def test_what_is_pending_is_said() -> None:
    """To be seen with `pytest -s`; what is there already is to leave the set."""
    waits = {row.ours.removeprefix("pending ") for row in ROWS if row.ours.startswith("pending ")}
    assert waits == PENDING
    print("pending:", ", ".join(sorted(PENDING)))
    print("there now, to be moved:", ", ".join(sorted(PENDING & {*KERNEL_OPERATIONS})) or "none")


def test_a_fault_in_the_table_is_seen() -> None:
    """Planted: names and tests that there are not, and a test that does not call."""
    good = "test_status.test_every_bound_is_shown_and_the_one_that_ended_it"
    wrong = [
        Row("", "a", "op no_such", good),
        Row("", "b", "policy.Interrupt.colour", good),
        Row("", "c", "policy.NoSuch", good),
        Row("", "d", "kernel.nothing.there", good),
        Row("", "e", "policy.Interrupt.status", "test_status.test_no_such"),
        Row("", "f", "op check_bounds", "test_processes.test_a_tree_ends_from_below"),
        Row("", "g", "pending a miracle", good),
        Row("", "h", "policy.ServiceHealth.FINE", good),
    ]
    assert [fault[0] for fault in faults([*wrong, *ROWS])] == [row.name for row in wrong]


MINUTE, HOUR = 60_000, 3_600_000
INTERRUPT_DEFAULTS = {
    InterruptKind.CLARIFICATION: (24 * HOUR, True, True),
    InterruptKind.CONFIRMATION: (HOUR, True, True),
    InterruptKind.AGENT_REVIEW: (30 * MINUTE, True, True),
    InterruptKind.CHECKPOINT: (None, False, False),
    InterruptKind.RESOURCE_EXHAUSTED: (5 * MINUTE, True, False),
    InterruptKind.TIMEOUT: (5 * MINUTE, True, False),
    InterruptKind.SYSTEM_ERROR: (HOUR, True, False),
}
"""Time to live, expires by itself, needs a response."""


def test_the_defaults_are_as_stated() -> None:
    ours = {
        kind: (rule.ttl_ms, rule.at_expiry is not None, rule.needs_response)
        for kind, rule in INTERRUPT_KINDS.items()
    }
    assert ours == INTERRUPT_DEFAULTS
    assert UserRateRule() == UserRateRule(minute=60, hour=1_000, day=10_000, burst=10)
    defaults = {field.name: field.default for field in fields(InitializeSessionRequest)}
    assert defaults["idle_ms"] == 24 * HOUR
    service = {field.name: field.default for field in fields(RegisterServiceRequest)}
    assert (service["health"], service["max_concurrent"]) == ("healthy", 1)
    assert [field.name for field in fields(ServiceRequest)] == ["pid", "envelope", "metadata"]
    assert [field.name for field in fields(ServiceResponse)] == ["envelope", "error", "metadata"]
    assert [state.name for state in ProcessState] == (
        "NEW READY RUNNING WAITING BLOCKED TERMINATED ZOMBIE".split()
    )
    assert [one.name for one in Priority] == "REALTIME HIGH NORMAL LOW IDLE".split()
