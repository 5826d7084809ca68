"""Nothing that a coding agent of this kind is said to have is missing: each row is ours and tested,
is another thing for a reason, or waits for a part that is named.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tests.asked import DIFFERENT, Row, found, functions, misfits, rows_of
from tests.sage.document import LATER, PARTS
from vegakit.records import from_json
from vegakit.sage import TurnRecord
from vegakit.sage.sessions import SageRecord

ROOT = Path(__file__).parents[2]
ROWS = [row for part in PARTS for row in rows_of(part)]
COMING = "later, with "


def fault(row: Row) -> str:
    """What is wrong with a row, if anything."""
    if row.ours.startswith(DIFFERENT):
        return "" if len(row.ours) > len(DIFFERENT) else "there is no reason"
    if row.ours.startswith(COMING):
        part = row.ours.removeprefix(COMING)
        return "" if part in LATER else f"nobody knows of {part}"
    file, _, name = row.test.partition("::")
    if not found(row.ours):
        return f"there is no {row.ours}"
    is_test = name.startswith("test_") and name in functions(file)
    return "" if is_test else f"there is no {row.test}"


def faults(rows: Iterable[Row]) -> list[str]:
    return [f"{row.name}: {wrong}" for row in rows if (wrong := fault(row))]


def test_every_row_is_ours_and_tested_or_says_why_not() -> None:
    assert faults(ROWS) == []


def test_no_row_is_missing_and_none_is_there_twice() -> None:
    assert misfits(PARTS) == []


def test_a_fault_in_the_table_is_seen() -> None:
    good = "sage/test_code.py::test_plan_only_reads"
    wrong = [
        Row("", "a", "sage.NoSuch", good),
        Row("", "b", "vega nothing", good),
        Row("", "c", "just nothing", good),
        Row("", "d", "sage.SageAgent", "sage/test_code.py::test_no_such"),
        Row("", "e", "sage.SageAgent", "sage/test_none.py::test_plan_only_reads"),
        Row("", "f", "later, with a miracle", ""),
        Row("", "g", "different, because ", ""),
        Row("", "h", "", ""),
        Row("", "i", "sage.SageAgent", "sage/test_code.py::kinds"),
    ]
    assert [one[0] for one in faults([*wrong, *ROWS])] == [row.name for row in wrong]


# What two rows say.


def test_coverage_is_held_above_80_percent() -> None:
    """The nightly suite fails below it."""
    text = (ROOT / "tools" / "suites.py").read_text("utf-8")
    whole = re.search(r'\["coverage", "report", "-i", "--fail-under=(\d+)"\]', text)
    assert whole is not None
    assert int(whole[1]) >= 80


def test_a_session_of_an_earlier_version_is_read() -> None:
    """Fields that are new have their defaults, and those that are gone are passed over."""
    session = b"""{"run":"r","name":"n","folder":"/w","model":"smart","mode":"auto","budget":"",
        "system":"s","told":{},"told_mode":"plan","turns":1,"used_ms":7}"""
    assert from_json(SageRecord, session).turns == 1
    turn = from_json(TurnRecord, b'{"prompt":"p","text":"t","failed":"loop"}')
    assert (turn.undone_ms, turn.end, turn.told) == (0, None, None)
