"""A run and its journal: begun or taken up again, and ended when it is done."""

import secrets
import sys
from collections.abc import Awaitable, Callable, Container
from os import PathLike
from pathlib import Path

from vegakit.config import replayed
from vegakit.ids import EffectKey, new_program_id
from vegakit.ports import Journal, Ledger, Run, Store
from vegakit.runtime.recovery import recover
from vegakit.store import MemoryStore, Replay, SqliteJournal, SqliteLedger, SqliteStore

__all__ = ["Journaled", "as_journal", "ledger_beside", "store_beside"]


def as_journal(given: "Journal | str | PathLike[str] | None") -> Journal | None:
    """Where the program is replayed, a runtime that has no journal is offline too."""
    if (which := replayed()) is not None:
        return Replay(SqliteJournal(which.journal), which.run)
    return SqliteJournal(given) if isinstance(given, str | PathLike) else given


def ledger_beside(journal: Journal | None) -> SqliteLedger | None:
    """Money must outlive us as answers do: `run.db` has its ledger in `run.ledger.db`."""
    if not isinstance(journal, SqliteJournal):
        return None
    path = journal.path.with_suffix(f".ledger{journal.path.suffix}")
    return SqliteLedger(path, synchronous="full")


def store_beside(journal: Journal | None) -> Store:
    """What people are asked must outlive us, too: in `run.questions.db`. It is made when it is
    first needed."""
    if not isinstance(journal, SqliteJournal):
        return MemoryStore()
    path = journal.path.with_suffix(f".questions{journal.path.suffix}")
    return SqliteStore(path, synchronous="full")


class Journaled:
    """`attempts` are those that a life before this one made at calls that go on."""

    def __init__(self, journal: Journal, run: Run, attempts: dict[EffectKey, int]) -> None:
        self.journal = journal
        self.run = run
        self.attempts = attempts

    @classmethod
    async def begin(
        cls,
        journal: Journal,
        ledger: Ledger,
        now: int,
        resume: Callable[[str], Awaitable[Container[EffectKey]]],
    ) -> "Journaled":
        """`resume` is told which run goes on, and says what of it was not begun."""
        program = new_program_id(now, secrets.token_bytes(10))
        new = Run(program, now, tuple(sys.orig_argv), str(Path.cwd()))
        run = await journal.begin(new)
        unbegun = () if run.program == program else await resume(run.program)
        return cls(journal, run, await recover(journal, ledger, now, unbegun))

    async def end(self, now: int, *, is_done: bool) -> None:
        """One that did not come to its end can be taken up again."""
        if is_done:
            await self.journal.end(now)
        await self.journal.aclose()
