"""What Python people expect of a program: told in their words, or done as Python does it."""

from vegakit.lang import Diagnostic, check_program

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
    assert (one.code, 'vega.exec.run("pytest -q").out' in one.help) == ("needs-shell", True)
    [one] = found_in('print(vega.exec("pytest -q | tail"))')
    assert (one.edit, "vega.exec.run(…)" in one.help) == (None, True)


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


def test_a_key_may_be_worked_out_where_it_is_seen() -> None:
    assert found_in("print(len(sorted(items, key=lambda x: len(x.name))))") == []
    assert found_in("print(len(sorted(items, key=lambda x: items[0].name)))") == []
    for key in ("len", "lambda x, y=1: x.name"):
        assert [one.code for one in found_in(f"print(len(sorted(items, key={key})))")] == [
            "python-builtin"
        ]
    assert found_in("print(len(sorted(items, key=lambda x: x.name, reverse=True)))") == []
    assert [one.code for one in found_in("print(len(sorted(items, key=lambda x: x.nam)))")] == [
        "no-field"
    ]


def mended(lines: str) -> list[str]:
    """The codes of errors of these lines."""
    text = "\n    ".join(lines.strip("\n").split("\n"))
    return [one.code for one in found_in(text) if one.severity == "error"]


def test_a_function_that_returns_no_list_keeps_none_of_what_it_is_given() -> None:
    asked = "def size(xs: list[int]) -> int:\n    return len(xs)\n\n@program("
    text = (
        f"{HEAD.replace('@program(', asked)}    xs = [1]\n    print(size(xs))\n    xs.append(2)\n"
    )
    found = check_program(text, "main.py", lambda _: None)[1]
    assert {one.code for one in found} == {"unused-variable"}
    kept = text.replace("-> int", "-> list[int]").replace("len(xs)", "xs").replace("print(", "len(")
    codes = [one.code for one in check_program(kept, "main.py", lambda _: None)[1]]
    assert "python-in-place" in codes


def test_what_a_variable_held_before_it_got_something_new_does_not_matter() -> None:
    assert mended("xs = [1]\nys = xs\nxs = xs + [2]\nxs.append(3)\nprint(len(ys))") == []
    assert mended("xs = [1]\nys = xs\nxs.append(3)\nprint(len(ys))") == ["python-in-place"]


def test_a_loop_that_may_bring_an_old_one_back_is_seen() -> None:
    around = "xs = [1]\nold = [0]\nfor i in range(3):\n    xs.append(i)\n    {}\nprint(len(old))"
    assert mended(around.format("old = [i]")) == []
    for line in ("old = xs", "xs = old"):
        assert mended(around.format(line)) == ["python-in-place"]
    try_ = "xs = [1]\nold = xs\ntry:\n    xs = old\n    xs = [int('x')]\nexcept ValueError:\n    {}"
    assert mended(try_.format("xs.append(1)")) == ["python-in-place"]
    assert mended(try_.format("print(len(xs))")) == []


def test_or_gives_the_other_where_the_first_is_empty() -> None:
    assert mended('word = ""\nname = word or "none"\nprint(name)') == []
    assert mended("xs = [1]\nys = xs or [2]\nxs.append(3)\nprint(len(ys))") == ["python-in-place"]


def test_only_what_is_seen_to_be_a_dict_is_asked_twice() -> None:
    assert mended('d = {"k": 1}\nn = d.get("z", 0) or 5\nprint(n)') == []
    asked = 'n = vega.http.get("https://a.com").status or 5\nprint(n)'
    assert "wrong-type" in mended(asked)


def test_a_default_that_is_a_list_stays_shared() -> None:
    lines = 'xs = [1]\nd = {"k": [2]}\nys = vega.map.get_or(d, "z", xs)\nys.append(3)'
    assert mended(f"{lines}\nprint(len(xs))") == ["python-in-place"]


def test_a_builtin_that_nobody_can_call_here_is_free_as_a_name() -> None:
    """Half of all tools take an `id`; only what a program can call keeps its name."""
    head = HEAD.replace("main()", "main(id: str, type: str)").rstrip()
    text = f"{head}\n    input = id + type\n    print(input)\n"
    _, found = check_program(text, "main.py", lambda _: None)
    assert [one.code for one in found if one.code != "unused-variable"] == []
    assert [one.code for one in found_in("sum = 1\n    print(sum)")] == ["python-shadow"]


def test_what_was_parsed_and_cast_is_changed_in_place() -> None:
    """Nobody else holds it, as with a literal."""
    parsed = 'vega.json.parse("{}")'
    assert found_in(f'd = vega.cast({parsed}, dict[str, int])\n    d["a"] = 1') == []
    shared = 'e = {"a": 1}\n    d = vega.cast(e, dict[str, int])\n    d["a"] = 2\n    print(len(e))'
    assert [one.code for one in found_in(shared)] == ["python-in-place"]


def test_a_line_that_is_refused_hides_no_other_fault() -> None:
    """Nothing hangs on a statement that only calls something; on what is assigned much may."""
    found = found_in('print(vega.nope(1))\n    n: int = "a"\n    print(len(n))')
    assert [one.code for one in found] == ["python-vega", "wrong-type", "wrong-type"]
    found = found_in('m = vega.nope(1)\n    n: int = "a"\n    print(len(m))')
    assert [one.code for one in found] == ["python-vega"]
