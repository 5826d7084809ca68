"""Broken programs beside what is said about each: read by people, held word by word.

With VEGA_GOLDEN=write the texts are written anew; read every change before keeping it.
"""

import os
from pathlib import Path

import pytest

from vegakit.lang import check_program, render

FOLDER = Path(__file__).parent.parent / "broken" / "checked"
PROGRAMS = sorted(FOLDER.glob("*.vega"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_what_is_said_about_a_broken_program(path: Path):
    """Place, reason and advice stay as they were judged good."""
    text = path.read_text("utf-8")
    _, found = check_program(text, path.name, lambda _path: None)
    said, golden = render(found, {path.name: text}), path.with_suffix(".txt")
    if os.environ.get("VEGA_GOLDEN") == "write":
        golden.write_text(said, "utf-8")
    assert said == golden.read_text("utf-8")


def test_there_are_many_and_each_is_told_something():
    """None of them passes without a word."""
    assert len(PROGRAMS) >= 45
    assert all(path.with_suffix(".txt").stat().st_size for path in PROGRAMS)
