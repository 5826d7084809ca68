"""Worktrees of `vega code`: a folder and a branch of their own; and what the list of sessions, of
turns and of exports tells."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sage.scene import Scene, calls, scene

WRITE = calls(("write", {"path": "b.txt", "content": "b"}))


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    ran = subprocess.run(
        ["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return ran.stdout


def repository(it: Scene) -> None:
    git(it.folder, "init", "-q", "-b", "main")
    (it.folder / "a.txt").write_text("a")
    git(it.folder, "add", ".")
    git(it.folder, "commit", "-qm", "a")


def test_a_session_works_in_a_worktree(tmp_path: Path) -> None:
    """Its folder stays as it is; the worktree is listed, kept while it has changes, and removed."""
    with scene(tmp_path, {"Go": [WRITE, "Done."], "": "Yes."}) as it:
        repository(it)
        hook = it.folder / ".git/hooks/post-checkout"
        hook.write_text("#!/bin/sh\ntouch ../ran\n")
        hook.chmod(0o755)
        ran = it.vega("-p", "Go.", "--worktree", "fix")
        assert ran.returncode == 0, ran.stderr
        assert "worktree fix: branch vega/fix, in " in ran.stderr
        assert not (it.folder / "b.txt").exists()
        assert not (tmp_path / "ran").exists()
        (one,) = json.loads(it.here("--worktrees", "--json").stdout)
        assert (one["name"], one["changed"], one["commits"]) == ("fix", 1, 0)
        made = Path(one["folder"])
        assert made.is_relative_to(tmp_path / "home/data/vega/worktrees")
        assert (made / "b.txt").read_text() == "b"
        ran = it.here("--remove-worktree", "fix")
        assert ran.returncode == 1
        assert "have changes that no commit has" in ran.stderr
        again = it.vega("--worktree", "fix", "--continue", "-p", "What?")
        assert again.stdout == "Yes.\n"
        git(made, "add", ".")
        git(made, "commit", "-qm", "b")
        assert "fix  " in it.here("--worktrees").stdout
        ran = it.here("--remove-worktree", "fix")
        assert "its branch vega/fix has 1 commit and stays" in ran.stdout
        assert not made.exists()
        assert "vega/fix" in git(it.folder, "branch")


@pytest.mark.parametrize("name", ["../x", "-f", "A", "a b", "x" * 41])
def test_a_worktree_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with scene(tmp_path, {"": "Done."}) as it:
        repository(it)
        ran = it.here("-p", "Go.", f"--worktree={name}")
        assert ran.returncode == 1
        assert "cannot be the name of a worktree" in ran.stderr


def test_a_repository_that_would_run_programs_has_no_worktrees(tmp_path: Path) -> None:
    with scene(tmp_path, {"": "Done."}) as it:
        repository(it)
        git(it.folder, "config", "filter.evil.smudge", "touch ../ran")
        ran = it.here("-p", "Go.", "--worktree")
        assert ran.returncode == 1
        assert "filter.evil.smudge" in ran.stderr


def test_without_a_sandbox_there_are_no_worktrees(tmp_path: Path) -> None:
    """Inside of one that allows no other, git does not run, and the error says what to type."""
    with scene(tmp_path, "never") as it:
        repository(it)
        outer = ("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--")
        words = (sys.executable, "-m", "vegakit", "code", "--worktree", "w", "-p", "Go.")
        ran = subprocess.run(
            [*outer, *words],
            cwd=it.folder,
            env=it.environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 1
        assert "bubblewrap cannot make a sandbox here" in ran.stderr
        assert "git worktree add ../NAME" in ran.stderr
        assert "vega/w" not in git(it.folder, "branch", "--list")


def test_an_export_tells_what_sub_agents_did(tmp_path: Path) -> None:
    script = {
        "find": [calls(("grep", {"pattern": "x"})), "found"],
        "Go": [calls(("task", {"agent": "explore", "prompt": "find"})), "Done."],
    }
    with scene(tmp_path, script) as it:
        live = it.events("-p", "Go.", "--session", "s")
        kept = [json.loads(line) for line in it.here("--export", "s", "--json").stdout.splitlines()]
        kinds = ("text", "tool_began", "tool_ended")
        assert [e for e in kept if e["type"] in kinds] == [e for e in live if e["type"] in kinds]
        assert "[1.1.0] **grep**" in it.here("--export", "s").stdout


def test_a_killed_turn_is_listed_as_cut_off(tmp_path: Path) -> None:
    sleep = calls(("shell", {"command": "sleep 60"}))
    with scene(tmp_path, {"One": [WRITE, "Done."], "Two": [WRITE, sleep, "Done."]}) as it:
        it.events("-p", "One.", "--session", "s")
        began = lambda e: e["type"] == "tool_began" and e["name"] == "shell"  # noqa: E731
        it.killed("--resume", "s", "-p", "Two.", when=began)
        turns = json.loads(it.here("--list", "--json", command="undo").stdout)
        assert [(one["label"], one["state"]) for one in turns] == [
            ("Two.", "cut off"),
            ("One.", "done"),
        ]


def test_undo_names_some_of_many_paths(tmp_path: Path) -> None:
    make = calls(("shell", {"command": "for n in $(seq 100); do touch f$n; done"}))
    with scene(tmp_path, [make, "Done."]) as it:
        it.events("-p", "Go.")
        said = it.here(command="undo").stdout
        assert "100 paths restored" in said
        assert "  and 80 more; --json names all of them" in said
        assert said.count("\n  f") == 20
        redone = json.loads(it.here("--redo", "--json", command="undo").stdout)
        assert len(redone["restored"]) == 100


def test_a_raise_above_the_settings_is_refused(tmp_path: Path) -> None:
    with scene(tmp_path, {"": "Done."}) as it:
        it.events("-p", "Go.", "--budget", "$1", "--session", "s")
        ran = it.here("--resume", "s", "--budget", "+$50", "-p", "More.")
        assert ran.returncode == 1
        assert "would pass the $10.00 that your settings allow" in ran.stderr
        assert "--budget '+$9.00'" in ran.stderr
        assert len(it.bodies) == 1
        it.events("--resume", "s", "--budget", "+$9", "-p", "More.")
        assert len(it.bodies) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("words", [("-p", "Go."), ("-p", "Go.", "--json"), ("--list",)])
def test_a_full_disk_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    with scene(tmp_path, {"": "Done."}) as it, Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "vegakit", "code", *words],
            cwd=it.folder,
            env={**it.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert ran.returncode == 1
        assert "Traceback" not in ran.stderr
        assert "error: this cannot be written: No space left on device" in ran.stderr
