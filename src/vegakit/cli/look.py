"""The look of all that the command prints: signs, colours, numbers, tables and places that move.

No other module holds an escape code. A `Look` says what one stream can show; renderers take it, so
that the same text fits a terminal, a pipe and a stream that carries ASCII only. Meaning is a sign
and a word; colour only repeats it. Money is never cut: a narrow screen drops whole columns.

While a command runs, `sys.stdout` and `sys.stderr` are a `SafeStream` each. It escapes every
control and invisible character except our own escape codes, so no caller has to remember it.
"""

import codecs
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, StrEnum
from functools import cache
from textwrap import wrap
from typing import Any, NamedTuple, TextIO, TypeAlias, cast
from unicodedata import category, combining, east_asian_width

from vegakit.errors import UserError
from vegakit.policy import escape_controls

# Signs and colours.


class Tone(StrEnum):
    """The meanings that a colour repeats. `FAINT` is for decoration only, never for values."""

    PLAIN = ""
    OK = "32"
    WORK = "36"
    ASK = "33"
    BAD = "31"
    STRONG = "1"
    FAINT = "2"


RICH_STYLES: Mapping[Tone, str] = {
    Tone.PLAIN: "",
    Tone.OK: "green",
    Tone.WORK: "cyan",
    Tone.ASK: "yellow",
    Tone.BAD: "red",
    Tone.STRONG: "bold",
    Tone.FAINT: "dim",
}
"""Tones as the words by which Rich and Textual know them."""


class Sign(Enum):
    """Signs, each with its twin in ASCII."""

    DONE = "✓", "ok"
    WORKING = "◐", "*"
    WAITING = "·", "."
    FAILED = "✗", "x"
    HELD = "!", "!"
    ASKS = "?", "?"
    REFUSED = "⊘", "no"
    RESTARTED = "↻", "r"
    KEPT = "↺", "="
    OPEN = "◌", "o"

    def __str__(self) -> str:
        return self.value[0]


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TWINS: Mapping[str, str] = {
    **{sign.value[0]: sign.value[1] for sign in Sign},
    **dict.fromkeys(SPINNER, "*"),
    **dict(zip("█▒░├└│─┤┌┐┘▸◂▶∥╎•", "#=.|`|-|++'><>|:*", strict=True)),
    **dict(zip("\u2013\u2014\u2212\u00d7\u2018\u2019\u201c\u201d", "---x''\"\"", strict=True)),
    "…": "...",
    "→": "->",
    "\u00a0": " ",
}
_NEEDED = "✓◐⊘↺█├…→"
ERROR_NAME = re.compile(r"^[A-Z][A-Za-z]+: ")  # is for the model; people read the words after it
HARD_SPACE, _KEPT = "\u00a0", "\0"
_HANDLER = "vega.twins"
_CHOICES = ("auto", "always", "never")
_chosen_colour, _shows_all_digits = "auto", False

Paint: TypeAlias = Callable[[str, str], str]


def choose_colour(when: str) -> None:
    """Set what `--color` says, for every stream of this process."""
    global _chosen_colour  # noqa: PLW0603
    if when not in _CHOICES:
        raise UserError(f"--color is one of {', '.join(_CHOICES)}, not {when!r}")
    _chosen_colour = when


def choose_exact(*, exact: bool) -> None:
    """Set what `--exact` says: whether amounts of money are shown with all their digits."""
    global _shows_all_digits  # noqa: PLW0603
    _shows_all_digits = exact


