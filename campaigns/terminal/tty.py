"""A program at a pseudo terminal: what is typed to it, what it writes and when, and what it takes
of the machine meanwhile.

One thread only reads and stamps, so that a moment is not when somebody had time to look; another
draws what was read. The terminal outlives the program, as a person's does.
"""

import fcntl
import os
import pty
import queue
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from campaigns.code_complaints.watch import Process, tree
from campaigns.terminal.emulator import Emulator

__all__ = ["COOKED", "Chunk", "Load", "NotSeenError", "Tty", "terminal"]

LONGEST_S = 60.0
_SWITCH_S = 0.0005
"""Between two threads of ours, so that stamps are not late by the usual 5 ms."""
COOKED = {
    "ECHO": (3, termios.ECHO),
    "ICANON": (3, termios.ICANON),
    "ISIG": (3, termios.ISIG),
    "ICRNL": (0, termios.ICRNL),
    "OPOST": (1, termios.OPOST),
}
"""What a shell needs of a terminal: where the flag is, and which it is."""


class Chunk(NamedTuple):
    """What one read of the terminal gave."""

    at_ns: int
    data: bytes


class Load(NamedTuple):
    """What the threads of a process tree have used, and how long each could run and did not."""

    cpu_ns: int
    waited_ns: dict[str, int]

    def waited_since(self, before: "Load") -> int:
        """Return how long the thread that waited most did so. Waits of several may be at the same
        time, so that their sum would take off more than passed."""
        return max((ns - before.waited_ns.get(k, 0) for k, ns in self.waited_ns.items()), default=0)


class NotSeenError(AssertionError):
    """Something was not on the screen in time; the text is what was there."""


class _Watch:
    """Somebody who waits until a screen fits."""

    def __init__(self, fits: Callable[[], bool]) -> None:
        self.fits, self.at_ns, self.done = fits, 0, threading.Event()


