"""Random keys at the terminal of `vega code`, at any moment: typing, pastes, commands, pages,
resizes, stops, and answers to questions, early ones too.

Nothing that was typed may be lost: it was sent, or stands in what the session keeps of prompts.
Every file that the model wants to write needs a yes; one that was written without a key that was
pressed after its question was on the screen for 300 ms was approved by accident. Keys are pressed
before a question is seen or at once then, or more than twice 300 ms later, so that the verdict
does not hang on who was quick.
"""

import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from campaigns.code_complaints.bench import Answer, Say, shell, write
from campaigns.terminal.measures import Notes, at_prompt, sit
from campaigns.terminal.seats import Seated
from campaigns.terminal.tty import NotSeenError

__all__ = ["Storm", "Stormed", "storms"]

ARMED_MS = 300
_LATE_S = 0.75
_TWICE_S = 3.0
"""After which a second Esc or Ctrl-C is a first one again."""
_PAGE_S = 120
"""For a page to come, on a machine that is busy: one that comes later takes the keys after it."""
_MOST_AT_END = 400
"""Looks at the screen until all is answered and sent. Prompts may wait, each with questions: who
gives up before they were begun takes them for lost."""
_LETTERS = "bcdfghjklm"
"""None of them answers a question."""
_PAGES = ("\x0b", "\x12", "\x1bOP")
"""Ctrl-K, Ctrl-R and F1, each of which opens one."""
_MOVES = ("\x1b[5~", "\x1b[6~", "\x1b[1;5F", "\x02", "\x1b[<64;5;5M", "\x1b[<65;5;5M")
_NOISE = ("\x1b[I", "\x1b[O", "\x1b[99;99u", "\x1bZ", "\x0c", "\x1b[24~", "\x1b[?2026;2$y", "\t")
_COMMANDS = ("/cost", "/clear", "/pane", "/copy", "/theme light", "/theme dark", "/budget")
_ASKS = "y once"
_PAGE_SIGNS = ("esc back", "type to narrow")


class Stormed(NamedTuple):
    """What was found: descriptions of what must not be."""

    sequences: int
    crashes: list[str]
    lost: list[str]
    accidents: list[str]
    questions: int
    approved: int


