"""Draws small changes of `src` and runs the tests nearest to each: `python tools/mutants.py [N]`.

    python tools/mutants.py 100                  100 mutants, drawn by the hash of the last commit
    python tools/mutants.py 100 --seed HASH      drawn by another hash; continues a run that stopped
    python tools/mutants.py 100 --cpu 300        run tests of up to 300 CPU seconds for each mutant
    python tools/mutants.py 100 --minutes 30     begin no mutant after 30 minutes

A module is drawn by its number of statements, then a kind of change (tools/mutations.py) and a
place. `tools/changes.py` names the tests that a change of this module reaches. Those that use the
names of the module and of the changed function run first, in a copy of the tree, until one fails.
A failure counts if the same test passes without the change.

Survivors are printed as diffs. A survivor shows a missing test, or it changes nothing that a user
could notice: then it gets a line with the reason in tools/equivalent_mutants.json. Results are kept
in tools/mutants.json.

The tests run under bubblewrap, without a network and with their own processes and files, because a
mutant may delete files or kill processes that it should not.
"""

import argparse
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import log
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import changes
import mutations

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).with_suffix(".json")
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.json"
BATCHES_CPU_S = (6.0, 20.0)
"""The nearest tests of so many CPU seconds run first, those up to the second figure next."""
MOST_CPU_S = 60.0
HANGS_S = 1_200
"""By the clock; a process may take half of it in CPU time."""
TEST_HANGS_S = 60
TIMED_OUT = "+ Timeout +"
MOST_BYTES = 6 << 30
OPEN = {"survived", "no tests"}
"""Verdicts that ask for a test, or for a line in the list of equivalent mutants."""
PASSED, NOTHING_LEFT = 0, 5
"""Exit codes of pytest."""
SANDBOX = (
    "bwrap --unshare-pid --unshare-net --unshare-ipc --die-with-parent --ro-bind / / "
    "--dev /dev --proc /proc --tmpfs /tmp"
).split()
SHELL = ["bash", "-c", '"$@"; code=$?; times; exit $code', "tests"]
"""bubblewrap does not pass on what its processes took, so that a shell in it prints it last."""
TIMES = re.compile(r"(\d+)m([\d.]+)s")
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+)", re.MULTILINE)


class Mutant(NamedTuple):
    """One change of one module. `path` starts at the root of the repository."""

    path: str
    line: int
    change: mutations.Mutation

    @property
    def source(self) -> str:
        return (ROOT / self.path).read_text("utf-8")

    @property
    def mutated(self) -> str:
        return self.change.applied(self.source)

    @property
    def diff(self) -> str:
        return mutations.diff(self.path, self.source, self.mutated)

    @property
    def key(self) -> str:
        """Return a name that does not change when other lines of the module do."""
        lines = [line for line in self.diff.splitlines()[2:] if line[:1] in "+-"]
        before, after = (
            " ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+"
        )
        return f"{self.path}: {before} -> {after}"


class Outcome(NamedTuple):
    """The end of a run of tests. `failed` is the first test that failed, or another reason."""

    failed: str
    cpu_s: float


class Verdict(NamedTuple):
    """The verdict on a mutant, the test that found it, and how many test files ran at most."""

    verdict: str
    found_by: str
    files: int
    cpu_s: float


RunTests: TypeAlias = Callable[[str, str, list[str]], Outcome]
"""Runs tests until one fails. The source of a module is replaced, if there is a path."""


