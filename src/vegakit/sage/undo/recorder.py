"""The turns of a session as undo records them, beside the event loop.

    turn begins ─▶ the workspace is recorded in a thread, while the model is asked
    a tool changes files ─▶ waits until that is done, and holds a window open
    turn ends ─▶ what changed is recorded

Only what changes within a window is the turn's: what a person saves meanwhile stays theirs. The
windows are in the store before a file is touched, so that a turn that was killed can be taken back,
too. A workspace that cannot be recorded does not stop the agent; the end of the turn says why.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from vegakit.concurrency import run_to_completion
from vegakit.errors import StoreError, UserError
from vegakit.sage.undo.turns import UndoStore, open_undo

_FAILURES = (StoreError, UserError, OSError, sqlite3.Error)
"""Too many paths, a full disk, another session that has the store: none of it is the agent's."""


class TurnRecorder:
    """Records the turns of one session. `changed` and `problem` are of the last turn."""

    def __init__(self, workspace: Path, state_folder: Path) -> None:
        self._workspace, self._state = workspace, state_folder
        self._store: UndoStore | None = None
        self._begun: asyncio.Task[int] | None = None
        self.changed, self.problem = 0, ""

    @asynccontextmanager
    async def turn(self, label: str, *, is_recorded: bool) -> AsyncGenerator[None]:
        """Hold a turn open; where nothing can change, there is nothing to record."""
        self.changed, self.problem = 0, ""
        if is_recorded:
            self._begun = asyncio.create_task(asyncio.to_thread(self._begin, label))
        try:
            yield
        finally:
            # Also when the turn is cancelled: what it wrote until now can be taken back.
            await run_to_completion(self._end())

    @asynccontextmanager
    async def changing(self) -> AsyncGenerator[None]:
        """Hold a window open in which a tool changes files."""
        if self._begun is None or not await self._is_ready(self._begun) or self._store is None:
            yield
            return
        window = self._store.window()
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

    def _begin(self, label: str) -> int:
        if self._store is None:
            self._store = open_undo(self._workspace, self._state)
        return self._store.begin(label, whole=False)

    async def _is_ready(self, begun: "asyncio.Task[int]") -> bool:
        """Wait for the first recording, which is not cancelled with who waits for it."""
        try:
            await asyncio.shield(begun)
        except _FAILURES as error:
            self.problem = str(error)
            return False
        return True

    async def _end(self) -> None:
        begun, self._begun = self._begun, None
        if begun is None or not await self._is_ready(begun) or self._store is None:
            return
        try:
            changes = await asyncio.to_thread(self._store.end, begun.result())
        except _FAILURES as error:
            self.problem = str(error)
            return
        self.changed = len(changes.created) + len(changes.changed) + len(changes.deleted)
