"""The page of benchmarks is what its tool makes of the results, and the results are whole."""

import re
from itertools import pairwise

import pytest

from tools import benchmarks_page  # pyright: ignore[reportAttributeAccessIssue]

SECTIONS = benchmarks_page.results()


def test_the_page_is_made_of_the_results() -> None:
    made = benchmarks_page.page(SECTIONS)
    assert benchmarks_page.PAGE.read_text("utf-8") == made, "run: python tools/benchmarks_page.py"


@pytest.mark.parametrize("name", SECTIONS)
def test_each_table_has_a_command_a_date_and_a_commit(name: str) -> None:
    for table in SECTIONS[name].tables:
        assert table.command
        dates = [table.date, *(row.date for row in table.rows if row.date)]
        assert all(re.fullmatch(r"\d{4}-\d\d(-\d\d)?", date) for date in dates)
        commits = [table.commit, *(row.commit for row in table.rows if row.commit)]
        assert all(re.fullmatch(r"[0-9a-f]{12}", commit) for commit in commits)


@pytest.mark.parametrize("name", SECTIONS)
def test_each_row_has_a_cell_for_each_column(name: str) -> None:
    for table in SECTIONS[name].tables:
        assert table.rows
        assert {len(row.cells) for row in table.rows} == {len(table.columns)}
        assert not any("|" in cell for row in table.rows for cell in row.cells)


def test_the_worst_row_is_shown() -> None:
    """The lowest, the middle and the highest row by the first number of a column."""
    [table] = [one for one in SECTIONS["quotes"].tables if one.title == "Thirty tasks"]
    place = table.columns.index("at most / real")
    figures = [float(row[place + 1]) for row in benchmarks_page.ends(table, "at most / real")]
    assert all(low < high for low, high in pairwise(figures))
    assert figures[-1] == max(float(row.cells[place]) for row in table.rows)
