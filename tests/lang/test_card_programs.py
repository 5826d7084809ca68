"""Programs for 30 tasks, as they were written from an earlier card alone, without running any: each
checks, or is refused with what to write instead.

`NN.vega` and `NN.py.txt` are one task. What the earlier card called `Max` is `MaxLen` here.
"""

from pathlib import Path

import pytest

from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.frontends import check_program

PROGRAMS = sorted((Path(__file__).parent / "card_programs").iterdir())
NAMED, SHELL, NULL, BOUND = "nothing-allowed", "needs-shell", "may-be-null", "wrong-type"
REFUSED = {
    "02": [NAMED],
    "04": [NAMED],
    "06": [NAMED, SHELL, SHELL],
    "09": [NAMED],
    "10": [NULL],
    "13": [BOUND],
    "18": [NAMED],
    "19": [NAMED, NAMED],
    "25": [BOUND],
    "28": [NAMED],
    "29": [NAMED, NULL],
}
OTHERWISE = {
    "18.vega": [NAMED, BOUND],
    "25.vega": [BOUND, BOUND],
    "08.py.txt": ["python-builtin"],
}
"""What one of the two says beside the other: the bound of a list that grows, a sum of floats."""


def errors_of(path: Path) -> list[Diagnostic]:
    text = path.read_text(encoding="utf-8")
    _, found = check_program(text, path.name.removesuffix(".txt"), lambda _: None)
    return [one for one in found if one.severity == "error"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_program_checks_or_is_told_what_to_write(path: Path) -> None:
    """No other errors, and each with advice."""
    found = errors_of(path)
    due = OTHERWISE.get(path.name, REFUSED.get(path.name[:2], []))
    assert [one.code for one in found] == due
    assert all(one.help for one in found)


def test_all_tasks_are_here_in_both_syntaxes() -> None:
    names = [f"{number:02}" for number in range(1, 31)]
    assert [path.name for path in PROGRAMS] == sorted(
        f"{name}.{end}" for name in names for end in ("vega", "py.txt")
    )
