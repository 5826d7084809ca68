"""Clients that disagree about a budget they share, on each store: every admission, refusal and sum
is what the events of all of them add up to."""

import asyncio
from pathlib import Path

from tests.store.disagreeing import History
from tests.store.postgres import DSN, own_schema
from vegakit.ports import Ledger
from vegakit.store import MemoryLedger, PostgresLedger, SqliteLedger

STEPS = 60


def play(seed: int, ledgers: list[Ledger], steps: int = STEPS) -> list[str]:
    async def played() -> list[str]:
        try:
            return await History(seed, ledgers).play(steps)
        finally:
            for ledger in ledgers:
                await ledger.aclose()

    return asyncio.run(played())


def test_in_memory() -> None:
    """Caps, periods, names, agents, `on_exceed` and clocks differ; the owner changes limits."""
    wrong = {seed: said for seed in range(100) if (said := play(seed, [MemoryLedger()]))}
    assert wrong == {}


def test_on_one_file(tmp_path: Path) -> None:
    """Over two connections, so that what one has read is outdated by the other."""
    wrong: dict[int, list[str]] = {}
    for seed in range(12):
        path = tmp_path / f"{seed}.db"
        if said := play(seed, [SqliteLedger(path), SqliteLedger(path)]):
            wrong[seed] = said
    assert wrong == {}


def test_on_a_server() -> None:
    """As on a file, with rows that are locked before they are read."""
    with own_schema() as schema:
        servers: list[Ledger] = [PostgresLedger(DSN, schema=schema) for _ in range(2)]
        assert play(1, servers, 150) == []
