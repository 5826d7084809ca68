"""Diagnostics: what is wrong with a program, where, why and how to fix it; and the limit on the
work of finding out (pure).

The limit counts steps, not time, so whether a program is too much work depends on its source
alone: it is the same on a slow machine and when a recorded run is resumed.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from textwrap import wrap
from typing import Any
from unicodedata import category, combining, east_asian_width

from msgspec import Struct

from vegakit.errors import UserError

# How much work a program makes for whoever looks at it, counted in steps.
#
# A step is about a node looked at once by one phase. Checking, compiling, listing what is touched,
# quoting and drawing flows all count, and inside one `counted()` they share what is allowed. It is
# counted, not timed: whether a program is too much work depends on its source alone, so it is the
# same on a slow machine, in another process, and when a recorded run is taken up again.


MOST_STEPS = 160_000
"""Of a program that a model writes: below half a second of a core."""
_MOST_OF_A_FILE = 20 * MOST_STEPS
"""Of a person's own: who waits for it is who wrote it."""


class TooMuchWorkError(UserError):
    """A program takes more steps to check and price than it may."""

    def __init__(self) -> None:
        super().__init__(
            "the program makes too much work for whoever checks and prices it; nest fewer loops, "
            "repeat less, or put parts of it in functions or in a program of their own"
        )


class StepCounter:
    """The steps that are left."""

    def __init__(self, most: int) -> None:
        self.left = most

    @property
    def are_spent(self) -> bool:
        """Return whether more steps were counted than allowed, so that `TooMuchWorkError` was
        raised."""
        return self.left < 0


_counter: ContextVar[StepCounter | None] = ContextVar("steps", default=None)


def count_steps(steps: int = 1) -> None:
    """Count steps against the limit, if there is one. Raise `TooMuchWorkError` when it is used
    up."""
    counter = _counter.get()
    if counter is not None:
        counter.left -= steps
        if counter.left < 0:
            raise TooMuchWorkError


@contextmanager
def step_limit(most: int = _MOST_OF_A_FILE) -> Generator[StepCounter]:
    """Limit the steps of what runs inside. Where a limit holds already, it goes on holding."""
    known = _counter.get()
    if known is not None:
        yield known
        return
    token = _counter.set(counter := StepCounter(most))
    try:
        yield counter
    finally:
        _counter.reset(token)


@contextmanager
def spare_steps() -> Generator[None]:
    """Count no steps of what runs inside, which still ends where those that are left are used up:
    what it comes to is told beside a verdict, and the verdict does not depend on it."""
    counter = _counter.get()
    left = 0 if counter is None else counter.left
    try:
        yield
    finally:
        if counter is not None:
            counter.left = left


# What is wrong with a program, where, why, and what to write instead.
#
#     error[unknown-setting]: an agent has no field `modle`
#       --> main.vega:2:5
#        |
#      2 |     modle "fast"
#        |     ^^^^^
#        = help: did you mean `model`?
#
# Offsets count characters of the text. A caret is placed by what a terminal shows: tabs are four
# columns, wide characters two, combining marks none, and control characters are shown escaped.


MAX_DIAGNOSTICS = 100
_WIDTH = 96
_TAB = "    "
_LONGEST_WORD = 40
_JOINER = "\u200d"
"""Joins the parts of one emoji, so it is left as it is."""


class Edit(Struct, frozen=True):
    """Put `text` where the characters from `at` to `end` stand."""

    at: int
    end: int
    text: str


class Diagnostic(Struct, frozen=True, omit_defaults=True):
    """A fault in a program, with its place in the file. `code` is a stable word such as
    `unknown-name`."""

    code: str
    message: str
    file: str
    at: int
    end: int
    help: str = ""
    edit: Edit | None = None
    severity: str = "error"


class TooManyDiagnosticsError(Exception):
    """The search for faults ends: there are too many, or one that prevents going on."""


class DiagnosticCollector:
    """Collects the diagnostics of one file, at most `MAX_DIAGNOSTICS`."""

    __slots__ = ("file", "found")

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Diagnostic] = []

    def report(
        self,
        code: str,
        message: str,
        at: int,
        end: int,
        help: str = "",  # noqa: A002  (the field's name)
        edit: Edit | None = None,
    ) -> None:
        """Add a diagnostic. Raise `TooManyDiagnosticsError` if it is one too many."""
        self.found.append(Diagnostic(code, message, self.file, at, end, help, edit))
        if len(self.found) >= MAX_DIAGNOSTICS:
            raise TooManyDiagnosticsError

    def in_order(self) -> tuple[Diagnostic, ...]:
        """Return what was found, by its place in the file."""
        return tuple(sorted(self.found, key=lambda found: found.at))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was meant, or ''."""
    if len(word) > _LONGEST_WORD:
        return ""
    words = sorted(known)
    count_steps(1 + 4 * len(words))
    close = get_close_matches(word, words, 1, 0.7)
    return close[0] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean …?`, or all that is known."""
    words = sorted(known)
    if close := nearest(word, words):
        return f"did you mean `{close}`?"
    return f"one of: {', '.join(words)}" if words else ""


