"""What is measured of any agent at a terminal: when it is ready, how long a key takes, what a
stream writes, and when it is silent.

How long a key takes is told twice. `wall_ms` is the clock. `busy_ms` is the clock less what one
thread of the program, the one that waited most, and the reader of the terminal waited for a core
that others had; never less than the CPU that was used. It is CPU and blocking of the program.
"""

import random
import string
import time
from typing import NamedTuple

from campaigns.code_complaints.bench import Say
from campaigns.terminal.seats import SEATS, Seated
from campaigns.terminal.tty import NotSeenError, Tty

__all__ = ["Echo", "Ready", "Streamed", "echoes", "p95", "ready", "stream", "word"]

FIRST_S = 150.0
"""For the first start of an agent, which may be slow."""
_SETTLED_S = 0.4


class Ready(NamedTuple):
    """From the start to when the first key was echoed."""

    cpu_s: float
    wall_s: float
    resident_mb: float


class Echo(NamedTuple):
    """One key."""

    busy_ms: float
    wall_ms: float
    cpu_ms: float


class Streamed(NamedTuple):
    """One streamed answer."""

    tokens: int
    bytes: int
    clears: int
    resident_mb: float
    cpu_s: float

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / max(1, self.tokens)


def p95(values: list[float]) -> float:
    """Return what 95 of 100 do not exceed."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


def word(number: int) -> str:
    """Return the n-th word of a stream, which is nowhere else."""
    return f"w{number:04d}q"


def ready(seat: Seated, began_ns: int) -> Ready:
    """Wait for the prompt of a program that was just started, press a key, and see it."""
    tty, sign = seat.tty, SEATS[seat.it.agent.name]
    pressed: set[str] = set()

    def is_at_prompt() -> bool:
        return "ECHO" in tty.cooked() and sign.sign in tty.emulator.text()

    ends = time.monotonic() + FIRST_S
    while not is_at_prompt():
        if tty.program is not None and tty.program.poll() is not None:
            raise NotSeenError(f"it ended with {tty.program.returncode}:\n{tty.text()}")
        if time.monotonic() > ends:
            raise NotSeenError(f"no prompt in {FIRST_S:g} s:\n{tty.text()}")
        for text, keys in sign.prompts:
            if text in tty.text() and text not in pressed:
                pressed.add(text)
                time.sleep(_SETTLED_S)
                tty.type(keys)
        time.sleep(0.02)
    tty.type("z")
    at_ns = _echoed(tty, "z")
    cpu_s, resident = tty.cpu_s(), tty.resident_mb()
    _erase(tty, 1)
    return Ready(cpu_s, (at_ns - began_ns) / 1e9, resident)


def _echoed(tty: Tty, text: str) -> int:
    return tty.seen(lambda: _is_typed(tty, text), 30)


def _is_typed(tty: Tty, text: str) -> bool:
    """Whether a text stands where somebody types: at the end of a line but for frames."""
    return any(row.rstrip(" │┃|▌█").endswith(text) for row in tty.emulator.rows())


def _erase(tty: Tty, count: int) -> None:
    for _ in range(count):
        tty.type("\x7f")
        time.sleep(0.03)
    tty.quiet(_SETTLED_S, 5)


def echoes(tty: Tty, count: int, chance: random.Random) -> list[Echo]:
    """Press keys one after the other, each when the one before is on the screen."""
    found: list[Echo] = []
    while len(found) < count:
        typed = "qj"
        tty.type(typed)
        _echoed(tty, typed)
        for _ in range(min(16, count - len(found))):
            time.sleep(chance.uniform(0.05, 0.12))
            letter = chance.choice(string.ascii_lowercase)
            typed += letter
            found.append(_key(tty, letter, typed))
        _erase(tty, len(typed))
    return found


def _key(tty: Tty, letter: str, typed: str) -> Echo:
    before, mine = tty.load(), tty.waited_ns()
    pressed = tty.type(letter)
    wall = _echoed(tty, typed) - pressed
    after = tty.load()
    cpu = after.cpu_ns - before.cpu_ns
    waited = after.waited_since(before) + tty.waited_ns() - mine
    busy = max(min(cpu, wall), wall - waited)
    return Echo(busy / 1e6, wall / 1e6, cpu / 1e6)


def stream(
    seat: Seated, words: int, gap_ms: int, prompt: str = "Talk.", most_s: int = 120
) -> Streamed:
    """Ask for a long answer, and count what is written from its first word to its last."""
    it, tty = seat.it, seat.tty
    lines = (" ".join(map(word, range(n, n + 12))) for n in range(0, words, 12))
    text = "\n".join(f"{line}." for line in lines)
    it.script(*["ok"] * len(it.main), Say(text, gap_ms=gap_ms))
    tty.type(prompt)
    _echoed(tty, prompt)
    time.sleep(_SETTLED_S)
    cpu = tty.cpu_s()
    tty.type("\r")
    began = tty.seen(word(0))
    resident = 0.0
    last = word(words - 1 - (words - 1) % 12 + 11)
    ended = 0
    while not ended:
        resident = max(resident, tty.resident_mb())
        try:
            ended = tty.seen(last, 1)
        except NotSeenError:
            if time.perf_counter_ns() - began > most_s * 1e9:
                raise
    pieces = it.main[-1].sent
    used = tty.cpu_s() - cpu
    return Streamed(pieces, tty.written(began, ended), tty.clears(began), resident, used)