class Tty:
    """A terminal of some size, and the program that runs at it."""

    def __init__(self, columns: int = 100, lines: int = 30) -> None:
        self._master, self._slave = pty.openpty()
        self.emulator = Emulator(columns, lines)
        self.log: list[Chunk] = []
        self._read: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._watches: list[_Watch] = []
        self._write_lock = threading.Lock()
        self.program: subprocess.Popen[bytes] | None = None
        self._set_size(columns, lines)
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._reads, self._draws)
        ]
        for thread in self._threads:
            thread.start()

    # The program.

    def start(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start a program in a session of its own whose terminal this is."""
        setsid = shutil.which("setsid")
        assert setsid is not None
        # Not by a function between fork and exec: this process has threads.
        self.program = subprocess.Popen(
            [setsid, "--ctty", *command],
            cwd=folder,
            env=environment,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
        )
        return self.program

    @property
    def pid(self) -> int:
        assert self.program is not None
        return self.program.pid

    def ended(self, within_s: float = LONGEST_S) -> int:
        """Wait for the end of the program; return its status."""
        assert self.program is not None
        try:
            return self.program.wait(within_s)
        except subprocess.TimeoutExpired:
            raise NotSeenError(f"it did not end; on the screen:\n{self.text()}") from None

    def kill(self) -> None:
        """End the program and all that it started, at once."""
        if self.program is None or self.program.poll() is not None:
            return
        below = [*tree(self.pid)]
        for pid in (self.pid, *below):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.program.wait()

    def close(self) -> None:
        """Take all down."""
        self.kill()
        self._read.put(None)
        master, self._master = self._master, -1
        os.close(self._slave)
        self._threads[0].join(2)
        os.close(master)
        self._threads[1].join(2)

    # Reading.

    def _reads(self) -> None:
        master = self._master
        while True:
            try:
                data = os.read(master, 65_536)
            except OSError:
                data = b""
            if not data:
                return
            self._read.put(Chunk(time.perf_counter_ns(), data))

    def _draws(self) -> None:
        while (chunk := self._read.get()) is not None:
            with self._lock:
                self.log.append(chunk)
                said = self.emulator.feed(chunk.data, chunk.at_ns)
                for watch in [*self._watches]:
                    self._look(watch, chunk.at_ns)
            if said:
                self._send(said)

    def _look(self, watch: _Watch, at_ns: int) -> None:
        if watch.fits():
            watch.at_ns = at_ns
            self._watches.remove(watch)
            watch.done.set()

    # Typing.

    def _send(self, data: bytes) -> None:
        with self._write_lock:
            while data and self._master >= 0:
                data = data[os.write(self._master, data[:2_048]) :]

    def type(self, text: str) -> int:
        """Type, and return when."""
        now = time.perf_counter_ns()
        self._send(text.encode())
        return now

    def paste(self, text: str) -> int:
        """Paste, as a terminal does that was told to mark pastes."""
        return self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size; the kernel tells the program."""
        with self._lock:
            self.emulator.resize(columns, lines)
            self._set_size(columns, lines)

    def _set_size(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)

    # Looking.

    def text(self) -> str:
        """Return what is on the screen."""
        with self._lock:
            return self.emulator.text()

    def seen(self, what: str | Callable[[], bool], within_s: float = LONGEST_S) -> int:
        """Wait until it is on the screen; return when the bytes were read that brought it."""
        fits = (lambda: what in self.emulator.text()) if isinstance(what, str) else what
        watch = _Watch(fits)
        with self._lock:
            if fits():
                return self.log[-1].at_ns if self.log else 0
            self._watches.append(watch)
        if watch.done.wait(within_s):
            return watch.at_ns
        with self._lock, suppress(ValueError):
            self._watches.remove(watch)
        if watch.done.is_set():
            return watch.at_ns
        shown = what if isinstance(what, str) else "what was waited for"
        raise NotSeenError(
            f"{shown!r} did not come in {within_s:g} s; on the screen:\n{self.text()}"
        )

    @contextmanager
    def watching(self, look: Callable[[], bool]) -> Generator[None]:
        """Look after each read, until it says that it has seen enough."""
        watch = _Watch(look)
        with self._lock:
            watch.fits()
            self._watches.append(watch)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._watches.remove(watch)

    def make_blank(self) -> None:
        """Forget what is on the screen, as if it had never been written."""
        with self._lock:
            self.emulator.make_blank()

    def quiet(self, for_s: float = 0.3, within_s: float = LONGEST_S) -> bool:
        """Wait until nothing was written for a while; return whether that came."""
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            last = self.log[-1].at_ns if self.log else 0
            silent_s = (time.perf_counter_ns() - last) / 1e9
            if last and silent_s >= for_s and self._read.empty():
                return True
            time.sleep(max(0.005, min(for_s, for_s - silent_s)))
        return False

    def written(self, since_ns: int, until_ns: int | None = None) -> int:
        """Return how many bytes were written in a span of time."""
        ends = until_ns or time.perf_counter_ns()
        return sum(len(one.data) for one in [*self.log] if since_ns <= one.at_ns <= ends)

    def waited_ns(self) -> int:
        """Return how long the reader of this terminal could run and did not."""
        stat = Path(f"/proc/self/task/{self._threads[0].native_id}/schedstat")
        return int(stat.read_text().split()[1])

    def clears(self, since_ns: int) -> int:
        """Return how many full clears there were since then."""
        return sum(clear.at_ns >= since_ns for clear in [*self.emulator.clears])

    def cooked(self) -> list[str]:
        """Return the flags that a shell needs and that are off now."""
        flags = termios.tcgetattr(self._slave)
        return [name for name, (where, flag) in COOKED.items() if not flags[where] & flag]

    def make_sane(self) -> None:
        """Do what `reset` does: flags as a shell needs them, and every mode off."""
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color"}
        command = ["sh", "-c", "stty sane; printf '\\033c'"]
        subprocess.run(command, stdin=self._slave, stdout=self._slave, env=environment, check=True)

    # What it takes.

    def load(self) -> Load:
        """Return what the threads of the program used until now."""
        cpu, waited = 0, dict[str, int]()
        for pid in (self.pid, *_below(self.pid)):
            with suppress(OSError):
                for task in os.scandir(f"/proc/{pid}/task"):
                    with suppress(OSError):
                        used, delayed, _ = Path(task.path, "schedstat").read_text().split()
                        cpu += int(used)
                        waited[task.path] = int(delayed)
        return Load(cpu, waited)

    def cpu_s(self) -> float:
        """Return the CPU-seconds of the process tree, of what has ended too."""
        return sum(row.cpu_s for row in self._rows())

    def resident_mb(self) -> float:
        """Return the resident memory of the process tree."""
        return sum(row.resident for row in self._rows()) / 1e6

    def _rows(self) -> list[Process]:
        root = Process(Path(f"/proc/{self.pid}/stat").read_text())
        return [root, *tree(self.pid).values()]


def _below(pid: int) -> Generator[int]:
    """Yield the processes below one, without a look at all others."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _below(int(child))


@contextmanager
def terminal(columns: int = 100, lines: int = 30) -> Generator[Tty]:
    """Open a terminal, and close it with all that runs at it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    tty = Tty(columns, lines)
    try:
        yield tty
    finally:
        tty.close()
        sys.setswitchinterval(before)
