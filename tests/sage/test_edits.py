"""Edits and patches: each is right, or refused with what to do; none is misapplied."""

from collections import Counter

import pytest
from campaigns.edits import CONDITIONS, FORMS, outcome_of

from vegakit.errors import ToolFailed
from vegakit.sage import apply_parts, read_patch, replace_each, replace_once

SEEDS = 8
"""Of each form and condition; `python -m campaigns.edits` has thousands."""
REFUSED = ("twice", "stale", "deeper", "both_forms")
LEAST_RIGHT = 0.5
"""A share of the other edits: many short places fit more than once."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_edit_is_misapplied(form: str, condition: str) -> None:
    found: Counter[str] = Counter(outcome_of(seed, form, condition) for seed in range(SEEDS))
    del found[""]
    assert set(found) <= {"right", "refused"}, found
    if condition in REFUSED:
        assert found["refused"]
    else:
        assert found["right"] >= LEAST_RIGHT * found.total(), found


@pytest.mark.parametrize(
    ("file", "old", "new", "wanted"),
    [
        ("a\r\nb\nc\r\n", "b\n", "x\ny\n", "a\r\nx\ny\nc\r\n"),
        ("a\nb", "b", "c\n", "a\nc\n"),
        ("\ta\n\t\tb\n", "    a\n        b", "    a\n            c", "\ta\n\t\t\tc\n"),
        ("\ufeffa\n", "a", "b", "\ufeffb\n"),
        ("x\fy \nz\n", "x\fy\nz", "x\fy\nw", "x\fy \nw\n"),
        ("a \nb", "a\nb", "a\nc", "a \nc"),
        ("cafe\u0301 = 1\n", "caf\u00e9 = 1", "caf\u00e9 = 2", "cafe\u0301 = 2\n"),
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
        ("caf\u00e9\ncafe\u0301\n", "caf\u00e9", "x", "2 places"),
        ("\u00e9 \ne\u0301\n", "\u00e9\n\u00e9", "x", "accents are written in two ways"),
    ],
)
def test_a_refusal_names_the_fix(file: str, old: str, new: str, told: str) -> None:
    with pytest.raises(ToolFailed, match=told):
        replace_once(file, old, new, "a.py")


# Several edits.


def test_each_edit_is_made_in_what_the_one_before_left() -> None:
    made = replace_each("a\nb\n", [("a", "b1"), ("b1\nb", "c")], "a.py")
    assert made[-1].text == "c\n"


def test_of_several_edits_all_are_made_or_none() -> None:
    with pytest.raises(ToolFailed, match=r"edit 2 of 2: .*read it again.*None of them was made"):
        replace_each("a\nb\n", [("a", "x"), ("gone", "y")], "a.py")


# Patches.


def patched(file: str, *lines: str) -> str:
    patch = "\n".join(["*** Begin Patch", "*** Update File: a.py", *lines, "*** End Patch"])
    (one,) = read_patch(patch)
    return apply_parts(file, one.parts, one.path).text


@pytest.mark.parametrize(
    ("file", "lines", "wanted"),
    [
        ("a\nb\nc\n", ("@@", " a", "-b", "+x", " c"), "a\nx\nc\n"),
        ("a\nb\nc\n", ("-a", "+x", "@@", "-c", "+y"), "x\nb\ny\n"),
        ("a\nb\nc\n", ("-c", "+y", "@@", "-a", "+x"), "x\nb\ny\n"),
        ("a\nb\n", (" a", "+x", "", " b"), None),
        ("a\n\nb\n", (" a", "+x", "", " b", ""), "a\nx\n\nb\n"),
        ("a\nb", (" b", "+c"), "a\nb\nc"),
        ("a\nb", ("-b",), "a"),
        ("a\r\nb\r\n", (" a", "+x"), "a\r\nx\r\nb\r\n"),
        ("a\n", ("+b", "*** End of File"), "a\nb\n"),
        ("", ("+b", "*** End of File"), "b\n"),
        ("a\nb\na\n", ("-a", "+x", "*** End of File"), "a\nb\nx\n"),
        ("f:\n  x\ng:\n  x\n", ("@@ g:", "-  x", "+  y"), "f:\n  x\ng:\n  y\n"),
        ("f:\n  x\ng:\n  x\n", ("@@ g", "-  x", "+  y"), "f:\n  x\ng:\n  y\n"),
        ("f()\n{\n x\n}\ng()\n{\n x\n}\n", ("@@ f()", "- x"), "f()\n{\n}\ng()\n{\n x\n}\n"),
        ("a\nb\n", ("@@ -7,2 +7,2 @@ def f", "-b", "+c"), "a\nc\n"),
        ("x\n\ta\n", (" x", "-    a", "+    b"), "x\n\tb\n"),
    ],
)
def test_a_patch_changes_the_lines_that_it_names(
    file: str, lines: tuple[str, ...], wanted: str | None
) -> None:
    if wanted is None:
        with pytest.raises(ToolFailed, match="read it again"):
            patched(file, *lines)
    else:
        assert patched(file, *lines) == wanted


@pytest.mark.parametrize(
    ("file", "lines", "told"),
    [
        ("ab\n", ("-a", "+b"), "line 1 holds its first line"),
        ("a\na\n", ("-a", "+b"), "fits 2 places of a.py, at lines 1, 2; add lines"),
        ("f:\n  z\ng:\n  x\n", ("@@ f:", "-  x", "+  y"), "its lines are at line 4; .*again"),
        ("f:\n  x\nf:\n  z\n", ("@@ f:", "-  x", "+  y"), "at lines 1, 3; put an @@ line"),
        ("a\n", ("@@ g:", "-a", "+b"), "no line is 'g:'.*read it again"),
        ("a\nb\n", ("-a", "+b", "*** End of File"), "at the end of the file: .* line 1"),
        ("a\n", ("+b",), "nobody knows where it belongs; add a line"),
        ("a\nb\n", ("-a", "+x", "@@", " a", "-b"), "two parts .* at line 1; join them"),
        ("a\n", (" a",), "changes nothing; mark lines"),
        ("a\n", ("-a", "+a"), "leaves a.py as it is; say"),
        ("a\n", ("a", "+b"), "line 3 of the patch, 'a', has neither a blank, \\+ nor -"),
        ("a\n", (), "no change of a.py"),
    ],
)
def test_a_patch_that_does_not_fit_names_the_fix(
    file: str, lines: tuple[str, ...], told: str
) -> None:
    with pytest.raises(ToolFailed, match=told):
        patched(file, *lines)


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("--- a/a.py\n+++ b/a.py\n", "does not begin with"),
        ("*** Begin Patch\n*** Add File: a\n+x", "may be cut off; send all of it"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "has no \\+ before it"),
        ("*** Begin Patch\n*** Frobnicate: a\n*** End Patch", "line 2 of the patch"),
        (
            "*** Begin Patch\n*** Delete File: a\n*** Add File: a\n+x\n*** End Patch",
            "names a twice",
        ),
    ],
)
def test_what_is_no_patch_is_told(patch: str, told: str) -> None:
    with pytest.raises(ToolFailed, match=told):
        read_patch(patch)
