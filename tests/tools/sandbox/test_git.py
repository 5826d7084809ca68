"""Why all of `.git` is read-only: what git itself writes there leads out, too.

Hooks and settings left alone, a command that may write the rest (index, refs, logs, HEAD, its locks
beside them) makes the next git of a person run what it likes. So `git commit` is for who stands
outside.
"""

import subprocess
from pathlib import Path

import pytest

from tests.tools.sandbox.project import make_project
from tests.tools.sandbox.stage import GIT, boxed, git, tree_of

_SETTINGS = """
mkdir evil; cp -r .git/objects .git/refs .git/config evil
git config -f evil/config core.fsmonitor 'touch {aim};false'
echo ../evil > .git/commondir
"""
_REBASE = """set -e
mkdir .git/rebase-merge
cd .git/rebase-merge
touch interactive done
git rev-parse HEAD | tee onto > orig-head
git symbolic-ref HEAD > head-name
echo 1 | tee msgnum > end
echo 'exec touch {aim}' > git-rebase-todo
"""
DOORS = {
    "other settings": (_SETTINGS, ["status"]),
    "a rebase under way": (_REBASE, ["rebase", "--continue"]),
    "a log that is a link": (
        "ln -sf {aim} .git/logs/HEAD",
        ["commit", "-q", "--allow-empty", "-m", "$(what a shell will run)"],
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_it_is_a_door(door: str, tmp_path: Path) -> None:
    """Planted outside, without touching hooks or settings, it leads out."""
    make_project(tmp_path / "workspace")
    script, later = DOORS[door]
    words = ["bash", "-c", script.format(aim=tmp_path / "PWNED")]
    subprocess.run(words, cwd=tmp_path / "workspace", env=GIT, check=True, capture_output=True)
    git(tmp_path / "workspace", *later)
    assert (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("door", DOORS)
async def test_it_is_shut(door: str, tmp_path: Path) -> None:
    async with boxed(tmp_path) as box:
        make_project(box.workspace)
        before = tree_of(box.workspace / ".git")
        script, later = DOORS[door]
        assert (await box.sh(script.format(aim=box.outside / "PWNED"))).exit_code != 0
        assert tree_of(box.workspace / ".git") == before
        git(box.workspace, *later)
        assert tree_of(box.outside) == {}


@pytest.mark.parametrize("words", [["log", "-1"], ["diff"], ["status"], ["blame", "README.md"]])
async def test_looking_works(words: list[str], tmp_path: Path) -> None:
    async with boxed(tmp_path) as box:
        make_project(box.workspace)
        assert (await box.run("git", *words)).exit_code == 0


@pytest.mark.parametrize("words", [["add", "."], ["commit", "-a", "-m", "x"], ["rm", "README.md"]])
async def test_changing_does_not(words: list[str], tmp_path: Path) -> None:
    """What git says names the reason."""
    async with boxed(tmp_path) as box:
        make_project(box.workspace)
        (box.workspace / "README.md").write_text("changed")
        ran = await box.run("git", *words)
        assert ran.exit_code != 0
        assert "Read-only file system" in ran.stderr
