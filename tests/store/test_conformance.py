"""Both ledgers and both stores pass the one suite that later ones will pass too."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.store.conformance import STORE_CHECKS, StoreCheck
from vegakit.ids import ScopeId
from vegakit.ports import Ledger, Store
from vegakit.store import MemoryLedger, MemoryStore, SqliteLedger, SqliteStore, journal_size
from vegakit.testing import LEDGER_CHECKS, LedgerCheck


def name_of(check: object) -> str:
    return str(getattr(check, "__name__", "")).strip("_")


@pytest.mark.parametrize("kind", ["memory", "sqlite", "sqlite full"])
@pytest.mark.parametrize("check", LEDGER_CHECKS, ids=name_of)
def test_a_ledger(check: LedgerCheck, kind: str, tmp_path: Path) -> None:
    """What is checked stands in the check's name."""

    async def run() -> None:
        async with aclosing(make_ledger(kind, tmp_path)) as ledger:
            await check(ledger)

    asyncio.run(run())


def make_ledger(kind: str, folder: Path) -> Ledger:
    if kind == "memory":
        return MemoryLedger()
    return SqliteLedger(folder / "ledger.db", synchronous="full" if "full" in kind else "normal")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("check", STORE_CHECKS, ids=name_of)
def test_a_store(check: StoreCheck, kind: str, tmp_path: Path) -> None:
    """What is checked stands in the check's name."""

    async def run() -> None:
        store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "store.db")
        async with aclosing(store):
            await check(store)

    asyncio.run(run())


async def test_a_file_with_only_a_budget_has_no_journal(tmp_path: Path) -> None:
    async with aclosing(SqliteLedger(tmp_path / "vega.db")) as ledger:
        await ledger.counter(ScopeId("user"), None, 0)
    assert (tmp_path / "vega.db").exists()
    assert journal_size(tmp_path / "vega.db") is None
