"""Reservations never leak, many processes: runtimes on one ledger file are killed as they spend.

    python -m campaigns.money_kills 200      so many kills

Each process asks a model that takes its time, in every way at once, and is killed with `kill -9`
in the middle. The file then holds what the dead had reserved. A runtime that opens it while their
leases last changes none of that; one that opens it later settles all of it, so that nothing stays
reserved and the budget has been charged what the claims add up to.
"""

import asyncio
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from vegakit.concurrency import SteadyClock
from vegakit.conversation import ModelRequest, ToolMessage, ToolSpec
from vegakit.host import Agent
from vegakit.money import Money, format_money
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger

__all__ = ["WAYS", "Killed", "kill_while_reserved", "main", "reserved_and_drift"]

AT_ONCE = 4
CALLERS = 3
LONGER_THAN_A_LEASE_MS = 60_000
LIVE = "state = 'sent'"


def _looks_first(request: ModelRequest) -> dict[str, Any]:
    if isinstance(request.messages[-1], ToolMessage):
        return {"text": "nothing there"}
    return {"calls": [{"name": "look", "arguments": {}}]}


class Look:
    """A tool by hand: to make one of a function takes longer than most of the lives here."""

    spec = ToolSpec("look", "", {"type": "object", "properties": {}})
    idempotent, timeout_ms = True, 1_000

    async def call(self, _arguments: Mapping[str, Any], _deps: object) -> str:
        await asyncio.sleep(0.001)
        return "nothing"


def _agent(script: Any = "one two three", **settings: Any) -> Agent[Any]:
    return Agent("asked", model=ScriptedModel(script, latency_ms=5), max_tokens=100, **settings)


WAYS = {
    "plain": (_agent(), False),
    "streamed": (_agent(), True),
    "with a budget of its own": (_agent(budget="$0.01"), False),
    "with tools": (_agent(_looks_first, tools=[Look()]), False),
}


class Later(SteadyClock):
    def now(self) -> int:
        return super().now() + LONGER_THAN_A_LEASE_MS


class Killed(NamedTuple):
    """`left` are the reservations of the dead; what follows `settled_early` is after the leases."""

    wanted: int
    kills: int
    holding: int
    left: int
    settled_early: int
    not_settled: int
    still_reserved: int
    drift: int
    took_s: float

    @property
    def holds(self) -> bool:
        wrong = self.settled_early + self.not_settled + self.still_reserved + abs(self.drift)
        return self.holding >= self.wanted and not wrong

    def __str__(self) -> str:
        return (
            f"{self.kills} processes killed, {self.holding} while they held reservations "
            f"({self.left} in all); settled before their leases ended: {self.settled_early}; "
            f"after it: {self.not_settled} not settled, "
            f"{format_money(Money(self.still_reserved))} still reserved, drift {self.drift}; "
            f"{self.took_s:.0f} s: {'ok' if self.holds else 'BROKEN'}"
        )


def kill_while_reserved(kills: int, ways: Sequence[str], folder: Path) -> Killed:
    path, chance, started = folder / "ledger.db", random.Random(kills), time.monotonic()
    asyncio.run(_open(path, SteadyClock()))
    holders: set[str] = set()
    claims: set[str] = set()
    last: set[str] = set()
    killed = 0
    while len(holders) < kills and killed < 10 * kills:
        killed += _kill_some(path, ways, min(AT_ONCE, kills - len(holders)), chance)
        live = _live(path)
        last = live.keys() - claims
        claims |= last
        holders |= set(live.values())
    asyncio.run(_open(path, SteadyClock()))
    settled_early = len(last - _live(path).keys())
    asyncio.run(_open(path, Later()))
    still_reserved, drift = reserved_and_drift(path)
    took_s = time.monotonic() - started
    return Killed(
        kills,
        killed,
        len(holders),
        len(claims),
        settled_early,
        len(_live(path)),
        still_reserved,
        drift,
        took_s,
    )


async def _open(path: Path, clock: SteadyClock) -> None:
    async with Runtime("$1000", ledger=SqliteLedger(path), clock=clock):
        pass


def _kill_some(path: Path, ways: Sequence[str], number: int, chance: random.Random) -> int:
    command = [sys.executable, "-m", "campaigns.money_kills", "spend", str(path), *ways]
    spenders = [
        subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    try:
        for spender in spenders:
            assert spender.stdout is not None
            if not spender.stdout.readline():
                raise RuntimeError("a process ended before it spent; see what it printed above")
        for spender in spenders:
            time.sleep(chance.uniform(0.01, 0.03))
            spender.kill()
    finally:
        for spender in spenders:
            spender.kill()
            spender.communicate()
    return number


def _live(path: Path) -> dict[str, str]:
    """Claims that are not settled, with their holders."""
    with closing(sqlite3.connect(path)) as file:
        return dict(file.execute(f"SELECT id, holder FROM claims WHERE {LIVE}").fetchall())


def reserved_and_drift(path: Path) -> tuple[int, int]:
    """What the root has reserved, and by how much it differs from what the claims add up to."""
    with closing(sqlite3.connect(path)) as file:
        root = file.execute("SELECT reserved, settled FROM scopes WHERE parent IS NULL")
        (reserved, settled), charges = root.fetchone(), file.execute("SELECT charged FROM claims")
        return reserved, settled - sum(charged for (charged,) in charges)


async def _spend(path: str, ways: Sequence[str]) -> None:
    """One process: says when its first answers came, and goes on until it is killed."""
    async with Runtime("$1000", ledger=SqliteLedger(path)) as rt:
        for way in ways:
            await rt.ask(WAYS[way][0], "hi")
        asking = [_ask_for_ever(rt, *WAYS[way]) for way in ways for _ in range(CALLERS)]
        print("spending", flush=True)
        await asyncio.gather(*asking)


async def _ask_for_ever(rt: Runtime, agent: Agent[Any], stream: bool) -> None:
    while True:
        async for _ in rt.ask(agent, "hi").events(stream=stream):
            pass


def main(kills: int = 200) -> int:
    with tempfile.TemporaryDirectory() as folder:
        outcome = kill_while_reserved(kills, list(WAYS), Path(folder))
    print(outcome)
    return int(not outcome.holds)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["spend", path, *ways]:
            asyncio.run(_spend(path, ways))
        case [_, _, *_]:
            sys.exit("usage: python -m campaigns.money_kills [kills]")
        case arguments:
            sys.exit(main(*map(int, arguments)))
