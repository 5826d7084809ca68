"""Colours of `vega demo`, from the terminal's own palette, so that they suit dark and light."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from vegakit.cli.demo_scene import Mark

__all__ = ["BOLD", "DIM", "MARKS", "WORKING", "Paint", "painter"]

Paint: TypeAlias = Callable[[str, str], str]

BOLD, DIM, WORKING = "1", "2", "36"
MARKS = {
    Mark.BEGAN: ("▶", "1"),
    Mark.DONE: ("✓", "32"),
    Mark.CRASHED: ("✗", "1;31"),
    Mark.RESTARTED: ("↻", "1;32"),
    Mark.REFUSED: ("⊘", "33"),
    Mark.FAILED: ("✗", "31"),
    Mark.OPENED: ("◌", "35"),
}
"""Each with its sign and its colour."""


def painter(*, colour: bool) -> Paint:
    return partial(_paint, colour=colour)


def _paint(text: str, style: str, *, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour and style and text.strip() else text
