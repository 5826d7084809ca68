"""Every edit that a diagnostic suggests is applied: it mends what it is suggested for.

`mends.txt` holds each as it is told, and the lines that the edit makes of those it changes. With
VEGA_WRITE_GOLDEN=1 it is written anew: read it before it is kept.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.lang.checking.programs import in_function
from tests.lang.checking.test_edits import MENDED, MENDED_FILES
from tests.lang.python.test_refusals import CASES as REFUSED
from vegakit.lang.diagnostics import Diagnostic, render
from vegakit.lang.frontends import check_program

HERE = Path(__file__).parent
GOLDEN = HERE / "mends.txt"
BROKEN = sorted((HERE / "broken").glob("*.vega"))
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
    ("strange-character", "U+201C (left double quotation mark) cannot stand here"),
    ("no-value", "this gives no value"),
    ("python-builtin", "`max` of an empty list raises in Python"),
}
"""Where a second edit is needed: of two quotes, for who read a value that is none, of a None."""

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


class Mend(NamedTuple):
    name: str
    text: str
    told: Diagnostic

    @property
    def mended(self) -> str:
        edit = self.told.edit
        assert edit is not None
        return self.text[: edit.at] + edit.text + self.text[edit.end :]

    @property
    def file(self) -> str:
        return self.told.file


def _sources() -> Iterator[tuple[str, str, str]]:
    for path in (*BROKEN, *PROGRAMS, *REFUSED):
        yield path.relative_to(HERE.parent).as_posix(), path.name, path.read_text("utf-8")
    for number, body in enumerate(MENDED):
        yield f"body {number}", "main.vega", in_function(body)
    for number, text in enumerate(MENDED_FILES):
        yield f"file {number}", "main.vega", text
    for number, line in enumerate(LINES):
        yield f"line {number}", "main.py", f"{HEAD}    {line}\n"


def _told(text: str, file: str) -> tuple[Diagnostic, ...]:
    return check_program(text, file, lambda _: None)[1]


@cache
def mends() -> tuple[Mend, ...]:
    """Each thing that is told once, where it is told first."""
    found: dict[tuple[str, str, str], Mend] = {}
    for name, file, text in _sources():
        for one in _told(text, file):
            if one.edit is not None:
                place = text[one.at : one.end]
                found.setdefault((one.code, one.message, place), Mend(name, text, one))
    return tuple(found.values())


def _shown(mend: Mend) -> str:
    edit = mend.told.edit
    assert edit is not None
    first = mend.mended.count("\n", 0, edit.at)
    last = mend.mended.count("\n", 0, edit.at + len(edit.text))
    lines = mend.mended.split("\n")[first : last + 1]
    told = render((mend.told,), {mend.file: mend.text})
    return f"## {mend.name}\n{told}" + "".join(f"{_seen(line)}\n" for line in lines)


def _seen(line: str) -> str:
    seen = "".join(one if one.isprintable() else f"\\u{{{ord(one):X}}}" for one in line)
    return f"  > {seen.strip()}".rstrip()


def test_what_is_told_and_what_its_edit_makes_of_it() -> None:
    shown = "\n".join(map(_shown, mends()))
    if os.environ.get("VEGA_WRITE_GOLDEN"):
        GOLDEN.write_text(shown, encoding="utf-8")
    assert shown == GOLDEN.read_text(encoding="utf-8")


def test_every_edit_mends_what_it_is_suggested_for() -> None:
    """The same is not told again on that line, and there is one error less in the file."""
    for mend in mends():
        again = _told(mend.mended, mend.file)
        line = mend.text.count("\n", 0, mend.told.at)
        same = [
            one
            for one in again
            if (one.code, one.message) == (mend.told.code, mend.told.message)
            and mend.mended.count("\n", 0, one.at) == line
        ]
        assert same == [], _shown(mend)
        before = [one for one in _told(mend.text, mend.file) if one.severity == "error"]
        after = [one for one in again if one.severity == "error"]
        allowed = len(before) + ((mend.told.code, mend.told.message) in MORE_TO_SAY)
        fewer = mend.told.severity == "error"
        assert len(after) <= allowed - fewer, _shown(mend)


def test_each_line_of_python_is_told_with_an_edit() -> None:
    for line in LINES:
        told = _told(f"{HEAD}    {line}\n", "main.py")
        assert any(one.edit is not None for one in told), (line, told)


def test_there_are_enough() -> None:
    assert len(mends()) >= FEWEST
