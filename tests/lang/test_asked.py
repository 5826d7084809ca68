"""Nothing that is asked of the language and its runtime is missing: each row is ours and tested, or
is another thing for a reason.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tests.asked import DIFFERENT, Row, found, functions, misfits, rows_of
from tests.lang.asked_of_language import PARTS
from tests.telemetry.calls import paid
from vegakit.lang import LIBRARY, Op
from vegakit.lang.types import RESPONSE
from vegakit.policy import Backoff, BreakerRule, RestartRule, RetryRule
from vegakit.telemetry import line_of

TESTS = Path(__file__).parents[1]
ROWS = [row for part in PARTS for row in rows_of(part)]


def fault(row: Row) -> str:
    """What is wrong with a row, if anything."""
    if row.ours.startswith(DIFFERENT):
        return "" if len(row.ours) > len(DIFFERENT) else "there is no reason"
    if row.test.endswith(".vega"):
        path = TESTS / row.test
        text = " ".join(path.read_text("utf-8").split()) if path.is_file() else ""
        phrase = row.ours.strip("`")
        return "" if phrase and phrase in text else f"{row.test} has no {row.ours}"
    file, _, name = row.test.partition("::")
    if not (name.startswith("test_") and name in functions(file)):
        return f"there is no {row.test}"
    return "" if _is_ours(row.ours) else f"there is no {row.ours}"


def _is_ours(ours: str) -> bool:
    match ours.split():
        case ["library", name]:
            return name in LIBRARY
        case ["op", number, name]:
            return name in Op.__members__ and Op[name].value == int(number, 16)
        case _:
            return bool(ours) and found(ours)


def faults(rows: Iterable[Row]) -> list[str]:
    return [f"{row.name}: {wrong}" for row in rows if (wrong := fault(row))]


def test_every_row_is_ours_and_tested_or_says_why_not() -> None:
    assert faults(ROWS) == []


def test_no_row_is_missing_and_none_is_there_twice() -> None:
    assert misfits(PARTS) == []


def test_a_fault_in_the_table_is_seen() -> None:
    good = "lang/test_asked.py::test_a_fault_in_the_table_is_seen"
    wrong = [
        Row("", "a", "NoSuch", good),
        Row("", "b", "library file::none", good),
        Row("", "c", "op 0x92 LINK", good),
        Row("", "d", "Runtime", "lang/test_asked.py::test_no_such"),
        Row("", "e", "`no such phrase`", "language/sends/to_process.vega"),
        Row("", "f", "`<-`", "language/sends/no_such.vega"),
        Row("", "g", "different, because ", ""),
        Row("", "h", "", ""),
    ]
    assert [one[0] for one in faults([*wrong, *ROWS])] == [row.name for row in wrong]


# What some rows say.


def test_an_instruction_has_the_number_that_is_asked() -> None:
    asked = [row.ours.split() for row in ROWS if row.ours.startswith("op ")]
    assert [(name, Op[name].value) for _, _, name in asked] == [
        (name, int(number, 16)) for _, number, name in asked
    ]


def test_the_library_that_is_asked() -> None:
    asked = {
        "process::exit": "process::exit(reason: str)",
        "process::sleep": "process::sleep(time: duration)",
        "trace::span": "trace::span(name: str) -> str",
        "trace::set_attribute": "trace::set_attribute(key: str, value: any)",
        "file::read": "file::read(path: str) -> str",
        "file::write": "file::write(path: str, content: str)",
        "file::exists": "file::exists(path: str) -> bool",
        "http::get": "http::get(url: str) -> Response",
        "http::post": "http::post(url: str, body: str) -> Response",
        "budget::remaining": "budget::remaining() -> money",
    }
    assert {name: LIBRARY[name].signature for name in asked} == asked


def test_a_response_has_a_status_and_a_body() -> None:
    assert [name for name, _ in RESPONSE.fields] == ["status", "body"]


def test_the_fields_of_a_record() -> None:
    """Of a call that was answered, as it is written on a line."""
    asked = {row.name for row in ROWS if row.part == "Fields of a record of a call"}
    assert asked - {*json.loads(line_of(paid(1)))} == set()


def test_the_defaults_that_are_asked() -> None:
    retry, breaker, restart = RetryRule(), BreakerRule(), RestartRule()
    assert (retry.max_attempts, retry.backoff) == (3, Backoff(100, 2.0, 5_000))
    assert (breaker.threshold, breaker.reset_after_ms) == (5, 30_000)
    assert (restart.max_restarts, restart.window_ms) == (3, 60_000)
