"""Worktrees: a second folder of a repository, with a branch of its own, in which a session works
beside what is open in the first.

    vega code --worktree NAME ─▶ DATA/worktrees/REPOSITORY/NAME, branch vega/NAME ─▶ its sessions

Git is run here outside of the sandbox, as it writes to two folders; so it is run as the tool `git`
runs it: no hooks, no settings of the user, and a repository whose settings name a program that a
checkout would start is refused.
"""

import os
import re
import subprocess
from pathlib import Path

from msgspec import Struct

from vegakit.config import carry_trust, environment_with
from vegakit.errors import UserError
from vegakit.records import digest128
from vegakit.sage.environment import git_root, ignored_git
from vegakit.sage.tools.git import GIT_OPTIONS, GIT_PROGRAMS, GIT_VARIABLES

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_BRANCH = "vega/"
_PATIENCE_S = 120
_SHOWN = 300


class Worktree(Struct, frozen=True):
    """A worktree that was made here. `changed` counts files with changes that no commit has, and
    `commits` those of its branch that the repository's own branch has not."""

    name: str
    folder: str
    branch: str
    changed: int = 0
    commits: int = 0


def open_worktree(folder: Path, name: str, data: Path) -> Worktree:
    """Return the worktree of this name, made if there is none; without a name a new one is made,
    with the first free name."""
    root = _repository(folder)
    place = _place(root, data)
    if name and not _NAME.fullmatch(name):
        raise UserError(
            f"{name[:80]!a} cannot be the name of a worktree; take small letters, digits and "
            "hyphens, 40 at most, such as fix-login"
        )
    known = {one.name for one in list_worktrees(folder, data)}
    if not name:
        name = next(f"w{n}" for n in range(1, len(known) + 2) if f"w{n}" not in known)
    made, branch = place / name, f"{_BRANCH}{name}"
    if name not in known:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        has_branch = not _git(
            root, "rev-parse", "-q", "--verify", f"refs/heads/{branch}"
        ).returncode
        words = [str(made), branch] if has_branch else ["-b", branch, str(made)]
        _done(root, "worktree", "add", "-q", *words)
        carry_trust(root, made)
    return Worktree(name, str(made), branch)


def list_worktrees(folder: Path, data: Path) -> list[Worktree]:
    """Return the worktrees of the repository that were made here, by name."""
    root = _repository(folder)
    place = _place(root, data).resolve()
    listed = _done(root, "worktree", "list", "--porcelain", "-z").split("\0")
    paths = [
        Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")
    ]
    ours = sorted(path for path in paths if path.resolve().parent == place and path.is_dir())
    return [_looked_at(root, path) for path in ours]


def remove_worktree(folder: Path, name: str, data: Path) -> Worktree:
    """Remove a worktree that has no changes which no commit has. Its branch stays while it has
    commits of its own."""
    found = {one.name: one for one in list_worktrees(folder, data)}
    if name not in found:
        known = ", ".join(found) or "none"
        raise UserError(f"there is no worktree {name[:80]!a}; there are: {known}")
    one, root = found[name], _repository(folder)
    if one.changed:
        raise UserError(
            f"{one.changed} files of the worktree {name} have changes that no commit has, so it is "
            f"not removed; commit them, or take them back: cd {one.folder} && git status"
        )
    _done(root, "worktree", "remove", one.folder)
    if not one.commits:
        _done(root, "branch", "-q", "-D", one.branch)
    return one


def _looked_at(root: Path, path: Path) -> Worktree:
    branch = f"{_BRANCH}{path.name}"
    changed = _done(path, "status", "--porcelain", "-z", "--no-renames").split("\0")
    commits = _git(root, "rev-list", "--count", f"HEAD..{branch}").stdout.strip()
    return Worktree(
        path.name, str(path), branch, len([one for one in changed if one]), int(commits or 0)
    )


def _place(root: Path, data: Path) -> Path:
    return data / "worktrees" / f"{root.name[:40]}-{digest128(str(root))[:8]}"


def _repository(folder: Path) -> Path:
    """Return the folder of the repository itself, also from a worktree of it."""
    root = git_root(folder.resolve())
    if root is None:
        advice = "; ".join(ignored_git(folder.resolve())) or "type: git init"
        raise UserError(f"{folder} is in no git repository, so it has no worktrees; {advice}")
    named = _git(root, "config", "--local", "--no-includes", "--list", "--name-only", "-z").stdout
    if found := [key for key in named.split("\0") if GIT_PROGRAMS.fullmatch(key)]:
        raise UserError(
            f"the settings of this repository name a program or other settings ({found[0]}), which "
            "is not run here; make the worktree yourself: git worktree add ../NAME, then run vega "
            "code there"
        )
    common = _done(root, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()
    return Path(common).parent


def _git(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    options = [word for option in GIT_OPTIONS for word in ("-c", option)]
    named = (one.partition("=") for one in GIT_VARIABLES)
    variables = {name: value for name, _, value in named}
    try:
        return subprocess.run(  # noqa: S603  (words of ours, and names that were checked)
            ["git", "-C", str(folder), *options, *words],  # noqa: S607
            env=environment_with(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )
    except FileNotFoundError:
        raise UserError("git is not installed, and worktrees are made by it; install it") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"git took longer than {_PATIENCE_S} s; look at it: git status") from None


def _done(folder: Path, *words: str) -> str:
    ran = _git(folder, *words)
    if ran.returncode:
        said = " ".join(ran.stderr.split())[:_SHOWN]
        raise UserError(f"git {words[0]} failed: {said}; look at it: cd {os.fspath(folder)}")
    return ran.stdout