def drawn(count: int, seed: str) -> Iterator[Mutant]:
    """Draw mutants over all packages. The same hash draws the same mutants from the same tree."""
    chance = random.Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()))
    sources = {path: path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
    weights = [mutations.statements(source) for source in sources.values()]
    keys: set[str] = set()
    while len(keys) < count:
        [(path, source)] = chance.choices([*sources.items()], weights)
        change = mutations.draw(source, chance)
        if change is None:
            continue
        line = source.encode()[: change.start].count(b"\n") + 1
        mutant = Mutant(path.relative_to(ROOT).as_posix(), line, change)
        if mutant.key not in keys:
            keys.add(mutant.key)
            yield mutant


class TestWords:
    """The words of each file of tests, to find the files nearest to a function."""

    def __init__(self, files: list[str]) -> None:
        self._words = {file: _words((ROOT / file).read_text("utf-8")) for file in files}
        self._files_with = Counter(word for words in self._words.values() for word in words)

    def nearest_first(self, mutant: Mutant, files: list[str]) -> list[str]:
        """Sort files by the rare words that they share with the module, the tests of its package
        and of its name before others."""
        weights = mutations.names_around(mutant.source, mutant.change)
        package = changes.package_of(mutant.path)
        subject = set(Path(mutant.path).stem.split("_"))
        scores: dict[str, float] = {}
        for file in files:
            shared = weights.keys() & self._words[file]
            scores[file] = sum(weights[word] * self._rarity(word) for word in shared)
            if package in changes.packages_of(file):
                scores[file] += OF_PACKAGE + OF_NAME * len(
                    subject & set(Path(file).stem.split("_"))
                )
        return sorted(files, key=lambda file: (-scores[file], changes.measured.of([file])))

    def _rarity(self, word: str) -> float:
        return max(log(len(self._words) / self._files_with[word]) - 1, 0.0) ** 2


OF_PACKAGE, OF_NAME = 20.0, 40.0


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-zA-Z]\w+", text))


def fitting(files: list[str], most_cpu_s: float) -> list[str]:
    """Return the files that fit into a number of CPU seconds, in their order."""
    chosen: list[str] = []
    for file in files:
        if changes.measured.of([*chosen, file]) <= most_cpu_s:
            chosen.append(file)
    return chosen


def batches(tests: list[str], most_cpu_s: float) -> list[list[str]]:
    """Cut tests into runs that grow, in their order."""
    limits = [*(limit for limit in BATCHES_CPU_S if limit < most_cpu_s), most_cpu_s]
    runs: dict[float, list[str]] = {limit: [] for limit in limits}
    cpu_s = 0.0
    for test in tests:
        cpu_s += changes.measured.of([test])
        runs[next((limit for limit in limits if cpu_s <= limit), most_cpu_s)].append(test)
    return [run for run in runs.values() if run]


class Judge:
    """Runs tests on mutants. It remembers the tests that fail without a change."""

    def __init__(self, run: RunTests) -> None:
        self._run = run
        self._fails: dict[str, bool] = {}

    def verdict(self, mutant: Mutant, runs: list[list[str]]) -> Verdict:
        """Run tests, the nearest first, until one finds the mutant."""
        cpu_s = 0.0
        for tests in runs:
            outcome = self._outcome(mutant, tests)
            cpu_s += outcome.cpu_s
            if outcome.failed:
                return Verdict("found", outcome.failed, len(tests), round(cpu_s, 1))
        files = sum(map(len, runs))
        return Verdict("survived" if files else "no tests", "", files, round(cpu_s, 1))

    def _outcome(self, mutant: Mutant, tests: list[str]) -> Outcome:
        """Run tests. After a test that fails on the source as it is, continue without it."""
        cpu_s = 0.0
        while True:
            without = [f"--deselect={test}" for test, fails in self._fails.items() if fails]
            outcome = self._run(mutant.path, mutant.mutated, [*tests, *without])
            cpu_s += outcome.cpu_s
            if not outcome.failed.startswith("tests/"):
                if outcome.failed and (plain := self._run("", "", [*tests, *without])).failed:
                    raise RuntimeError(f"the tests fail without a change: {plain.failed}")
                return Outcome(outcome.failed, cpu_s)
            if not self._fails_anyway(outcome.failed):
                return Outcome(outcome.failed, cpu_s)
            tests = tests[tests.index(outcome.failed.partition("::")[0]) :]

    def _fails_anyway(self, test: str) -> bool:
        if test not in self._fails:
            self._fails[test] = bool(self._run("", "", [test]).failed)
        return self._fails[test]


