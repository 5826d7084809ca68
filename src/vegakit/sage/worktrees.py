"""Worktrees: a second folder of a repository, with a branch of its own, in which a session works
beside what is open in the first.

    vega code --worktree NAME ─▶ DATA/worktrees/REPOSITORY/NAME, branch vega/NAME ─▶ its sessions

Somebody else may have made the repository. So git runs in a sandbox, without network and without
hooks, that holds the `.git` of the repository and the folder of its worktrees and none of your
other files, and it runs only if all settings are on the list of harmless ones.

| danger                                       | why it comes to nothing                           |
|----------------------------------------------|---------------------------------------------------|
| a setting, or a hook, that names a program   | refused, or turned off (`git_settings`)           |
| settings that include others                 | refused by their name                             |
| a `.git` that leads to another repository    | refused, unless that one names it as its worktree |
| links in `.git`, to have git write elsewhere | nothing else is there in the sandbox              |
| objects that are missing, to be fetched      | there is no network, and no protocol is allowed   |
"""

import os
import re
import subprocess
from pathlib import Path

from msgspec import Struct

from vegakit.config import common_git_folder, small_file
from vegakit.errors import UserError
from vegakit.policy import sanitise
from vegakit.records import digest128
from vegakit.sage.environment import git_root, ignored_git
from vegakit.sage.git_settings import find_refused_setting, git_command
from vegakit.tools import run_confined

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_BRANCH = "vega/"
_PATIENCE_S = 120
_SHOWN = 300
_NO_PROGRAM = 127


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
    repository = _repository(folder, data)
    if name and not _NAME.fullmatch(name):
        raise UserError(
            f"{name[:80]!a} cannot be the name of a worktree; take small letters, digits and "
            "hyphens, 40 at most, such as fix-login"
        )
    known = {one.name for one in _worktrees_of(repository)}
    if not name:
        name = next(f"w{n}" for n in range(1, len(known) + 2) if f"w{n}" not in known)
    made = repository.place / name
    branch = f"{_BRANCH}{name}"
    if name not in known:
        repository.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = ("rev-parse", "-q", "--verify", f"refs/heads/{branch}")
        has_branch = not repository.git(*wanted).returncode
        words = [str(made), branch] if has_branch else ["-b", branch, str(made)]
        repository.run("worktree", "add", "-q", *words)
    return Worktree(name, str(made), branch)


def list_worktrees(folder: Path, data: Path) -> list[Worktree]:
    """Return the worktrees of the repository that were made here, by name."""
    return _worktrees_of(_repository(folder, data))


def remove_worktree(folder: Path, name: str, data: Path) -> Worktree:
    """Remove a worktree that has no changes which no commit has. Its branch stays while it has
    commits of its own."""
    repository = _repository(folder, data)
    found = {one.name: one for one in _worktrees_of(repository)}
    if name not in found:
        known = ", ".join(found) or "none"
        raise UserError(f"there is no worktree {name[:80]!a}; there are: {known}")
    one = found[name]
    if one.changed:
        raise UserError(
            f"{one.changed} files of the worktree {name} have changes that no commit has, so it is "
            f"not removed; commit them, or take them back: cd {one.folder} && git status"
        )
    repository.run("worktree", "remove", one.folder)
    if not one.commits:
        repository.run("branch", "-q", "-D", one.branch)
    return one


class _Repository(Struct, frozen=True):
    """A repository whose settings were looked at. `place` is the folder of its worktrees."""

    root: Path
    place: Path

    def run(self, *words: str, folder: Path | None = None) -> str:
        """Return what git says, or raise `UserError` with its error."""
        ran = self.git(*words, folder=folder)
        if ran.returncode:
            said = sanitise(" ".join(ran.stderr.decode(errors="replace").split())[:_SHOWN])
            raise UserError(f"git {words[0]} failed: {said}; look at it: cd {folder or self.root}")
        return os.fsdecode(ran.stdout)

    def git(self, *words: str, folder: Path | None = None) -> "subprocess.CompletedProcess[bytes]":
        """Run git in the sandbox, in the folder of the repository or in another."""
        command = git_command("-C", str(folder or self.root), *words)
        seen = [each for each in (self.root / ".git", self.place) if each.is_dir()]
        try:
            ran = run_confined(command, seen, _PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"git took longer than {_PATIENCE_S} s; look at it: git status"
            ) from None
        except UserError as error:
            raise _refusal(str(error)) from error
        if ran.returncode == _NO_PROGRAM:
            raise UserError("git is not installed, and worktrees are made by it; install it")
        return ran


def _worktrees_of(repository: _Repository) -> list[Worktree]:
    listed = repository.run("worktree", "list", "--porcelain", "-z").split("\0")
    paths = [
        Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")
    ]
    ours = sorted(path for path in paths if path.parent == repository.place and path.is_dir())
    return [_looked_at(repository, path) for path in ours]


def _looked_at(repository: _Repository, path: Path) -> Worktree:
    branch = f"{_BRANCH}{path.name}"
    look = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty")
    changed = repository.run(*look, folder=path).split("\0")
    commits = repository.git("rev-list", "--count", f"HEAD..{branch}").stdout.strip()
    return Worktree(
        path.name, str(path), branch, len([one for one in changed if one]), int(commits or 0)
    )


def _repository(folder: Path, data: Path) -> _Repository:
    """Return the repository of a folder, also from a worktree of it."""
    start = git_root(folder.resolve())
    if start is None:
        advice = "; ".join(ignored_git(folder.resolve())) or "type: git init"
        raise UserError(f"{folder} is in no git repository, so it has no worktrees; {advice}")
    root = _common_folder(start).parent
    place = data / "worktrees" / f"{root.name[:40]}-{digest128(str(root))[:8]}"
    repository = _Repository(root, place.resolve())
    settings = root / ".git" / "config"
    listed = repository.run("config", "--file", str(settings), "--no-includes", "--list", "-z")
    if refused := find_refused_setting([entry for entry in listed.split("\0") if entry]):
        raise _refusal(
            f"{settings} has the setting {refused[:_SHOWN]}, because of which git could run a "
            "program or reach other files"
        )
    return repository


def _common_folder(root: Path) -> Path:
    """Return the `.git` that holds the repository of a folder. From a worktree it lies elsewhere,
    and must name that worktree: else whoever made the folder chose a repository of yours for it."""
    place = root / ".git"
    if place.is_dir() and not place.is_symlink():
        if os.path.lexists(place / "commondir"):
            raise _refusal(f"{place / 'commondir'} leads to another repository")
        return place
    common = common_git_folder(place)
    if common is None or common.name != ".git":
        leads = small_file(place).strip()[:_SHOWN]
        raise _refusal(f"{place} says {leads!r}, and no repository there names it as its worktree")
    return _common_folder(common.parent)


def _refusal(why: str) -> UserError:
    return UserError(
        f"git is not run on this repository: {sanitise(why)}; if you trust the repository, make "
        "the worktree yourself: git worktree add ../NAME, then run vega code there"
    )
