"""`python -m benchmarks.postgres`: reserve + settle pairs a second on one scope, beside SQLite.

One process and four, each with one caller and with 64 at once, for a few seconds. All spend from
one scope: every pair moves the same row. `full` is SQLite with the promise that PostgreSQL gives:
what was answered survives a power failure. Then four processes beside four of which every call is a
transaction of its own, and what the slowest of many processes gets beside the mean. After each, the
scope holds what was billed, to the last nano-dollar. Needs a PostgreSQL server (`bash
.ci/servers`). Exits 1 when a figure falls short.
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
from vegakit.ports import Ledger
from vegakit.store import PostgresLedger, SqliteLedger, thread

__all__ = ["main"]

DSN = "host=127.0.0.1 port=5432 dbname=test"
ROOT = ScopeId("tenant")
SECONDS = 3.0
SHAPES = ((1, 1), (1, 64), (4, 1), (4, 64))
"""Processes, and callers at once in each."""
LIMIT, TIMES_SINGLE, SLOWEST = 1_000, 3, 0.5
LEASE_MS = 1_000_000
_AT_ONCE = "_MOST_AT_ONCE"
AT_ONCE: int = getattr(thread, _AT_ONCE)


def main() -> int:
    match sys.argv[1:]:
        case []:
            return _report()
        case ["pay", place, name, callers, at_once]:
            setattr(thread, _AT_ONCE, int(at_once))
            asyncio.run(_pay(place, name, int(callers)))
            return 0
        case wrong:
            print(f"no arguments are expected, got {wrong}")
            return 2


def _report() -> int:
    figures = [figure for shape in SHAPES for figure in _figures(*shape)]
    figures += [*_shared_figures()]
    with psycopg.connect(DSN) as server:
        version = server.info.parameter_status("server_version")
    print(f"Python {platform.python_version()}, PostgreSQL {version}\n")
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _figures(processes: int, callers: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, _schema() as schema:
        places = [f"{folder}/normal.db", f"{folder}/full.db", schema]
        normal, full, server = (sum(_pairs_a_second(at, processes, callers)) for at in places)
    name, limit = f"{processes} × {callers} callers", LIMIT if callers > 1 else 0
    return [
        at_least(limit, server, "pairs/s", f"{name}: PostgreSQL"),
        Figure(f"{name}: to SQLite, full ({full:,.0f})", f"{server / full:.2f}"),
        Figure(f"{name}: to SQLite, normal ({normal:,.0f})", f"{server / normal:.2f}"),
    ]


def _shared_figures() -> Generator[Figure]:
    """What calls of a process share, and whether processes share alike."""
    with tempfile.TemporaryDirectory() as folder, _schema() as one, _schema() as other:
        single = sum(_pairs_a_second(one, 4, 64, at_once=1))
        rows = {
            "4 × 64, PostgreSQL": _pairs_a_second(other, 4, 64),
            "8 × 1, SQLite normal": _pairs_a_second(f"{folder}/normal1.db", 8, 1),
            "8 × 16, SQLite normal": _pairs_a_second(f"{folder}/normal16.db", 8, 16),
            "8 × 16, SQLite full": _pairs_a_second(f"{folder}/full.db", 8, 16),
        }
    together = sum(rows["4 × 64, PostgreSQL"]) / single
    name = f"4 × 64: PostgreSQL, to one call a transaction ({single:,.0f})"
    yield Figure(name, f"{together:.1f} ×", f"≥ {TIMES_SINGLE} ×", together >= TIMES_SINGLE)
    for shape, paid in rows.items():
        slowest = min(paid) * len(paid) / sum(paid)
        name = f"{shape} ({sum(paid):,.0f} pairs/s): slowest process to the mean"
        yield Figure(name, f"{slowest:.2f}", f"≥ {SLOWEST}", slowest >= SLOWEST)


@contextmanager
def _schema() -> Generator[str]:
    name = f"bench_{uuid.uuid4().hex}"
    try:
        yield name
    finally:
        with psycopg.connect(DSN) as server:
            server.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


def _pairs_a_second(
    place: str, processes: int, callers: int, *, at_once: int = AT_ONCE
) -> list[float]:
    """Return the pairs of each process."""
    asyncio.run(_declare(place))
    command = [sys.executable, "-m", "benchmarks.postgres", "pay", place]
    payers = [
        subprocess.Popen(
            [*command, f"payer {number}", str(callers), str(at_once)],
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
    paid = [int(payer.communicate()[0]) for payer in payers]
    assert asyncio.run(_settled(place)) == sum(paid), "the scope does not hold what was billed"
    return [one / SECONDS for one in paid]


def _ledger(place: str) -> Ledger:
    if not place.endswith(".db"):
        return PostgresLedger(DSN, schema=place)
    return SqliteLedger(place, synchronous="full" if "full" in place else "normal")


async def _declare(place: str) -> None:
    async with aclosing(_ledger(place)) as ledger:
        await ledger.open(ROOT, ScopeRule(None), 0)


async def _settled(place: str) -> int:
    async with aclosing(_ledger(place)) as ledger:
        scope = await ledger.scope(ROOT)
    assert scope is not None
    assert not scope.reserved
    return scope.settled


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
        assert await ledger.reserve(effect, 1, ROOT, Money(2), holder, 0) == Reserved()
        await ledger.answer(effect, 1, Money(1), 0)
        paid += 1
    return paid


if __name__ == "__main__":
    sys.exit(main())
