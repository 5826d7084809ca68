"""Programs with faults of form: what is said of each stands beside it.

After a change that is meant, write the pictures anew: VEGA_GOLDEN=write pytest <this file>, and
read the difference.
"""

import os
from pathlib import Path

import pytest

from vegakit.lang import parse, render

BROKEN = sorted((Path(__file__).parent / "broken").glob("*.vega"))


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_fault_is_shown_as_in_the_picture(path: Path) -> None:
    """Place, reason and remedy of every fault."""
    text = path.read_text(encoding="utf-8")
    picture = render(parse(text, path.name).diagnostics, {path.name: text})
    golden = path.with_suffix(".txt")
    if os.environ.get("VEGA_GOLDEN") == "write":
        golden.write_text(picture, encoding="utf-8")
    assert picture == golden.read_text(encoding="utf-8")
    assert picture


def test_there_are_enough_of_them() -> None:
    """Thirty is the least; each has its picture, and no picture is left over."""
    assert len(BROKEN) >= 30
    pictures = {path.stem for path in BROKEN[0].parent.glob("*.txt")}
    assert pictures == {path.stem for path in BROKEN}


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_an_edit_takes_its_fault_away(path: Path) -> None:
    """Done alone, it leaves fewer faults than there were."""
    text = path.read_text(encoding="utf-8")
    found = parse(text).diagnostics
    for one in found:
        if one.edit is None or "quotation mark" in one.message:
            continue  # of two curled quotes an edit changes one
        mended = text[: one.edit.at] + one.edit.text + text[one.edit.end :]
        assert len(parse(mended).diagnostics) < len(found), one


def test_two_faults_give_two_diagnostics() -> None:
    """What follows a fault is neither lost nor blamed."""
    text = "let a = ;\nlet b = 2;\nfor x on xs { print(x) }\nlet c = 3;\n"
    parsed = parse(text)
    assert [found.code for found in parsed.diagnostics] == [
        "expected-value",
        "expected",
        "missing-semicolon",
    ]
    assert len(parsed.source.body) == 3
