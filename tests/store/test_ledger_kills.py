"""`kill -9` at any instant: no answered operation is lost, and the figures add up."""

import asyncio
import random
import sqlite3
import subprocess
import sys
from contextlib import aclosing, closing
from pathlib import Path

from tests.store.spender import LEASE_MS
from vegakit.ids import ScopeId
from vegakit.money import Money
from vegakit.policy import ScopeRule
from vegakit.store import SqliteLedger
from vegakit.testing import settle_ended

ROUNDS, AT_ONCE = 10, 3
CAP = 10**9
REPOSITORY = Path(__file__).parents[2]


def test_thirty_kills_lose_nothing(tmp_path: Path) -> None:
    """Three processes share the file and die together, ten times over."""
    path = tmp_path / "ledger.db"
    asyncio.run(open_scopes(path))
    for number in range(ROUNDS):
        acknowledged = kill_spenders(path, number)
        with closing(sqlite3.connect(path)) as file:
            assert acknowledged <= answered(file)
            check_sums(file)
    asyncio.run(settle(path))
    with closing(sqlite3.connect(path)) as file:
        check_sums(file)
        live = "SELECT count(*) FROM claims WHERE state = 'sent'"
        assert file.execute(live).fetchone() == (0,)
        assert file.execute("SELECT reserved FROM scopes WHERE id = 'leaf'").fetchone() == (0,)
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def open_scopes(path: Path) -> None:
    async with aclosing(SqliteLedger(path)) as ledger:
        root, limit = ScopeId("root"), ScopeId("limit")
        await ledger.open(root, ScopeRule(Money(CAP)), 0)
        await ledger.open(limit, ScopeRule(None), 0, parent=root)
        await ledger.open(ScopeId("leaf"), ScopeRule(Money(CAP)), 0, parent=limit)
        await ledger.open(ScopeId("part"), ScopeRule(Money(CAP // 2)), 0, parent=root, part=True)


def kill_spenders(path: Path, number: int) -> set[str]:
    """Kills each after some answers; says which answers were acknowledged."""
    chance = random.Random(number)
    command = [sys.executable, "-m", "tests.store.spender", str(path)]
    spenders = [
        subprocess.Popen(
            [*command, f"spender {number}.{which}"],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        for which in range(AT_ONCE)
    ]
    lines: list[str] = []
    for spender in spenders:
        assert spender.stdout is not None
        lines += [spender.stdout.readline() for _ in range(chance.randrange(1, 60))]
    for spender in spenders:
        spender.kill()
    for spender in spenders:
        lines += spender.communicate()[0].splitlines(keepends=True)
    assert all(lines)
    return {line.strip() for line in lines if line.endswith("\n")}


def answered(file: sqlite3.Connection) -> set[str]:
    rows = file.execute("SELECT id FROM claims WHERE state = 'answered'")
    return {row[0].removesuffix("#1") for row in rows}


def check_sums(file: sqlite3.Connection) -> None:
    """Every figure of every scope, added up anew from the claims."""
    charged, live, count = {}, {}, {}
    for scope, *sums in file.execute(
        "SELECT scope, sum(charged), count(*),"
        " sum(CASE WHEN state = 'sent' THEN amount ELSE 0 END)"
        " FROM claims GROUP BY scope"
    ):
        charged[scope], count[scope], live[scope] = sums
    held = max(CAP // 2 - charged.get("part", 0), live.get("part", 0))
    around_leaf = (charged.get("leaf", 0), live.get("leaf", 0))
    expected = {
        "leaf": (*around_leaf, 0, count.get("leaf", 0)),
        "limit": (*around_leaf, 0, 0),
        "part": (charged.get("part", 0), live.get("part", 0), held, count.get("part", 0)),
        "root": (
            sum(charged.values()),
            live.get("root", 0) + around_leaf[1] + held,
            0,
            count.get("root", 0),
        ),
    }
    rows = file.execute("SELECT id, settled, reserved, held, claims FROM scopes")
    assert {id_: tuple(figures) for id_, *figures in rows} == expected


async def settle(path: Path) -> None:
    """What the dead left behind is settled when their leases end."""
    async with aclosing(SqliteLedger(path)) as ledger:
        await settle_ended(ledger, LEASE_MS)
