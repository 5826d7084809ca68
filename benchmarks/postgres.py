"""`python -m benchmarks.postgres`: reserve + settle pairs a second on one scope, beside SQLite.

One process and four, each with one caller and with 64 at once, for a few seconds. All spend from
one scope: every pair moves the same row. Needs a PostgreSQL server (`bash .ci/servers`).
"""

import asyncio
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks.figures import Figure, at_least, show
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import Reserved, ScopeRule
from vegakit.ports import Ledger
from vegakit.store import PostgresLedger, SqliteLedger

__all__ = ["main"]

DSN = "host=127.0.0.1 port=5432 dbname=test"
ROOT = ScopeId("tenant")
SECONDS = 3.0
SHAPES = ((1, 1), (1, 64), (4, 1), (4, 64))
"""Processes, and callers at once in each."""
LIMIT = 1_000
LEASE_MS = 1_000_000


def main() -> int:
    match sys.argv[1:]:
        case []:
            return _report()
        case ["pay", place, name, callers]:
            asyncio.run(_pay(place, name, int(callers)))
            return 0
        case wrong:
            print(f"no arguments are expected, got {wrong}")
            return 2


def _report() -> int:
    figures: list[Figure] = []
    for processes, callers in SHAPES:
        with tempfile.TemporaryDirectory() as folder, _schema() as schema:
            on_file = _pairs_a_second(str(Path(folder) / "ledger.db"), processes, callers)
            on_server = _pairs_a_second(schema, processes, callers)
        name = f"{processes} × {callers} callers"
        figures += [
            Figure(f"{name}: SQLite", f"{on_file:,.0f} pairs/s"),
            at_least(LIMIT, on_server, "pairs/s", f"{name}: PostgreSQL")
            if callers > 1
            else Figure(f"{name}: PostgreSQL", f"{on_server:,.0f} pairs/s"),
            Figure(f"{name}: PostgreSQL to SQLite", f"{on_server / on_file:.2f}"),
        ]
    with psycopg.connect(DSN) as server:
        print(f"Python {platform.python_version()}, PostgreSQL {server.info.server_version}\n")
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


@contextmanager
def _schema() -> Generator[str]:
    name = f"bench_{uuid.uuid4().hex}"
    try:
        yield name
    finally:
        with psycopg.connect(DSN) as server:
            server.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


def _pairs_a_second(place: str, processes: int, callers: int) -> float:
    asyncio.run(_declare(place))
    command = [sys.executable, "-m", "benchmarks.postgres", "pay", place]
    payers = [
        subprocess.Popen(
            [*command, f"payer {number}", str(callers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for payer in payers:
        assert payer.stdout is not None
        assert payer.stdout.readline() == "ready\n"
    told = [payer.stdin and print("go", file=payer.stdin, flush=True) for payer in payers]
    assert len(told) == processes
    return sum(int(payer.communicate()[0]) for payer in payers) / SECONDS


def _ledger(place: str) -> Ledger:
    return SqliteLedger(place) if place.endswith(".db") else PostgresLedger(DSN, schema=place)


async def _declare(place: str) -> None:
    async with aclosing(_ledger(place)) as ledger:
        await ledger.open(ROOT, ScopeRule(None), 0)


async def _pay(place: str, name: str, callers: int) -> None:
    holder = HolderId(name)
    async with aclosing(_ledger(place)) as ledger:
        await ledger.renew(holder, LEASE_MS)
        print("ready", flush=True)
        sys.stdin.readline()
        until = time.monotonic() + SECONDS
        paid = await asyncio.gather(
            *(_pay_until(until, ledger, holder, caller) for caller in range(callers))
        )
    print(sum(paid))


async def _pay_until(until: float, ledger: Ledger, holder: HolderId, caller: int) -> int:
    paid = 0
    while time.monotonic() < until:
        effect = EffectKey(f"{holder}/{caller}/{paid}")
        assert await ledger.reserve(effect, 1, ROOT, Money(2), holder, 0, sent=True) == Reserved()
        await ledger.answer(effect, 1, Money(1), 0)
        paid += 1
    return paid


if __name__ == "__main__":
    sys.exit(main())