class Storm:
    """One start of the program, and several sequences of keys."""

    def __init__(self, seat: Seated, chance: random.Random, name: str) -> None:
        self.seat, self.tty, self.chance, self.name = seat, seat.tty, chance, name
        self.typed: list[str] = []
        self.pasted: list[str] = []
        self.yes: list[int] = []
        """When a bare y or a was pressed."""
        self.shown: dict[str, int] = {}
        """When the question about a file was first seen."""
        self.done: list[str] = []
        self._last_stop = self._files = self._tokens = 0

    # The model.

    def answers(self, count: int) -> list[Answer]:
        """Return what the model says: text, writes and commands that need a yes."""
        made: list[Answer] = []
        for _ in range(count):
            match self.chance.randrange(5):
                case 0:
                    made.append(Say("words " * self.chance.randrange(1, 80), gap_ms=5))
                case 1 | 2:
                    made.append(Say("I write.", [write(self._file(), "yes\n")]))
                case 3:
                    made.append(Say("", [shell(f"echo yes > {self._file()}")]))
                case _:
                    made.append("Done.")
        return made

    def _file(self) -> str:
        self._files += 1
        return f"ok-{self._files:04d}.txt"

    # The person.

    def play(self, actions: int) -> None:
        """Press random keys."""
        kinds: list[Callable[[], None]] = [
            *[self._types] * 5, *[self._sends] * 4, *[self._answers] * 4, self._pastes, self._page,
            self._moves, self._noise, self._command, self._resizes, self._stops, self._looks_back,
        ]  # fmt: skip
        with self.tty.watching(self._note_questions):
            for _ in range(actions):
                if self.tty.program is None or self.tty.program.poll() is not None:
                    return
                self.chance.choice(kinds)()
                time.sleep(self.chance.choice([0, 0, 0.01, 0.05, 0.2]))

    def _note_questions(self) -> bool:
        text = self.tty.emulator.text()
        if _ASKS in text:
            at = self.tty.log[-1].at_ns if self.tty.log else 0
            for number in range(1, self._files + 1):
                name = f"ok-{number:04d}.txt"
                if name not in self.shown and name in text:
                    self.shown[name] = at
        return False

    def _press(self, keys: str, what: str) -> int:
        self.done.append(what)
        return self.tty.type(keys)

    def _token(self) -> str:
        self._tokens += 1
        letters = "".join(self.chance.choices(_LETTERS, k=4))
        return f"{self.name}{self._tokens}{letters}"

    def _types(self) -> None:
        token = self._token()
        self.typed.append(token)
        self._press(f"{token}{self.chance.choice([' ', ' é漢 '])}", f"type {token}")

    def _pastes(self) -> None:
        token = self._token()
        self.pasted.append(token)
        lines = "line of text\n" * self.chance.choice([1, 20, 400])
        text = f"{token}<{lines}>{token}"
        self.done.append(f"paste {token} of {len(text)}")
        self.tty.paste(text)

    def _sends(self) -> None:
        self._press("\r", "Enter")

    def _page(self) -> None:
        """Look at a page, and leave it. What is typed into its own line is not a prompt, so that
        nothing is typed before it is gone."""
        self._press(self.chance.choice(_PAGES), "page")
        for wanted in (True, False):
            with suppress(NotSeenError):
                self.tty.seen(lambda: self._has_page() is wanted, _PAGE_S)  # noqa: B023
            if wanted:
                self._escape()

    def _has_page(self) -> bool:
        return any(sign in self.tty.emulator.text() for sign in _PAGE_SIGNS)

    def _escape(self) -> None:
        # Twice within a moment would leave, which is meant to.
        time.sleep(max(0, _TWICE_S - (time.monotonic() - self._last_stop)))
        self._press("\x1b", "Esc")
        self._last_stop = time.monotonic()
        time.sleep(0.25)

    def _moves(self) -> None:
        self._press(self.chance.choice(_MOVES), "move")

    def _noise(self) -> None:
        key = self.chance.choice(_NOISE)
        self._press(key, f"noise {key!r}")

    def _command(self) -> None:
        said = self.chance.choice(_COMMANDS)
        self._press(f"{said}\r", said)
        time.sleep(0.1)

    def _resizes(self) -> None:
        self.done.append("resize")
        self.tty.resize(self.chance.randint(40, 160), self.chance.randint(12, 50))

    def _stops(self) -> None:
        if self.chance.random() < 0.5:
            self._escape()
        else:
            time.sleep(max(0, _TWICE_S - (time.monotonic() - self._last_stop)))
            self._press("\x03", "Ctrl-C")
            self._last_stop = time.monotonic()

    def _looks_back(self) -> None:
        self._press("\x1b[A", "Up")
        time.sleep(0.05)
        self._press("\x1b[B" * 3 + "\x1b[F", "Down, End")

    def _answers(self) -> None:
        """Press yes blindly, at once when a question comes, or late; or say no, late."""
        how = self.chance.randrange(4)
        if how == 0:
            self.yes.append(self._press(self.chance.choice("ya"), "yes blindly"))
            return
        known = len(self.shown)
        try:
            if how == 1:
                self.tty.seen(lambda: len(self.shown) > known, 1.5)
                self.yes.append(self._press("y", "yes at once"))
                return
            self.tty.seen(_ASKS, 1.5)
        except NotSeenError:
            return
        if "tab to the question" in self.tty.text():
            self._press("\t", "Tab")
        time.sleep(_LATE_S)
        if how == 2:
            self.yes.append(self._press("y", "yes late"))
        else:
            self._press("n\r", "no late")

    # The end.

    def settle(self) -> None:
        """Close pages, say no to what is asked, and send what stands in the prompt line."""
        self.tty.resize(120, 40)
        last = self._token()
        self.typed.append(last)
        for _ in range(_MOST_AT_END):
            if self.tty.program is None or self.tty.program.poll() is not None:
                return
            time.sleep(0.5)
            text = self.tty.text()
            if _ASKS in text:
                self._press("\t", "Tab")
                time.sleep(_LATE_S)
                self._press("n", "no at the end")
                time.sleep(0.3)
                self._press("\r", "Enter")
            elif "esc stop" in text:
                continue
            elif self._is_known(last):
                return
            else:
                self._escape()
                self._press(f" {last}", f"type {last}")
                time.sleep(0.3)
                self._press("\r", "Enter")
                time.sleep(1)

    def _is_known(self, token: str) -> bool:
        return token in self._said()

    def _said(self) -> str:
        it = self.seat.it
        return "\n".join(json.dumps(one.body, ensure_ascii=False) for one in [*it.main, *it.side])

    def judge(self) -> Stormed:
        """Compare what was typed with what was sent and kept, and what was written with yes."""
        crashes: list[str] = []
        status = self.tty.program.poll() if self.tty.program else None
        text = self.tty.text()
        if status is not None or "Traceback" in text:
            crashes.append(f"ended with {status} after {self.done[-6:]}:\n{text[-1_500:]}")
        kept = self._said() + self._history()
        lost = [f"{one} in {self._around(one)}" for one in self.typed if one not in kept]
        half = [one for one in self.pasted if f"{one}<" not in kept or f">{one}" not in kept]
        lost += [f"paste {one} in {self._around(one)}" for one in half]
        written = [path.name for path in self.seat.it.folder.glob("ok-*.txt")]
        accidents = [name for name in written if not self._was_meant(name)]
        return Stormed(0, crashes, lost, accidents, len(self.shown), len(written))

    def _around(self, token: str) -> str:
        at = next((n for n, one in enumerate(self.done) if token in one), 0)
        return " · ".join(self.done[max(0, at - 6) : at + 16])

    def _was_meant(self, name: str) -> bool:
        shown = self.shown.get(name)
        least = ARMED_MS * 1_000_000 * 0.9
        return shown is not None and any(at >= shown + least for at in self.yes)

    def _history(self) -> str:
        """Return what the sessions of the folder keep of what was said."""
        program = self.seat.it.agent.program() or ()
        ran = self.seat.it.run([*program, "--export", "--json"])
        return ran.stdout


