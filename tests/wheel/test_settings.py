"""The keys of `vega.toml` act, seen through the installed wheel: a portion of what `just settings`
plays in full, and that a key which nobody heeds is noticed."""

from pathlib import Path

import pytest
from campaigns.settings import ROWS, Row, play, without_row

from vegakit.config.tables import Tables

pytestmark = pytest.mark.timeout(600)

QUICK = {
    "models.*",
    "limits.*.retry.max_attempts",
    "budget.default",
    "telemetry.content",
    "telemetry.sample",
    "journal.enabled",
    "bounds.repeats",
    "permissions.rules",
}
PORTION = [row for row in ROWS if row.key in QUICK]
BUDGET = next(row for row in PORTION if row.key == "budget.default")
UNHEEDED = """\
from vegakit.config import settings

settings.Settings.budget_rule = property(
    lambda self: settings.budget_rule(settings.BudgetTable())
)
"""


class _WithDeadKey(Tables, frozen=True):
    dead: int = 0


def test_every_key_has_a_row_and_every_row_a_key() -> None:
    assert without_row() == []


def test_a_key_without_a_row_is_told() -> None:
    assert without_row(tables=_WithDeadKey) == ["dead"]
    assert without_row([row for row in ROWS if row.key != "audit.path"]) == ["audit.path"]


@pytest.mark.parametrize("row", PORTION, ids=lambda row: row.change)
def test_a_change_has_its_effect(wheel: Path, row: Row) -> None:
    seen = play(wheel, row)
    assert not seen.problem, f"{seen.effect}: {seen.problem}"


def test_a_change_that_nobody_reads_is_noticed(wheel: Path) -> None:
    assert play(wheel, BUDGET, fault=True).problem.startswith("no effect")


def test_a_key_that_the_code_does_not_heed_is_noticed(wheel: Path, tmp_path: Path) -> None:
    """The installed code is cut where it reads the key; all the rest of it is as it was."""
    (tmp_path / "sitecustomize.py").write_text(UNHEEDED)
    seen = play(wheel, BUDGET, environment={"PYTHONPATH": str(tmp_path)})
    assert seen.problem.startswith("no effect"), f"{seen.effect}: {seen.problem}"
