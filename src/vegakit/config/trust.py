"""Decide whose folders steer your agents: those that you trust.

    vega trust FOLDER ─▶ DATA/trusted.json: the folder, its owner, what starts there unasked
    a folder counts  ◀─ it lies in a trusted folder, or is a git worktree of a repository that does

In any other folder, settings, instructions and skills are text that came with the folder. Two
things are checked in a trusted folder too. A file that belongs neither to you, nor to root, nor to
the owner of the trusted folder is ignored: in a folder such as /tmp anybody may put one. And what
starts without being named (hooks, servers, addresses) starts as you accepted it: it has a digest.

Everything here is decided by reading files. Git is not run.
"""

import hashlib
import json
import logging
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, to_builtins

from vegakit.config.places import FILE_NAME, find_settings_paths
from vegakit.errors import InvalidRecordError, SettingsError
from vegakit.records import from_json

_LOG = logging.getLogger("vegakit")
_ROOT = 0
_VARIABLE = "VEGA_TRUSTED_FOLDERS"
_RECORD = "trusted.json"
_MOST_LINE = 4_096
_MOST_READ = 1_024
_MOST_FILES = 128
_MOST_BYTES = 65_536
_READ_PLAIN = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "CLOEXEC"))
"""Windows has none of these."""
EXTENSION_FOLDERS = ("agents", "commands", "hooks", "tools")
"""The folders with what extends the coding agent, in `.vega` of a project."""
INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
SKILL_FOLDERS = (".agents/skills", ".vega/skills", ".claude/skills")


class Trust(Struct, frozen=True):
    """The trust in a folder: its owner, the other users whose files count there, and by its name
    the digest of whatever may start there unasked. Without digests everything may."""

    owner: int
    others: tuple[int, ...] = ()
    starts: dict[str, str] | None = None

    def accepts(self, name: str, digest: str) -> bool:
        """Return whether something may start without being named."""
        return self.starts is None or self.starts.get(name) == digest


class TrustRecord(Struct, frozen=True):
    """Holds what the user trusts: folders by path, and the rights of programs elsewhere."""

    folders: dict[str, Trust] = {}
    rights: dict[str, tuple[str, ...]] = {}


# Which folders are trusted.


def find_trust(folder: Path, environment: Mapping[str, str] = os.environ) -> Trust | None:
    """Return the trust that covers a folder. What the environment says comes first."""
    for known in (_from_variable(environment), trust_record(environment).folders):
        for place in _folders_of(folder) if known else ():
            trust = known.get(str(place))
            if trust is not None and trust.owner == _owner_of(place):
                return trust
    return None


