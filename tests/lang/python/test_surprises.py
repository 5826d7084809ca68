"""What Python people expect of a program: told in their words, or done as Python does it."""

from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.frontends import check_program

HEAD = """
from pydantic import BaseModel
from vegakit import Timeout, program, vega

class Item(BaseModel):
    name: str
    due: str | None = None

@program(may=["process::exec"], allowed_commands=["pytest **"])
def main() -> None:
    items = [Item(name="a")]
"""


def found_in(line: str) -> list[Diagnostic]:
    _, found = check_program(f"{HEAD}    {line}\n", "main.py", lambda _: None)
    return [one for one in found if one.code != "unused-variable"]


def test_a_shell_is_told_in_the_words_of_python() -> None:
    [one] = found_in('print(vega.exec("pytest -q 2>&1 || true"))')
    assert (one.code, "vega.exec.run(…)" in one.help) == ("needs-shell", True)


def test_a_timeout_that_nothing_raises_is_told() -> None:
    asked = 'try:\n        print(vega.text(vega.human.ask("?", "1h")))'
    [one] = found_in(f"{asked}\n    except Timeout:\n        print(1)")
    assert (one.code, one.severity) == ("never-raised", "warning")
    assert "vega.human.ask" in one.help


def test_sorting_by_what_may_be_none_differs_and_its_edit_is_right() -> None:
    """Python raises; the edit of the diagnostic puts them last."""
    line = "print(len(sorted(items, key=lambda x: x.due)))"
    [one] = found_in(line)
    assert one.code == "python-builtin"
    assert one.edit is not None
    text = f"{HEAD}    {line}\n"
    edited = text[: one.edit.at] + one.edit.text + text[one.edit.end :]
    assert check_program(edited, "main.py", lambda _: None)[1] == ()


def test_only_a_field_that_is_seen_is_sorted_by() -> None:
    for key in ("lambda x: len(x.name)", "len", "lambda x, y=1: x.name", "lambda x: items[0].name"):
        assert [one.code for one in found_in(f"print(len(sorted(items, key={key})))")] == [
            "python-builtin"
        ]
    assert found_in("print(len(sorted(items, key=lambda x: x.name, reverse=True)))") == []
    assert [one.code for one in found_in("print(len(sorted(items, key=lambda x: x.nam)))")] == [
        "no-field"
    ]
