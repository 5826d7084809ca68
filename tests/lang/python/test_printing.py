"""Programs are printed as Python and are the same; what has no form there is refused."""

from pathlib import Path

import pytest

from vegakit.lang import check_program, to_python
from vegakit.lang.python import check_python
from vegakit.lang.syntax import tree
from vegakit.testing import run_test

TESTS = Path(__file__).parents[2]
PYTHON = TESTS / "language_python"
ALL = sorted(path.relative_to(PYTHON) for path in PYTHON.rglob("*.py"))
OPERATORS = """from vegakit import program


@program
def main(a: int, b: int) -> bool:
    n = a
    n -= b * 2
    n *= b - 2
    n = (a - (b - n)) * -(b + 1) - (n - a)
    return not (a < b and (b > n or n == (a * b) * n)) and (not a < b)
"""


@pytest.mark.parametrize("path", ALL[::6], ids=str)
def test_a_program_printed_as_python_does_what_it_says(path: Path, tmp_path: Path) -> None:
    """The comments that state its results are printed with it."""
    text = (TESTS / "language" / path).with_suffix(".vega").read_text(encoding="utf-8")
    printed = tmp_path / "printed.py"
    printed.write_text(_to_python(text)[0], encoding="utf-8")
    assert run_test(printed).problems == []


def test_what_is_printed_is_the_same_tree() -> None:
    """Every program in Python is printed from its tree. The print has that tree again, and is
    printed as the same text."""
    for text in (OPERATORS, *((PYTHON / path).read_text(encoding="utf-8") for path in ALL)):
        source, printed = _printed(text)
        lowered, again = _printed(printed)
        assert _shape(lowered) == _shape(source), text
        assert again == printed, text


def _printed(python: str) -> tuple[tree.Source, str]:
    """Return the tree of a program in Python and what is printed from it, without comments."""
    checked, found = check_python(python, "x.py", lambda _: None)
    assert checked is not None, found
    unit = checked.units[checked.main]
    unit.text = ""
    printed, problems = to_python(checked)
    assert problems == ()
    return unit.source, printed


def _shape(node: object) -> object:
    """Return a tree without places. Declarations are in any order, because the printer has its
    own. A text of parts is their sum, and `str` of a part is the part."""
    match node:
        case tuple():
            return tuple(map(_shape, node))
        case tree.Source():
            return sorted(repr(_shape(decl)) for decl in node.decls)
        case tree.Call(callee=tree.Name(name="str"), args=(value,)):
            return _shape(value)
        case tree.Text(at=at, end=end, parts=[*others, last]) if others:
            front = tree.Text(at, end, tuple(others))
            back = tree.Text(at, end, (last,)) if isinstance(last, str) else last
            return _shape(tree.Binary(at, end, "+", front, back))
        case tree.Text(parts=(tree.Node() as part,)):
            return _shape(part)
        case tree.Node():
            return (
                type(node).__name__,
                *(_shape(getattr(node, name)) for name in node.__struct_fields__[2:]),
            )
        case _:
            return node


def _to_python(text: str) -> tuple[str, str]:
    checked, found = check_program(text, "x.vega", lambda _: None)
    assert checked is not None, found
    printed, problems = to_python(checked)
    return printed, problems[0].message if problems else ""


def test_what_has_no_form_in_python_is_refused_with_its_line() -> None:
    text = "agent A { model fast }\nlet a = spawn A;\nmonitor(a) { reason -> print(reason); }\n"
    assert "`monitor` runs a block later" in _to_python(text)[1]


def test_a_tool_whose_name_is_taken_is_refused() -> None:
    """Models call it by that name, so it cannot have another."""
    text = 'tool sorted(n: int) -> int "Next." { return n + 1; }\nprint(sorted(1));\n'
    assert "`sorted` is taken in Python" in _to_python(text)[1]


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


def test_an_item_is_changed_by_its_place() -> None:
    """Whether the place is never below zero is known only after a first try."""
    text = "let xs = [1];\nfor i in range(1) {\n    xs[i] = 2;\n}\nprint(len(xs));\n"
    assert "xs[i] = 2" in _to_python(text)[0]
