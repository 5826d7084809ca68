"""When tools of a turn change files, and whose a change is that was seen.

A change is the turn's if a tool could have made it that ran when it was made. A tool that names its
paths makes none elsewhere. A command in the sandbox may write wherever nothing is guarded; what the
sandbox guards, such as `.git` and `.env`, somebody outside of it changed. Of all else that changes
while a command runs nobody can tell: it counts as the command's, undo says so, and a redo brings it
back. A command in the background may run for an hour, in which a person goes on with their work:
what changes while no other tool runs is kept, and named.
"""

import os
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from vegakit.tools import is_protected

# The time until which a process that was killed has lived.


SLACK_NS = 20_000_000
"""The clock of a file system may be behind by so much."""
_BEAT_S, SILENCE_NS = 0.1, 2_000_000_000
"""While a tool changes files, a file of the store is touched so often. After a kill its stamp says
when the tool ended: at most so much later, as a busy machine may not have run us for a while."""


class Heartbeat:
    """Touches a file while something goes on, in a thread that does not outlive this process."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def start(self) -> Event:
        """Begin to touch it, until the event is set."""
        is_over = Event()
        self._file.touch(mode=0o600)

        def beat() -> None:
            while not is_over.wait(_BEAT_S):
                with suppress(OSError):
                    os.utime(self._file)

        Thread(target=beat, name="vega undo beat", daemon=True).start()
        return is_over

    def last_ns(self) -> int:
        """Return when it was touched last, at the latest."""
        try:
            return min(time.time_ns(), self._file.stat().st_mtime_ns + SILENCE_NS)
        except OSError:
            return time.time_ns()


# When tools change files; also those of a session beside the one that has the store.


class Reach(StrEnum):
    """The reach of a tool that names no paths: how far it can write."""

    WHOLE = "whole"
    """All that changes is the turn's: nobody else is there."""
    ANY = "any"
    """Anywhere, as a server of somebody else's."""
    FILES = "files"
    """Where the sandbox guards nothing: a command."""
    JOB = "job"
    """As a command, but in the background, for so long that a person saves files meanwhile."""
    REPOSITORY = "repository"
    """As a command, and to the `.git` of the workspace."""


class ToolWindow(Struct):
    """When a tool changed files; `ended` is 0 while it runs. `paths` are those that it named, none
    for a command, which may have changed any within its `reach`."""

    began: int
    ended: int = 0
    paths: tuple[str, ...] = ()
    reach: Reach = Reach.ANY

    def spans(self, at: int) -> bool:
        """Say whether the tool ran then."""
        return self.began <= at <= (self.ended or at)

    def may_write(self, path: bytes, *, guarded: int | None) -> bool:
        """Say whether the tool can have changed a path. The sandbox guards it if it was there when
        the tool began; `guarded` says since when, None if never."""
        if self.paths:
            return self.names(path)
        if self.reach is Reach.REPOSITORY and (path == b".git" or path.startswith(b".git/")):
            return True
        is_guarded = guarded is not None and guarded < self.began
        return not is_guarded or self.reach in (Reach.WHOLE, Reach.ANY)

    def names(self, path: bytes) -> bool:
        """Say whether the tool named a path, or something below it."""
        shown = os.fsdecode(path)
        return any(one == shown or one.startswith(f"{shown}/") for one in self.paths)


_BESIDE = "beside"


@contextmanager
def window_beside(folder: Path, paths: Sequence[str], reach: Reach = Reach.ANY) -> Generator[None]:
    """Hold a window open in which a tool changes files while another session has the store. The
    file that says so is there before the first change, and is deleted by who has the store once it
    has looked at what changed."""
    if not folder.is_dir():  # nobody has the store
        yield
        return
    place = folder / _BESIDE
    place.mkdir(mode=0o700, exist_ok=True)
    file, began = place / uuid4().hex, time.time_ns() - SLACK_NS
    clean = clean_paths(paths)
    # Open ones have no end: until when they went is said by the stamp of their file.
    _write_whole(file, ToolWindow(began, 0, clean, reach))
    is_over = Heartbeat(file).start()
    try:
        yield
    finally:
        is_over.set()
        _write_whole(file, ToolWindow(began, time.time_ns(), clean, reach))


def clean_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return paths as the workspace lists them."""
    return tuple(os.path.normpath(path) for path in paths)


def windows_beside(folder: Path) -> dict[Path, ToolWindow]:
    """Return the windows of sessions beside, by their files."""
    found: dict[Path, ToolWindow] = {}
    with suppress(FileNotFoundError):
        for file in (folder / _BESIDE).iterdir():
            with suppress(FileNotFoundError, msgspec.DecodeError):
                window = msgspec.json.decode(file.read_bytes(), type=ToolWindow)
                window.ended = window.ended or Heartbeat(file).last_ns()
                found[file] = window
    return found


def _write_whole(file: Path, window: ToolWindow) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(window))
    new.rename(file)


class OpenTurn:
    """A turn that runs, and when its tools changed files."""

    def __init__(self, facts: dict[str, Any], number: int = 0) -> None:
        self.facts, self.number = facts, number
        self.windows = msgspec.convert(facts.pop("windows", []), list[ToolWindow])
        self.made: dict[str, int] = facts.setdefault("made", {})
        """When names came in the turn that the sandbox would guard, had they been there before."""

    def written(self) -> dict[str, Any]:
        """Return all that is known of the turn, as it is kept."""
        return {**self.facts, "windows": msgspec.to_builtins(self.windows)}

    def owner(
        self, path: bytes, at: int, beside: Collection[ToolWindow], *, guarded: int | None
    ) -> str:
        """Return whose a change is that was made then: the turn's, by a tool that named it or by a
        command, perhaps that of a job, of others, or shared if tools of this turn and of a session
        beside may both have made it. What a tool named is its own, also while a command runs that
        may change anything."""
        own = [
            each
            for each in self.windows
            if each.spans(at) and each.may_write(path, guarded=guarded)
        ]
        named = [window for window in beside if window.names(path)]
        if named:
            last = any(window.spans(at) for window in named) or not own
            return "other" if last else "shared"
        if not own:
            return "other"
        if any(window.names(path) for window in own):
            return "turn"
        if any(
            not each.paths and each.spans(at) and each.may_write(path, guarded=guarded)
            for each in beside
        ):
            return "shared"
        if all(each.reach is Reach.JOB for each in own):
            return "job"
        return "turn" if any(each.reach is Reach.WHOLE for each in own) else "command"

    def may_write(self, path: bytes, *, guarded: int | None) -> bool:
        """Say whether any tool of the turn can have changed a path."""
        return any(each.may_write(path, guarded=guarded) for each in self.windows)


def protected_part(path: bytes) -> bytes:
    """Return the part of a path that ends with its first name that a sandbox guards where it is
    found, or nothing."""
    if not is_protected(os.fsdecode(path)):
        return b""
    names = path.split(b"/")
    parts = (b"/".join(names[:count]) for count in range(1, len(names) + 1))
    return next(part for part in parts if is_protected(os.fsdecode(part)))
