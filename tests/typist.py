"""A person at a terminal: reads what stands there, turns pages, and types an answer when asked."""

import os
import re

PROMPT = re.compile(rb"\n(?:approve [0-9a-f]{12}\? \[y/N\]|>) $")
PAGE = re.compile(rb"\n-- page \d+ of \d+; Enter shows the next[ -~]*: $")


def type_when_asked(terminal: int, said: str, turn: str = "") -> str:
    """All that was on the screen until then. Pages are turned by Enter, after what `turn` says:
    if that is something, it is the answer."""
    screen = read = b""
    while True:
        read = os.read(terminal, 65_536)
        assert read, f"the terminal was closed: {screen!r}"
        screen += read
        if PROMPT.search(screen):
            os.write(terminal, f"{said}\n".encode())
            return screen.decode()
        if PAGE.search(screen):
            os.write(terminal, f"{turn}\n".encode())
            if turn:
                return screen.decode()
