"""Every edit that a diagnostic suggests is applied, and what it was suggested for is gone.

`suggested_edits.txt` holds each as it is told, and the lines that the edit makes of those that it
changes. With VEGA_WRITE_GOLDEN=1 it is written anew: read it before it is kept.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.lang.checking.programs import in_function
from tests.lang.checking.test_edits import EDITED, EDITED_FILES
from tests.lang.python.test_refusals import CASES as REFUSED
from vegakit.lang import Diagnostic, check_program, render

HERE = Path(__file__).parent
GOLDEN = HERE / "suggested_edits.txt"
BROKEN = sorted((HERE / "broken").rglob("*.vega"))
PROGRAMS = sorted((HERE.parent / "language").rglob("*.vega"))
FEWEST = 120

HEAD = """from vegakit import Agent, Failed, program, vega

ada = Agent("ada", model="fast")


def doubled(xs: list[int]) -> list[int]:
    return xs


@program
def main(xs: list[int], words: list[str], d: dict[str, int], text: str, n: int) -> None:
"""
MORE_TO_SAY = {
    ("misspelt-keyword", "`import` is no keyword"),
    ("python-builtin", "`input` reads the terminal"),
    ("python-foreign", "`json.loads` is Python's own; a program may not reach it"),
    ("strange-character", "U+201C (left double quotation mark) cannot stand here"),
    ("no-value", "this gives no value"),
    ("python-builtin", "`max` of an empty list raises in Python"),
    ("wrong-type", "a key must be a str, this is an int"),
}
"""Where more is to do than one edit: of two quotes, for who read a value that is none, of a None,
for a file that is not there, of an answer that may be null or anything, where a key is read."""

LINES = (
    "print(len(dict(d)))",
    "ys = range(n)",
    "ys = reversed(xs)",
    "print(repr(xs))",
    "ys = set(xs)",
    "ys = tuple(xs)",
    "print(vega.text(max(xs)))",
    "print(vega.text(min(xs)))",
    "ys = xs.copy()",
    "ks = d.keys()",
    "vs = d.values()",
    "print(len(text.splitlines()))",
    "words.sort()",
    "words.reverse()",
    "words.extend([text])",
    "words.insert(0, text)",
    'd.update({"k": 1})',
    "words.append(text)",
    "xs.append(n)",
    "ys = doubled(xs)\n    ys.append(n)",
    "print(await ada(text))",
    "print(sum(x * 2 for x in xs))",
    'print(", ".join(w.upper() for w in words))',
    "ys = {1, 2}",
    "ys = (1, 2)",
    'print("-" * n)',
    'd = d + {"k": 1}',
    'raise ValueError("no")',
    "print(text is words[0])",
    "print(d)",
    "print(f'{xs}')",
    "x = 1.5\n    x = 2",
    "x = 1.5\n    print(vega.text(x // 2.0))",
    "print(vega.text(vega.default(d.get('k'), 0) / 2))",
    "print(vega.default(vega.list.first([xs]), xs)[n])",
    "print(sum([float(x) for x in xs]))",
    "try:\n        print(int(text))\n    except ValueError as e:\n        print(e)",
)
"""Lines of Python that are not here as they are written."""


class Suggested(NamedTuple):
    name: str
    text: str
    told: Diagnostic

    @property
    def after(self) -> str:
        edit = self.told.edit
        assert edit is not None
        return self.text[: edit.at] + edit.text + self.text[edit.end :]

    @property
    def file(self) -> str:
        return self.told.file


def _sources() -> Iterator[tuple[str, str, str]]:
    for path in (*BROKEN, *PROGRAMS, *REFUSED):
        yield path.relative_to(HERE.parent).as_posix(), path.name, path.read_text("utf-8")
    for number, body in enumerate(EDITED):
        yield f"body {number}", "main.vega", in_function(body)
    for number, text in enumerate(EDITED_FILES):
        yield f"file {number}", "main.vega", text
    for number, line in enumerate(LINES):
        yield f"line {number}", "main.py", f"{HEAD}    {line}\n"


def _told(text: str, file: str) -> tuple[Diagnostic, ...]:
    return check_program(text, file, lambda _: None)[1]


@cache
def suggested() -> tuple[Suggested, ...]:
    """Each thing that is told once, where it is told first."""
    found: dict[tuple[str, str, str], Suggested] = {}
    for name, file, text in _sources():
        for one in _told(text, file):
            if one.edit is not None:
                place = text[one.at : one.end]
                found.setdefault((one.code, one.message, place), Suggested(name, text, one))
    return tuple(found.values())


def _shown(each: Suggested) -> str:
    edit = each.told.edit
    assert edit is not None
    first = each.after.count("\n", 0, edit.at)
    last = each.after.count("\n", 0, edit.at + len(edit.text))
    lines = each.after.split("\n")[first : last + 1]
    told = render((each.told,), {each.file: each.text})
    return f"## {each.name}\n{told}" + "".join(f"{_seen(line)}\n" for line in lines)


def _seen(line: str) -> str:
    seen = "".join(one if one.isprintable() else f"\\u{{{ord(one):X}}}" for one in line)
    return f"  > {seen.strip()}".rstrip()


def test_what_is_told_and_what_its_edit_makes_of_it() -> None:
    shown = "\n".join(map(_shown, suggested()))
    if os.environ.get("VEGA_WRITE_GOLDEN"):
        GOLDEN.write_text(shown, encoding="utf-8")
    assert shown == GOLDEN.read_text(encoding="utf-8")


def _same(each: Suggested, told: Iterable[Diagnostic], text: str) -> int:
    """How often the same is told on the line of the fault."""
    line = each.text.count("\n", 0, each.told.at)
    return sum(
        (one.code, one.message) == (each.told.code, each.told.message)
        and text.count("\n", 0, one.at) == line
        for one in told
    )


def test_every_edit_removes_what_it_is_suggested_for() -> None:
    """The same is told once less on that line, and there is one error less in the file."""
    for each in suggested():
        told, again = _told(each.text, each.file), _told(each.after, each.file)
        assert _same(each, again, each.after) < _same(each, told, each.text), _shown(each)
        before = [one for one in told if one.severity == "error"]
        after = [one for one in again if one.severity == "error"]
        allowed = len(before) + ((each.told.code, each.told.message) in MORE_TO_SAY)
        fewer = each.told.severity == "error"
        assert len(after) <= allowed - fewer, _shown(each)


def test_each_line_of_python_is_told_with_an_edit() -> None:
    for line in LINES:
        told = _told(f"{HEAD}    {line}\n", "main.py")
        assert any(one.edit is not None for one in told), (line, told)


def test_there_are_enough() -> None:
    assert len(suggested()) >= FEWEST
