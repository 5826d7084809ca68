"""Nodes with state under `kill -9`: transfers on PostgreSQL from four processes at once.

    python -m campaigns.node_state          1,000 transfers
    python -m campaigns.node_state full     10,000

Each transfer is a request of its own key over few accounts, so that they meet all the time. Workers
are killed at random moments and begin again a little before where they were, and each also sends
requests of the others: the same key comes twice, often at once. Meanwhile this process adds up the
accounts again and again. Afterwards each request has one outcome, and each account exactly what all
transfers give together: one that was lost or carried out twice shows to the cent.

Then faults are planted, and each has to show: rows that are read without a lock, and a node without
its key. It prints its figures last and exits with 1 if one falls short.
"""

import asyncio
import multiprocessing
import os
import sys
import threading
import time
from decimal import Decimal
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg

from vegakit.contracts import NodeProgram, NodeStatus, NodeType
from vegakit.store import PostgresRecords, SqlDialect
from vegakit.vesper import DirectPath, NodeHost, PythonPath, grant_of, load_node, parse_node

FILE = Path(__file__).parents[1] / "examples" / "nodes" / "account_transfer.vsp"
SIZES = {"": 1_000, "full": 10_000}
WORKERS, AT_ONCE, BACK = 4, 4, 8
START = Decimal("10000.00")
_KILL_S = (0.1, 0.8)
_LONGEST_S = 1_800
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["psycopg", "vegakit.vesper.node_host", "vegakit.store.records"])


class Round(NamedTuple):
    """A round: where, how many transfers over how many accounts, with kills and a fault or not."""

    url: str
    transfers: int
    accounts: int = 20
    kills: int = 0
    fault: str = ""
    seed: int = 1


