"""What is kept of every command: no line is too wide, colour adds nothing but colour, and some
commands still print it. `just screens` captures them all."""

from collections.abc import Iterator

import pytest
from campaigns.screens import (
    KEPT,
    SCREENS,
    Place,
    Screen,
    faults,
    modes,
    page_of,
    pages,
    place,
    settled,
    shown,
    unspelled,
)

from vegakit.cli import COMMANDS

NOT_KEPT = {
    "code",
    "answer",
    "audit",
    "build",
    "card",
    "completion",
    "demo",
    "disasm",
    "fmt",
    "init",
    "kill",
    "lsp",
    "mcp",
    "node",
    "repl",
    "replay",
    "resume",
    "rollout",
    "serve",
    "token",
    "top",
    "trust",
    "undo",
}
"""They change something, print for programs, or are looked at by tests of their own."""
ANEW = [screen for screen in SCREENS if screen.name in {"version", "check", "cost", "ps"}]


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_no_line_is_wider_than_its_screen(screen: Screen) -> None:
    """In any mode; ASCII is ASCII, and a pipe gets no escape code."""
    kept = pages((KEPT / f"{screen.name}.txt").read_text(encoding="utf-8"))
    assert len(kept) == 5
    assert list(faults(kept)) == []


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_colour_changes_no_text(screen: Screen) -> None:
    """Sign and word say it without."""
    kept = pages((KEPT / f"{screen.name}.txt").read_text(encoding="utf-8"))
    coloured, plain = kept["80 columns, colour"], kept["80 columns"]
    assert settled(unspelled(coloured)).strip() == settled(unspelled(plain)).strip()


def test_every_command_is_kept_or_says_why_not() -> None:
    """A new command shows what it looks like."""
    kept = {screen.words[0] for screen in SCREENS if screen.words}
    assert COMMANDS.keys() - kept == NOT_KEPT


def test_a_line_that_is_too_wide_is_found() -> None:
    """And what is not ASCII, and an escape code: these tests can fail."""
    assert list(faults({"80 columns": "x" * 81, "80 columns, ASCII": "✓", "pipe": "\x1b[0m"})) == [
        f"80 columns: 81 cells: {'x' * 81}",
        "80 columns, ASCII: not ASCII",
        "pipe: an escape code",
    ]
    assert shown("a\nb\n\x1b[1A\r\x1b[Jc\n") == "a\nc\n"


@pytest.fixture(scope="module")
def here() -> Iterator[Place]:
    with place() as made:
        yield made


@pytest.mark.parametrize("screen", ANEW, ids=lambda screen: screen.name)
def test_a_command_prints_what_is_kept(screen: Screen, here: Place) -> None:
    """Through a real terminal and a pipe; times may differ. To keep another look, type:
    python -m campaigns.screens --write"""
    found = modes(here, screen)
    assert settled(page_of(found)) == settled((KEPT / f"{screen.name}.txt").read_text("utf-8"))
