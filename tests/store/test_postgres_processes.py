"""Processes that share a ledger on PostgreSQL: caps, orders of locks, `kill -9`."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from campaigns.money_caps import CAP, FITTING, PROCESSES, ROOT

from tests.patience import wait_until
from tests.store.postgres import DSN, asked, connected
from tests.store.postgres_process import AT_ONCE, MOVES, ROOTS
from tests.store.spender import LEASE_MS
from vegakit.ids import ScopeId
from vegakit.money import Money
from vegakit.policy import ScopeRule
from vegakit.store import PostgresLedger
from vegakit.testing import settle_ended

Start: TypeAlias = Callable[..., "subprocess.Popen[str]"]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def start() -> Generator[Start]:
    """Starts a process that is gone when the test ends."""
    with ExitStack() as ending:

        def begin(*words: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.store.postgres_process", *words],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            ending.enter_context(process)
            ending.callback(process.kill)
            return process

        yield begin


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def opened(schema: str, caps: dict[str, int]) -> None:
    async def declare() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            for name, cap in caps.items():
                await ledger.open(ScopeId(name), ScopeRule(Money(cap)), 0)

    asyncio.run(declare())


def test_a_thousand_callers_in_four_processes_hold_the_cap(schema: str, start: Start) -> None:
    """A hundred cents fit a dollar, and at no time is more than a dollar taken."""
    opened(schema, {ROOT: CAP})
    processes = [start("call", schema, str(number)) for number in range(PROCESSES)]
    assert [line_of(process) for process in processes] == ["ready\n"] * PROCESSES
    for process in processes:
        assert process.stdin is not None
        print("go", file=process.stdin, flush=True)
    most, samples = most_taken(schema, processes)
    told = [process.communicate(timeout=30)[0].strip(" []\n").split(", ") for process in processes]
    admitted, wrongly_refused = (sum(map(int, column)) for column in zip(*told, strict=True))
    assert (admitted, wrongly_refused) == (FITTING, 0)
    assert 0 < most <= CAP
    assert samples > 0


def most_taken(schema: str, processes: "list[subprocess.Popen[str]]") -> tuple[int, int]:
    """Also once when all are done."""
    most = samples = 0
    query = f'SELECT settled + reserved FROM "{schema}".scopes'
    with connected() as server:

        def look() -> bool:
            nonlocal most, samples
            are_done = all(process.poll() is not None for process in processes)
            (taken,) = server.execute(query.encode()).fetchone() or (0,)
            most, samples = max(most, taken), samples + 1
            return are_done

        wait_until(look, 100)
    return most, samples


def test_processes_that_take_many_roots_never_wait_in_a_circle(schema: str, start: Start) -> None:
    """Each asks in an order of its own; all is counted and the server saw no deadlock."""
    opened(schema, {f"root {number}": 10**9 for number in range(ROOTS)})
    before = deadlocks()
    processes = [start("move", schema, name) for name in ("a", "b", "c")]
    for process in processes:
        process.communicate(timeout=100)
    assert [process.returncode for process in processes] == [0, 0, 0]
    each = 3 * MOVES * AT_ONCE // ROOTS
    rows = asked(schema, "SELECT settled, reserved, claims FROM scopes")
    assert rows == [(each, 0, each)] * ROOTS
    assert deadlocks() == before


def deadlocks() -> int:
    with connected() as server:
        server.execute("SELECT pg_stat_force_next_flush()")
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        (found,) = server.execute(query).fetchone() or (0,)
        return found


def test_kills_lose_nothing(schema: str, start: Start) -> None:
    """Six processes are killed while they spend: what was acknowledged is there, the figures add
    up, and what they had reserved comes back when their leases end."""
    opened(schema, {"root": 10**9, "leaf": 10**9, "part": 10**9})
    acknowledged = {line for number in range(2) for line in killed(start, schema, number)}
    answered = asked(schema, "SELECT id FROM claims WHERE state = 'answered'")
    assert acknowledged <= {id_.removesuffix("#1") for (id_,) in answered}
    assert figures(schema) == added_up(schema)
    assert asked(schema, f"SELECT 1 FROM claims WHERE {LIVE} LIMIT 1") == [(1,)]

    async def settle() -> None:
        async with aclosing(PostgresLedger(DSN, schema=schema)) as ledger:
            await settle_ended(ledger, LEASE_MS)

    asyncio.run(settle())
    assert figures(schema) == added_up(schema)
    assert asked(schema, f"SELECT 1 FROM claims WHERE {LIVE}") == []
    assert {row[2] for row in figures(schema)} == {0}


LIVE = "state = 'sent'"


def killed(start: Start, schema: str, number: int) -> set[str]:
    chance = random.Random(number)
    spenders = [start("spend", schema, f"{number}.{which}") for which in range(3)]
    lines = [line_of(each) for each in spenders for _ in range(chance.randrange(1, 30))]
    for spender in spenders:
        spender.kill()
    lines += [line for each in spenders for line in each.communicate()[0].splitlines(True)]
    assert all(lines)
    return {line.strip() for line in lines if line.endswith("\n")}


def figures(schema: str) -> list[tuple[Any, ...]]:
    return asked(schema, "SELECT id, settled, reserved, claims FROM scopes ORDER BY id")


def added_up(schema: str) -> list[tuple[Any, ...]]:
    live = f"sum(CASE WHEN {LIVE} THEN amount ELSE 0 END)::bigint"
    query = f"SELECT scope, sum(charged)::bigint, {live}, count(*) FROM claims GROUP BY scope"
    return asked(schema, f"{query} ORDER BY scope")
