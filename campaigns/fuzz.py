"""Fuzzing of the parsers that take bytes from outside.

    python -m campaigns.fuzz [SECONDS] [TARGET …]
    python -m campaigns.fuzz planted

Each target of `campaigns.fuzz_targets` gets SECONDS of CPU, one after the other, in a process of
its own. `atheris` chooses inputs by the code that they reach. Where it is not installed, seeds are
changed at random. An input is a finding if

- it raises an error that the target does not allow,
- it takes more than 500 ms of CPU or 80 MB of memory,
- it ends the process, or takes longer than 10 s of CPU.

The instrumented process is slower than a usual one. So each finding is read again in a process
without instruments, and counts only if it holds there. Its input is left in FOLDER/TARGET. Put it
into `tests/data/fuzz/TARGET` with the fix: it is a seed and a test from then on. `planted` looks
for five planted faults instead. Prints a table; exits 1 if there are findings, or if a planted
fault was not found.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show
from tests.wires.openai_spoiling import spoiled

from campaigns.fuzz_targets import TARGETS, FuzzTarget, OpenTarget, seeds_of

__all__ = ["MAX_MB", "MAX_MS", "InputMeter", "Verdict", "changed", "main"]

MAX_MS, MAX_MB = 500, 80
_USUAL_S, _PLANTED_S, _HANG_S, _STUCK_S = 10, 8, 10, 120
_NICE = 10
_AGAIN_CPU_S = 100
_KB = 1024


# What an input costs, and what it raises.


class Verdict(NamedTuple):
    """What one input did. `fault` is empty for an input that is no finding."""

    fault: str = ""
    cpu_ms: float = 0.0
    peak_mb: float = 0.0


class EndlessInputError(BaseException):
    """An input took longer than any input may; a parser does not catch this."""


class InputMeter:
    """Runs a parser on inputs and measures each one."""

    def __init__(self, target: OpenTarget) -> None:
        self._parse, self._allowed = target
        self._base_kb = self._high_kb = _reset_peak_kb()

    def run(self, data: bytes) -> Verdict:
        """Return what an input does."""
        fault, start = "", time.thread_time()
        try:
            with _time_limit():
                self._parse(data)
        except self._allowed:
            pass
        except (Exception, EndlessInputError) as error:  # noqa: BLE001
            fault = _place_of(error)
        cpu_ms, peak_mb = 1000 * (time.thread_time() - start), 0.0
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if peak_kb > self._high_kb:
            peak_mb = (peak_kb - self._base_kb) / _KB
            self._base_kb = self._high_kb = _reset_peak_kb()
        if not fault and cpu_ms > MAX_MS:
            fault = "slow"
        elif not fault and peak_mb > MAX_MB:
            fault = "large"
        return Verdict(fault, cpu_ms, peak_mb)


def _reset_peak_kb() -> int:
    """Let the peak of memory begin at what this process holds now, where the system can do it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def _time_limit() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, _HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _raise_endless(_: int, frame: FrameType | None) -> None:
    raise EndlessInputError(f"endless at {frame}")


def _place_of(error: BaseException) -> str:
    """Return the kind of an error and the place in our code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "vegakit" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__} at {place}"


# Inputs.


def changed(data: bytes, others: Sequence[bytes], draw: random.Random, most: int) -> bytes:
    """Return an input that is changed, joined with another one, or has a part repeated many times:
    time that grows faster than the length shows in repetitions first."""
    at, end = sorted((draw.randrange(1, len(data) + 2), draw.randrange(1, len(data) + 2)))
    match draw.randrange(4):
        case 0:
            data = spoiled(data or b"x", draw)
        case 1:
            data = data[:at] + draw.choice(others)[1:][-end:] + data[end:]
        case 2:
            part = data[at : min(end, at + 16)] or b"<"
            data = data[:at] + part * draw.choice((8, 30, 200, most // len(part))) + data[at:]
        case _:
            open_, close = draw.choice(_PAIRS)
            times = draw.choice((5, 30, 300, 5_000))
            data = data[:at] + open_ * times + data[at:end] + close * times + data[end:]
    return data[:most]


_PAIRS = ((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b'{"a":', b"}"), (b"<b>", b"</b>"))


def _blind(run: Callable[[bytes], object], target: FuzzTarget, seeds: list[bytes]) -> None:
    """Run changed seeds without knowing what code they reach."""
    draw = random.Random(7)
    while True:
        data = draw.choice(seeds)
        for _ in range(draw.randrange(1, 4)):
            data = changed(data, seeds, draw, target.max_bytes)
        run(data)


def _guided(
    atheris: Any,
    run: Callable[[bytes], object],
    target: FuzzTarget,
    seeds: list[bytes],
    folder: Path,
) -> None:
    """Run what libFuzzer chooses by the code that earlier inputs reached."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds):
        (corpus / str(number)).write_bytes(seed)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if draw.randrange(4):
            return bytes(atheris.Mutate(data, most))
        return changed(data, seeds, draw, most)

    options = [f"-max_len={target.max_bytes}", "-len_control=0", "-rss_limit_mb=2000"]
    options += [f"-artifact_prefix={folder}/died-", f"-timeout={_STUCK_S}", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], run, custom_mutator=mutate)
    atheris.Fuzz()


# The process of one target.


