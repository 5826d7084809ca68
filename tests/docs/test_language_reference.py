"""The references of the language and of Python are what the source says."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import vegakit
from vegakit.lang import CATCHABLE

REPOSITORY = Path(__file__).parents[2]
LANG = REPOSITORY / "src/vegakit/lang"
TOOLS = REPOSITORY / "tools"
REFERENCE = runpy.run_path(str(TOOLS / "language_reference.py"))
PYTHON = runpy.run_path(str(TOOLS / "python_reference.py"))
CODE = re.compile(r"[a-z]+(-[a-z]+)+")
NAMED = {
    line.partition(": ")[0]
    for line in (TOOLS / "diagnostics.txt").read_text(encoding="utf-8").splitlines()
}


def words() -> Iterator[str]:
    """All texts in the code of the front end that stand alone."""
    for path in [*LANG.glob("*.py"), *LANG.glob("syntax/*.py"), *LANG.glob("check/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_page_is_up_to_date() -> None:
    """Else type: python tools/language_reference.py."""
    page = (REPOSITORY / "docs/reference/language.md").read_text(encoding="utf-8")
    assert page == REFERENCE["page"]()


def test_every_diagnostic_is_named() -> None:
    """And none that does not exist."""
    found = set(words())
    assert {word for word in found if CODE.fullmatch(word)} - NAMED == set()
    assert NAMED - found == set()


def test_every_error_is_explained() -> None:
    """That a program may catch."""
    assert [*REFERENCE["ERRORS"]] == [*CATCHABLE]


def test_the_page_of_python_is_up_to_date() -> None:
    """Else type: python tools/python_reference.py. Its examples are run with those of all pages."""
    page = (REPOSITORY / "docs/reference/python.md").read_text(encoding="utf-8")
    assert page == PYTHON["page"]()


def test_every_name_of_the_front_door_is_explained() -> None:
    """With a docstring and an example; there are few enough of them to know them all."""
    names = vegakit.__all__
    assert len(names) <= PYTHON["MOST_NAMES"]
    assert sorted(PYTHON["documented"]()) == sorted(names)
    page = PYTHON["page"]()
    for name in names:
        assert getattr(vegakit, name).__doc__
        section = page.split(f"### `{name}`\n", 1)[1].split("\n### ", 1)[0]
        assert re.search(
            rf"```python\n(?:.*\n)*?from vegakit import .*\b{name}\b|\b{name}\(", section
        )
