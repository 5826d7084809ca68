"""Repositories and folders that somebody else made, through the installed wheel: no program of
theirs runs, and no link of theirs leads a write out of them."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from campaigns.contract.stage import ROOT, Done, Stage, stage

pytestmark = pytest.mark.timeout(300)


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    ran = subprocess.run(
        ["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


def make_repository(it: Stage) -> None:
    git(it.folder, "init", "-q", "-b", "main")
    (it.folder / "a.txt").write_text("a")
    git(it.folder, "add", ".")
    git(it.folder, "commit", "-qm", "a")


def program(it: Stage) -> Path:
    """A program that leaves a mark in the home of the person."""
    script = it.folder / ".git" / "x.sh"
    script.write_text(f"#!/bin/sh\ntouch {it.home / 'ran'}\ncat\n")
    script.chmod(0o755)
    return script


def add_settings(it: Stage, text: str) -> None:
    with (it.folder / ".git/config").open("a") as file:
        file.write(text)


def fetch_lazily(it: Stage) -> str:
    blob = git(it.folder, "rev-parse", "HEAD:a.txt")
    (it.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    remote = f'[remote "origin"]\n\turl = ext::{program(it)}\n\tpromisor = true\n'
    add_settings(it, f'{remote}[protocol "ext"]\n\tallow = always\n')
    return "remote.origin.url"


def configure_a_hook(it: Stage) -> str:
    """Git runs such hooks from version 2.54; an older one shows that the key is refused."""
    events = ("post-checkout", "reference-transaction", "post-index-change")
    for event in events:
        add_settings(it, f'[hook "{event}"]\n\tevent = {event}\n\tcommand = {program(it)}\n')
    return f"hook.{events[0]}.event"


def include_settings(it: Stage) -> str:
    (it.folder / ".git/more").write_text(f'[filter "x"]\n\tsmudge = {program(it)}\n')
    (it.folder / ".git/info/attributes").write_text("* filter=x\n")
    add_settings(it, "[include]\n\tpath = more\n")
    return "include.path"


def configure_worktrees(it: Stage) -> str:
    add_settings(it, "[extensions]\n\tworktreeConfig = true\n")
    (it.folder / ".git/config.worktree").write_text(f'[filter "x"]\n\tsmudge = {program(it)}\n')
    (it.folder / ".git/info/attributes").write_text("* filter=x\n")
    return "extensions.worktreeconfig"


def lead_elsewhere(it: Stage) -> str:
    """Its `.git` is a file that names another repository of the person."""
    own = it.home / "own"
    (it.folder / ".git").rename(own)
    (it.folder / ".git").write_text(f"gitdir: {own}\n")
    return str(own)


def share_settings(it: Stage) -> str:
    """Its `.git` says that all but HEAD is in another repository of the person."""
    (it.folder / ".git").rename(it.home / "own")
    (it.folder / ".git").mkdir()
    (it.folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (it.folder / ".git/commondir").write_text(f"{it.home / 'own'}\n")
    return "commondir"


ATTACKS = [
    fetch_lazily,
    configure_a_hook,
    include_settings,
    configure_worktrees,
    lead_elsewhere,
    share_settings,
]


def start(it: Stage, name: str) -> Done:
    return it.run("vega", "code", "--worktree", name, "-p", "hi")


def branches(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("refs/heads/**/*") if path.is_file()}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_worktree_of_a_hostile_repository_is_refused(
    wheel: Path, attack: Callable[[Stage], str]
) -> None:
    """The error names the cause and what to type; no program runs, no branch is made."""
    with stage(wheel) as it:
        make_repository(it)
        cause = attack(it)
        done = start(it, "w")
        assert not (it.home / "ran").exists()
        assert done.code == 1
        assert cause in done.err, done.err
        assert "git worktree add" in done.err
        assert all(branches(folder) <= {"main"} for folder in (it.folder / ".git", it.home / "own"))


def test_git_writes_nowhere_but_to_the_repository_and_its_worktrees(wheel: Path) -> None:
    """A log that is a link would have git append what the repository says to another file."""
    with stage(wheel) as it:
        make_repository(it)
        own = it.home / ".bashrc"
        own.write_text("alias ll=ls\n")
        logs = it.folder / ".git/logs/refs/heads/vega"
        logs.mkdir()
        (logs / "w").symlink_to(own)
        add_settings(it, "[user]\n\tname = $(touch ran)\n\temail = a@b.c\n")
        start(it, "w")
        assert own.read_text() == "alias ll=ls\n"


def test_an_ordinary_clone_has_worktrees(wheel: Path) -> None:
    """Its settings name where it came from, a hook folder and who commits; a folder on disk as its
    origin, a changed branch and a start below the root change nothing."""
    with stage(wheel) as it:
        origin = it.home / "origin"
        origin.mkdir()
        git(origin, "init", "-q", "-b", "main")
        (origin / "sub").mkdir()
        (origin / "sub/a.txt").write_text("a")
        git(origin, "add", ".")
        git(origin, "commit", "-qm", "a")
        git(it.folder, "clone", "-q", str(origin), ".")
        git(it.folder, "switch", "-qc", "feature", "--track", "origin/main")
        git(it.folder, "config", "core.hooksPath", ".husky/_")
        git(it.folder, "config", "user.email", "a@b.c")
        it.folder = it.folder / "sub"
        it.run_well("vega", "code", "--worktree", "w", "-p", "hi")
        (made,) = it.run_well("vega", "code", "--worktrees", "--json").page
        assert (Path(made["folder"]) / "sub/a.txt").read_text() == "a"
        it.folder = Path(made["folder"])  # the same repository, seen from its worktree
        assert len(it.run_well("vega", "code", "--worktrees", "--json").page) == 1
        it.folder = it.home.parent / "work"
        it.run_well("vega", "code", "--remove-worktree", "w")
        assert not Path(made["folder"]).exists()


# Files that a command writes.


TITLE = "\x1b]0;owned\x07\x9b31m\u202e"


def test_a_stranger_writes_nothing_to_your_terminal(wheel: Path) -> None:
    """Names of files and sessions, arguments and texts of programs, also as JSON."""
    with stage(wheel) as it:
        name = f"a{TITLE}.vega"
        it.write({name: "print(1);  // expect: 2\n"})
        it.write({"b.vega": 'print("\\u{1b}]0;owned\\u{7}\\u{9b}\\u{202e}");\n'})
        for words in (
            ["test", "."],
            ["test", "--json", "."],
            ["run", f"missing{TITLE}"],
            ["run", "b.vega"],
            ["run", f"--{TITLE}"],
            ["runs"],
            [TITLE],
            ["code", "--session", f"x{TITLE}", "-p", "x"],
            ["code", "--resume", f"x{TITLE}", "-p", "x"],
            ["code", "--list"],
        ):
            done = it.run("vega", *words)
            assert not {*"\x1b\x07\x9b\u202e"} & {*done.out, *done.err}, words
        assert "no session was begun" in it.run("vega", "code", "--list").out.lower()


PROGRAM = 'fn main() {\n    print("hi");\n}\n'
NODE = ROOT / "examples/nodes/refund.vsp"
WRITERS = [
    ("vega build x.vega", "x.vgb"),
    ("vega explain x.vega --svg x.svg", "x.svg"),
    ("vega node compile refund.vsp -o x.py", "x.py"),
]


def test_formatting_and_a_new_project_follow_no_link(wheel: Path) -> None:
    """A repository brings links with the names that `vega fmt` and `vega init` write."""
    with stage(wheel) as it:
        own = it.home / "own"
        own.mkdir()
        (own / "x.vega").write_text("fn main(){}")
        (it.folder / "x.vega").symlink_to(own / "x.vega")
        (it.folder / ".github").symlink_to(own)
        assert it.run("vega", "fmt", "x.vega").code == 1
        assert it.run("vega", "init").code == 1
        assert [path.name for path in own.iterdir()] == ["x.vega"]
        assert (own / "x.vega").read_text() == "fn main(){}"


@pytest.mark.parametrize(("command", "name"), WRITERS)
def test_a_result_is_not_written_through_a_link(wheel: Path, command: str, name: str) -> None:
    """A link is refused; a file that has another name, too, keeps its content there."""
    with stage(wheel) as it:
        it.write({"x.vega": PROGRAM, "refund.vsp": NODE.read_text(encoding="utf-8")})
        own = it.home / ".bashrc"
        own.write_text("alias ll=ls\n")
        (it.folder / name).symlink_to(own)
        done = it.run(*command.split())
        assert (done.code, own.read_text()) == (1, "alias ll=ls\n")
        assert f"cannot write {name}: it is a link" in done.err, done.err
        (it.folder / name).unlink()
        os.link(own, it.folder / name)
        it.run_well(*command.split())
        assert own.read_text() == "alias ll=ls\n"
        assert (it.folder / name).stat().st_size > 100


@pytest.mark.parametrize(
    "command",
    [
        "vega build x.vega -o out/x",
        "vega explain x.vega --svg out/x",
        "vega node compile refund.vsp -o out/x",
    ],
)
def test_a_result_is_not_written_through_a_linked_folder(wheel: Path, command: str) -> None:
    """A link that came with the files leads to a folder elsewhere; its owner may name that."""
    with stage(wheel) as it:
        it.write({"x.vega": PROGRAM, "refund.vsp": NODE.read_text(encoding="utf-8")})
        own = it.home / "own"
        own.mkdir()
        (it.folder / "out").symlink_to(own)
        done = it.run(*command.split())
        assert (done.code, [*own.iterdir()]) == (1, [])
        assert f"cannot write out/x: a link leads out to {own}" in done.err, done.err
        for meant in (f"{own}/x", "../x"):
            it.run_well(*command.replace("out/x", meant).split())
        (it.folder / "real").mkdir()
        (it.folder / "out").unlink()
        (it.folder / "out").symlink_to("real")
        it.run_well(*command.split())
