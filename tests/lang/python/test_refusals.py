"""What is refused, and in which words: `refused/x.py` beside `refused/x.txt`.

With VEGA_WRITE_GOLDEN=1 the texts are written anew: read them before they are kept.
"""

import os
from pathlib import Path

import pytest

from vegakit.lang import Diagnostic, check_program, render

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


def test_a_mark_of_the_byte_order_is_skipped() -> None:
    """Editors of Windows write one; places stay where they are."""
    text = "\ufefffrom vegakit import program\n\n\n@program\ndef main() -> None:\n    print([1])\n"
    _, found = check_program(text, "x.py", lambda _: None)
    assert [text[one.at : one.end] for one in found] == ["[1]"]


def test_an_edit_imports_what_it_writes() -> None:
    text = "from vegakit import program\n\n\n@program\ndef main() -> None:\n    print([1])\n"
    _, [found] = check_program(text, "x.py", lambda _: None)
    assert found.edit is not None
    fixed = text[: found.edit.at] + found.edit.text + text[found.edit.end :]
    assert "from vegakit import program, vega" in fixed
    assert check_program(fixed, "x.py", lambda _: None)[1] == ()


def test_a_command_in_a_list_is_one_text() -> None:
    text = "import subprocess\n\nfrom vegakit import program\n\n\n@program\ndef main() -> None:\n"
    text += '    subprocess.run(["ls", "-l"])\n'
    _, [found] = check_program(text, "x.py", lambda _: None)
    assert found.help == 'write `vega.exec.run("ls -l")`'


def test_a_chain_that_is_too_deep_is_told_where_it_stands() -> None:
    text = "from vegakit import program\n\n\n@program\ndef main() -> None:\n    x = 1\n    y = "
    text += " + ".join(["x"] * 900) + "\n    print(y)\n"
    _, [found] = check_program(text, "x.py", lambda _: None)
    assert found.code == "too-deep"
    assert found.at == text.index("y = ")


def test_there_are_enough_refusals() -> None:
    assert len(CASES) >= FEWEST