@dataclass(frozen=True)
class Look:
    """The abilities of a stream. Without a `width` nobody looks, and nothing is cut. Where it
    `moves`, lines can be redrawn in place. A safe stream writes an escape code only after
    its `mark`."""

    colour: bool = False
    width: int | None = None
    ascii_only: bool = False
    moves: bool = False
    mark: str = ""

    def paint(self, text: str, tone: str) -> str:
        """Return text in a colour. A `tone` is a `Tone`, or several codes between semicolons."""
        if not (self.colour and tone and text.strip()):
            return text
        return f"{self.mark}\x1b[{tone}m{text}{self.mark}\x1b[0m"

    def text(self, text: str) -> str:
        """Return text in characters that the stream can carry."""
        return text.translate(_table_of_twins()) if self.ascii_only else text

    def fold(self, text: str, indent: str = "", first: str = "") -> list[str]:
        """Return text in lines that fit, those after the first one indented. It is not broken at
        hard spaces, which are shown as plain ones."""
        if self.width is None:
            return [first + self.text(text).replace(HARD_SPACE, " ")]
        kept = self.text(text.replace(HARD_SPACE, _KEPT)).replace(_KEPT, HARD_SPACE)
        folded = wrap(
            kept,
            max(20, self.width),
            initial_indent=first,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
        return [line.replace(HARD_SPACE, " ") for line in folded] or [first.rstrip()]

    def marked(self, sign: Sign, tone: str, text: str) -> list[str]:
        """Return text in lines that fit, with a sign before the first; only the sign has colour."""
        mark = self.text(str(sign))
        first, *more = self.fold(text, " " * (len(mark) + 1), f"{mark} ")
        return [self.paint(mark, tone) + first[len(mark) :], *more]


PIPE = Look()
"""The look of a stream that nobody watches."""


def look_of(stream: TextIO) -> Look:
    """Return what a stream can show. This is the only place that decides on colour."""
    from vegakit.config import environment_variable, wants_colour

    is_terminal = stream.isatty()
    return Look(
        wants_colour(stream, _chosen_colour),
        shutil.get_terminal_size().columns if is_terminal else None,
        not _carries(stream, _NEEDED),
        is_terminal and environment_variable("TERM") != "dumb",
        getattr(stream, "mark", ""),
    )


class SafeStream:
    """A stream of this process as commands write to it. It escapes controls and invisible
    characters as JSON does, so that JSON keeps its meaning. New lines, tabs and characters after
    the mark pass. The mark is random, so text from outside of this process never holds it."""

    mark = "".join(chr(0x10_0000 + byte) for byte in os.urandom(6))

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text."""
        first, *marked = text.split(self.mark)
        safe = (code[:1] + escape_controls(code[1:]) for code in marked)
        return self._stream.write("".join([escape_controls(first), *safe]))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (of the stream below)
        return getattr(self._stream, name)


@contextmanager
def safe_streams() -> Generator[None]:
    """Make stdout and stderr safe streams meanwhile. After a crash they stay so: the interpreter
    prints the traceback on them."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(guard, before)
    try:
        yield
    finally:
        if not isinstance(sys.exc_info()[1], Exception):
            sys.stdout, sys.stderr = before


def guard(stream: TextIO) -> TextIO:
    """Return a stream as a safe one. It carries any text: what its encoding lacks is written as its
    twin in ASCII, or spelled. A stream that the caller closed is None, and stays so."""
    codecs.register_error(_HANDLER, _twin)
    if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors=_HANDLER)
    is_ready = not stream or isinstance(stream, SafeStream)
    return cast("TextIO", stream if is_ready else SafeStream(cast("TextIO", stream)))


