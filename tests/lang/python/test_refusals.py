"""What is refused, and in which words: `refused/x.py` beside `refused/x.txt`.

With VEGA_WRITE_GOLDEN=1 the texts are written anew: read them before they are kept.
"""

import os
from pathlib import Path

import pytest

from vegakit.lang.diagnostics import Diagnostic, render
from vegakit.lang.frontends import check_program

FOLDER = Path(__file__).parent / "refused"
CASES = sorted(FOLDER.glob("*.py"))
FEWEST = 50


def _found(path: Path) -> tuple[str, tuple[Diagnostic, ...]]:
    text = path.read_text(encoding="utf-8")
    return text, check_program(text, path.name, lambda _: None)[1]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_line_that_python_means_otherwise_is_refused_with_the_fix(path: Path) -> None:
    text, found = _found(path)
    told = render(found, {path.name: text})
    golden = path.with_suffix(".txt")
    if os.environ.get("VEGA_WRITE_GOLDEN"):
        golden.write_text(told, encoding="utf-8")
    assert told == golden.read_text(encoding="utf-8")
    assert any(one.severity == "error" for one in found)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_refusal_says_what_to_write(path: Path) -> None:
    _, found = _found(path)
    silent = [one.message for one in found if one.severity == "error" and not one.help]
    assert silent == [] or path.stem == "syntax"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_an_edit_leaves_less_to_mend(path: Path) -> None:
    """It is Python, and what it mends is not said again at that place."""
    text, found = _found(path)
    for one in found:
        if one.edit is None:
            continue
        mended = text[: one.edit.at] + one.edit.text + text[one.edit.end :]
        again = check_program(mended, path.name, lambda _: None)[1]
        assert not any(o.code == one.code and o.at == one.at for o in again), one
        assert not any(o.code == "python-syntax" for o in again), one


def test_there_are_enough_refusals() -> None:
    assert len(CASES) >= FEWEST
