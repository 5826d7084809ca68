"""The turns of a session as undo records them, beside the event loop.

    turn begins ─▶ the workspace is recorded in a thread, while the model is asked
    a tool changes files ─▶ waits until that is done, and holds a window open
    turn ends ─▶ what changed is recorded, and the store is given back

Only what changes within a window is the turn's: what a person saves meanwhile stays theirs. The
windows are in the store before a file is touched, so that a turn that was killed can be taken back,
too, and a stamp there says until when it ran: what a person saves after that stays theirs. A
workspace that cannot be recorded does not stop the agent; the end of the turn says why. One turn at
a time is recorded: one that works beside it only leaves word of its windows, so that the first
keeps what changed in them, and cannot be undone itself. A session that is open and idle is in
nobody's way.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from vegakit.concurrency import run_to_completion
from vegakit.errors import StoreError, UserError, VegaError
from vegakit.policy import Fetch, ReadPath, RunCommand, Use, WritePath
from vegakit.ports import Tool
from vegakit.sage.undo.records import (
    MOST_LISTED,
    TurnChanges,
    UndoneTurns,
    UndoStoreInUseError,
)
from vegakit.sage.undo.turns import UndoStore, open_undo, undo_folder
from vegakit.sage.undo.windows import Reach, window_beside
from vegakit.tools import ToolRights, rights_of

_FAILURES = (StoreError, UserError, OSError, sqlite3.Error)
"""Too many paths, a full disk, another session that has the store: none of it is the agent's."""


class TurnRecorder:
    """Records the turns of one session. Of the last turn are `changed`, the first of these `paths`,
    how many of them are `unrecorded`, and the `problem`: why undo cannot take back all of it."""

    def __init__(self, workspace: Path, state_folder: Path) -> None:
        self._workspace, self._state = workspace, state_folder
        self._store: UndoStore | None = None
        self._begun: asyncio.Task[int] | None = None
        self._turn, self._may_try = ("", ""), False
        self.changed, self.unrecorded, self.problem = 0, 0, ""
        self.paths: tuple[str, ...] = ()
        self._lasting: dict[str, str] = {}

    @property
    def lasting(self) -> tuple[str, ...]:
        """Return what the last turn did that nobody can take back."""
        return tuple(filter(None, self._lasting.values()))

    async def undone(self) -> list[UndoneTurns]:
        """Return what undos took back in this workspace; nothing where that cannot be known, as
        while another session has the store."""
        if not await asyncio.to_thread(undo_folder(self._workspace, self._state).is_dir):
            return []
        try:
            return await asyncio.to_thread(self._undone)
        except _FAILURES:
            return []

    @asynccontextmanager
    async def turn(self, label: str, key: str, *, is_recorded: bool) -> AsyncGenerator[None]:
        """Hold a turn open. Where nothing can change, only that there was a turn is noted."""
        self.changed, self.unrecorded, self.problem = 0, 0, ""
        self.paths, self._lasting = (), {}
        if is_recorded:
            self._turn, self._may_try = (label, key), True
            self._try()
        else:
            with suppress(*_FAILURES):
                await asyncio.to_thread(self._note, label, key)
        try:
            yield
        finally:
            # Also when the turn is cancelled: what it wrote until now can be taken back.
            await run_to_completion(self._end())

    async def lasts(self, call: str, what: str) -> None:
        """Note what a call does that nobody can take back; with nothing, that it was not done."""
        self._lasting[call] = what
        if await self._is_ready() and self._store:
            await asyncio.to_thread(self._store.note_lasting, call, what)

    @asynccontextmanager
    async def changing(self, *paths: str, reach: Reach = Reach.ANY) -> AsyncGenerator[None]:
        """Hold a window open in which a tool changes files: those of `paths` if it names them, else
        those within its `reach`."""
        if self._begun is None:
            yield
            return
        if await self._is_ready() and self._store is not None:
            window = self._store.window(paths, reach)
        else:
            # Another session may have the store: what changes now is not to be taken for its own.
            window = window_beside(undo_folder(self._workspace, self._state), paths, reach)
        await asyncio.to_thread(window.__enter__)
        try:
            yield
        finally:
            await run_to_completion(asyncio.to_thread(window.__exit__, None, None, None))

    async def aclose(self) -> None:
        """Give the store back."""
        if self._store is not None:
            await asyncio.to_thread(self._store.close)
            self._store = None

    def _opened(self) -> UndoStore:
        if self._store is None:
            self._store = open_undo(self._workspace, self._state)
        return self._store

    def _begin(self, label: str, key: str) -> int:
        return self._opened().begin(label, whole=False, key=key)

    def _note(self, label: str, key: str) -> None:
        """Who only reads does not keep the store from others."""
        with open_undo(self._workspace, self._state) as store:
            store.note(label, key)

    def _undone(self) -> list[UndoneTurns]:
        with open_undo(self._workspace, self._state) as store:
            return store.undone()

    def _try(self) -> None:
        self._begun = asyncio.create_task(asyncio.to_thread(self._begin, *self._turn))

    async def _is_ready(self) -> bool:
        """Wait for the first recording, which is not cancelled with who waits for it. If a turn of
        another session had the store then, it is tried once more before anything is changed."""
        while (begun := self._begun) is not None:
            try:
                await asyncio.shield(begun)
            except UndoStoreInUseError:
                if begun is self._begun and not self._may_try:
                    self.problem = (
                        f"another session worked in {self._workspace} at the same time, and undo "
                        "follows one at a time, so what this one wrote counts as your own edits. "
                        "To have undo for both, give each a folder of its own: git worktree add "
                        "../NAME, then run it there"
                    )
                    return False
                if begun is self._begun:
                    self._may_try = False
                    self._try()
            except _FAILURES as error:
                self.problem = str(error)
                return False
            else:
                return True
        return False

    async def _end(self) -> None:
        is_ready, begun = await self._is_ready(), self._begun
        self._begun = None
        try:
            if is_ready and begun is not None and self._store is not None:
                self._tell(await asyncio.to_thread(self._store.end, begun.result()))
        except _FAILURES as error:
            self.problem = str(error)
        finally:
            await self.aclose()

    def _tell(self, changes: TurnChanges) -> None:
        made = (changes.created, changes.changed, changes.deleted, changes.by_jobs)
        self.changed = sum(map(len, made))
        self.paths = tuple(map(_printable, sorted(chain(*made))[:MOST_LISTED]))
        self.unrecorded = len(changes.unrecorded) + len(changes.by_jobs)
        self.problem = "; ".join(_shortfalls(changes, self.changed))


