"""Run one command as the reaper of all that it starts:
`python -SI watch.py RESULT LIMIT_S COMMAND…`.

Orphans come back to this process, so none is lost to the accounts, and what outlives the command is
seen. Lines on stdin are orders: `kill` ends the whole tree, `kill main` the command alone, `signal
N` sends it a signal. The result is JSON: exit status, seconds, CPU-seconds, peak, what was left.
It imports the standard library only, and is started by its path, so that it costs little beside
what it measures.
"""

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SAMPLE_S, LOOK_S = 0.06, 0.01
"""Between two samples of the tree, which cost a few milliseconds, and between two looks whether the
command has ended."""
LEFT_AFTER_S = 1.0
"""What still lives so long after the command was left behind by it."""
MOST_PROCESSES = 150
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_SET_CHILD_SUBREAPER = 36


class Process:
    """A row of /proc: its parent, name, CPU-seconds with those of its reaped children, memory."""

    def __init__(self, stat: str) -> None:
        head, _, tail = stat.rpartition(")")
        rest = tail.split()
        self.name = head.split("(", 1)[1]
        self.state, self.parent = rest[0], int(rest[1])
        self.cpu_s = sum(map(int, rest[11:15])) / _TICKS
        self.resident = int(rest[21]) * _PAGE


def tree(root: int) -> dict[int, Process]:
    """Return all live processes below one."""
    rows: dict[int, Process] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                rows[int(entry.name)] = Process(Path(entry.path, "stat").read_text())
            except OSError:
                continue
    children: dict[int, list[int]] = {}
    for pid, row in rows.items():
        children.setdefault(row.parent, []).append(pid)
    found: dict[int, Process] = {}
    todo = [*children.get(root, ())]
    while todo:
        pid = todo.pop()
        if rows[pid].state != "Z":
            found[pid] = rows[pid]
        todo += children.get(pid, ())
    return found


class Watch:
    """The command, from its start to when nothing of it is left."""

    def __init__(self, command: Sequence[str], limit_s: float) -> None:
        self._began, self._limit_s = time.monotonic(), limit_s
        self.peak = self.most = 0
        self.killed = ""
        self._told_ms = 0.0
        self._main = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        self._orders = True

    def go(self) -> dict[str, Any]:
        status = self._until_ended()
        ended = time.monotonic()
        gone_s = self._until_gone(ended)
        left = sorted(row.name for row in tree(os.getpid()).values())
        self._kill_tree()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "status": status,
            "seconds": ended - self._began,
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak": self.peak,
            "most": self.most,
            "killed": self.killed,
            "left": left,
            "gone_s": gone_s,
            "since_order_s": ended - self._told_ms if self._told_ms else 0.0,
        }

    def _until_ended(self) -> int:
        sampled = 0.0
        while True:
            if time.monotonic() - sampled > SAMPLE_S:
                sampled = time.monotonic()
                if self._is_beyond(tree(os.getpid())):
                    self._kill_tree()
                    return -signal.SIGKILL
            status = self._main.poll()
            if status is not None:
                return status
            self._obey(LOOK_S)

    def _is_beyond(self, live: dict[int, Process]) -> bool:
        self.peak = max(self.peak, sum(row.resident for row in live.values()))
        self.most = max(self.most, len(live))
        if len(live) > MOST_PROCESSES:
            self.killed = "processes"
        elif time.monotonic() - self._began > self._limit_s:
            self.killed = "time"
        return self.killed in {"processes", "time"}

    def _obey(self, wait_s: float) -> None:
        if not self._orders:
            time.sleep(wait_s)
            return
        if not select.select([sys.stdin], [], [], wait_s)[0]:
            return
        match sys.stdin.readline().split():
            case []:
                self._orders = False
            case ["kill"]:
                self.killed, self._told_ms = "planned", time.monotonic()
                self._kill_tree()
            case ["kill", "main"]:
                self.killed, self._told_ms = "planned", time.monotonic()
                self._main.kill()
            case ["signal", number]:
                self._told_ms = time.monotonic()
                self._main.send_signal(int(number))
            case other:
                raise ValueError(other)

    def _until_gone(self, ended: float) -> float:
        """Return how long after the command its last process ended; the limit if none did."""
        while time.monotonic() - ended < LEFT_AFTER_S:
            self._reap()
            if not tree(os.getpid()):
                return time.monotonic() - ended
            time.sleep(LOOK_S)
        return LEFT_AFTER_S

    def _kill_tree(self) -> None:
        while live := tree(os.getpid()):
            for pid in live:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(LOOK_S)
            self._main.poll()
            self._reap()
        self._main.poll()
        self._reap()

    def _reap(self) -> None:
        """Take in what came down to us, so that its time is counted. Not before the command itself
        has ended: its status is for `poll`."""
        if self._main.poll() is None:
            return
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return


def main(result: str, limit_s: str, *command: str) -> None:
    """Watch a command, and write down what was seen."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Behind `&` of a shell Ctrl-C is ignored, and a command would inherit that: it would go on to
    # its end when it is told to stop. One that has a handler here has the usual one in a command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seen = Watch(command, float(limit_s)).go()
    half = Path(f"{result}.half")
    half.write_text(json.dumps(seen))
    half.rename(result)


if __name__ == "__main__":
    main(*sys.argv[1:])
