"""Clients that disagree about a budget they share, on each store: each is held to what it said."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings

from tests.store.disagreeing import CLIENTS, STEPS, Client, disagree
from tests.store.postgres import DSN, own_schema
from vegakit.ports import Ledger
from vegakit.store.memory import MemoryLedger
from vegakit.store.postgres import PostgresLedger
from vegakit.store.sqlite.stores import SqliteLedger

Steps = list[tuple[Any, ...]]


async def _on(clients: list[Client], steps: Steps, ledgers: list[Ledger]) -> None:
    try:
        await disagree(clients, steps, ledgers)
    finally:
        for ledger in ledgers:
            await ledger.aclose()


@given(CLIENTS, STEPS)
def test_in_memory(clients: list[Client], steps: Steps) -> None:
    """Cap, period, name, `on_exceed` and the budget of the user differ."""
    asyncio.run(_on(clients, steps, [MemoryLedger()]))


@settings(max_examples=30)
@given(CLIENTS, STEPS)
def test_on_one_file(clients: list[Client], steps: Steps) -> None:
    """Over two connections, so that what one has read is outdated by the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        asyncio.run(_on(clients, steps, [SqliteLedger(path), SqliteLedger(path)]))


@settings(max_examples=8)
@given(CLIENTS, STEPS)
def test_on_a_server(clients: list[Client], steps: Steps) -> None:
    """As on a file, with rows that are locked before they are read."""
    with own_schema() as schema:
        servers: list[Ledger] = [PostgresLedger(DSN, schema=schema) for _ in range(2)]
        asyncio.run(_on(clients, steps, servers))