class LineMap:
    """Offsets to lines and columns, both counted from 1."""

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = array("I", [0])
        self._starts.extend(match.end() for match in re.finditer("\n", text))

    def place(self, at: int) -> tuple[int, int]:
        """Return the line and column of an offset."""
        line = bisect_right(self._starts, min(max(at, 0), len(self.text)))
        return line, min(at, len(self.text)) - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of a line, without its end."""
        at = self._starts[number - 1]
        end = self.text.find("\n", at)
        return self.text[at : len(self.text) if end < 0 else end].removesuffix("\r")


def as_json(diagnostics: Sequence[Diagnostic], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return diagnostics as JSON, each with its line and column, and the edit that would fix it if
    there is one."""
    maps = _line_maps(diagnostics, texts)
    return [_row(found, maps.get(found.file)) for found in diagnostics]


def _line_maps(diagnostics: Sequence[Diagnostic], texts: Mapping[str, str]) -> dict[str, LineMap]:
    files = {found.file for found in diagnostics}
    return {file: LineMap(text) for file, text in texts.items() if file in files}


def _row(found: Diagnostic, lines: LineMap | None) -> dict[str, Any]:
    line, column = lines.place(found.at) if lines else (0, 0)
    end_line, end_column = lines.place(found.end) if lines else (0, 0)
    edit = found.edit
    return {
        "file": found.file,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "at": found.at,
        "end": found.end,
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "help": found.help,
        "edit": {"at": edit.at, "end": edit.end, "text": edit.text} if edit else None,
    }


_SEVERITY, _MESSAGE, _MARGIN = "severity", "message", "margin"
"""The parts of a shown diagnostic that may be coloured."""


def render(
    diagnostics: Sequence[Diagnostic],
    texts: Mapping[str, str],
    paint: Callable[[str, str], str] | None = None,
    width: int | None = None,
) -> str:
    """Return diagnostics for people, each with its line of source and a caret below the place.
    `paint` colours text by its part: severity, message or margin. `width` is where long messages
    are broken."""
    maps = _line_maps(diagnostics, texts)
    paint = paint or _unpainted
    pictures = [_picture(found, maps.get(found.file), paint, width) for found in diagnostics]
    return "\n".join(pictures)


def _unpainted(text: str, _: str) -> str:
    return text


def _picture(
    found: Diagnostic,
    lines: LineMap | None,
    paint: Callable[[str, str], str],
    width: int | None,
) -> str:
    kind = f"{found.severity}[{found.code}]"
    first, *more = _folded(f"{kind}: {_shown(found.message)}", width, "  ")
    severity, message = paint(kind, _SEVERITY), first.removeprefix(kind)
    head = "\n".join(
        [
            severity + paint(message, _MESSAGE),
            *(paint(line, _MESSAGE) for line in more),
        ]
    )
    edge = paint("|", _MARGIN)
    if lines is None:
        return f"{head}\n  --> {_shown(found.file)}\n" + _help(found, " ", paint, width)
    line, column = lines.place(found.at)
    margin = " " * len(str(line))
    room = _WIDTH if width is None else max(20, min(_WIDTH, width - len(margin) - 5))
    before, marked, after = _window(lines.line(line), column - 1, found.end - found.at, room)
    carets = paint("^" * max(1, _columns(marked)), _SEVERITY)
    arrow, number = (paint(text, _MARGIN) for text in ("-->", f"{line} |"))
    return (
        f"{head}\n"
        f"{margin}{arrow} {_shown(found.file)}:{line}:{column}\n"
        f"{margin} {edge}\n"
        f"{number} {before}{marked}{after}\n"
        f"{margin} {edge} {' ' * _columns(before)}{carets}\n"
    ) + _help(found, margin, paint, width)


def _help(
    found: Diagnostic,
    margin: str,
    paint: Callable[[str, str], str],
    width: int | None,
) -> str:
    if not found.help:
        return ""
    lead = f"{margin} = help: "
    first, *more = _folded(f"{lead}{_shown(found.help)}", width, " " * len(lead))
    equals = paint("=", _MARGIN)
    return "\n".join([f"{margin} {equals}{first[len(margin) + 2 :]}", *more]) + "\n"


def _folded(text: str, width: int | None, indent: str) -> list[str]:
    """Return text in lines of a width, those after the first one indented. A lead of spaces stays:
    `wrap` drops only those between words."""
    if width is None or len(text) <= width:
        return [text]
    return wrap(text, max(20, width), subsequent_indent=indent, break_on_hyphens=False)


def _window(line: str, column: int, length: int, room: int) -> tuple[str, str, str]:
    """The line before, in and after the span as it is shown; a long line is cut around it."""
    start = max(0, column - room // 2) if len(line) > room else 0
    stop = start + room
    end = max(column, min(column + length, len(line), stop))
    head, tail = ("…" if start else ""), ("…" if len(line) > stop else "")
    return (
        head + _shown(line[start:column]),
        _shown(line[column:end]),
        _shown(line[end:stop]) + tail,
    )


def _shown(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown_char, text))


def _shown_char(char: str) -> str:
    if char == "\t":
        return _TAB
    if category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and char != _JOINER:
        return f"\\u{{{ord(char):X}}}"
    return char


def _columns(shown: str) -> int:
    return len(shown) if shown.isascii() else sum(map(_width, shown))


def _width(char: str) -> int:
    if combining(char) or category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if east_asian_width(char) in {"W", "F"} else 1
