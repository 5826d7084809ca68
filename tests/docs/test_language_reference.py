"""The reference of the language is what the source says."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

from vegakit.lang.library import CATCHABLE

REPOSITORY = Path(__file__).parents[2]
LANG = REPOSITORY / "src/vegakit/lang"
TOOLS = REPOSITORY / "tools"
REFERENCE = runpy.run_path(str(TOOLS / "language_reference.py"))
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
