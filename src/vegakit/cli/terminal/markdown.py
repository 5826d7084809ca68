"""Markdown as lines of a terminal, block by block: while a text grows, only its last block is
drawn anew.

A block that was drawn is kept by its text. A fence that is still open is drawn in pieces of some
lines, so that a long listing costs no more per word than a short one.
"""

import re
from functools import lru_cache
from io import StringIO
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.theme import Theme

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)\s*([\w+-]*)")
_PIECE = 40
"""Lines of an open fence that are drawn together."""
_KEPT_BLOCKS = 1_024
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.h1": "bold",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.h5": "bold",
        "markdown.h6": "bold",
        "markdown.block_quote": "none",
        "markdown.item.bullet": "none",
        "markdown.item.number": "none",
        "markdown.hr": "dim",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
CONSOLE = Console(
    file=StringIO(),
    force_terminal=True,
    color_system="standard",
    theme=_THEME,
    legacy_windows=False,
    highlight=False,
    emoji=False,
)
Line = list[Segment]


class _LeftHeading(Heading):
    """A heading where text begins, and not in the middle of a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _PlainCode(CodeBlock):
    """A listing without a coloured ground."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        theme = str(self.theme)
        yield code(str(self.text).rstrip(), self.lexer_name, theme)


def code(text: str, lexer: str, theme: str) -> Syntax:
    """Return a listing in the colours of the terminal."""
    return Syntax(text, lexer, theme=theme, word_wrap=True, background_color="default")


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }


def markdown_lines(text: str, width: int, theme: str, *, is_open: bool = False) -> list[Line]:
    """Return a text as lines. `is_open` says that more of it may come."""
    made: list[Line] = []
    parts = blocks(text)
    for number, block in enumerate(parts):
        is_last = number == len(parts) - 1
        lines = _open_lines(block, width, theme) if is_open and is_last else None
        drawn = _drawn(block, width, theme) if lines is None else lines
        if made and drawn:
            made.append([])
        made += drawn
    return made


def blocks(text: str) -> list[str]:
    """Return the blocks of a text: blank lines part them, but not within a fence or a list."""
    found: list[list[str]] = [[]]
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if not fence and not line.strip():
            if found[-1]:
                found.append([])
            continue
        if not fence and mark and found[-1]:
            found.append([])
        found[-1].append(line)
        if mark and not fence:
            fence = mark[1]
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
            found.append([])
    return ["\n".join(one) for one in _joined(found) if one]


_LISTED = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s|^\s{2,}\S")


def _joined(found: list[list[str]]) -> list[list[str]]:
    """Join the parts of a list that blank lines part: its numbers would begin anew."""
    made: list[list[str]] = []
    for one in found:
        is_list = bool(one) and bool(_LISTED.match(one[0]))
        if is_list and made and made[-1] and _LISTED.match(made[-1][0]):
            made[-1] += ["", *one]
        elif one:
            made.append(one)
    return made


def _open_lines(block: str, width: int, theme: str) -> list[Line] | None:
    """Return the lines of a fence that has no end yet; None if the block is none."""
    mark = _FENCE.match(block)
    if mark is None:
        return None
    lines = block.split("\n")[1:]
    if lines and lines[-1].strip().startswith(mark[1]):
        return None
    made: list[Line] = []
    for at in range(0, len(lines), _PIECE):
        made += _code_drawn("\n".join(lines[at : at + _PIECE]), mark[2] or "text", width, theme)
    return made


@lru_cache(maxsize=_KEPT_BLOCKS)
def _code_drawn(text: str, lexer: str, width: int, theme: str) -> list[Line]:
    return _rendered(code(text, lexer, theme), width)


@lru_cache(maxsize=_KEPT_BLOCKS)
def _drawn(block: str, width: int, theme: str) -> list[Line]:
    return _rendered(_Page(block, code_theme=theme, hyperlinks=False), width)


def _rendered(what: object, width: int) -> list[Line]:
    options = CONSOLE.options.update(width=max(10, width), height=None)
    lines = CONSOLE.render_lines(what, options, pad=False)  # pyright: ignore[reportArgumentType]
    stripped = [_trimmed(line) for line in lines]
    while stripped and not stripped[-1]:
        stripped.pop()
    while stripped and not stripped[0]:
        stripped.pop(0)
    return stripped


def _trimmed(line: Line) -> Line:
    """Return a line without the blanks at its end."""
    kept = [one for one in line if one.text]
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept and kept[-1].text != (text := kept[-1].text.rstrip()):
        kept[-1] = Segment(text, kept[-1].style)
    return kept
