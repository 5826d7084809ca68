"""`python -m campaigns.first_five_minutes [--write]`: what a newcomer types, from the wheel alone.

Installed by the core lock, in an empty folder and home, without a key: the demos, a project, a
quote, a run, a `kill -9`, what goes on, and the trace. Each step has a limit, which grows with how
slow this machine is and how much of it others take, by a loop that is timed beside the steps.
`--write` keeps the transcript in the tutorial. The README shows lines of it, which have to be seen.
Prints its figures last; exits 1 when one falls short.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure, at_most, show

from campaigns.contract.stage import ROOT, BrokenError, installed_wheel, require

__all__ = ["PAGE", "README", "Step", "main", "masked", "missing_lines", "play", "written"]

PAGE = ROOT / "docs" / "tutorial" / "first-five-minutes.md"
README = ROOT / "README.md"
LIMIT_S = 10.0
_LOOPS, _QUIET_LOOP_S = 1_000_000, 0.05
"""A fixed loop, and how long it takes where the limits were set."""
_RUN = "vega run notes.vega owls bats moths"


class Step(NamedTuple):
    command: str
    output: str
    seconds: float
    slowness: float = 1.0
    """How much longer a fixed loop took then than on a quiet machine."""


def play(bin_folder: Path, folder: Path) -> list[Step]:
    """Type it all in an empty folder, and return what was seen; raise at what must not be seen."""
    person = _Person(bin_folder, folder)
    steps = [
        person.types("vega demo", sees="ledger, wallets and traces agree"),
        person.types("vega demo crash", sees="0 answers that had arrived were paid for again"),
        person.types("vega init hello", sees="notes.vega"),
    ]
    person.enters("hello")
    steps += [
        person.types("vega cost notes.vega", sees="at most $0.25"),
        person.types("vega cost notes.vega --max '$0.10'", sees="at most $0.25", code=1),
        person.types(f"{_RUN} --budget '$0.10'", sees="0 calls", code=1),
        person.types("python agent.py", sees="It has 6 words."),
        person.types("vega test notes.vega", sees="1 of 1 passed"),
        person.types(_RUN, sees="moths listen to the bats"),
    ]
    steps += _killed_and_resumed(person)
    steps += [
        person.types("vega runs", sees="notes.vega"),
        person.types("vega trace", sees="counter"),
    ]
    ((run, *_),) = (line.split() for line in steps[-1].output.splitlines() if "  counter" in line)
    return [*steps, person.types(f"vega trace {run}", sees="count_words")]


def _killed_and_resumed(person: "_Person") -> list[Step]:
    """The last answer is made to take a minute, so that the kill comes when all others have
    arrived, however slow the machine is."""
    usual = person.replies.read_text(encoding="utf-8")
    slow = json.loads(usual)
    slow["matches"]["Make one paragraph"] = {"text": "", "latency_ms": 60_000}
    person.replies.write_text(json.dumps(slow), encoding="utf-8")
    killed = person.kills(_RUN, when=lambda run: run["recorded"] == 3 and run["cut_off"] == 1)
    person.replies.write_text(usual, encoding="utf-8")
    resumed = person.types("vega resume", sees="moths listen to the bats")
    require("3 calls recorded, 1 cut off" in resumed.output, resumed.output)
    return [killed, resumed]


class _Person:
    """Types commands in a home that holds nothing; the installed commands are found first."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self._folder = folder / "work"
        self._folder.mkdir()
        (folder / "home").mkdir()
        path = f"{bin_folder}:{os.environ['PATH']}"
        self._variables = {"PATH": path, "HOME": str(folder / "home"), "PYTHONUTF8": "1"}

    def enters(self, name: str) -> None:
        self._folder /= name

    def types(self, command: str, sees: str, code: int = 0) -> Step:
        ended, step = self._ended(command)
        require(ended == code, f"{command}: exit {ended}: {step.output}")
        require(sees in step.output, f"{command}: no {sees!r} in {step.output}")
        return step

    def _ended(self, command: str) -> tuple[int, Step]:
        before, began = _loop_s(), time.monotonic()
        ran = self._start(command)
        output = self._plain(ran.communicate()[0])
        seconds = time.monotonic() - began
        return ran.returncode, Step(command, output, seconds, _slowness(before, _loop_s()))

    def _plain(self, output: str) -> str:
        """Without the folders of this machine."""
        bin_folder, home = self._variables["PATH"].partition(":")[0], self._variables["HOME"]
        for ours, theirs in (
            (f"{bin_folder}/python {bin_folder}/", ""),
            (f"{bin_folder}/", ""),
            (home, "~"),
            (str(Path(home).parent / "work"), "~"),
        ):
            output = output.replace(ours, theirs)
        return output

    @property
    def replies(self) -> Path:
        return self._folder / "replies.json"

    def kills(self, command: str, when: Callable[[dict[str, Any]], bool]) -> Step:
        """Start a command, and kill it when its run, which is the last one, looks like this."""
        before, began = _loop_s(), time.monotonic()
        process = self._start(command)
        while not self._last_run_is(when):
            require(process.poll() is None, f"{command} ended before it was killed")
        process.kill()
        output = self._plain(process.communicate()[0])
        seconds = time.monotonic() - began
        return Step(f"{command} & kill -9 $!", output, seconds, _slowness(before, _loop_s()))

    def _last_run_is(self, when: Callable[[dict[str, Any]], bool]) -> bool:
        code, step = self._ended("vega runs --json")
        runs: list[dict[str, Any]] = [] if code else json.loads(step.output)
        return bool(runs) and runs[-1]["ended_ms"] is None and when(runs[-1])

    def _start(self, command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            shlex.split(command),
            executable=self._found(command.split(maxsplit=1)[0]),
            cwd=self._folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def _found(self, name: str) -> str:
        """`Popen` looks for a program along our own path, not along that of its environment."""
        return str(Path(self._variables["PATH"].partition(":")[0]) / name)


# The transcript as a page, and as what of it is the same in every run.


_VOLATILE = [
    (re.compile(r"\b[0-9a-f]{12,32}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ?|\d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"\bkill -9 \d+"), "kill -9 PID"),
    (re.compile(r"/\S+/(?=work|home|vega-)|/\S+/bin/"), "/…/"),
    (re.compile(r", \$[0-9.]+ left"), ""),  # what was begun early and given up may still be held
    (re.compile(r" \(one after another [^)]*\)"), ""),  # told only if something overlapped for long
    (re.compile(r"\d+(\.\d+)? (ms|s)\b"), "DURATION"),
    (re.compile(r"[ ─]{2,}"), "  "),
]


def masked(text: str) -> str:
    """Return a page without what differs from run to run: ids, times, durations, folders."""
    for pattern, mask in _VOLATILE:
        text = pattern.sub(mask, text)
    return text


def written(steps: list[Step]) -> str:
    """Return the page of a transcript."""
    return "\n".join([_HEAD, *_blocks(steps), _TAIL])


_HEAD = """\
# The first five minutes

`just first-five-minutes` types these commands in an empty folder, with the installed package,
without a key and without a network. This page shows the output. A terminal also shows colours and
progress.

[Install Vega](../../README.md#install) first. You need no key.

`vega demo` shows a team of agents that crashes, is restarted, and is refused by its wallet.
"""
_TAIL = """\
From here: [your first agent](first-agent.md), [your first program](first-program.md),
[what survives what](../explanation/durability.md). With a key in `ANTHROPIC_API_KEY`, change one
line of `vega.toml`.
"""
_NOT_SHOWN = "vega demo"
"""What its agents say comes in the order of their answers, which differs from run to run."""
_TOLD = {
    "vega demo crash": "The promise that nothing is paid for twice, shown on a real process:",
    "vega init hello": "A project of your own:",
    "vega cost notes.vega": "Before the first call, the most it can cost (after `cd hello`):",
    "vega cost notes.vega --max '$0.10'": (
        "Too expensive? It exits with 1, for CI; and a run is refused, unpaid:"
    ),
    _RUN: "Three questions at once, then one:",
    f"{_RUN} & kill -9 $!": (
        "Once more, with an editor that takes a minute, and killed while its answer is due:"
    ),
    "vega resume": "It goes on: three answers had arrived and are not bought again.",
    "vega runs": (
        "The question that was cut off may have been billed, so its charge is added to the most\n"
        "that the run may cost. The first line shows the limit for one kill.\n\n"
        "All of it was recorded, since that is the default:"
    ),
}


def _blocks(steps: list[Step]) -> Iterator[str]:
    for step in steps:
        if step.command == _NOT_SHOWN:
            continue
        if told := _TOLD.get(step.command):
            yield f"{told}\n"
        yield f"{_block(step)}\n"


def _block(step: Step) -> str:
    lines = [f"$ {step.command}", *(line.rstrip() for line in step.output.rstrip().splitlines())]
    return "\n".join(["```text", *lines, "```"])


_BLOCK = re.compile(r"^```text\n\$ (.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def missing_lines(page: str, steps: list[Step]) -> list[str]:
    """Return the lines that a page shows of a command and that were not seen in this order, and the
    commands that nobody typed."""
    outputs = {step.command: step.output for step in steps}
    missing: list[str] = []
    for command, excerpt in _BLOCK.findall(page):
        if command not in outputs:
            missing.append(command)
            continue
        output = masked(outputs[command]).splitlines()
        for line in masked(excerpt).splitlines():
            if line in output:
                del output[: output.index(line) + 1]
            else:
                missing.append(line)
    return missing


def main(arguments: list[str]) -> int:
    began = time.monotonic()
    try:
        with installed_wheel("core") as bin_folder, tempfile.TemporaryDirectory() as folder:
            installed_s = time.monotonic() - began
            steps = play(bin_folder, Path(folder))
    except BrokenError as error:
        print(error)
        return 1
    if "--write" in arguments:
        PAGE.write_text(written(steps), encoding="utf-8")
    missing = missing_lines(README.read_text(encoding="utf-8"), steps)
    print(*(f"README shows, and nobody sees: {line}" for line in missing), sep="\n")
    figures = [Figure("build the wheel, install it", f"{installed_s:.1f} s")]
    figures += [
        at_most(round(LIMIT_S * step.slowness, 1), step.seconds, "s", step.command)
        for step in steps
    ]
    print(f"a fixed loop took {max(step.slowness for step in steps):.1f} × its quiet time at most")
    print(show(figures))
    return int(bool(missing) or not all(figure.holds for figure in figures))


def _loop_s() -> float:
    began, total = time.monotonic(), 0
    for number in range(_LOOPS):
        total += number
    return time.monotonic() - began


def _slowness(*loops_s: float) -> float:
    return max(1.0, *(seconds / _QUIET_LOOP_S for seconds in loops_s))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
