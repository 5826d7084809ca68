"""The ledger, the store and the memory on PostgreSQL pass the suites that all others pass."""

import asyncio
from contextlib import aclosing

import pytest

from tests.store.conformance import MEMORY_CHECKS, STORE_CHECKS, MemoryCheck, StoreCheck
from tests.store.postgres import DSN
from vegakit.store import PostgresLedger, PostgresMemory, PostgresStore
from vegakit.testing import LEDGER_CHECKS, LedgerCheck


def name_of(check: object) -> str:
    return str(getattr(check, "__name__", "")).strip("_")


@pytest.mark.parametrize("check", LEDGER_CHECKS, ids=name_of)
def test_a_ledger(check: LedgerCheck, schema: str) -> None:
    """What is checked stands in the check's name."""

    async def run() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            await check(ledger)

    asyncio.run(run())


@pytest.mark.parametrize("check", STORE_CHECKS, ids=name_of)
def test_a_store(check: StoreCheck, schema: str) -> None:
    """What is checked stands in the check's name."""

    async def run() -> None:
        async with aclosing(PostgresStore(DSN, schema=schema)) as store:
            await check(store)

    asyncio.run(run())


@pytest.mark.parametrize("check", MEMORY_CHECKS, ids=name_of)
def test_a_memory(check: MemoryCheck, schema: str) -> None:
    """What is checked stands in the check's name."""

    async def run() -> None:
        async with aclosing(PostgresMemory(DSN, schema=schema)) as memory:
            await check(memory)

    asyncio.run(run())
