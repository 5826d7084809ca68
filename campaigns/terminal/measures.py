"""What `vega code` must hold at a terminal: each measure is a function that starts it in a new
place, and notes figures."""

import random
import re
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Figure
from benchmarks.timing import slowness

from campaigns.code_complaints.bench import Say, shell
from campaigns.terminal.gauges import echoes, p95, ready, stream, word
from campaigns.terminal.long_session import lengthen
from campaigns.terminal.seats import Seated, Vega, seated
from campaigns.terminal.tty import Load, Tty

__all__ = ["COMMIT", "FULL", "LONG", "Notes", "Sizes", "at_prompt", "measure", "sit", "stop"]


class Sizes(NamedTuple):
    """How much is done."""

    starts: int = 3
    keys: int = 64
    turns: int = 2_000
    words: int = 400
    resizes: int = 150
    stops: int = 5


FULL = Sizes(5, 160, 2_000, 600, 1_000, 20)
COMMIT = Sizes(1, 16, 60, 120, 25, 1)


class Notes:
    """What was measured. Times are CPU and blocking of the program, and are divided by how much
    slower than `CALIBRATED_MS` a fixed loop was just before."""

    def __init__(self, program: Sequence[str] = ()) -> None:
        self.program = program
        self.figures: list[Figure] = []
        self.slower = 1.0

    def calibrate(self) -> None:
        """Time the loop."""
        self.slower = slowness()

    def at_most(self, name: str, limit: float, scaled: float, plain: str) -> None:
        """Note a figure with its limit, and how it was measured."""
        self.figures.append(
            Figure(f"{name} ({plain})", f"{scaled:.3g}", f"≤ {limit:g}", scaled <= limit)
        )

    def none(self, name: str, faults: Sequence[object]) -> None:
        """Note that something must not be, with the first that was."""
        first = f" ({str(faults[0])[:80]})" if faults else ""
        self.figures.append(Figure(f"{name}{first}", str(len(faults)), "0", not faults))


@contextmanager
def sit(notes: Notes, columns: int = 100, lines: int = 30) -> Generator[Seated]:
    """Seat the program that is measured at a terminal in a new place."""
    with (
        tempfile.TemporaryDirectory(prefix="vega-terminal-") as place,
        seated(Vega(notes.program), Path(place) / "bench", columns, lines) as seat,
    ):
        yield seat


def at_prompt(seat: Seated, *words: str, sign: str = "") -> None:
    """Start it, and wait until it takes keys."""
    began = time.perf_counter_ns()
    seat.start(*words)
    ready(seat, began)
    if sign:
        seat.tty.seen(sign)
    seat.tty.quiet(0.3, 10)


# Starts and keys.


def starting(notes: Notes, sizes: Sizes) -> None:
    """From the start to the echo of the first key: CPU of the process tree."""
    cpu, wall, scaled = list[float](), list[float](), list[float]()
    for _ in range(sizes.starts):
        notes.calibrate()
        with sit(notes) as seat:
            began = time.perf_counter_ns()
            seat.start()
            found = ready(seat, began)
        cpu.append(found.cpu_s)
        wall.append(found.wall_s)
        scaled.append(found.cpu_s / notes.slower)
    plain = f"as it was {min(cpu):.2f}–{max(cpu):.2f}, wall {min(wall):.1f}–{max(wall):.1f} s"
    notes.at_most("ready for keys, CPU-s", 2, statistics.median(scaled), plain)


def typing(notes: Notes, sizes: Sizes) -> None:
    """Keys in a short and in a long session, while nothing works."""
    for turns in (10, sizes.turns):
        with sit(notes) as seat:
            lengthen(seat, turns)
            at_prompt(seat, "--resume", sign="All tests pass")
            notes.calibrate()
            found = echoes(seat.tty, sizes.keys, random.Random(turns))
            busy, wall, cpu = (p95([one[n] for one in found]) for n in range(3))
            plain = f"p95 as it was {busy:.1f}, CPU {cpu:.1f}, wall {wall:.0f}; {len(found)} keys"
            notes.at_most(f"key to echo at {turns:,} turns, ms", 30, busy / notes.slower, plain)
            if turns == sizes.turns:
                seat.tty.type("\x1b[5~" * 3)
                seat.tty.quiet(0.5, 10)
                resident = seat.tty.resident_mb()
                notes.at_most(f"resident at {turns:,} turns, MB", 150, resident, "process tree")


# Streams.


