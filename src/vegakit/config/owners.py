"""Decide whose files may steer your agents: yours, root's, and those that you trust.

Settings, instructions, skills and `.git` are found by their names, in a folder and above it. In a
folder that several users write to, such as /tmp, anybody may put some of these names there. So what
belongs to another user is ignored, as git ignores a repository outside of `safe.directory`, and a
warning names it once. It counts if you trust that exact file, or a folder above it: then the files
of the owner of that folder count there, as in a container where root works on files of a user.

A link has two owners: its own, and that of what it leads to. Windows has no such owners.
"""

import hashlib
import logging
import os
import shlex
from functools import lru_cache
from pathlib import Path

_LOG = logging.getLogger("vegakit")
_ROOT = 0
_MOST_BYTES = 1 << 20


def may_steer(path: Path, sha256: str | None = None, config_dir: Path | None = None) -> bool:
    """Return whether a file or folder may steer agents. The log names one that may not, once."""
    why = why_ignored(path, sha256, config_dir)
    if why:
        _warn(why)
    return not why


def why_ignored(path: Path, sha256: str | None = None, config_dir: Path | None = None) -> str:
    """Return why a file or folder may not steer agents, and what to type; nothing if it may. Give
    the `sha256` of what was read already: the owner may exchange the file meanwhile."""
    strangers = _strangers(path)
    if not strangers or _is_trusted(path, sha256, strangers, config_dir):
        return ""
    user, place = min(strangers), path
    condition = "look at it, and if you trust it"
    if stranger_of(path.parent) == user:
        place = path.parent
        condition = f"if you trust all that this user puts into {place}"
    return (
        f"{path} is ignored: it belongs to {name_of_user(user)} and you are "
        f"{name_of_user(os.geteuid())}, so another user would steer your agents; {condition}, "
        f"type: vega config trust {shlex.quote(str(place))}"
    )


def stranger_of(path: Path) -> int | None:
    """Return the user to whom a file or folder belongs if that is neither you nor root."""
    return min(_strangers(path), default=None)


def name_of_user(user: int) -> str:
    """Return what a user is called, with the number."""
    import pwd  # not on Windows

    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"


def trust_of_owner(user: int) -> str:
    """Return what stands in the record of trust for a folder, in place of a hash."""
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


def _is_trusted(
    path: Path, sha256: str | None, strangers: set[int], config_dir: Path | None
) -> bool:
    from vegakit.config.layers import trusted_files, user_config_dir  # only where it is needed

    record = trusted_files(config_dir or user_config_dir())
    if all(
        any(record.get(place) == trust_of_owner(user) for place in (path, *path.parents))
        for user in strangers
    ):
        return True
    return path in record and record[path] == (_sha256(path) if sha256 is None else sha256)


def _sha256(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.sha256(file.read(_MOST_BYTES)).hexdigest()


@lru_cache(maxsize=256)
def _warn(text: str) -> None:
    _LOG.warning("%s", text)
