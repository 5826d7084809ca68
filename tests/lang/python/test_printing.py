"""Programs printed in the other language do the same; what has no form there is refused."""

from pathlib import Path

import pytest

from vegakit.lang import check_program, to_python, to_vega
from vegakit.testing import run_test

PYTHON = Path(__file__).parents[2] / "language_python"
SOME = sorted(PYTHON.rglob("*.py"))[::6]


@pytest.mark.parametrize("path", SOME, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_program_printed_as_vega_does_what_it_says(path: Path, tmp_path: Path) -> None:
    """Its comments go with it, so it says it of itself."""
    text, found = to_vega(path.read_text(encoding="utf-8"), path.name)
    assert found == ()
    printed = tmp_path / "printed.vega"
    printed.write_text(text, encoding="utf-8")
    assert run_test(printed).problems == []


@pytest.mark.parametrize("path", SOME, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_there_and_back_is_the_same_program(path: Path) -> None:
    """Python to Vega to Python to Vega: from the first Vega on nothing changes."""
    once, _ = to_vega(path.read_text(encoding="utf-8"), path.name)
    checked, _ = check_program(once, "x.vega", lambda _: None)
    assert checked is not None
    python, found = to_python(checked)
    assert found == ()
    again, found = to_vega(python, "x.py")
    assert found == ()
    assert _code(again) == _code(once)


def _code(text: str) -> list[str]:
    """Without comments, and in any order of declarations: Python has its own."""
    lines = (line.partition("//")[0].strip() for line in text.split("\n"))
    return sorted(line for line in lines if line)


def _to_python(text: str) -> tuple[str, str]:
    checked, found = check_program(text, "x.vega", lambda _: None)
    assert checked is not None, found
    printed, problems = to_python(checked)
    return printed, problems[0].message if problems else ""


def test_an_int_beside_a_float_stays_one_where_it_is_printed_as_vega() -> None:
    """There it would be made a float, and this one cannot be."""
    text = (
        "from vegakit import program, vega\n\n\n@program\ndef main() -> None:\n"
        "    f = 9007199254740992.0\n    print(vega.text(9007199254740993 == f))\n"
    )
    assert "int(9007199254740993) == f" in to_vega(text, "x.py")[0]


def test_what_has_no_form_in_python_is_refused_with_its_line() -> None:
    text = "agent A { model fast }\nlet a = spawn A;\nmonitor(a) { reason -> print(reason); }\n"
    assert "`monitor` runs a block later" in _to_python(text)[1]


def test_a_tool_whose_name_is_taken_is_refused() -> None:
    """Models call it by that name, so it cannot have another."""
    text = 'tool sorted(n: int) -> int "Next." { return n + 1; }\nprint(sorted(1));\n'
    assert "`sorted` is taken in Python" in _to_python(text)[1]


def test_a_function_of_python_has_no_form_in_vega() -> None:
    text = (
        "from vegakit import program, tool\n\n\n@tool()\ndef look(at: str) -> str:\n"
        '    return at\n\n\n@program\ndef main() -> None:\n    print(look("a"))\n'
    )
    assert "`look` is a function of Python" in to_vega(text, "x.py")[1][0].message


def test_names_that_would_hide_another_are_changed() -> None:
    """Python has one scope a function, Vega one a block."""
    text = 'let x = 1;\nif x == 1 {\n    let x = "a";\n    print(x);\n}\nprint(x);\n'
    printed, _ = _to_python(text)
    assert 'x_2 = "a"' in printed
    assert "print(x_2)" in printed


def test_a_list_that_others_hold_is_not_appended_to() -> None:
    """There the printer makes a new one, as the lowering asks."""
    text = "let xs = [1];\nlet ys = xs;\nxs = xs + [2];\nprint(len(ys) + len(xs));\n"
    assert "xs = xs + [2]" in _to_python(text)[0]
    alone = "let xs = [1];\nxs = xs + [2];\nprint(len(xs));\n"
    assert "xs.append(2)" in _to_python(alone)[0]
