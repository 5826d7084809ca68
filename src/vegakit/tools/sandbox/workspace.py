"""What of a workspace a command may neither read nor change, found before it starts.

| found in the workspace                                  | the command                            |
|---------------------------------------------------------|----------------------------------------|
| a name that holds secrets, such as `.env`               | finds it empty                         |
| a name that other programs act on, such as `.git`       | may read it                            |
| that name at the top where it is absent                 | cannot make it                         |
| that name made further down, or what looks like a repo  | may make it; it is set aside afterwards|
| a file that has another name outside                    | may read it: it would change that too  |
| a file of a runtime, such as `run.db` or `audit.db`     | may read it                            |

Names are compared without regard to case, because some file systems do so.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field

from vegakit.errors import UserError
from vegakit.tools.confined.protected import is_ours

__all__ = ["FROZEN_FILES", "FROZEN_FOLDERS", "Found", "look", "look_over", "set_aside", "tidied"]

FROZEN_FOLDERS = (".git", ".vega", ".vscode", ".idea", ".claude", ".codex", ".cursor", ".agents")
FROZEN_FILES = (".mcp.json", ".envrc", ".npmrc", "vega.toml")
_FROZEN = frozenset({*FROZEN_FOLDERS, *FROZEN_FILES, ".husky", ".devcontainer"})
_FROZEN_AT_THE_TOP = frozenset({"tools.yaml"})
"""Further down it is another program's."""
_SECRET = (
    *(".env", ".env.*", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials"),
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".config/gcloud"),
    *("id_rsa", "id_ecdsa", "id_ed25519", "*.pem", "*.p12", "*.pfx", "*.kdbx"),
)
_NO_SECRET = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_REPOSITORY = frozenset({"head", "objects", "refs"})
_SMALL = 500
_FEW = 16
"""More linked files below one name at the top, and all of it is frozen: each costs a mount."""


class Found(Struct):
    """`frozen` by (device, inode), so that a moved one is known again. `empty` are frozen names at
    the top with nothing in them: perhaps the guard of another process, which it takes away."""

    frozen: dict[tuple[int, int], Path] = field(default_factory=dict[tuple[int, int], Path])
    secret: list[Path] = field(default_factory=list[Path])
    linked: list[Path] = field(default_factory=list[Path])
    absent: list[Path] = field(default_factory=list[Path])
    empty: list[Path] = field(default_factory=list[Path])


async def look_over(workspace: Path) -> Found:
    """A small workspace at once: a thread's turn would cost more than the look."""
    return _look(workspace, _SMALL) or await asyncio.to_thread(look, workspace)


def look(workspace: Path) -> Found:
    found = _look(workspace, sys.maxsize)
    assert found is not None
    return found


def _look(workspace: Path, most: int) -> Found | None:
    found = Found()
    links: dict[tuple[int, int], list[Path]] = {}
    ours: list[Path] = []
    counts: dict[tuple[int, int], int] = {}
    for count, entry in enumerate(_entries(workspace, found)):
        if count == most:
            return None
        if entry.is_file(follow_symlinks=False):
            if is_ours(entry.name.casefold()):
                ours.append(Path(entry.path))
            about = entry.stat(follow_symlinks=False)
            if about.st_nlink > 1:
                links.setdefault((about.st_dev, about.st_ino), []).append(Path(entry.path))
                counts[about.st_dev, about.st_ino] = about.st_nlink
    outside = [path for at, paths in links.items() if len(paths) < counts[at] for path in paths]
    found.linked = [*_few_each(workspace, outside), *ours]
    present = {entry.name.casefold() for entry in os.scandir(workspace)}
    found.absent = [
        workspace / name for name in (*FROZEN_FOLDERS, *FROZEN_FILES) if name not in present
    ]
    return found


@asynccontextmanager
async def tidied(
    workspace: Path, before: Found, stubs: Callable[[], Sequence[Path]]
) -> AsyncGenerator[list[str]]:
    """What is planted in the block is set aside, however the block is left; the notes are there
    afterwards. Who is cancelled while he looks has the loop wait for it."""
    notes: list[str] = []
    try:
        yield notes
    finally:
        looking = asyncio.ensure_future(look_over(workspace))
        try:
            after = await asyncio.shield(looking)
        except asyncio.CancelledError:
            looking.cancel()
            set_aside(before, look(workspace), stubs())
            raise
        notes += set_aside(before, after, stubs())


def set_aside(before: Found, after: Found, stubs: Sequence[Path]) -> list[str]:
    """What was planted gets a name that nobody acts on."""
    notes: list[str] = []
    for at, path in after.frozen.items():
        if at in before.frozen or path in stubs:
            continue
        harmless = _free_name(path)
        path.rename(harmless)
        notes.append(
            f"{path.name} in {path.parent} was set aside as {harmless.name}: programs outside the "
            "sandbox act on that name; look at it, then rename it back"
        )
    return notes


def _entries(folder: Path, found: Found) -> Iterator[os.DirEntry[str]]:
    """Neither frozen nor secret."""
    folders = [str(folder)]
    while folders:
        here = folders.pop()
        try:
            entries = list(os.scandir(here))
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            continue  # what we cannot enter, the command cannot either
        if here != str(folder) and {entry.name.casefold() for entry in entries} >= _REPOSITORY:
            about = Path(here).lstat()
            found.frozen[about.st_dev, about.st_ino] = Path(here)
            continue
        for entry in entries:
            if _sorted_out(entry, folder, found):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            yield entry


def _sorted_out(entry: os.DirEntry[str], workspace: Path, found: Found) -> bool:
    name = entry.name.casefold()
    if name not in _NO_SECRET and any(fnmatchcase(name, rule) for rule in _SECRET):
        target = Path(entry.path).resolve()
        if target.is_relative_to(workspace):
            found.secret.append(target)
        return not entry.is_symlink()
    if name not in _FROZEN and name not in _FROZEN_AT_THE_TOP:
        return False
    path = Path(entry.path)
    if name not in _FROZEN and path.parent != workspace:
        return False
    if path.parent == workspace and path.is_symlink():
        raise UserError(
            f"{path} is a symbolic link, which a command could replace; "
            "put the real file or folder there"
        )
    if path.parent == workspace and _is_empty(path):
        found.empty.append(path)
    else:
        about = path.lstat()
        found.frozen[about.st_dev, about.st_ino] = path
    return True


def _is_empty(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else path.stat().st_size == 0


def _few_each(workspace: Path, paths: list[Path]) -> list[Path]:
    tops = Counter(path.relative_to(workspace).parts[0] for path in paths)
    many = {name for name, count in tops.items() if count > _FEW}
    few = [path for path in paths if path.relative_to(workspace).parts[0] not in many]
    return [*few, *(workspace / name for name in sorted(many))]


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.set-aside-{number}") for number in range(1, 1000))
    return next(name for name in names if not os.path.lexists(name))