class _Tally:
    """Counts inputs, keeps one input of each finding, and ends the process in time: of those that
    cost too much the most expensive one, of the others the shortest."""

    def __init__(self, meter: InputMeter, folder: Path, seconds: float, way: str) -> None:
        self._meter, self._folder, self._seconds, self._way = meter, folder, seconds, way
        self._ranks: dict[str, float] = {}
        self._count, self._cpu_ms, self._peak_mb = 0, 0.0, 0.0
        self._start = time.process_time()

    def run(self, data: bytes) -> None:
        verdict = self._meter.run(data)
        self._count += 1
        self._cpu_ms = max(self._cpu_ms, verdict.cpu_ms)
        self._peak_mb = max(self._peak_mb, verdict.peak_mb)
        fault = verdict.fault
        costs = {"slow": -verdict.cpu_ms, "large": -verdict.peak_mb}
        rank = costs.get(fault, len(data))
        if fault and rank < self._ranks.get(fault, sys.maxsize):
            self._ranks[fault] = rank
            name = hashlib.blake2b(fault.encode(), digest_size=6).hexdigest()
            (self._folder / f"input-{name}").write_bytes(data)
        if time.process_time() - self._start > self._seconds:
            self.finish()

    def finish(self) -> None:
        """Write the figures and end at once: libFuzzer ends a process in no other way."""
        figures = (self._count, self._cpu_ms, self._peak_mb, self._way)
        (self._folder / "figures").write_text(json.dumps(figures), "utf-8")
        os._exit(0)


_INSTRUMENTED = ("vegakit", "ruamel", "campaigns.fuzz_faults")


def _fuzz(name: str, seconds: float, folder: Path) -> None:
    os.nice(_NICE)
    signal.signal(signal.SIGPROF, _raise_endless)
    atheris: Any = import_module("atheris") if find_spec("atheris") else None
    instruments = atheris.instrument_imports(include=[*_INSTRUMENTED]) if atheris else nullcontext()
    with instruments:
        target = _targets()[name]
        opened = target.open()
    seeds = seeds_of(target)
    way = "guided" if atheris else "blind"
    tally = _Tally(InputMeter(opened), folder, seconds, way)
    for seed in seeds:
        tally.run(seed)
    if atheris:
        _guided(atheris, tally.run, target, seeds, folder)
    else:
        _blind(tally.run, target, seeds)


def _read_again(target: FuzzTarget, path: Path) -> None:
    """Say in a process without instruments what an input does."""
    resource.setrlimit(resource.RLIMIT_CPU, (_AGAIN_CPU_S, _AGAIN_CPU_S))
    signal.signal(signal.SIGPROF, _raise_endless)
    meter = InputMeter(target.open())
    meter.run(next(iter(target.seeds())))  # what is loaded and built at the first input
    print(json.dumps(meter.run(path.read_bytes())))


# The parent.


class _Finding(NamedTuple):
    path: Path
    verdict: Verdict

    def __str__(self) -> str:
        size = self.path.stat().st_size
        cost = f"{self.verdict.cpu_ms:,.0f} ms, {self.verdict.peak_mb:,.0f} MB"
        return f"  {self.verdict.fault} ({cost}): {self.path}, {size:,} bytes"


def _child(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else "campaigns.fuzz"]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    return subprocess.run(
        [*command, *map(str, words)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=environment,
    )


def _findings(name: str, folder: Path) -> Iterator[_Finding]:
    for path in sorted([*folder.glob("input-*"), *folder.glob("died-*")]):
        again = _child("again", name, path)
        if again.returncode:
            yield _Finding(path, Verdict(f"ends the process: {again.stderr[-300:]}"))
            continue
        verdict = Verdict(*json.loads(again.stdout.splitlines()[-1]))
        if verdict.fault:
            yield _Finding(path, verdict)


def fuzz(name: str, seconds: float, folder: Path) -> list[_Finding]:
    """Fuzz one target in a process of its own, print its figures and return the findings."""
    folder = folder / name
    folder.mkdir(parents=True)
    ran = _child("target", name, seconds, folder)
    findings = list(_findings(name, folder))
    figures = folder / "figures"
    if not figures.exists() and not findings:
        findings = [_Finding(folder, Verdict(f"ended early: {ran.stderr[-2000:]}"))]
    count, cpu_ms, peak_mb, way = json.loads(figures.read_text()) if figures.exists() else [0] * 4
    cost = f"{count:>9,} inputs  up to {cpu_ms:6,.0f} ms  {peak_mb:4,.0f} MB  {way}"
    print(f"{name:<10} {cost}  {len(findings)} findings", flush=True)
    for finding in findings:
        print(finding, flush=True)
    return findings


def _targets() -> dict[str, FuzzTarget]:
    from campaigns.fuzz_faults import PLANTED

    return TARGETS | PLANTED


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m campaigns.fuzz")
    parser.add_argument("seconds", nargs="?", default=_USUAL_S)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--folder", type=Path, default=None)
    chosen: Any = parser.parse_args(words)
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="vega-fuzz-"))
    if chosen.seconds == "planted":
        from campaigns.fuzz_faults import PLANTED

        missed = [name for name in PLANTED if not fuzz(name, _PLANTED_S, folder)]
        print(show([Figure("planted faults not found", str(len(missed)), "0", not missed)]))
        return int(bool(missed))
    names = chosen.targets or [*TARGETS]
    found = sum(len(fuzz(name, float(chosen.seconds), folder)) for name in names)
    print(show([Figure("findings", str(found), "0", not found)]))
    return int(found > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["target"]:
        _fuzz(sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
    elif sys.argv[1:2] == ["again"]:
        _read_again(_targets()[sys.argv[2]], Path(sys.argv[3]))
    else:
        sys.exit(main(sys.argv[1:]))
