"""Edits: each is right, or refused with what to do; none is misapplied.

The corpus is made from our own sources: a line or a few of them are changed, and the edit is given
as a model gives it, to a file that has other line endings, blanks, or text than the model saw.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from vegakit.errors import ToolFailed
from vegakit.sage import replace_once

SOURCES = sorted((Path(__file__).parents[2] / "src" / "vegakit").rglob("*.py"))
EDITS = 320
CHANGED = "# changed by an edit"


class Case:
    """Some lines of a file, and what is to stand in their place."""

    def __init__(self, seed: int) -> None:
        rolled = random.Random(seed)
        path = SOURCES[seed * 7 % len(SOURCES)]
        self.lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        size = rolled.randint(1, 6)
        at = rolled.randrange(max(1, len(self.lines) - size))
        self.at, self.old = at, self.lines[at : at + size]
        self.new = list(self.old)
        changed = rolled.randrange(len(self.new))
        indent = self.new[changed][: len(self.new[changed]) - len(self.new[changed].lstrip())]
        how = rolled.choice(["change", "insert", "drop"])
        if how == "drop" and len(self.new) > 1:
            del self.new[changed]
        elif how == "insert":
            self.new.insert(changed, indent + CHANGED)
        else:
            self.new[changed] = indent + CHANGED

    def text(self, lines: list[str]) -> str:
        return "\n".join(lines) + "\n"

    @property
    def file(self) -> str:
        return self.text(self.lines)

    @property
    def wanted(self) -> str:
        return self.text(
            [*self.lines[: self.at], *self.new, *self.lines[self.at + len(self.old) :]]
        )

    @property
    def edit(self) -> tuple[str, str]:
        return "\n".join(self.old), "\n".join(self.new)


def crlf(case: Case) -> tuple[str, str, str, str]:
    """The model sees no carriage returns."""
    return case.file.replace("\n", "\r\n"), *case.edit, case.wanted.replace("\n", "\r\n")


def tabs(case: Case) -> tuple[str, str, str, str]:
    """The file is indented with tabs, and the model writes four blanks for each."""
    return _tabbed(case.file), *case.edit, _tabbed(case.wanted)


def trailing(case: Case) -> tuple[str, str, str, str]:
    """Lines of the file end with blanks that the model leaves out; those that it does not change
    keep them. A place of one line fits exactly, before its blanks."""
    lines = [f"{line}  " if line else line for line in case.lines]
    file, (old, new) = case.text(lines), case.edit
    if file.count(old) == 1:
        return file, old, new, file.replace(old, new)
    made = [line if CHANGED in line or not line else f"{line}  " for line in case.new]
    wanted = [*lines[: case.at], *made, *lines[case.at + len(case.old) :]]
    return file, old, new, case.text(wanted)


def twice(case: Case) -> tuple[str, str, str, str]:
    """The place is there a second time: no answer is right but none."""
    return case.file + case.text(case.old), *case.edit, ""


def stale(case: Case) -> tuple[str, str, str, str]:
    """A line of the place was changed since the model read it."""
    at = max(range(len(case.old)), key=lambda at: len(case.old[at].strip()))
    start = len(case.old[at]) - len(case.old[at].strip()) // 2 - 1
    lines = list(case.lines)
    lines[case.at + at] = f"{case.old[at][:start]}§{case.old[at][start:]}"
    return case.text(lines), *case.edit, ""


def moved(case: Case) -> tuple[str, str, str, str]:
    """Lines were put before the place since the model read it: the edit is still right."""
    return f"first\n{case.file}", *case.edit, f"first\n{case.wanted}"


def unended(case: Case) -> tuple[str, str, str, str]:
    """The file has no newline at its end."""
    return case.file[:-1], *case.edit, case.wanted[:-1]


def plain(case: Case) -> tuple[str, str, str, str]:
    return case.file, *case.edit, case.wanted


def _tabbed(text: str) -> str:
    made: list[str] = []
    for line in text.split("\n"):
        blanks = len(line) - len(line.lstrip(" "))
        made.append("\t" * (blanks // 4) + " " * (blanks % 4) + line.lstrip(" "))
    return "\n".join(made)


KINDS: dict[str, Callable[[Case], tuple[str, str, str, str]]] = {
    one.__name__: one for one in (plain, crlf, tabs, trailing, twice, stale, moved, unended)
}
LEAST_RIGHT = dict.fromkeys(["plain", "crlf", "tabs", "trailing", "moved", "unended"], 0.85)
"""Shares of edits that must be right, and not refused: many short places fit more than once."""


def outcome(file: str, old: str, new: str, wanted: str) -> str:
    try:
        made = replace_once(file, old, new, "a.py")
    except ToolFailed as refused:
        return "refused" if "; " in str(refused) else "refused without what to do"
    return "right" if made.text == wanted else "misapplied"


@pytest.mark.parametrize("kind", KINDS)
def test_no_edit_is_misapplied(kind: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(EDITS):
        case = Case(seed)
        longest = max(len(line.strip()) for line in case.old)
        if kind == "stale" and (case.file.count(case.edit[0]) != 1 or longest < 4):
            continue  # it was refused when the model read it, or there is nothing to change in it
        given = KINDS[kind](case)
        found[ended := outcome(*given)] += 1
        assert ended != "misapplied", (seed, given[1], given[2])
    assert set(found) <= {"right", "refused"}
    assert found["right"] >= LEAST_RIGHT.get(kind, 0) * EDITS, found
    if kind in ("twice", "stale"):
        assert found["right"] == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "wanted"),
    [
        ("a\r\nb\nc\r\n", "b\n", "x\ny\n", "a\r\nx\ny\nc\r\n"),
        ("a\nb", "b", "c\n", "a\nc\n"),
        ("\ta\n\t\tb\n", "    a\n        b", "    a\n            c", "\ta\n\t\t\tc\n"),
        ("\ufeffa\n", "a", "b", "\ufeffb\n"),
        ("x\fy \nz\n", "x\fy\nz", "x\fy\nw", "x\fy \nw\n"),
        ("a \nb", "a\nb", "a\nc", "a \nc"),
    ],
)
def test_the_file_keeps_its_own_ways(file: str, old: str, new: str, wanted: str) -> None:
    assert replace_once(file, old, new, "a").text == wanted


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("aaa", "aa", "b", "2 places"),
        ("a\nb\na\n", "a", "c", "lines 1, 3"),
        ("a", "", "b", "old is empty"),
        ("a", "a", "a", "nothing would change"),
        ('s = "a  b"\n', 's = "a b"', "x", "no line holds"),
        ("    return x\n", "        return x", "y", "line 1 has its words"),
        ("def f():\n    pass\n", "def f():\n    return", "x", "line 1 holds its first line"),
    ],
)
def test_a_refusal_names_the_fix(file: str, old: str, new: str, told: str) -> None:
    with pytest.raises(ToolFailed, match=told):
        replace_once(file, old, new, "a.py")