def _carries(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _twin(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    twins = "".join(
        _TWINS.get(one) or one.encode("ascii", "backslashreplace").decode() for one in lacking
    )
    return twins, error.end


@cache
def _table_of_twins() -> Mapping[int, str]:
    return str.maketrans(dict(_TWINS))


# Numbers: money, counts, durations and times.


_UNITS = (("d", "h", 86_400_000), ("h", "m", 3_600_000), ("m", "s", 60_000))
_LESSER = {"h": 3_600_000, "m": 60_000, "s": 1_000}
_LARGE_DOLLARS = 10


class Rounding(StrEnum):
    """The ways to round an amount: what is left down, what may be spent up, what was spent to the
    nearest."""

    NEAREST = "nearest"
    UP = "up"
    DOWN = "down"


def decimals_of(*nanos: int | None) -> int:
    """Return how many decimals a group of amounts has: that of its largest, or with `--exact` as
    many as it takes to round none of them."""
    from vegakit.money import NANOS

    if _shows_all_digits:
        fractions = (f"{abs(one) % NANOS:09d}".rstrip("0") for one in nanos if one is not None)
        return max([2, *map(len, fractions)])
    largest = max((abs(one) for one in nanos if one is not None), default=0)
    return 2 if largest >= _LARGE_DOLLARS * NANOS else 4


def money(
    nanos: int | None, decimals: int | None = None, rounding: Rounding = Rounding.NEAREST
) -> str:
    """Return an amount of nano-dollars: four decimals below $10, two from $10, as many as its
    group has, or with `--exact` all that it has. Less than its last digit is shown as such, and
    None as nothing."""
    from vegakit.money import NANOS

    if nanos is None:
        return ""
    places = decimals_of(nanos) if decimals is None else decimals
    step = NANOS // 10**places
    sign, left = ("-", -nanos) if nanos < 0 else ("", int(nanos))
    if 0 < left < step and rounding is not Rounding.UP:
        return f"{sign}<${1 / 10**places:.{places}f}"
    more = {Rounding.NEAREST: step // 2, Rounding.UP: step - 1, Rounding.DOWN: 0}[rounding]
    whole, rest = divmod((left + more) // step, 10**places)
    return f"{sign}${whole:,}.{rest:0{places}d}"


def moneys(amounts: Sequence[int | None], rounding: Rounding = Rounding.NEAREST) -> list[str]:
    """Return a column of amounts in one precision; nothing spent is an empty cell."""
    places = decimals_of(*amounts)
    return [money(one, places, rounding) if one else "" for one in amounts]


class Figures(NamedTuple):
    """The figures of a budget as they are shown. They add up."""

    at_most: str
    reserved: str
    spent: str
    left: str


def figures(at_most: int, spent: int, reserved: int = 0) -> Figures:
    """Return a budget in one precision, in which nothing that was spent or reserved vanishes. What
    is spent is rounded up and what is left down, so that the shown reservation is what lies
    between."""
    from vegakit.money import NANOS

    is_small = any(0 < one < NANOS // 100 for one in (spent, reserved))
    places = decimals_of(at_most, spent, reserved)
    if is_small and not _shows_all_digits:
        places = 4
    step = NANOS // 10**places
    shown_total = at_most // step
    shown_spent = -(-spent // step)
    shown_left = max(0, min((at_most - spent - reserved) // step, shown_total - shown_spent))
    held = max(0, shown_total - shown_spent - shown_left) if reserved else 0
    if not reserved:
        shown_left = max(0, shown_total - shown_spent)
    words = (money(one * step, places) for one in (shown_total, held, shown_spent, shown_left))
    return Figures(*words)


def bar(look: Look, at_most: int, spent: int, reserved: int = 0, cells_wide: int = 12) -> str:
    """Return a budget as a bar: spent solid, reserved hatched, left empty. Anything that is not
    nothing has a cell."""
    if at_most <= 0:
        return ""
    solid, hatched, left = bar_cells(at_most, spent, reserved, cells_wide)
    parts = ("█" * solid, Tone.WORK), ("▒" * hatched, Tone.WORK), ("░" * left, Tone.FAINT)
    return "".join(look.paint(look.text(text), tone) for text, tone in parts)


def bar_cells(at_most: int, spent: int, reserved: int, cells_wide: int) -> tuple[int, int, int]:
    """Return how many cells of a bar are spent, reserved and left. Less than half a cell that is
    spent draws none: the figures beside the bar tell it."""
    is_seen = 2 * spent * cells_wide >= at_most
    solid = min(cells_wide, -(-spent * cells_wide // max(1, at_most))) if is_seen else 0
    hatched = min(cells_wide - solid, -(-reserved * cells_wide // max(1, at_most)))
    return solid, hatched, cells_wide - solid - hatched


def duration(ms: float, *, brief: bool = False) -> str:
    """Return a duration in one or two units, never rounded up; `brief` gives the largest only."""
    ms = max(0, ms)
    for unit, lesser, size in _UNITS:
        if ms >= size:
            rest = f" {int(ms % size // _LESSER[lesser]):02d} {lesser}"
            return f"{int(ms // size)} {unit}{'' if brief else rest}"
    if ms >= 10_000 or (brief and ms >= 1_000):
        return f"{int(ms // 1_000)} s"
    return f"{int(ms // 100) / 10:.1f} s" if ms >= 1_000 else f"{ms:.0f} ms"


def tokens(given: int, taken: int) -> str:
    """Return tokens in and out; nothing for none."""
    return f"{given:,} → {taken:,}" if given or taken else ""


def count(number: int, what: str, plural: str = "") -> str:
    """Return a number of things."""
    return f"{number:,} {what if number == 1 else plural or f'{what}s'}"


def moment(at_ms: int, now: datetime | None = None) -> str:
    """Return a time by the clock of this machine, with the day if that is not today."""
    at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    today = (now or datetime.now().astimezone()).date()
    return f"{at:%H:%M:%S}" if at.date() == today else f"{at:%Y-%m-%d %H:%M:%S}"


# Text: how wide it is, and how it is shortened.


_LONGEST = 200
_OTHERS = {"Mn", "Me", "Cf"}


def one_line(text: str) -> str:
    """Return text that cannot steer the terminal: a model may have written it."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST])
    return clean + ("…" if len(text) > _LONGEST else "")


def cells(text: str) -> int:
    """Return how many cells of a terminal text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if combining(char) or category(char) in _OTHERS:
        return 0
    return 2 if east_asian_width(char) in {"W", "F"} else 1


def cut(text: str, room: int, dots: str = "…") -> str:
    """Return text that takes at most so many cells, with dots where its end was cut off."""
    if cells(text) <= room:
        return text
    kept, used = "", cells(dots)
    for char in text:
        used += _cells_of(char)
        if used > room:
            break
        kept += char
    return (kept.rstrip() + dots)[: max(room, 0)]


def middle(text: str, room: int, dots: str = "…") -> str:
    """Return a name that takes at most so many cells: its beginning and its end."""
    if cells(text) <= room:
        return text
    half = max(1, (room - len(dots)) // 2)
    return cut(text[: room - half - len(dots)] + dots + text[-half:], room, dots)


# Tables. Two spaces between columns; a column that has nothing to say is left out.


_GAP = "  "
_NAME_SHARE = 0.4


class Cell(NamedTuple):
    """A cell of a table with its colour."""

    text: str
    tone: str = Tone.PLAIN


@dataclass(frozen=True)
class Column:
    """A column of a table. Where there is no room, the column with the highest `drop` goes first;
    0 stays. A text with a `least` is cut down to that many cells before any column goes; a `name`
    is shortened in its middle."""

    title: str
    right: bool = False
    drop: int = 0
    least: int = 0
    name: bool = False


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell | str]],
    look: Look = PIPE,
    *,
    below: Mapping[int, tuple[str, str]] | None = None,
    head: bool = True,
) -> str:
    """Return rows as a table that fits. `below` are long texts by the number of their row, each
    with its indent, on lines of its own under it."""
    said = [[_cell(one, look) for one in row] for row in rows]
    shown = [n for n, _ in enumerate(columns) if any(row[n].text for row in said)]
    titles = [look.text(column.title) if head else "" for column in columns]
    natural = [
        max([cells(titles[n]), *(cells(row[n].text) for row in said)]) for n in range(len(columns))
    ]
    widths = _fitted(columns, shown, natural, look.width)
    lines: list[str] = []
    if head and widths:
        heads = [Cell(title, Tone.FAINT) for title in titles]
        lines.append(_line(columns, heads, widths, look))
    for number, row in enumerate(said):
        lines.append(_line(columns, row, widths, look))
        if below and number in below:
            indent, text = below[number]
            for part in text.split("\n"):
                lines += look.fold(part, look.text(f"{indent}  "), look.text(indent))
    return "\n".join(lines)


def _cell(given: Cell | str, look: Look) -> Cell:
    text, tone = given if isinstance(given, Cell) else (given, Tone.PLAIN)
    return Cell(look.text(text), tone)


def fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]], width: int
) -> dict[int, int]:
    """Return the width of each column that has something to say and fits, by its number."""
    said = [[_cell(one, PIPE).text for one in row] for row in rows]
    shown = [n for n, _ in enumerate(columns) if any(row[n] for row in said)]
    natural = [
        max([cells(column.title), *(cells(row[n]) for row in said)])
        for n, column in enumerate(columns)
    ]
    return _fitted(columns, shown, natural, width)


def _fitted(
    columns: Sequence[Column], shown: Sequence[int], natural: Sequence[int], width: int | None
) -> dict[int, int]:
    """Return the width of each column that stays, by its number."""
    widths = {n: natural[n] for n in shown}
    if width is None:
        return widths
    while (over := sum(widths.values()) + len(_GAP) * max(0, len(widths) - 1) - width) > 0:
        over -= _shrink(widths, over, {n: columns[n].least for n in widths if columns[n].least})
        share = int(width * _NAME_SHARE)
        over -= _shrink(widths, over, {n: share for n in widths if columns[n].name})
        if over <= 0:
            break
        going = max(widths, key=lambda n: (columns[n].drop, n))
        if columns[going].drop:
            widths = {n: natural[n] for n in widths if n != going}
            continue
        _shrink(widths, over, {n: 1 for n in widths if columns[n].name})
        break
    return widths


def _shrink(widths: dict[int, int], over: int, floors: Mapping[int, int]) -> int:
    """Take cells away from the last of these columns first; return how many that were."""
    taken = 0
    for n in sorted(floors, reverse=True):
        less = max(0, min(over - taken, widths[n] - floors[n]))
        widths[n] -= less
        taken += less
    return taken


def _line(
    columns: Sequence[Column], row: Sequence[Cell], widths: Mapping[int, int], look: Look
) -> str:
    parts: list[str] = []
    for n, room in widths.items():
        text, tone = row[n]
        shorten = middle if columns[n].name else cut
        text = shorten(text, room, look.text("…"))
        space = " " * (room - cells(text))
        painted = look.paint(text, tone)
        parts.append(space + painted if columns[n].right else painted + space)
    return _GAP.join(parts).rstrip()


# Errors, JSON and other whole messages.


_TYPED = re.compile(r"[,;.:]?\s*(?:or )?(?:to [^,;:]{1,60}, )?\btype(?:: | (?=vega |pip ))")

_CLAUSE = re.compile(r"; (?=[A-Za-z(`'\"$])")


def render_error(
    error: object, look: Look = PIPE, word: str = "error", tone: str = Tone.BAD
) -> str:
    """Return an error as lines: what happened, why, and what to type. Later lines of the error
    itself, such as a picture of source, stand as they are."""
    told, _, more = str(error).partition("\n")
    *others, last = _TYPED.split(told)
    what, *reasons = _CLAUSE.split("; ".join(others) if others else last)
    lines = look.fold(what, "  ", f"{word}: ")
    lines[0] = look.paint(word, tone) + lines[0].removeprefix(word)
    for reason in reasons:
        lines += look.fold(reason, "  ", "  ")
    if others:
        lines += look.fold(last, "       ", "  try: ")
    return "\n".join([*lines, look.text(more)] if more else lines)


def tell_error(error: object, word: str = "error", tone: str = Tone.BAD) -> None:
    """Print an error on stderr, after what was printed before: both may go to one place."""
    sys.stdout.flush()
    print(render_error(error, look_of(sys.stderr), word, tone), file=sys.stderr)


def print_json(value: object, *, lines: bool = False, to: TextIO | None = None) -> None:
    """Print a value for programs. Where the stream carries ASCII only, other characters are
    escaped as JSON escapes them."""
    import json

    from msgspec import to_builtins

    out = to or sys.stdout
    plain: Any = to_builtins(value)
    is_ascii = not _carries(out, _NEEDED)
    indent = None if lines else 2
    print(json.dumps(plain, indent=indent, ensure_ascii=is_ascii, default=str), file=out)


# A place on the terminal that is drawn anew: lines above it scroll, and it is gone at the end.


_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_CLEAR_BELOW = "\x1b[J"
ESCAPE, ESCAPE_KEY = "\x1b", "\x1b[27u"
"""The byte that may be a key or the beginning of one, and how a terminal spells the key alone."""
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
# Keyboards on the stack; the mouse; focus, pastes, held updates; screen, wrapping, cursor, colours.
TERMINAL_RESETS = (
    "\x1b[<9u\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"
    "\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?1049l\x1b[?7h\x1b[?25h\x1b[0m"
)


class LivePlace:
    """Lines at the end of a terminal's screen that are drawn again and again in one write, so that
    nothing flickers. A reader that leaves early is no failure of who writes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._mark = getattr(out, "mark", "")
        self._drawn = 0
        self._is_open = False

    def draw(self, frame: Sequence[str], above: Iterable[str] = ()) -> None:
        """Print lines above, and the frame anew below them."""
        opening = _HIDE if frame and not self._is_open else ""
        self._is_open = self._is_open or bool(frame)
        if not self._is_open:
            self._write("".join(f"{line}\n" for line in above))
            return
        up = f"\x1b[{self._drawn}A\r" if self._drawn else "\r"
        self._drawn = len(frame)
        body = "".join(f"{line}\n" for line in [*above, *frame])
        begin = self._ours(f"{opening}{_BEGIN}{up}{_CLEAR_BELOW}")
        self._write(f"{begin}{body}{self._ours(_END)}")

    def close(self) -> None:
        """Wipe the frame away, and give the cursor back."""
        if self._is_open:
            self.draw([])
            self._write(self._ours(_SHOW))
            self._is_open = False

    def _ours(self, codes: str) -> str:
        return re.sub("[\x1b\r]", lambda code: self._mark + code[0], codes)

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            self._drawn = 0


def narrower(look: Look, by: int) -> Look:
    """Return the look of a part of the screen."""
    return look if look.width is None else replace(look, width=max(20, look.width - by))
