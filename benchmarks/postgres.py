"""`python -m benchmarks.postgres`: reserve + settle pairs a second on one scope, beside SQLite.

One process and four, each with one caller and with 64 at once, for a few seconds. All spend from
one scope: every pair moves the same row. `full` is SQLite with the promise that PostgreSQL gives:
what was answered survives a power failure. Needs a PostgreSQL server (`bash .ci/servers`). Exits 1
when many callers get less than a thousand pairs a second.
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

import psycopg
from psycopg import sql

from benchmarks.figures import Figure, at_least, show
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import Reserved, ScopeRule
from vegakit.ports.storage import Ledger
from vegakit.store.postgres import PostgresLedger
from vegakit.store.sqlite.stores import SqliteLedger

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
    figures = [figure for shape in SHAPES for figure in _figures(*shape)]
    with psycopg.connect(DSN) as server:
        version = server.info.parameter_status("server_version")
    print(f"Python {platform.python_version()}, PostgreSQL {version}\n")
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _figures(processes: int, callers: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, _schema() as schema:
        places = [f"{folder}/normal.db", f"{folder}/full.db", schema]
        normal, full, server = (_pairs_a_second(place, processes, callers) for place in places)
    name, limit = f"{processes} × {callers} callers", LIMIT if callers > 1 else 0
    return [
        at_least(limit, server, "pairs/s", f"{name}: PostgreSQL"),
        Figure(f"{name}: to SQLite, full ({full:,.0f})", f"{server / full:.2f}"),
        Figure(f"{name}: to SQLite, normal ({normal:,.0f})", f"{server / normal:.2f}"),
    ]


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
    for payer in payers:
        assert payer.stdin is not None
        print("go", file=payer.stdin, flush=True)
    return sum(int(payer.communicate()[0]) for payer in payers) / SECONDS


def _ledger(place: str) -> Ledger:
    if not place.endswith(".db"):
        return PostgresLedger(DSN, schema=place)
    return SqliteLedger(place, synchronous="full" if "full" in place else "normal")


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
