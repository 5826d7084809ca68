"""The tasks of the coding agent: each is whole, and some are played with a kill in the middle."""

import ast
import tomllib
from pathlib import Path

import pytest
from campaigns.code_tasks.play import Kill, kills_of, oracle_faults, play
from campaigns.code_tasks.task import Task, load_tasks, tree_of

TASKS = load_tasks()
KINDS = {"bug fix", "feature", "refactor", "tests"}
LANGUAGES = {"python", "javascript", "shell"}
PLAYED = {
    "fix-median": Kill("call", 3),
    "add-install-script": Kill("request", 3),
    "refactor-rename": Kill("call", 2),
    "fix-sort-numbers": Kill("call", 1),
}
"""A command that is cut off, a request, a move of a file, and an edit."""


def test_there_are_tasks_of_all_kinds() -> None:
    assert len(TASKS) >= 40
    assert {task.kind for task in TASKS.values()} == KINDS
    assert {task.language for task in TASKS.values()} == LANGUAGES
    calls = [call for task in TASKS.values() for step in task.rounds for call in step]
    assert sum(call.fails for call in calls) >= 20, "wrong steps are repaired in many"
    assert sum(len(step) > 1 for task in TASKS.values() for step in task.rounds) >= 30


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_is_whole(task: Task, tmp_path: Path) -> None:
    """Its verifier lies outside of what the agent gets; the model tries what it made."""
    place = task.export(tmp_path)
    about = tomllib.loads((place / "task.toml").read_text())
    assert about["metadata"]["name"] == task.name
    assert (place / "instruction.md").read_text().strip()
    assert "diff --git" in (place / "solution" / "fix.patch").read_text()
    (verifier,) = (place / "tests").glob("verify.*")
    assert verifier.name in (place / "tests" / "test.sh").read_text()
    assert verifier.read_text().strip()
    if verifier.suffix == ".py":
        ast.parse(verifier.read_text())
    assert bool(task.verifier) != bool(task.mutants)
    begins = tree_of(place / "environment")
    assert {path for path in begins if begins[path] != "folder"} == task.files.keys()
    assert any(call.tool == "shell" for step in task.rounds for call in step), "nothing is tried"
    assert len(kills_of(task)) > len(task.rounds)


@pytest.mark.parametrize(("name", "kill"), PLAYED.items(), ids=PLAYED)
def test_a_killed_task_is_solved_as_by_its_oracle(name: str, kill: Kill, tmp_path: Path) -> None:
    """The same tree as without a kill, and as without a sandbox; nothing is done or bought
    twice."""
    exported = TASKS[name].export(tmp_path)
    assert oracle_faults(TASKS[name], exported) == []
    assert play(TASKS[name], exported, kill) == []