def streaming(notes: Notes, sizes: Sizes) -> None:
    """Bytes and clears while an answer streams: quick, and as slowly as large models speak."""
    clears: list[str] = []
    for gap_ms in (10, 50):
        with sit(notes) as seat:
            at_prompt(seat)
            found = stream(seat, sizes.words if gap_ms == 10 else sizes.words // 2, gap_ms)
            clears += [f"at {gap_ms} ms a token"] * found.clears
            plain = f"{found.tokens} tokens, one each {gap_ms} ms, {found.cpu_s:.1f} CPU-s"
            notes.at_most("bytes a streamed token", 200, found.bytes_per_token, plain)
    notes.none("full clears while streaming", clears)


def resizing(notes: Notes, sizes: Sizes) -> None:
    """Resizes while an answer streams; then the screen must be what is drawn from nothing."""
    chance, faults = random.Random(5), list[str]()
    with sit(notes) as seat:
        at_prompt(seat)
        pauses = [chance.choice([0, 0.001, 0.01, 0.03]) for _ in range(sizes.resizes)]
        lasts_ms = 1_000 * (sum(pauses) + 0.02 * len(pauses))
        text = "\n\n".join(
            f"**{word(n)}** " + " ".join(word(n + k) for k in range(1, 30))
            for n in range(0, 900, 30)
        )
        seat.it.script(Say(text, gap_ms=max(2, int(lasts_ms / 900))), repeats=True)
        seat.tty.type("Talk.")
        time.sleep(0.3)
        seat.tty.type("\r")
        seat.tty.seen(word(1))
        for pause in pauses:
            seat.tty.resize(chance.randint(20, 180), chance.randint(6, 60))
            time.sleep(pause)
            if seat.tty.program is None or seat.tty.program.poll() is not None:
                faults.append(f"it ended: {seat.tty.text()[-300:]}")
                break
        if not faults:
            tty = seat.tty
            tty.resize(100, 30)
            tty.seen(lambda: "enter send" in tty.emulator.text(), 60)  # the answer is whole
        for columns, lines in ((80, 24), (140, 40)):
            if not faults:
                faults += redrawn(seat.tty, columns, lines)
    notes.none(f"screens broken by {sizes.resizes:,} resizes while streaming", faults)


def redrawn(tty: Tty, columns: int, lines: int) -> list[str]:
    """Give the window a size, and compare the screen with one that is drawn from nothing."""
    tty.resize(columns, lines)
    settled(tty)
    before = [[*map(tuple, row)] for row in tty.emulator.cells()]
    shown = tty.text()
    tty.resize(columns + 3, lines)
    settled(tty)
    tty.make_blank()
    tty.resize(columns, lines)
    settled(tty)
    after = [[*map(tuple, row)] for row in tty.emulator.cells()]
    if not shown.strip():
        return [f"{columns}×{lines}: the screen is blank"]
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other and not _only_cursor(one, other):
            rows = ("".join(cell[0] for cell in row).rstrip() for row in (one, other))
            return [
                "{}×{}, line {}: {!r} and drawn anew {!r}".format(columns, lines, number, *rows)
            ]
    return []


def _only_cursor(one: Sequence[tuple[object, ...]], other: Sequence[tuple[object, ...]]) -> bool:
    """Whether lines differ in one cell that blinks."""
    differ = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    return len(differ) == 1 and differ[0][0][0] == differ[0][1][0]


def settled(tty: Tty) -> None:
    """Wait until the screen stays as it is: a cursor may blink, and a turn may still work."""
    ends, last = time.monotonic() + 30, ""
    while time.monotonic() < ends:
        time.sleep(0.8)
        now = tty.text()
        if now == last:
            return
        last = now


LONG_WORDS = 3_000
LONG = Say(" ".join(map(word, range(LONG_WORDS))), gap_ms=10)
"""An answer that nobody waits for."""
_WORDS = re.compile(r"w(\d{4})q")


def _last_word(tty: Tty) -> int:
    return max((int(found) for found in _WORDS.findall(tty.emulator.text())), default=-1)


def stopping(notes: Notes, sizes: Sizes) -> None:
    """Esc in the middle of an answer: after it no further word of it comes to the screen, and the
    provider is left. It is the time to the last word, less what was waited for a core. The key is
    the bare byte, as most terminals send it."""
    busy, wall, scaled = list[float](), list[float](), list[float]()
    not_left: list[str] = []
    with sit(notes) as seat:
        at_prompt(seat)
        seat.it.script(LONG, repeats=True)
        for number in range(sizes.stops):
            notes.calibrate()
            busy_ms, wall_ms = stop(seat, number)
            busy.append(busy_ms)
            wall.append(wall_ms)
            scaled.append(busy_ms / notes.slower)
            if seat.it.main[-1].sent >= LONG_WORDS:
                not_left.append("the provider sent all of it")
    plain = f"as it was {p95(busy):.0f}, wall {p95(wall):.0f}; {len(busy)} times"
    notes.at_most("Esc to silence, p95 ms", 100, p95(scaled), plain)
    notes.none("answers that went on at the provider after Esc", not_left)


def stop(seat: Seated, number: int) -> tuple[float, float]:
    """Ask, and press Esc in the middle; return how long it took, busy and by the clock, in ms."""
    tty = seat.tty
    before = len(seat.it.main)
    tty.type(f"Talk {number}.")
    time.sleep(0.3)
    tty.type("\r")
    while len(seat.it.main) == before:
        time.sleep(0.01)
    tty.seen(lambda: f"Talk {number}" in tty.emulator.text() and _last_word(tty) > 20)
    marks: list[tuple[int, int, int, Load]] = []

    def note() -> bool:
        """Note each new word, with how long was waited for a core until then."""
        known = marks[-1][1] if marks else -1
        if (now := _last_word(tty)) > known:
            marks.append((tty.log[-1].at_ns, now, tty.waited_ns(), tty.load()))
        return False

    mine, load = tty.waited_ns(), tty.load()
    pressed = tty.type("\x1b")
    with tty.watching(note):
        time.sleep(1.5)
    tty.quiet(0.4, 5)
    later = [mark for mark in marks[1:] if mark[0] > pressed]
    if not later:
        return 0.0, 0.0
    wall = later[-1][0] - pressed
    waited = later[-1][2] - mine + later[-1][3].waited_since(load)
    cpu = later[-1][3].cpu_ns - load.cpu_ns
    return max(min(cpu, wall), wall - waited) / 1e6, wall / 1e6


# Questions.


def approving(notes: Notes, sizes: Sizes) -> None:
    """A yes that is pressed at once when a question is seen approves nothing; a later one does.
    Where this process was too late to be at once, nothing is judged."""
    del sizes
    accidents, ignored, judged = list[str](), list[str](), 0
    with sit(notes) as seat:
        at_prompt(seat, "--mode", "ask")
        for number in range(4):
            was_at_once, is_early, is_late = _approve(seat, f"ok-{number}.txt")
            judged += was_at_once
            accidents += [f"question {number}"] if was_at_once and is_early else []
            ignored += [] if is_early or is_late else [f"question {number}"]
    notes.none(f"questions approved by a key at once, of {judged}", accidents)
    notes.none("questions that a later key did not approve, of 4", ignored)


def _approve(seat: Seated, name: str) -> tuple[bool, bool, bool]:
    """Have a question asked, and press yes at once and again later; return whether the first was
    at once, whether it approved, and whether the second did."""
    tty, file = seat.tty, seat.it.folder / name
    ask = Say("", [shell(f"echo yes > {name}")])
    seat.it.script(*["Before."] * len(seat.it.main), ask, f"End of {name}.", repeats=True)
    tty.type("Go.")
    time.sleep(0.3)
    tty.type("\r")
    seen = tty.seen(lambda: name in tty.emulator.text() and "y once" in tty.emulator.text())
    was_at_once = tty.type("y") - seen < 100e6
    time.sleep(2)
    if is_early := file.exists() or "y once" not in tty.text():
        tty.seen(f"End of {name}")
        return was_at_once, is_early, False
    tty.type("\x7f")  # it stands in the prompt line
    time.sleep(1)
    tty.type("y")
    with suppress(AssertionError):
        tty.seen(f"End of {name}", 20)
    tty.quiet(0.5, 10)
    return was_at_once, False, file.exists()


# Kills.


def killing(notes: Notes, sizes: Sizes) -> None:
    """`kill -9` in the middle of a tool and of an answer; `vega code --resume` goes on at the same
    terminal, and leaves it as a shell needs it."""
    del sizes
    faults, left = list[str](), set[str]()
    with sit(notes) as seat:
        tty = seat.tty
        at_prompt(seat)
        seat.it.script(
            Say("", [shell("echo one >> done.txt")]),
            Say(" ".join(map(word, range(900))), gap_ms=20),
        )
        tty.type("Work.")
        time.sleep(0.3)
        tty.type("\r")
        tty.seen(word(10))
        tty.kill()
        left.update(tty.emulator.left_on(), (f"no {flag}" for flag in tty.cooked()))
        seat.it.script(*["Never asked."] * len(seat.it.main), "The turn is done.", repeats=True)
        seat.start("--resume")
        try:
            tty.seen("The turn is done.", 60)
            tty.quiet(0.3, 10)
            tty.type("\x11")
            tty.ended(30)
        except AssertionError as error:
            faults.append(f"not gone on with: {str(error)[:400]}")
        if (made := (seat.it.folder / "done.txt")).exists() and made.read_text() != "one\n":
            faults.append(f"a command ran again: {made.read_text()!r}")
        time.sleep(0.2)
        still = [*tty.emulator.left_on(), *(f"no {flag}" for flag in tty.cooked())]
        notes.none("sessions that a kill -9 lost", faults)
        notes.none("modes on after `vega code --resume` and quit", still)
        _reset(notes, seat)
    print(f"left on by kill -9: {' '.join(sorted(left)) or 'nothing'}")


def _reset(notes: Notes, seat: Seated) -> None:
    """Kill it again, and do what `reset` does."""
    at_prompt(seat)
    seat.tty.program.send_signal(signal.SIGKILL)  # pyright: ignore[reportOptionalMemberAccess]
    seat.tty.ended()
    seat.tty.make_sane()
    time.sleep(0.2)
    left = [*seat.tty.emulator.left_on(), *(f"no {flag}" for flag in seat.tty.cooked())]
    notes.none("modes on after kill -9 and `reset`", left)


def quitting(notes: Notes, sizes: Sizes) -> None:
    """A plain end leaves the terminal as it was, and says how to go on."""
    del sizes
    with sit(notes) as seat:
        at_prompt(seat)
        seat.it.script("Hello.", repeats=True)
        seat.tty.type("hi")
        time.sleep(0.3)
        seat.tty.type("\r")
        seat.tty.seen("Hello.")
        seat.tty.quiet(0.3, 10)
        seat.tty.type("\x11")
        status = seat.tty.ended()
        time.sleep(0.2)
        left = [*seat.tty.emulator.left_on(), *(f"no {flag}" for flag in seat.tty.cooked())]
        notes.none("modes on after a plain end", left + ([f"status {status}"] if status else []))


def pasting(notes: Notes, sizes: Sizes) -> None:
    """A megabyte is pasted, a key is pressed behind it, and all of it is sent."""
    del sizes
    lines = "".join(
        f"line {number} of a long paste, to the end of it\n" for number in range(22_000)
    )
    lost: list[str] = []
    with sit(notes) as seat:
        at_prompt(seat)
        seat.it.script("Read.", repeats=True)
        notes.calibrate()
        before = seat.tty.load().cpu_ns
        pasted = seat.tty.paste(lines)
        seat.tty.type("zq")
        at_ns = seat.tty.seen("zq", 30)
        cpu = (seat.tty.load().cpu_ns - before) / 1e9
        plain = f"as it was {cpu:.2f}, wall {(at_ns - pasted) / 1e9:.1f} s, {len(lines):,} bytes"
        notes.at_most(
            "paste of 1 MB to the echo of the next key, CPU-s", 0.5, cpu / notes.slower, plain
        )
        seat.tty.type("\r")
        ends = time.monotonic() + 60
        while not seat.it.main and time.monotonic() < ends:
            time.sleep(0.1)
        said = seat.it.main[0].text if seat.it.main else ""
        if lines.rstrip() not in said or "zq" not in said:
            lost.append(f"{len(said):,} of {len(lines):,} characters came")
    notes.none("pastes of 1 MB that came cut", lost)


MEASURES: tuple[Callable[[Notes, Sizes], None], ...] = (
    starting, typing, streaming, resizing, stopping, approving, killing, quitting, pasting,
)  # fmt: skip


def measure(notes: Notes, sizes: Sizes) -> None:
    """Take all measures; one that could not be taken falls short."""
    for one in MEASURES:
        try:
            one(notes, sizes)
        except AssertionError as error:
            print(f"{one.__name__}: {error}")
            notes.none(f"{one.__name__}: measures not taken", [str(error).splitlines()[0][:120]])
        for figure in notes.figures[-2:]:
            print(f"  {figure.name}: {figure.value}", flush=True)
