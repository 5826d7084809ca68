"""A run and its journal: begun or taken up again, and ended when it is done."""

import asyncio
import logging
import secrets
import sys
from collections.abc import Awaitable, Callable, Container
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec import structs

from vegakit.config import CutOffTools, Resumed, held_secrets, replayed, resumed
from vegakit.effects import CallTool, Effect
from vegakit.errors import StoreError, ToolCutOff, causes_of
from vegakit.ids import EffectKey, ProgramId, new_program_id
from vegakit.policy import Unshown, spelled_json
from vegakit.ports import Journal, Ledger, Run, Store
from vegakit.runtime.recovery import Recovered, recover
from vegakit.store import (
    Keep,
    MemoryStore,
    Replay,
    SqliteJournal,
    SqliteLedger,
    forget_runs,
)

__all__ = ["Journaled", "as_journal", "ledger_beside", "store_beside"]

_LOG = logging.getLogger("vegakit")
_FORGOTTEN = 20


def as_journal(given: "Journal | str | PathLike[str] | None") -> Journal | None:
    """Where the program is replayed, a runtime that has no journal is offline too."""
    if (which := replayed()) is not None:
        return Replay(SqliteJournal(which.journal), which.run)
    return SqliteJournal(given) if isinstance(given, str | PathLike) else given


def ledger_beside(journal: Journal | None) -> SqliteLedger | None:
    """Money must outlive us as answers do: it is kept in the file of the journal."""
    return journal.ledger() if isinstance(journal, SqliteJournal) else None


def store_beside(journal: Journal | None) -> Store:
    """What people are asked must outlive us, too."""
    return journal.store() if isinstance(journal, SqliteJournal) else MemoryStore()


class Journaled:
    """`undecided` are tool calls that were cut off and wait for a person's decision."""

    def __init__(self, journal: Journal, run: Run, recovered: Recovered, *, goes_on: bool) -> None:
        self.journal = journal
        self.run = run
        self.goes_on = goes_on
        """An earlier process began it, and may have made attempts at its calls."""
        self.undecided = recovered.undecided
        self._lost = recovered.lost
        self.failed = 0
        """How many outcomes failed this run, and so are asked again when it goes on."""
        self.failed_of_old = False
        """All of them were recorded by a life before this one, which was killed before it could
        say so: nothing has been asked anew, so going on at once is what was wanted."""

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
        which = resumed()
        if journal.shared:
            run = await _begun_in_shared(journal, new, which)
        else:
            run = await journal.begin(new)
        if run.program == program:
            # A new run has nothing to recover, and its journal may be long. Its spool may hold what
            # a run before it left, though: that is passed over, and a torn end of it cut off.
            await journal.kept()
            return cls(journal, run, Recovered(), goes_on=False)
        unbegun = await resume(run.program)
        tools = CutOffTools.ASK if which is None else which.tools
        recovered = await recover(journal, ledger, now, unbegun, tools)
        return cls(journal, run, recovered, goes_on=True)

    async def reopen(self, error: BaseException, replayed: Container[EffectKey]) -> None:
        """The outcomes that failed the run are not final: they are asked again when it goes on."""
        keys = [EffectKey(key) for key in causes_of(error)]
        self.failed = len(keys)
        # What was found lost when this life began is news to the program.
        old = [key for key in keys if key in replayed and key not in self._lost]
        self.failed_of_old = bool(keys) and len(old) == len(keys)
        await self.journal.reopen(keys)

    def again(self) -> None:
        """Let the next runtime of this process take up this run, as one that goes on at once."""
        if self.run.program in _BEGUN:
            _BEGUN.remove(self.run.program)

    def check_decided(self, effect: Effect) -> None:
        """End the run when it comes to a tool call that waits for a decision. That is not recorded:
        when the run goes on, the decision is there."""
        if effect.key not in self.undecided:
            return
        journal = self.journal
        file = "" if journal.shared else f" {getattr(journal, 'path', 'JOURNAL')}"
        assert isinstance(effect.request, CallTool)
        called = f"{effect.request.tool} with {_shown(effect.request.arguments)}"
        raise ToolCutOff(
            f"the tool {called} was being called when the run was cut off, and nobody knows "
            f"whether it was done; look, then type: vega resume{file} --resend to have it called "
            f"again, or: vega resume{file} --skip to go on without, when the program is told that "
            "the call failed"
        )

    async def end(self, now: int, *, is_done: bool) -> None:
        """One that did not come to its end can be taken up again."""
        if is_done:
            await self.journal.end(now)
        await self.journal.aclose()
        if isinstance(self.journal, SqliteJournal) and self.journal.keep_runs is not None:
            await asyncio.to_thread(_forget, self.journal.path, self.journal.keep_runs, now)


def _forget(path: Path, keep: Keep, now: int) -> None:
    """A few at the end of each run: more than one run makes, and never long."""
    try:
        forget_runs(path, now - keep.for_ms, keep.most_bytes, at_most=_FORGOTTEN)
    except StoreError as error:  # the run has ended well: the next one tries again
        _LOG.warning("old runs were not forgotten: %s", error)


_BEGUN: list[ProgramId] = []
"""The runs that this process has begun or taken up in the journal of its user, in order."""


async def _begun_in_shared(journal: Journal, new: Run, which: Resumed | None) -> Run:
    """A program that goes on does what it did: its n-th run is the n-th one then."""
    number = len(_BEGUN)
    known: Run | None = None
    if which is not None and which.run:
        runs = [run for run in await journal.runs() if which.run in (run.program, run.first)]
        known = next((run for run in runs if run.number == number), None)
    first = which.run if which is not None and which.run else (_BEGUN[0] if _BEGUN else "")
    if known is not None:
        run = await journal.begin(new, known.program)
    else:
        run = await journal.begin(structs.replace(new, first=ProgramId(first), number=number))
    _BEGUN.append(run.program)
    return run


def _shown(arguments: Any) -> str:  # noqa: ANN401
    """Whole, as in a question: who lets it be called again approves it."""
    text = spelled_json(arguments, held_secrets())
    return f"arguments that {text.partition(':')[0]}" if isinstance(text, Unshown) else text