def storms(
    notes: Notes, sequences: int, *, each: int = 20, actions: int = 10, seed: int = 1
) -> Stormed:
    """Play sequences, `each` in one start; note the figures."""
    total = Stormed(0, [], [], [], 0, 0)
    while total.sequences < sequences:
        number = min(each, sequences - total.sequences)
        found = _one(notes, number, actions, f"{seed} {total.sequences}")
        for fault in (*found.crashes, *found.lost, *found.accidents):
            print(f"  {fault}")
        total = _added(total, found)
        print(f"  {total.sequences} sequences", flush=True)
    where = f"in {total.sequences:,} sequences on the pty"
    notes.none(f"crashes {where}", total.crashes)
    notes.none(f"inputs lost {where}", total.lost)
    told = f"{total.questions} questions, {total.approved} approved"
    notes.none(f"approvals by accident {where}, {told}", total.accidents)
    return total


def _one(notes: Notes, sequences: int, actions: int, seed: str) -> Stormed:
    with sit(notes) as seat:
        storm = Storm(seat, random.Random(seed), f"k{seed.replace(' ', 'v')}v")
        seat.it.script(*storm.answers(40 * sequences), repeats=True)
        at_prompt(seat, "--mode", "ask")
        for _ in range(sequences):
            storm.play(actions)
        storm.settle()
        return storm.judge()._replace(sequences=sequences)


def _added(one: Stormed, other: Stormed) -> Stormed:
    return Stormed(
        one.sequences + other.sequences,
        one.crashes + other.crashes,
        one.lost + other.lost,
        one.accidents + other.accidents,
        one.questions + other.questions,
        one.approved + other.approved,
    )
