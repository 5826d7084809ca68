"""Mutants of the source: which changes are drawn, and when a test has found one."""

import json
import random
from pathlib import Path

import pytest

from tools import changes, mutants, mutations  # pyright: ignore[reportAttributeAccessIssue]

SOURCE = '''"""Module with a number, 3 < 4."""

from typing import TypeAlias

MOST = 3
Names: TypeAlias = tuple[str, int]


def is_free(count: int, name: str = "") -> bool:
    """Return whether count < 5."""
    if count < MOST and name == "a":
        report(count)
        return True
    if count > 9:
        raise ValueError(f"{count} is more than {9 + 1}")
    return count == 2


def first(rows: list[str]) -> str:
    return [row for row in rows if row][0]
'''
CHANGES = [
    ("and/or swapped", 11, 'if count < MOST or name == "a":'),
    ("boundary moved", 11, 'if count <= MOST and name == "a":'),
    ("boundary moved", 14, "if count >= 9:"),
    ("call dropped", 12, "pass"),
    ("comparison flipped", 11, 'if count < MOST and name != "a":'),
    ("comparison flipped", 11, 'if count >= MOST and name == "a":'),
    ("comparison flipped", 14, "if count <= 9:"),
    ("comparison flipped", 16, "return count != 2"),
    ("condition negated", 11, 'if (not (count < MOST and name == "a")):'),
    ("condition negated", 14, "if (not (count > 9)):"),
    ("condition negated", 20, "return [row for row in rows if (not (row))][0]"),
    ("constant changed", 5, "MOST = 4"),
    ("constant changed", 11, "if count < MOST and name == 'ax':"),
    ("constant changed", 13, "return False"),
    ("constant changed", 14, "if count > 10:"),
    ("constant changed", 16, "return count == 3"),
    ("constant changed", 20, "return [row for row in rows if row][1]"),
    ("return changed", 13, "return not (True)"),
    ("return changed", 16, "return not (count == 2)"),
    ("return changed", 20, "return None"),
]
MUTANT = mutants.Mutant("src/vegakit/lazy.py", 1, mutations.Mutation("constant changed", 0, 0, "#"))


def test_every_kind_of_change_is_made_where_it_fits() -> None:
    """Docstrings, annotations, aliases and errors stay as they are."""
    assert sorted(_described(change) for change in mutations.mutations(SOURCE)) == CHANGES


def _described(change: mutations.Mutation) -> tuple[str, int, str]:
    mutated = change.applied(SOURCE)
    lines = zip(SOURCE.splitlines(), mutated.splitlines(), strict=True)
    [(number, line)] = [
        (number, after.strip())
        for number, (before, after) in enumerate(lines, 1)
        if before != after
    ]
    return change.kind, number, line


def test_bytes_before_a_change_may_be_wide() -> None:
    [change] = mutations.mutations('TEXT = "é — ü"; MOST = 1\n')
    assert change.applied('TEXT = "é — ü"; MOST = 1\n') == 'TEXT = "é — ü"; MOST = 2\n'


def test_what_is_drawn_compiles_and_depends_on_the_seed_alone() -> None:
    source = "def f(a, /, *, b=1):\n    return a\n"
    drawn = [mutations.draw(source, random.Random(seed)) for seed in (1, 1, *range(10))]
    assert drawn[0] == drawn[1]
    assert {change and change.kind for change in drawn} == {"constant changed", "return changed"}
    assert mutations.draw("import os\n", random.Random(1)) is None


def test_a_longer_draw_begins_with_the_shorter_one() -> None:
    """So that a run that was stopped can continue, and two people look at the same mutants."""
    shorter = [mutant.key for mutant in mutants.drawn(2, "a hash")]
    longer = [mutant.key for mutant in mutants.drawn(4, "a hash")]
    assert longer[:2] == shorter
    assert len(set(longer)) == 4


def test_the_tests_of_a_function_come_first() -> None:
    source = (mutants.ROOT / "src/vegakit/policy/rate.py").read_text("utf-8")
    change = next(one for one in mutations.mutations(source) if one.kind == "boundary moved")
    mutant = mutants.Mutant("src/vegakit/policy/rate.py", 0, change)
    files = changes.test_files()
    nearest = mutants.TestWords(files).nearest_first(mutant, files)
    assert all("rate" in path for path in nearest[:2])
    assert sorted(nearest) == files


