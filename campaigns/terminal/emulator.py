"""What a terminal makes of the bytes that a program writes: a screen, modes that are on, questions
that it answers, and a count of full clears.

The screen is pyte's. What pyte does not read is taken out before it, or done here: private
sequences of other kinds, strings, scrolling, repeats, the other screen.
"""

import codecs
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pyte
from wcwidth import wcwidth

__all__ = ["Clear", "Emulator"]

_SEQUENCE = re.compile(
    r"\x1b\[(?P<lead>[<=>?]?)(?P<given>[0-?]*)(?P<middle>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b[PX^_](?P<string>[^\x1b]*)\x1b\\"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b(?P<plain>[0-OQ-WYZ\\`-~])"
)
_LONGEST_TAIL = 65_536
_KNOWN_MODES = frozenset({1, 7, 25, 1000, 1002, 1003, 1004, 1006, 1015, 1049, 2004, 2026})
_PYTE_FINALS = frozenset("@ABCDEFGHIJKLMPXacdefghlmr`")
_USUALLY_ON = frozenset({7, 25})


class Clear(NamedTuple):
    """A full clear, and how it was spelled."""

    at_ns: int
    how: str


class Emulator:
    """One terminal; it knows no kitty keyboard, and answers as one that has synchronised updates.

    `feed` takes what was read, with when, and returns what the terminal says to the program.
    """

    def __init__(self, columns: int, lines: int) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.Stream(self.screen, strict=False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = ""
        self._answers: list[str] = []
        self._last = " "
        self._now_ns = 0
        self.clears: list[Clear] = []
        self.modes: set[int] = set(_USUALLY_ON)
        self.keyboards = 0
        self.title = ""
        self.copied: list[str] = []

    # What is seen.

    def rows(self) -> list[str]:
        """Return the lines of the screen, without blanks at their ends."""
        return [self._row(y).rstrip() for y in range(self.screen.lines)]

    def _row(self, y: int) -> str:
        """Return a line; half of a wide character whose other half was written over is a blank."""
        # pyte keeps the right half as an empty cell; its own `display` raises at one that is alone.
        cells, shown, x = self.screen.buffer[y], "", 0
        while x < self.screen.columns:
            cell = cells[x].data or " "
            shown += cell
            x += 2 if wcwidth(cell[0]) == 2 else 1
        return shown

    def text(self) -> str:
        """Return the screen as text."""
        return "\n".join(self.rows())

    def cells(self) -> list[list[Any]]:
        """Return every cell with its colours."""
        buffer, width = self.screen.buffer, self.screen.columns
        return [[buffer[y][x] for x in range(width)] for y in range(self.screen.lines)]

    def left_on(self) -> list[str]:
        """Return the modes that a program which has ended must not leave behind."""
        changed = self.modes ^ _USUALLY_ON
        left = [f"?{mode}{'h' if mode in self.modes else 'l'}" for mode in sorted(changed)]
        return [*left, *(["keyboard"] if self.keyboards else [])]

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, as a terminal does whose screen does not flow."""
        self.screen.resize(lines, columns)
        # pyte moves lines up when it grows smaller; a screen of programs is cut instead.
        self.screen.set_margins()

    def make_blank(self) -> None:
        """Forget every cell and colour; modes stay."""
        self.screen.erase_in_display(2)
        self.screen.cursor.attrs = self.screen.default_char

    # What is read.

    def feed(self, data: bytes, at_ns: int = 0) -> bytes:
        """Take bytes; return the answers to the questions in them."""
        self._now_ns = at_ns
        text = self._tail + self._decoder.decode(data)
        done = 0
        for found in _SEQUENCE.finditer(text):
            if found.start() > done:
                self._draw(text[done : found.start()])
            done = found.end()
            self._sequence(found)
        rest = text[done:]
        begun = rest.find("\x1b")
        if begun < 0 or len(rest) - begun > _LONGEST_TAIL:
            begun = len(rest)
        if begun:
            self._draw(rest[:begun])
        self._tail = rest[begun:]
        said, self._answers = "".join(self._answers), []
        return said.encode()

    def _draw(self, text: str) -> None:
        self._stream.feed(text.replace("\x1b", ""))
        if text[-1] >= " ":
            self._last = text[-1]

    def _sequence(self, found: re.Match[str]) -> None:
        final = found["final"]
        if final is not None:
            self._control(found, final)
        elif found["osc"] is not None:
            self._operating(found["osc"])
        elif found["string"] is not None:
            self._string(found["string"])
        elif found["plain"] is not None:
            if found["plain"] == "c":
                self.clears.append(Clear(self._now_ns, "ESC c"))
                self.modes, self.keyboards = set(_USUALLY_ON), 0
            self._stream.feed(found[0])

    def _control(self, found: re.Match[str], final: str) -> None:
        lead, middle = found["lead"], found["middle"]
        given = [int(part) if part.isdigit() else 0 for part in re.split("[;:]", found["given"])]
        if question := _QUESTIONS.get((lead, middle, final)):
            self._answers.append(question(self, given))
        elif lead == "?" and final in "hl" and not middle:
            self._modes(given, on=final == "h")
        elif lead in {">", "<"} and final == "u":
            pops = max(1, given[0])
            self.keyboards = max(0, self.keyboards + (1 if lead == ">" else -pops))
        elif not lead and not middle:
            self._plain_control(found, final, given)

    def _modes(self, modes: list[int], *, on: bool) -> None:
        for mode in modes:
            if mode in {47, 1047, 1049}:
                self.screen.erase_in_display(2)
            (self.modes.add if on else self.modes.discard)(mode)

    def _plain_control(self, found: re.Match[str], final: str, given: list[int]) -> None:
        screen = self.screen
        if final == "J":
            self._erase(given[0])
        elif final in "ST":
            self._scroll(given[0] or 1, up=final == "S")
        elif final == "b":
            self._stream.feed(self._last * min(given[0] or 1, screen.columns))
        elif final == "m":
            # Colours may be spelled with colons, which pyte does not read.
            said = found["given"].replace("::", ";").replace(":", ";")
            self._stream.feed(f"\x1b[{said}m")
        elif final in "su":
            (screen.save_cursor if final == "s" else screen.restore_cursor)()
        elif final in _PYTE_FINALS:
            self._stream.feed(found[0])

    def _erase(self, how: int) -> None:
        cursor = self.screen.cursor
        at_home = not cursor.x and not cursor.y
        if how in {2, 3} or (how == 0 and at_home):
            self.clears.append(Clear(self._now_ns, f"ESC[{how}J" if how else "ESC[H ESC[J"))
        self.screen.erase_in_display(how)

    def _scroll(self, count: int, *, up: bool) -> None:
        screen = self.screen
        margins = screen.margins
        top, bottom = margins or (0, screen.lines - 1)
        x, y = screen.cursor.x, screen.cursor.y
        for _ in range(min(count, screen.lines)):
            screen.cursor.y = bottom if up else top
            (screen.index if up else screen.reverse_index)()
        screen.cursor.x, screen.cursor.y = x, y

    def _operating(self, said: str) -> None:
        code, _, rest = said.partition(";")
        if code in {"0", "2"}:
            self.title = rest
        elif code == "52":
            self.copied.append(rest.partition(";")[2])
        elif code in {"10", "11", "12"} and rest == "?":
            colour = "0000/0000/0000" if code == "11" else "ffff/ffff/ffff"
            self._answers.append(f"\x1b]{code};rgb:{colour}\x1b\\")
        elif code == "4" and rest.endswith("?"):
            number = rest.partition(";")[0]
            self._answers.append(f"\x1b]4;{number};rgb:8080/8080/8080\x1b\\")

    def _string(self, said: str) -> None:
        if said.startswith("+q"):
            self._answers.append("\x1bP0+r\x1b\\")

    # What is asked.

    def place(self) -> str:
        """Return where the cursor is, as a terminal tells it."""
        return f"{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}"

    def mode(self, given: list[int]) -> str:
        """Return whether a mode is known and on."""
        number = given[0]
        state = (1 if number in self.modes else 2) if number in _KNOWN_MODES else 0
        return f"\x1b[?{number};{state}$y"

    def size(self, given: list[int]) -> str:
        """Return a size in cells or in pixels."""
        lines, columns = self.screen.lines, self.screen.columns
        sizes = {14: (4, 16 * lines, 8 * columns), 16: (6, 16, 8), 18: (8, lines, columns)}
        return "\x1b[{};{};{}t".format(*sizes[given[0]]) if given[0] in sizes else ""


_Question = Callable[[Emulator, list[int]], str]
_QUESTIONS: dict[tuple[str, str, str], _Question] = {
    ("", "", "c"): lambda _e, _g: "\x1b[?62;22c",
    (">", "", "c"): lambda _e, _g: "\x1b[>0;10;1c",
    (">", "", "q"): lambda _e, _g: "\x1bP>|pyte(0.8)\x1b\\",
    ("", "", "n"): lambda e, g: f"\x1b[{e.place()}R" if g[0] == 6 else "\x1b[0n",
    ("?", "", "n"): lambda e, g: f"\x1b[?{e.place()}R" if g[0] == 6 else "",
    ("?", "$", "p"): lambda e, g: e.mode(g),
    ("", "", "t"): lambda e, g: e.size(g),
}
