"""An effect that is cancelled while its outcome is being recorded."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import TypeAlias

from vegakit.concurrency import SteadyClock
from vegakit.effects import CallTool, Effect, EffectPath, Incarnation, Site, effect
from vegakit.events import Answered, EffectOutcome, OutcomeArrived
from vegakit.host import Account, Backlog, LocalHost
from vegakit.ids import ProgramId, ScopeId, TenantId
from vegakit.ports import RunRecord
from vegakit.store import SqliteJournal
from vegakit.store.sqlite import SqliteHandle

PATH = EffectPath(TenantId("t"), ProgramId("p"), (Incarnation("a", 1),), Site("f", 0))
PAY = effect(PATH, CallTool("pay", {"to": "me"}, ScopeId("s")))
PAID = Answered("paid")


Harm: TypeAlias = Callable[[Connection], object]


def none(file: Connection) -> None:
    pass


def damage(file: Connection) -> None:
    file.execute("DROP TABLE effects")


class Payment:
    """The file of the journal is kept busy from then on, and harmed when it goes on."""

    def __init__(self, journal: SqliteJournal, harm: Harm) -> None:
        self._journal, self._harm = journal, harm
        self.made, self.goes_on = asyncio.Event(), threading.Event()

    async def make(self, wanted: Effect, account: Account) -> EffectOutcome:
        loop, is_busy = asyncio.get_running_loop(), asyncio.Event()

        def hold(handle: SqliteHandle) -> tuple[None, Callable[[], object]]:
            loop.call_soon_threadsafe(is_busy.set)
            self.goes_on.wait()
            return None, lambda: self._harm(handle.file)

        self._journal._thread.do(hold)
        await is_busy.wait()
        self.made.set()
        return PAID


@asynccontextmanager
async def cancelled(path: Path, harm: Harm) -> AsyncGenerator[tuple[LocalHost, SqliteJournal]]:
    async with aclosing(SqliteJournal(path / "run.db")) as journal:
        await journal.begin(RunRecord(ProgramId("p"), 0))
        payment = Payment(journal, harm)
        clock = SteadyClock()
        backlog = Backlog(clock, closing_s=0)
        host = LocalHost({CallTool: payment.make}, clock, journal, backlog)
        async with aclosing(backlog), aclosing(host):
            host.start(PAY)
            await payment.made.wait()
            host.cancel(PAY.key)
            payment.goes_on.set()
            yield host, journal


async def test_it_is_recorded_and_told(tmp_path: Path) -> None:
    """What it came to is known, so it is kept, and then told."""
    async with cancelled(tmp_path, none) as (host, journal):
        assert await host.next() == [OutcomeArrived(PAY.key, PATH, PAID)]
        assert await journal.find(PAY.key) == (PAY.digest, PAID)


async def test_what_cannot_be_recorded_now_is_told_and_kept(tmp_path: Path) -> None:
    """The payment was made, whether its journal can be written or not: it waits in the spool."""
    async with cancelled(tmp_path, damage) as (host, journal):
        assert await host.next() == [OutcomeArrived(PAY.key, PATH, PAID)]
        assert [(kept.key, kept.outcome) for kept in await journal.kept()] == [(PAY.key, PAID)]