def test_runs_grow_and_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = changes.measured._replace(
        files={name: mutants.changes.costs.Cost(4.0) for name in "abcdefgh"}
    )
    monkeypatch.setattr(changes, "measured", cost)
    monkeypatch.setattr(mutants.changes, "measured", cost)
    tests = mutants.fitting([*"abcdefgh"], 28.0)
    assert mutants.batches(tests, 28.0) == [["a"], [*"bcde"], [*"fg"]]
    assert mutants.batches([], 28.0) == []


class Runs:
    """Runs of pytest that fail as they are told to, and a list of them."""

    def __init__(self, mutated: str = "", plain: str = "") -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self._mutated = mutated
        self._plain = plain

    def __call__(self, path: str, _: str, tests: list[str]) -> mutants.Outcome:
        self.calls.append((path, tests))
        failing = [self._plain, self._mutated] if path else [self._plain]
        left_out = {test.removeprefix("--deselect=") for test in tests}
        failed = [test for test in failing if test and (test not in left_out or tests == [test])]
        return mutants.Outcome(failed[0] if failed else "", 1.0)


def test_a_test_that_fails_with_the_change_alone_finds_it() -> None:
    runs = Runs(mutated="tests/a.py::test_b")
    verdict = mutants.Judge(runs).verdict(MUTANT, [["tests/a.py"], ["tests/c.py"]])
    assert verdict == mutants.Verdict("found", "tests/a.py::test_b", 1, 1.0)
    assert runs.calls == [(MUTANT.path, ["tests/a.py"]), ("", ["tests/a.py::test_b"])]


def test_a_test_that_fails_anyway_finds_nothing() -> None:
    """It is left out from then on."""
    runs = Runs(plain="tests/a.py::test_b")
    judge = mutants.Judge(runs)
    assert judge.verdict(MUTANT, [["tests/a.py"]]) == mutants.Verdict("survived", "", 1, 2.0)
    assert judge.verdict(MUTANT, [["tests/a.py"]]).cpu_s == 1.0
    assert runs.calls[-1] == (MUTANT.path, ["tests/a.py", "--deselect=tests/a.py::test_b"])


def test_files_that_passed_do_not_run_again() -> None:
    runs = Runs(plain="tests/b.py::test_b")
    mutants.Judge(runs).verdict(MUTANT, [["tests/a.py", "tests/b.py", "tests/c.py"]])
    assert runs.calls[-1][1] == ["tests/b.py", "tests/c.py", "--deselect=tests/b.py::test_b"]


def test_a_run_that_ends_otherwise_finds_a_mutant_only_if_it_passes_without() -> None:
    crashed = mutants.Judge(Runs(mutated="exit -9")).verdict(MUTANT, [["tests/a.py"]])
    assert crashed.found_by == "exit -9"
    with pytest.raises(RuntimeError, match="the tests fail without a change: exit 4"):
        mutants.Judge(Runs(plain="exit 4")).verdict(MUTANT, [["tests/a.py"]])


def test_a_mutant_without_tests_is_no_survivor() -> None:
    assert mutants.Judge(Runs()).verdict(MUTANT, []).verdict == "no tests"


def test_every_equivalent_mutant_has_a_reason_and_its_line() -> None:
    """A row whose code is gone is removed."""
    for key, reason in mutants.equivalents().items():
        path, _, change = key.partition(": ")
        before = change.partition(" -> ")[0]
        text = " ".join((mutants.ROOT / path).read_text("utf-8").split())
        assert " ".join(before.split()) in text, key
        assert len(reason) > 20, key


def test_the_results_name_their_date_commit_and_command() -> None:
    results = json.loads(Path(mutants.RESULTS).read_text("utf-8"))
    assert {"date", "commit", "command", "seed", "drawn"} <= results.keys()
    assert {row["verdict"] for row in results["mutants"].values()} <= {
        "found",
        "survived",
        "no tests",
        "equivalent",
    }
