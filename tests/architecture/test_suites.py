"""The workflow of a repository host runs what `just ci` runs."""

import re
import shlex
from pathlib import Path

import pytest

from tools import suites  # pyright: ignore[reportAttributeAccessIssue]

WORKFLOW = (Path(__file__).parents[2] / ".github/workflows/ci.yml").read_text("utf-8")


def names_in(workflow: str) -> list[str]:
    commands = re.findall(r"tools/suites\.py (.+)$", workflow, re.MULTILINE)
    return sorted(name for command in commands for name in shlex.split(command))


def test_the_workflow_runs_every_suite_of_ci_once() -> None:
    """But for what only spares the workers of one machine some time."""
    assert names_in(WORKFLOW) == sorted({*suites.GROUPS["ci"], "pulled"} - {"compiled tests"})


@pytest.mark.parametrize("lost", ["layers", "'empty environment'"])
def test_a_suite_that_the_workflow_lost_is_noticed(lost: str) -> None:
    assert names_in(WORKFLOW.replace(f" {lost}", "")) != names_in(WORKFLOW)


def test_the_shards_are_all_of_the_tests() -> None:
    [row] = re.findall(r"shard: \[(.*)\]", WORKFLOW)
    shards = re.findall(r'"(\d)/(\d)"', row)
    assert shards == [(str(number + 1), str(len(shards))) for number in range(len(shards))]
