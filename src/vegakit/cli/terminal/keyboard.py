"""Keys as they come from a terminal: Esc at once, a paste in one piece; and a terminal that a
killed program has left raw is made usable before it is used.

Textual waits 100 ms and more for what may follow Esc, since Esc also begins other keys. Terminals
send those in one piece, so that a much shorter wait tells them apart. Its parser looks at a paste
letter by letter, which takes a second for a megabyte; here a paste goes past it.
"""

import os
import selectors
import sys
from codecs import getincrementaldecoder
from contextlib import suppress
from functools import cache

from textual._xterm_parser import XTermParser
from textual.driver import Driver
from textual.events import Paste

from vegakit.cli.look import ESCAPE, ESCAPE_KEY, PASTE_BEGINS, PASTE_ENDS, TERMINAL_RESETS

_ESC_S, _IDLE_S = 0.02, 0.1
_ALT_ENTER, _NEW_LINE = f"{ESCAPE}\r", "\n"
"""What most terminals send for Alt-Enter, which would be Esc and Enter, and what it stands for."""


@cache
def keyboard_driver() -> type[Driver]:
    """Return what reads keys from the terminal for Textual. It is made when it is asked for: not
    every system has such terminals."""
    from textual.drivers.linux_driver import LinuxDriver

    class KeyboardDriver(LinuxDriver):
        def run_input_thread(self) -> None:
            """Read until the program leaves."""
            keys = _Keys(self)
            decode = getincrementaldecoder("utf-8")("replace").decode
            with selectors.SelectSelector() as selector:
                selector.register(self.fileno, selectors.EVENT_READ)
                while not self.exit_event.is_set():
                    if selector.select(_ESC_S if keys.has_begun else _IDLE_S):
                        data = os.read(self.fileno, 65_536)
                        if not data:
                            return  # the terminal is gone
                        keys.take(decode(data))
                    else:
                        keys.pause()

    return KeyboardDriver


class _Keys:
    """What was read so far."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._parser = driver, XTermParser()
        self._pasted: list[str] | None = None
        self._held = ""

    @property
    def has_begun(self) -> bool:
        """Whether an Esc waits for what follows it."""
        return bool(self._held)

    def take(self, text: str) -> None:
        text, self._held = self._held + text, ""
        while text:
            text = self._paste(text) if self._pasted is not None else self._plain(text)

    def pause(self) -> None:
        """Nothing came for a while: an Esc that waits is the key alone."""
        if self._held:
            self._held = ""
            self._parse(ESCAPE_KEY)
        for event in self._parser.tick():
            self._driver.process_message(event)

    def _plain(self, text: str) -> str:
        before, begins, after = text.partition(PASTE_BEGINS)
        if begins:
            self._pasted = []
        elif before.endswith(ESCAPE):
            before, self._held = before[:-1], ESCAPE
        self._parse(before)
        return after

    def _paste(self, text: str) -> str:
        assert self._pasted is not None
        # The mark of the end may be in two pieces.
        tail = self._pasted.pop() if self._pasted else ""
        before, ends, after = (tail + text).partition(PASTE_ENDS)
        if not ends:
            keep = len(before) - len(PASTE_ENDS)
            self._pasted += [before[: max(0, keep)], before[max(0, keep) :]]
            return ""
        pasted, self._pasted = "".join([*self._pasted, before]), None
        self._driver.process_message(Paste(pasted.replace("\x00", "")))
        return after

    def _parse(self, text: str) -> None:
        if text:
            for event in self._parser.feed(text.replace(_ALT_ENTER, _NEW_LINE)):
                self._driver.process_message(event)


def make_usable() -> None:
    """Undo what a program that was killed has left on: the terminal would be given back as raw as
    it was found."""
    stdin = sys.__stdin__
    if stdin is None or not stdin.isatty():
        return
    import termios

    with suppress(termios.error):
        flags = termios.tcgetattr(stdin.fileno())
        if flags[3] & termios.ICANON and flags[3] & termios.ECHO:
            return
        flags[0] |= termios.ICRNL | termios.IXON
        flags[1] |= termios.OPOST
        flags[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ISIG | termios.IEXTEN
        termios.tcsetattr(stdin.fileno(), termios.TCSANOW, flags)
        os.write(stdin.fileno(), TERMINAL_RESETS.encode())