class Found(NamedTuple):
    """What a round came to."""

    transfers: int
    outcomes: int
    wrong_accounts: int
    reads: int
    wrong_reads: int
    killed: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Return whether nothing was lost, doubled or seen half done."""
        return not self.wrong_accounts and not self.wrong_reads and self.outcomes == self.transfers


class _Unlocked(SqlDialect):
    """The planted fault: what is read may be changed by others before it is written."""

    columns = PostgresRecords.dialect.columns

    def column(self, kind: NodeType) -> str:
        return PostgresRecords.dialect.column(kind)

    def given(self, kind: NodeType, value: Any) -> Any:
        return PostgresRecords.dialect.given(kind, value)


def transfer(played: Round, number: int) -> dict[str, str]:
    """Return the inputs of a transfer, the same ones for the same number."""
    random = Random(number)
    source, target = random.sample(range(played.accounts), 2)
    if played.fault:
        # Without locks two transfers in opposite directions wait for each other, and the server
        # ends one: only those in one direction show what else is wrong.
        source, target = sorted((source, target))
    amount = Decimal(random.randint(1, 999)) / 100
    return {
        "request_id": f"request {number}",
        "source_id": f"account {source}",
        "target_id": f"account {target}",
        "amount": str(amount),
    }


def node_of(fault: str) -> NodeProgram:
    """Return the node, or one without its key."""
    if fault != "no key":
        return load_node(FILE).program
    text = FILE.read_text().replace("idempotent: {key: request_id}\n", "")
    return parse_node(text.encode(), FILE.name).program


def work(played: Round, place: int, done: Any) -> None:
    """Be one worker: send its transfers, and now and then one of all."""
    asyncio.run(_work(played, place, done))


async def _work(played: Round, place: int, done: Any) -> None:
    records = PostgresRecords(played.url)
    if played.fault == "no lock":
        records.dialect = _Unlocked()
    node, random = node_of(played.fault), Random()
    path = (PythonPath, DirectPath)[place % 2]
    host = NodeHost(records, grant=grant_of(["database"]), path=path)
    mine = range(place, played.transfers, WORKERS)
    begin = max(0, done.value - BACK)
    for at in range(begin, len(mine), AT_ONCE):
        numbers = [*mine[at : at + AT_ONCE], random.randrange(played.transfers)]
        sent = [host.run(node, transfer(played, number)) for number in numbers]
        outcomes = await asyncio.gather(*sent)
        assert all(each.status is NodeStatus.SUCCESS for each in outcomes), outcomes
        done.value = at + AT_ONCE


class _Watcher(threading.Thread):
    """Adds up the accounts again and again: what is committed is always whole."""

    def __init__(self, played: Round) -> None:
        super().__init__(daemon=True)
        self._played, self._ended = played, threading.Event()
        self.reads = self.wrong = 0

    def run(self) -> None:
        total = START * self._played.accounts
        with connected(self._played.url) as server:
            while not self._ended.wait(0.005):
                [(found, least)] = server.execute(
                    "SELECT SUM(balance), MIN(balance) FROM accounts"
                ).fetchall()
                self.reads += 1
                self.wrong += found != total or least < 0

    def end(self) -> None:
        """Stop, after one look more."""
        self._ended.set()
        self.join()


def connected(url: str) -> "psycopg.Connection[Any]":
    """Return a connection to the schema of a URL."""
    address, _, schema = url.partition("?schema=")
    server = psycopg.connect(address, autocommit=True, connect_timeout=30)
    server.execute(f"SET search_path TO {schema}".encode())
    return server


def play(played: Round) -> Found:
    """Play a round, and look at what is there afterwards."""
    state = node_of("").state("accounts")
    records = PostgresRecords(played.url)
    names = [f"account {number}" for number in range(played.accounts)]
    records.put(state, [{"id": name, "owner": "", "balance": str(START)} for name in names])
    records.close()
    watcher, began = _Watcher(played), time.monotonic()
    watcher.start()
    killed = _all_done(played)
    watcher.end()
    wrong, outcomes = _compared(played, names)
    seconds = time.monotonic() - began
    return Found(played.transfers, outcomes, wrong, watcher.reads, watcher.wrong, killed, seconds)


def _all_done(played: Round) -> int:
    """Run all workers to their end; return how often one was killed."""
    random, killed = Random(played.seed), 0
    done = [_FORKS.Value("q", 0, lock=False) for _ in range(WORKERS)]
    workers: list[BaseProcess | None] = []
    workers += [_started(played, place, done[place]) for place in range(WORKERS)]
    last = time.monotonic() + _LONGEST_S
    while any(worker is not None for worker in workers):
        time.sleep(random.uniform(*_KILL_S) if killed < played.kills else 0.02)
        if time.monotonic() > last:
            raise TimeoutError(f"the workers did not end within {_LONGEST_S} s")
        for place, worker in enumerate(workers):
            if worker is None or worker.is_alive():
                continue
            # One that ended by itself is done; one that was killed begins again.
            workers[place] = None
            if worker.exitcode != 0:
                assert worker.exitcode == -9, worker.exitcode
                workers[place] = _started(played, place, done[place])
        alive = [worker for worker in workers if worker is not None and worker.is_alive()]
        if alive and killed < played.kills:
            chosen = random.choice(alive)
            chosen.kill()
            chosen.join()
            killed += 1
    return killed


def _started(played: Round, place: int, done: Any) -> BaseProcess:
    worker = _FORKS.Process(target=work, args=(played, place, done))
    worker.start()
    return worker


def _compared(played: Round, names: list[str]) -> tuple[int, int]:
    """Return how many accounts are not as all transfers together make them, and how many outcomes
    there are."""
    expected = dict.fromkeys(names, START)
    for number in range(played.transfers):
        given = transfer(played, number)
        expected[given["source_id"]] -= Decimal(given["amount"])
        expected[given["target_id"]] += Decimal(given["amount"])
    with connected(played.url) as server:
        found = dict(server.execute("SELECT id, balance FROM accounts").fetchall())
        [(outcomes,)] = server.execute("SELECT COUNT(*) FROM node_outcomes").fetchall()
    wrong = sum(found[name] != expected[name] for name in names)
    return wrong, outcomes


def own_url(name: str) -> str:
    """Return the address of an empty schema on the server of the tests."""
    dsn = os.environ.get("VEGA_TEST_POSTGRES", "host=127.0.0.1 port=5432 dbname=test")
    with psycopg.connect(dsn, autocommit=True, connect_timeout=30) as server:
        server.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
        at = server.info
        return f"postgresql://{at.user}@{at.host}:{at.port}/{at.dbname}?schema={name}"


def main(arguments: list[str]) -> int:
    """Run the campaign, and return its status."""
    transfers = SIZES[arguments[0] if arguments else ""]
    schema = f"node_state_{os.getpid()}"
    found = play(Round(own_url(schema), transfers, kills=transfers // 100))
    planted = {
        fault: play(Round(own_url(schema), 200, accounts=3, fault=fault))
        for fault in ("no lock", "no key")
    }
    own_url(schema)  # and with it the schema is gone
    missed = [fault for fault, each in planted.items() if not each.wrong_accounts]
    print(
        f"{found.transfers:,} transfers by {WORKERS} processes in {found.seconds:.0f} s, "
        f"{found.killed} killed"
    )
    print(f"{found.outcomes:,} requests have an outcome ({found.transfers:,})")
    print(f"{found.wrong_accounts} accounts are not to the cent (0)")
    print(f"{found.wrong_reads} of {found.reads:,} sums on the way were wrong (0)")
    print(f"planted faults that showed: {len(planted) - len(missed)} ({len(planted)})")
    return 0 if found.holds and not missed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
