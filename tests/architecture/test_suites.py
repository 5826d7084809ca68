"""The workflow of a repository host runs what `just ci` runs."""

import re
import shlex
from pathlib import Path

import pytest

from tools import suites  # pyright: ignore[reportAttributeAccessIssue]

WORKFLOWS = {
    path.name: path.read_text("utf-8")
    for path in (Path(__file__).parents[2] / ".github/workflows").glob("*.yml")
}
WORKFLOW = WORKFLOWS["ci.yml"]
PINNED = re.compile(r"- uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")


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


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_commit(name: str) -> None:
    """A tag can move to other code. And a job has no right that it does not name."""
    uses = [line.strip() for line in WORKFLOWS[name].splitlines() if "uses:" in line]
    assert [line for line in uses if not PINNED.fullmatch(line)] == []
    assert "\npermissions: { contents: read }\n" in WORKFLOWS[name]


def test_only_a_job_that_runs_no_code_of_the_project_may_publish() -> None:
    """A dependency that is taken over could otherwise sign what it likes."""
    before, publish = WORKFLOWS["release.yml"].split("\n  publish:\n")
    assert "write" not in re.sub(r"#.*", "", before)
    assert not re.findall(r"checkout|pip|\.venv|\.ci/", publish)


def test_a_release_is_audited_listed_and_signed() -> None:
    text = WORKFLOWS["release.yml"]
    assert "needs: audit" in text
    assert "needs: build" in text
    for step in ("pip-audit --strict", "cyclonedx-py environment", "actions/attest@", "sbom-path:"):
        assert step in text
