"""Tell the agent once where it is: the date, the state of git and the names at the top of the
workspace. Later only what changed is told, with the next prompt, so that the beginning of a request
never changes.

Nothing is run for it. Of `.git` two small files are read, without following a link: a command of
git would act on the settings of the repository, which may name programs. And refuse a folder in
which an agent could change what its person allowed.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from vegakit.config import Settings, record_path, small_file, why_ignored
from vegakit.errors import UserError
from vegakit.tools import is_protected

_DATE, _GIT, _NAMES = "date", "git", "names"
_TOLD = {
    _DATE: "The date is {} (UTC).",
    _GIT: "git: {}.",
    _NAMES: "At the top of the workspace: {}",
}
_TOLD_AGAIN = {
    _DATE: "The date is now {} (UTC).",
    _GIT: "git: now {}.",
    _NAMES: "At the top of the workspace there is now: {}",
}
_MOST_NAMES_BYTES, _LONGEST_NAME, _MOST_SCANNED = 600, 60, 2_000
_MOST_PACKED = 1 << 18
_LEVELS = 32
_BRANCH = re.compile(r"ref: refs/heads/([\w./+@=-]{1,100})\s*")
_COMMIT = re.compile(r"([0-9a-f]{40,64})\s*")
_GIT_FOLDER = re.compile(r"gitdir: ([^\n\0]{1,900})\n?")
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


def environment_of(folder: Path, now_ms: int) -> dict[str, str]:
    """Return the facts about a workspace; it looks at the disk, so call it in a thread."""
    found = {
        _DATE: datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat(),
        _GIT: _git_state(folder),
        _NAMES: _names_in(folder),
    }
    return {name: text for name, text in found.items() if text}


def environment_notes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return what to tell of the facts: all of them once, later those that changed."""
    form = _TOLD_AGAIN if before else _TOLD
    told = [form[name].format(text) for name, text in now.items() if before.get(name) != text]
    gone = before.keys() - now.keys()
    told += ["git: the workspace is in no repository any more."] if _GIT in gone else []
    told += ["The workspace is empty now."] if _NAMES in gone else []
    return ["\n".join(told)] if told else []


def git_root(folder: Path) -> Path | None:
    """Return the folder of the repository that a workspace is in. A `.git` that another user put
    there is none."""
    places = _places_with_git(folder)
    return next((place for place in places if not why_ignored(place / ".git")), None)


def ignored_git(folder: Path) -> list[str]:
    """Return why each `.git` that is nearer than that of the repository is ignored."""
    reasons = (why_ignored(place / ".git") for place in _places_with_git(folder))
    return list(takewhile(bool, reasons))


def _places_with_git(folder: Path) -> Iterator[Path]:
    places = (folder, *folder.parents)[:_LEVELS]
    return (place for place in places if os.path.lexists(place / ".git"))


def _git_state(folder: Path) -> str:
    root = git_root(folder)
    if root is None:
        return ""
    place = root / ".git"
    if linked := _GIT_FOLDER.fullmatch(small_file(place)):
        place = root / linked[1]  # of a second work tree, or of a submodule
    head = small_file(place / "HEAD")
    if branch := _BRANCH.fullmatch(head):
        commit = _commit_of(place, f"refs/heads/{branch[1]}")
        state = f"branch {branch[1]}, " + (f"at {commit[:10]}" if commit else "no commit yet")
    elif commit := _COMMIT.fullmatch(head):
        state = f"no branch, at {commit[1][:10]}"
    else:
        return ""
    doing = (word for name, word in _UNDER_WAY.items() if os.path.lexists(place / name))
    under_way = next(doing, "")
    return f"{state}, {under_way} is under way" if under_way else state


def _commit_of(place: Path, ref: str) -> str:
    if ".." in ref:
        return ""
    if found := _COMMIT.fullmatch(small_file(place / ref)):
        return found[1]
    packed = small_file(place / "packed-refs", _MOST_PACKED)
    rows = (row.partition(" ") for row in packed.splitlines())
    return next((commit for commit, _, name in rows if name == ref and _COMMIT.match(commit)), "")


def _names_in(folder: Path) -> str:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name != ".git" and len(names) < _MOST_SCANNED:
                    names.append(_shown(entry))
    except OSError:
        return ""
    size = 0

    def fits(name: str) -> bool:
        nonlocal size
        size += len(name.encode()) + 2
        return size <= _MOST_NAMES_BYTES

    names.sort()
    shown = list(takewhile(fits, names))
    more = [f"and {len(names) - len(shown):,} more"] if len(shown) < len(names) else []
    return ", ".join([*shown, *more])


def _shown(entry: "os.DirEntry[str]") -> str:
    # A name is text of others: on one line, and no longer than a name is.
    plain = entry.name.encode("utf-8", "replace").decode()
    clean = "".join(one if one.isprintable() else "?" for one in plain)[:_LONGEST_NAME]
    return f"{clean}/" if entry.is_dir(follow_symlinks=False) else clean


def check_workspace(folder: Path, settings: Settings) -> None:
    """Refuse a home, all that holds one, and a folder that holds the user's own data: who writes
    there could change what starts with the user's next login, trust what a project says, or raise
    a budget, in the user's place."""
    record = record_path()
    places = [settings.data_path.resolve(), *([] if record is None else [record.parent.resolve()])]
    inside = [place for place in places if place.is_relative_to(folder)]
    open_places = [place for place in inside if not is_protected(str(place.relative_to(folder)))]
    if Path.home().resolve().is_relative_to(folder):
        what = "holds your home"
    elif open_places:
        what = f"holds your own data of Vega, in {open_places[0]}"
    else:
        return
    raise UserError(
        f"{folder} {what}, and an agent that works there could change what you allowed; go into "
        "the folder of a project, and type it again"
    )
