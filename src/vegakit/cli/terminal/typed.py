"""A terminal in lines: what is printed there, what a person types, and what a line means as an
answer. The terminal edits the line itself, and gives it whole when it is sent.

Lines that come at once are one text, so that a paste of thirty lines is one prompt. A line that
ends with a backslash goes on in the next. What was begun and not sent can be taken out of the
terminal: Enter after a question came up must not send as its answer what was typed before it.
"""

import asyncio
import codecs
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from vegakit.cli.look import Look

HOW_TO_ANSWER = (
    "y yes, once; a always this exact action; n no, with a reason; e do this instead; ? why"
)
TAKE_TEXT = {"n", "e"}
"""The answers that more is said with."""
HELP: tuple[tuple[str, str], ...] = (
    ("any text, then Enter", "a prompt; while a turn works it waits for its end"),
    ("a line that ends with a backslash", "goes on in the next line"),
    ("@shot.png in a prompt", "sends an image with it"),
    ("Ctrl-C", "stops the turn; at the prompt, twice leaves"),
    ("Ctrl-D", "leaves"),
    ("to a question", HOW_TO_ANSWER),
)
_ANSWERS: Mapping[str, str] = {
    **dict.fromkeys(("y", "yes"), "y"),
    **dict.fromkeys(("a", "always"), "a"),
    **dict.fromkeys(("n", "no"), "n"),
    **dict.fromkeys(("e", "instead"), "e"),
    "?": "?",
}
_TOGETHER_S = 0.05
"""Lines of a paste come closer together than anybody types."""
_MOST_READ = 65_536


def parse_answer(text: str) -> tuple[str, str]:
    """Return the key that a line stands for as the answer to a question, and what is said with it;
    no key if it is none. Yes is said alone: `yes, but …` is no yes."""
    word, _, rest = text.strip().partition(" ")
    key = _ANSWERS.get(word.rstrip(",:;.").lower(), "")
    is_none = "\n" in text.strip() or (rest.strip() and key not in TAKE_TEXT)
    return ("", "") if is_none else (key, rest.strip())


class TypedLines:
    """The lines that are typed at a terminal. `on_text` gets each text, `on_end` a Ctrl-D at the
    beginning of a line, and the end of the terminal."""

    def __init__(
        self, terminal: int, on_text: Callable[[str], None], on_end: Callable[[], None]
    ) -> None:
        self._terminal, self._on_text, self._on_end = terminal, on_text, on_end
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._begun, self._lines = "", list[str]()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the last line ended with a backslash."""
        return bool(self._lines) and self._timer is None

    def start(self) -> None:
        """Begin to read."""
        asyncio.get_running_loop().add_reader(self._terminal, self._read)

    def stop(self) -> None:
        """Read no more."""
        asyncio.get_running_loop().remove_reader(self._terminal)
        if self._timer is not None:
            self._timer.cancel()

    def _read(self) -> None:
        try:
            got = os.read(self._terminal, _MOST_READ)
        except OSError:  # the terminal is gone
            got = b""
        if got:
            self._take(got)
        else:
            self._on_end()

    def _take(self, got: bytes) -> None:
        *lines, self._begun = (self._begun + self._decode(got)).split("\n")
        if lines:
            self._lines += lines
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(_TOGETHER_S, self._pass_on)

    def _pass_on(self) -> None:
        self._timer = None
        if self._lines[-1].endswith("\\"):
            self._lines[-1] = self._lines[-1][:-1]
            self._on_text("")  # the rest is asked for
            return
        lines, self._lines = self._lines, []
        self._on_text("\n".join(lines))

    def hurry(self) -> None:
        """Pass on the lines that were sent, without waiting for more of them."""
        if self._timer is not None:
            self._timer.cancel()
            self._pass_on()

    def take_draft(self) -> str:
        """Return what was begun and not sent, and take it away. Lines that were sent stay."""
        import termios  # here, as not every system has it

        # A terminal gives the line that is being edited only while it does not edit lines.
        with suppress(termios.error, OSError):
            before = termios.tcgetattr(self._terminal)
            letters = [*before[:3], before[3] & ~termios.ICANON, *before[4:6], [*before[6]]]
            letters[6][termios.VMIN], letters[6][termios.VTIME] = 0, 0
            termios.tcsetattr(self._terminal, termios.TCSANOW, letters)
            try:
                self._take(os.read(self._terminal, _MOST_READ))
            finally:
                termios.tcsetattr(self._terminal, termios.TCSANOW, before)
        held, self._lines = (self._lines, []) if self.goes_on else ([], self._lines)
        draft, self._begun = "\n".join([*held, self._begun]), ""
        return draft


class ToldLines:
    """The lines that are printed at a terminal, and the prompt that may stand in the last one.
    `on_gone` is called when nobody is there any more."""

    def __init__(self, out: TextIO, look: Look, on_gone: Callable[[], None]) -> None:
        self._out, self._look, self._on_gone = out, look, on_gone
        self._prompt = ""

    def tell(self, lines: Sequence[str]) -> None:
        """Print lines, below a prompt that stands there."""
        lead = "\n" if self._prompt else ""
        self._prompt = ""
        self._write(lead + "".join(f"{self._look.text(line)}\n" for line in lines))

    def ask(self, prompt: str) -> None:
        """Show a prompt, if it does not stand there already."""
        if prompt != self._prompt:
            lead = "\n" if self._prompt else ""
            self._prompt = prompt
            self._write(lead + prompt)

    def answered(self) -> None:
        """Note that Enter has begun another line."""
        self._prompt = ""

    def broke_off(self) -> None:
        """Note that the terminal has written `^C` or the like, and stays in that line."""
        self._prompt = self._prompt or "^C"

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            self._on_gone()
