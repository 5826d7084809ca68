"""Hostile source is refused quickly, in little memory, with a clean word."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.lang.bombs import BOMBS, FINE, MAX_MB
from vegakit.lang import format_source, parse
from vegakit.lang.diagnostics import MAX_DIAGNOSTICS
from vegakit.lang.syntax.lexer import MAX_NESTING

ANY_MS = "1000000"
TIMES = 40
"""How often the usual time of a bomb the slowest may take. The usual is some 30 ms; the square of a
megabyte would take minutes."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_a_diagnostic(name: str) -> None:
    """However deep or long it is."""
    text = BOMBS[name]()
    found = parse(text).diagnostics
    assert len(found) <= MAX_DIAGNOSTICS
    assert bool(found) == (name not in FINE)
    assert all(len(one.message) < 300 for one in found)


def test_no_bomb_takes_much_time_or_memory() -> None:
    """Measured in a process of its own, which nobody traces; times are compared with each other."""
    command = [sys.executable, "-m", "tests.lang.bombs", ANY_MS]
    root = Path(__file__).parents[2]
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    ran = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    lines = [line.split() for line in ran.stdout.splitlines() if "peak" in line]
    peaks, times = [int(line[-2]) for line in lines], [int(line[-5]) for line in lines]
    assert len(peaks) == len(BOMBS)
    assert max(peaks) <= MAX_MB
    assert max(times) <= TIMES * median(times)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("[1 + ", "1", "]"),
        ("f(", "1", ")"),
        ("{1: ", "1", "}"),
        ("(a <- ", "1", ")"),
        ("a[-", "1", "]"),
        ("[for x in ", "xs", " { x }]"),
    ],
)
def test_nesting_below_the_limit_is_fine(opening: str, inner: str, closing: str) -> None:
    """A third of it in any form, and the formatter follows."""
    deep = MAX_NESTING // 3
    text = f"let x = {opening * deep}{inner}{closing * deep};\n"
    assert parse(text).diagnostics == ()
    assert format_source(text).startswith("let x = ")


@pytest.mark.parametrize("levels", [MAX_NESTING, MAX_NESTING + 1])
def test_nesting_has_an_exact_limit(levels: int) -> None:
    """Of parentheses and of blocks."""
    for text in (
        "let x = " + "(" * levels + "1" + ")" * levels + ";",
        "{ " * levels + "} " * levels,
    ):
        codes = [found.code for found in parse(text).diagnostics]
        assert codes == ([] if levels == MAX_NESTING else ["too-deep"])


def test_a_deep_stack_below_us_is_no_crash() -> None:
    """What does not fit on the stack that is left is too deep."""

    def down(levels: int) -> list[str]:
        if levels:
            return down(levels - 1)
        deep = "let x = " + "f([" * 90 + "1" + "])" * 90 + ";"
        return [found.code for found in parse(deep).diagnostics]

    assert down(700) == ["too-deep"]