def trust_folder(
    folder: Path, starts: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> None:
    """Record that the user trusts a folder, and accepts what starts there."""
    place = _resolved(folder)
    record = trust_record(environment)
    trust = Trust(_owner_of(place), other_owners(place), dict(starts))
    write_trust(TrustRecord({**record.folders, str(place): trust}, record.rights), environment)


def trust_for_this_process(folder: Path) -> None:
    """Trust a folder here and in the processes that this one starts. Nothing is recorded."""
    folders = [str(_resolved(folder)), *filter(None, [os.environ.get(_VARIABLE)])]
    os.environ[_VARIABLE] = os.pathsep.join(folders)


def record_path(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of the record, in the user's own data folder. Without a home there is none:
    data then lies in the current folder, which others may have made."""
    data = find_settings_paths(environment, Path.cwd()).data_dir
    return None if data.name == ".vega" else data / _RECORD


def trust_record(environment: Mapping[str, str] = os.environ) -> TrustRecord:
    """Return what the user trusts. A record that is not there or is damaged trusts nothing."""
    path = record_path(environment)
    try:
        return TrustRecord() if path is None else from_json(TrustRecord, path.read_bytes())
    except (OSError, InvalidRecordError):
        return TrustRecord()


def write_trust(record: TrustRecord, environment: Mapping[str, str] = os.environ) -> None:
    """Replace the record in one step, so that a reader never sees half of it."""
    path = record_path(environment)
    if path is None:
        raise SettingsError("trust is recorded in your home directory; set HOME and try again")
    fresh = path.with_name(f"{_RECORD}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.write_text(json.dumps(to_builtins(record), indent=2, sort_keys=True), "utf-8")
        fresh.replace(path)
    except OSError as error:
        raise SettingsError(f"trust could not be recorded in {path.parent}: {error}") from error


def _from_variable(environment: Mapping[str, str]) -> dict[str, Trust]:
    listed = map(Path, environment.get(_VARIABLE, "").split(os.pathsep))
    folders = (_resolved(folder) for folder in listed if folder.is_absolute())
    return {str(folder): Trust(_owner_of(folder)) for folder in folders}


def _folders_of(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it; then the same of the repository of its worktree."""
    place = _resolved(folder)
    yield from (place, *place.parents)
    for each in (place, *place.parents):
        link = each / ".git"
        if os.path.lexists(link):
            common = common_git_folder(link)
            yield from () if common is None else (common, *common.parents)
            return


def common_git_folder(link: Path) -> Path | None:
    """Return the repository that a worktree belongs to, if the repository names this worktree. Else
    whoever made the folder chose a repository of yours for it."""
    linked = _path_in(link, "gitdir: ")
    common = None if linked is None else _path_in(linked / "commondir")
    if linked is None or common is None or linked.parent != common / "worktrees":
        return None
    return common if _path_in(linked / "gitdir") == link else None


def _path_in(file: Path, begin: str = "") -> Path | None:
    """Return the path that a small file of git holds."""
    line = small_file(file, _MOST_LINE).rstrip("\n")
    if len(line) <= len(begin) or not line.startswith(begin) or "\0" in line:
        return None
    return _resolved(file.parent / line.removeprefix(begin))


def _resolved(path: Path) -> Path:
    # A loop of links is an error to `Path.resolve`, and none to this.
    return Path(os.path.realpath(path))


def _owner_of(path: Path) -> int:
    """Return the owner of a folder, and -1 if it is not there. On Windows all are 0."""
    try:
        return path.stat().st_uid
    except OSError:
        return -1


def small_file(path: Path, most: int = _MOST_READ) -> str:
    """Return the beginning of a plain file, or nothing: what is there may be a link, a pipe or a
    folder."""
    try:
        file = os.open(path, _READ_PLAIN)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return ""
        return os.read(file, most).decode("utf-8", errors="replace")
    finally:
        os.close(file)


# Programs and servers that a folder starts unasked, and the text about them.


def digest_of(name: str, content: bytes) -> str:
    """Return the digest of something that starts without being named, by which it is known."""
    return hashlib.sha256(name.encode() + b"\0" + content).hexdigest()


def extension_digests(folder: Path) -> dict[str, str]:
    """Return the digests of the files that extend the coding agent in a folder, by name."""
    return {
        f".vega/{kind}/{file.name}": digest_of(f".vega/{kind}/{file.name}", file.read_bytes())
        for kind in EXTENSION_FOLDERS
        for file in sorted((folder / ".vega" / kind).glob("*"))[:_MOST_FILES]
        if file.is_file() and not file.is_symlink() and file.stat().st_size <= _MOST_BYTES
    }


def steering_names(folder: Path) -> list[str]:
    """Return the names in a folder that would steer an agent there if the folder were trusted."""
    names = (FILE_NAME, *INSTRUCTION_FILES, *SKILL_FOLDERS)
    extensions = (f".vega/{kind}" for kind in EXTENSION_FOLDERS)
    return [name for name in (*names, *extensions) if (folder / name).exists()]


def why_unused(folder: Path, names: list[str], environment: Mapping[str, str] = os.environ) -> str:
    """Return why files of a folder are not used, and what to type; nothing if they are."""
    if not names or find_trust(folder, environment) is not None:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{', '.join(names)} of {folder} {verb} not used: you have not trusted this folder, so "
        "only your own settings hold; to see what it would change, type: "
        f"{trust_command(folder)}"
    )


def trust_command(folder: Path) -> str:
    """Return what to type to trust a folder."""
    return f"vega trust {shlex.quote(str(folder))}"


# Files of other users.


def may_steer(path: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the owner of a file or folder may steer agents. The log names one that may
    not, once."""
    why = why_ignored(path, environment)
    if why:
        warn_once(why)
    return not why


def why_ignored(path: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Return why the owner of a file or folder may not steer agents, and what to type; nothing if
    the owner may. A link has two owners: its own, and that of what it leads to."""
    strangers = _strangers(path)
    if not strangers:
        return ""
    folder = path.parent
    trust = find_trust(folder, environment)
    if trust is not None and strangers <= {trust.owner, *trust.others}:
        return ""
    user = min(strangers)
    return (
        f"{path} is ignored: it belongs to {name_of_user(user)} and you are "
        f"{name_of_user(os.geteuid())}, so another user would steer your agents; if you trust what "
        f"this user puts into {folder}, type: {trust_command(folder)}"
    )


def other_owners(folder: Path) -> tuple[int, ...]:
    """Return the users, apart from you and root, to whom a folder or what steers in it belongs."""
    places = (folder / name for name in (".", ".git", *steering_names(folder)))
    return tuple(sorted(set[int]().union(*map(_strangers, places))))


def name_of_user(user: int) -> str:
    """Return what a user is called, with the number."""
    import pwd  # not on Windows

    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"


def _strangers(path: Path) -> set[int]:
    if not hasattr(os, "geteuid"):
        return set()
    owners: set[int] = set()
    for follow in (False, True):
        try:
            owners.add(path.stat(follow_symlinks=follow).st_uid)
        except OSError:  # it is gone, or leads nowhere
            continue
    return owners - {_ROOT, os.geteuid()}


@lru_cache(maxsize=256)
def warn_once(text: str) -> None:
    """Write a warning to the log, once in a process."""
    _LOG.warning("%s", text)
