"""A journal on PostgreSQL: one owner at a time, seals that keep their meaning, and what is lost."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.journal.test_resume import echo
from tests.store.conformance import STORE_CHECKS, StoreCheck
from tests.store.postgres import DSN, asked, dsn_of, url_of
from tests.store.test_postgres_trouble import end_sessions_of
from vegakit.errors import StoreError
from vegakit.events import Answered
from vegakit.host import Agent
from vegakit.ids import EffectKey, HolderId, ProgramId, ScopeId
from vegakit.money import Money
from vegakit.policy import Reserved, ScopeRule
from vegakit.ports import KeptOutcome, RunRecord
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import PostgresJournal
from vegakit.store.postgres.journal import (
    forget_runs,
    list_runs,
    recorded_calls,
    recorded_effects,
)
from vegakit.store.spool import RunFiles
from vegakit.testing import LEDGER_CHECKS, LedgerCheck
from vegakit.testing.journal import _at

RUN, OTHER = RunRecord(ProgramId("1"), 1), RunRecord(ProgramId("2"), 2)


def journal_in(schema: str, **more: Any) -> PostgresJournal:
    return PostgresJournal(dsn_of(schema), schema=schema, **more)


def name_of(check: object) -> str:
    return str(getattr(check, "__name__", "")).strip("_")


@pytest.mark.parametrize("check", LEDGER_CHECKS, ids=name_of)
async def test_the_ledger_beside_it(check: LedgerCheck, schema: str) -> None:
    """It is a ledger as all others are."""
    async with aclosing(journal_in(schema)) as journal:
        await check(journal.ledger())


@pytest.mark.parametrize("check", STORE_CHECKS, ids=name_of)
async def test_the_documents_beside_it(check: StoreCheck, schema: str) -> None:
    """They are sealed, and otherwise as all others are."""
    async with aclosing(journal_in(schema)) as journal:
        await check(journal.store())


async def test_a_run_has_one_owner(schema: str) -> None:
    """The second is told what to do, and may have another run meanwhile."""
    async with (
        aclosing(journal_in(schema, shared=True)) as first,
        aclosing(journal_in(schema, shared=True)) as second,
    ):
        await first.begin(RUN)
        assert await second.is_running(RUN)
        with pytest.raises(StoreError, match="run 1 is running in another process"):
            await second.begin(RUN, RUN.program)
        await second.begin(OTHER)


async def test_an_owner_is_so_again_after_its_connection_was_lost(schema: str) -> None:
    """What it records then is recorded, and nobody else may."""
    async with (
        aclosing(journal_in(schema, shared=True)) as first,
        aclosing(PostgresJournal(DSN, schema=schema, shared=True)) as second,
    ):
        await first.begin(RUN)
        assert end_sessions_of(schema) == 1
        await first.claim(_at(0), 0)
        assert await second.is_running(RUN)


async def test_a_connection_that_only_we_lost_is_ended(schema: str) -> None:
    """Else the server would keep its lock, and refuse us our own run, until it noticed."""
    async with aclosing(journal_in(schema, shared=True)) as journal:
        await journal.begin(RUN)
        lost, journal._thread._session = journal._thread._session, None
        await journal.claim(_at(0), 0)
        assert lost
        lost.connection.close()


KEEPS = """
import asyncio, os, signal, sys
from vegakit.events import Answered
from vegakit.money import Money
from vegakit.ports import RunRecord
from vegakit.store import open_journal
from vegakit.testing.journal import _at

async def main():
    journal = open_journal(sys.argv[1], shared=True)
    await journal.begin(RunRecord("1", 1))
    await journal.claim(_at(0), 0)
    journal.keep(_at(0).key, 1, Money(3), Answered("yes", Money(3)))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_a_reply_that_had_arrived_outlives_the_process(schema: str) -> None:
    """It was in the spool before the server was asked to write anything."""
    killed = subprocess.run([sys.executable, "-c", KEEPS, url_of(schema)], check=False)
    assert killed.returncode == -signal.SIGKILL

    async def kept() -> list[KeptOutcome]:
        async with aclosing(journal_in(schema, shared=True)) as journal:
            await journal.begin(OTHER, RUN.program)
            return [*await journal.kept()]

    [found] = asyncio.run(kept())
    assert (found.key, found.bill, found.outcome) == (_at(0).key, 3, Answered("yes", Money(3)))