def _printable(path: str) -> str:
    """Return a path that every stream takes; a name may hold bytes that are no text."""
    return os.fsencode(path).decode("utf-8", errors="replace")


_MOST_NAMED = 5


def _shortfalls(changes: TurnChanges, changed: int) -> Iterator[str]:
    """Yield what of a turn undo leaves as it is."""
    if left := [f"{each.path} ({each.reason})" for each in changes.unrecorded]:
        yield f"not recorded, {len(left):,} of {changed:,}: {_few(left)}"
    if left := changes.by_jobs:
        yield (
            f"changed while a command ran in the background, {len(left):,} of {changed:,}, which "
            f"may be yours: {_few(left)}; to take these back, too, type: vega undo --overwrite"
        )


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join([*names[:_MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])


# What lasts: tools declare it by the rights that a call wants.


def lasting_effect(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return what of a call nobody can take back: all that is neither a path of the workspace nor a
    command in its sandbox, whose writes are recorded. A tool that declares nothing may do
    anything."""
    try:
        rights = rights_of(tool, arguments)
    except VegaError:
        return ""  # it is refused with the same arguments
    if rights.wanted is None:
        return f"{tool.spec.name}: it does not declare what it does"
    return "; ".join(f"{tool.spec.name}: {what}" for what in _outside(rights))


def _outside(rights: ToolRights) -> list[str]:
    found: list[str] = []
    for wanted in rights.wanted or ():
        match wanted:
            case Fetch():
                found.append(f"sent a {wanted.method} request to {wanted.host}")
            case RunCommand(argv) if not rights.sandboxed:
                found.append(f"ran outside of the sandbox: {' '.join(argv)}")
            case Use(capability) if not capability.startswith("fs::"):
                found.append(f"used {capability}")
            case ReadPath() | WritePath() | RunCommand() | Use():
                pass
    return found
