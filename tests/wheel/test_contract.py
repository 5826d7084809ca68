"""The contract through the installed wheel: every cell holds, and every judge sees its fault."""

from pathlib import Path

import pytest
from campaigns.contract.__main__ import MOST_NO, NO, Cell, cells, planted
from campaigns.contract.columns import COLUMNS, STORIES
from campaigns.contract.rows import ROWS

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def table(wheel: Path) -> dict[tuple[str, str], Cell]:
    return {(cell.row, cell.column): cell for cell in cells(wheel)}


@pytest.fixture(scope="module")
def faults(wheel: Path) -> dict[str, Cell]:
    return {cell.column: cell for cell in planted(wheel)}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", [row.name for row in ROWS])
def test_cell(table: dict[tuple[str, str], Cell], row: str, column: str) -> None:
    cell = table[row, column]
    assert cell.holds, cell.says


@pytest.mark.parametrize("column", COLUMNS)
def test_a_planted_fault_is_seen(faults: dict[str, Cell], column: str) -> None:
    assert not faults[column].holds, f"{column} did not see its fault: {faults[column].says}"


def test_every_promise_is_in_one_story_and_few_are_not_made() -> None:
    assert sorted(column for story in STORIES for column in story) == sorted(COLUMNS)
    assert len(NO) <= MOST_NO