async def test_who_lost_its_run_to_another_owner_writes_nothing(
    schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is held by the connection that writes, so a late writer is refused by it."""
    monkeypatch.setattr("vegakit.store.postgres.journal._TAKE_S", 0)
    async with (
        aclosing(journal_in(schema, shared=True)) as first,
        aclosing(PostgresJournal(DSN, schema=schema, shared=True)) as second,
    ):
        await first.begin(RUN)
        await second.runs()  # it has its connection before the lock is free
        second._files = RunFiles(tmp_path / "run", tmp_path)  # another machine has its own
        assert end_sessions_of(schema) == 1
        while True:
            try:
                await second.begin(RUN, RUN.program)
                break
            except StoreError:
                await asyncio.sleep(0)
        with pytest.raises(StoreError, match="is running in another process"):
            await first.claim(_at(0), 0)
    assert asked(schema, "SELECT key FROM effects") == []


async def test_an_answer_and_its_bill_are_one_transaction(schema: str) -> None:
    """Both or neither: what is called together is committed together."""
    async with aclosing(journal_in(schema)) as journal:
        ledger = journal.ledger()
        await journal.begin(RUN)
        await ledger.open(ScopeId("s"), ScopeRule(Money(9)), 0)
        assert journal.holds(ledger)
        with journal.atomically():
            claimed = journal.claim(_at(0), 0)
            reserved = ledger.reserve(
                EffectKey(_at(0).key), 1, ScopeId("s"), Money(2), HolderId("h"), 0
            )
        await claimed
        assert await reserved == Reserved()
    ((one,), (other,)) = asked(
        schema, "SELECT xmin::text FROM effects UNION ALL SELECT xmin::text FROM claims"
    )
    assert one == other


@pytest.mark.parametrize(
    "plant",
    [
        "UPDATE effects SET outcome = replace(outcome, 'yes', 'no') RETURNING 1",
        "UPDATE effects SET program = '2' RETURNING 1",
    ],
)
async def test_a_planted_answer_is_refused(plant: str, schema: str) -> None:
    """Whoever may write to the server could put words into a model's mouth."""
    async with aclosing(journal_in(schema)) as journal:
        await journal.begin(RUN)
        await journal.claim(_at(0), 0)
        await journal.record(_at(0).key, Answered("yes", Money(1)))
    assert asked(schema, plant)
    async with aclosing(journal_in(schema)) as journal:
        with pytest.raises(StoreError, match="does not fit its seal"):
            await asyncio.gather(journal.begin(RUN), journal.find(_at(0).key))


async def test_a_planted_document_is_refused(schema: str) -> None:
    """Such as an approval that nobody gave; a copy of one under another name neither."""
    async with aclosing(journal_in(schema)) as journal:
        await journal.store().put("question", "a", b"yes", expected=0)
    assert asked(schema, "UPDATE documents SET key = 'b' RETURNING 1")
    async with aclosing(journal_in(schema)) as journal:
        with pytest.raises(StoreError, match="does not fit its seal"):
            await journal.store().get("question", "b")


async def asks(url: str, said: Callable[..., str]) -> None:
    async with Runtime(journal=url) as rt:
        await rt.ask(Agent("a", model=ScriptedModel(said)), "hello")


def test_its_runs_are_seen_from_outside_and_forgotten(schema: str) -> None:
    """Also where a reply holds what PostgreSQL can give no text of."""
    url = url_of(schema)
    for said in (echo, lambda _: "nul \x00"):
        asyncio.run(asks(url, said))
    runs = list_runs(url)
    assert [(run.recorded, run.cut_off, run.is_running) for run in runs] == [(1, 0, False)] * 2
    assert [call.process[:2] for call in recorded_calls(url)] == ["a~", "a~"]
    assert sum(call.charged for call in recorded_calls(url)) == sum(run.spent for run in runs)
    first, second = (run.run.program for run in runs)
    (effect,) = recorded_effects(url, first)
    assert (effect.kind, isinstance(effect.outcome, Answered)) == ("CallModel", True)
    assert recorded_effects(url, "none") == []
    assert forget_runs(url, 0, 1_000_000, dry_run=True).runs == ()
    assert forget_runs(url, 0, 1, dry_run=True).runs == (first, second)
    assert runs[1].ended_ms
    assert forget_runs(url, runs[1].ended_ms, 1_000_000).runs == (first,)
    assert [run.run.program for run in list_runs(url)] == [second]