class Tree:
    """A copy of the tree in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writes = 0
        listed = _git("ls-files", "-co", "--exclude-standard").splitlines()
        for name in listed:
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        # Some tests ask git for the files of the tree.
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        subprocess.run(["git", "-C", folder, "add", "--all"], check=True)

    def run(self, path: str, mutated: str, tests: list[str]) -> Outcome:
        """Run tests on a source of one module, or on the tree as it is."""
        if not path:
            return self._pytest(tests)
        self._write(path, mutated)
        try:
            return self._pytest(tests)
        finally:
            self._write(path, (ROOT / path).read_text("utf-8"))

    def _write(self, path: str, source: str) -> None:
        """Write a module with a new time, so that no bytecode of another source is used."""
        self._writes += 1
        target = self._folder / path
        target.write_text(source, "utf-8")
        moment = int(target.stat().st_mtime) + self._writes
        os.utime(target, (moment, moment))

    def _pytest(self, tests: list[str]) -> Outcome:
        folder = str(self._folder)
        # By a thread that ends the process: a task may refuse to be cancelled.
        timeout = f"--timeout={TEST_HANGS_S} --timeout-method=thread"
        pytest = f"-m pytest -x -q -n0 --tb=no -rfE -p no:cacheprovider {timeout}"
        command = [*SANDBOX, *("--bind", folder, folder, "--chdir", folder), *SHELL]
        command += [sys.executable, *pytest.split(), *tests]
        env = {**os.environ, "PYTHONPATH": f"{folder}/src", "VEGA_HISTORIES": "25"}
        code, output = _ended(command, env)
        times = TIMES.findall("".join(output.splitlines()[-1:]))
        cpu_s = sum(60 * int(minutes) + float(seconds) for minutes, seconds in times)
        if code in {PASSED, NOTHING_LEFT}:
            return Outcome("", cpu_s)
        match = FAILED.search(output)
        reason = "a test that waits for ever" if TIMED_OUT in output else f"exit {code}"
        return Outcome(match[1] if match else reason, cpu_s)


def _ended(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run a command to its end. Return its exit code and its output."""
    with tempfile.TemporaryFile("w+") as output:
        try:
            code = subprocess.run(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_prepared,
                timeout=HANGS_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        output.seek(0)
        return code, output.read()


def _prepared() -> None:
    """Bound what a mutant takes. Tests interrupt processes, which a shell's `&` would ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (HANGS_S // 2, HANGS_S // 2))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def results_of(seed: str, count: int) -> dict[str, Any]:
    """Return the results that a run with this seed has so far."""
    rows: dict[str, Any] = {}
    if RESULTS.exists() and (before := json.loads(RESULTS.read_text("utf-8")))["seed"] == seed:
        rows = before["mutants"]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        "command": " ".join(["python tools/mutants.py", *sys.argv[1:]]),
        "seed": seed,
        "drawn": count,
        "mutants": rows,
    }


def equivalents() -> dict[str, str]:
    """Return the mutants that no test can find, with reasons."""
    return json.loads(EQUIVALENT.read_text("utf-8"))


def summary(rows: dict[str, dict[str, Any]], count: int) -> str:
    """Return the counts of each verdict."""
    verdicts = [row["verdict"] for row in rows.values()]
    parts = [f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts))]
    cpu_s = sum(row["cpu_s"] for row in rows.values())
    return f"{len(rows)} of {count} mutants: {', '.join(parts)}; {cpu_s:,.0f} CPU seconds"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--seed", default=_git("rev-parse", "HEAD"))
    parser.add_argument("--cpu", type=float, default=MOST_CPU_S)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    if not shutil.which("bwrap"):
        print("install bubblewrap: a mutant may delete files or kill processes")
        return 2
    until = time.monotonic() + options.minutes * 60
    results = results_of(options.seed, options.count)
    rows: dict[str, dict[str, Any]] = results["mutants"]
    imported_by = changes.importers()
    words = TestWords(changes.test_files())
    with tempfile.TemporaryDirectory(prefix="vega-mutants-") as folder:
        judge = Judge(Tree(Path(folder)).run)
        for mutant in drawn(options.count, options.seed):
            if mutant.key in rows:
                continue
            if time.monotonic() > until:
                break
            if mutant.key in equivalents():
                verdict = Verdict("equivalent", "", 0, 0.0)
            else:
                reached = changes.check_plan([mutant.path], imported_by, float("inf")).files
                tests = fitting(words.nearest_first(mutant, reached), options.cpu)
                verdict = judge.verdict(mutant, batches(tests, options.cpu))
            rows[mutant.key] = {
                "kind": mutant.change.kind,
                "line": mutant.line,
                **verdict._asdict(),
            }
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            show(mutant, verdict)
    print(summary(rows, options.count))
    return int(any(row["verdict"] in OPEN for row in rows.values()))


def show(mutant: Mutant, verdict: Verdict) -> None:
    place = f"{mutant.path}:{mutant.line}"
    print(f"{verdict.verdict:<10} {mutant.change.kind:<18} {place} {verdict.found_by}", flush=True)
    if verdict.verdict in OPEN:
        print(mutant.diff, flush=True)


if __name__ == "__main__":
    sys.exit(main())
