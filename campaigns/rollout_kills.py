"""`kill -9` of workers that share a rollout on PostgreSQL: `python -m campaigns.rollout_kills 5`.

Four workers at once answer calls of one rollout, whose evidence is on a PostgreSQL cluster of this
campaign's own. Their agents order things over HTTP from a shop in this process, which does what it
is asked once for each key. Workers are killed at random moments and started again, in every mode:

- recorded: each has a journal, and goes on with its run. Meanwhile a person moves the rollout to
  another mode and back, so that a call that forgot its route would take another one.
- plain: there is no journal. A call that was cut off is not made again.

This process knows what the workers told it, what the shop was asked for, and nothing of ours. Then
no item was ordered twice; the evidence holds each call that was acknowledged once, and none that
was never begun: of recorded runs, each call exactly once. Prints its figures last; exits 1 if one
is off.
"""

import asyncio
import json
import logging
import multiprocessing
import random
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show

from campaigns.postgres_cluster import Cluster, cluster
from campaigns.rollout_worker import NAME, WIDTH, Fault, Seat, Shop, live, opened, prompt
from vegakit.contracts import STAGES, share_of_hash
from vegakit.sdk import Runtime
from vegakit.store import PostgresStore
from vegakit.vesper import CallInputs, PersonAction, RolloutMode

__all__ = ["MODES", "Found", "kill_round", "main"]

MODES = {
    RolloutMode.REFERENCE_ONLY: 0,
    RolloutMode.SHADOW: 1,
    RolloutMode.CANARY: 3,
    RolloutMode.DUAL_VERIFY: 4,
    RolloutMode.DIRECT_ONLY: 5,
}
"""The stage that each is tried at."""
WORKERS, GROUPS = 4, 4
LONGEST_S = 0.4
MOST_LIVES = 12
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["campaigns.rollout_worker", "campaigns.postgres_cluster"])


# Lives.


class Told:
    """What the lives of one worker have told."""

    def __init__(self) -> None:
        self.kills = 0
        self.begun, self.counted = set[str](), set[str]()
        self.wrong = 0
        self.is_done = False

    def hear(self, word: str, what: Sequence[Any]) -> None:
        match word:
            case "begun":
                self.begun |= {*what}
            case "counted":
                self.counted |= {*what}
            case "answered":
                self.wrong += sum(said != f"bought {item}" for item, said in what)
            case "done":
                self.is_done = True
            case _:
                pass


def work(seat: Seat, kills: int, chance: random.Random) -> Told:
    """Starts lives of a worker until its items are done, and kills the first of them."""
    told = Told()
    for life in range(MOST_LIVES):
        left = (
            seat.items if seat.is_recorded else tuple(i for i in seat.items if i not in told.begun)
        )
        doomed_after = chance.uniform(0, LONGEST_S) if life < kills else None
        _one_life(seat._replace(items=left), doomed_after, told)
        if told.is_done:
            return told
    raise RuntimeError(f"worker {seat.number} was not done after {MOST_LIVES} lives")


def _one_life(seat: Seat, doomed_after: float | None, told: Told) -> None:
    hears, says = _FORKS.Pipe(duplex=False)
    life = _FORKS.Process(target=live, args=(seat, says))
    life.start()
    says.close()
    ends, is_killed = None, False
    try:
        while True:
            if ends is not None and not hears.poll(max(0.0, ends - time.monotonic())):
                life.kill()
                ends, is_killed = None, True
            word, what = hears.recv()
            told.hear(word, what)
            if word == "up" and doomed_after is not None:
                ends = time.monotonic() + doomed_after
    except EOFError:
        # Not by its exit code: when threads start processes side by side, one may read the code of
        # another's, and that one finds none.
        if not (is_killed or told.is_done):
            raise RuntimeError("a worker failed by itself; see what it printed above") from None
        told.kills += is_killed
    finally:
        life.join()
        hears.close()


# A round.


class Found(NamedTuple):
    kills: int = 0
    calls: int = 0
    moves: int = 0
    repeated: int = 0
    """Requests that the shop knew from a life before."""
    twice: int = 0
    missing: int = 0
    wrong: int = 0
    lost: int = 0
    doubled: int = 0
    blamed: int = 0

    @property
    def holds(self) -> bool:
        return not any(self[4:])

    def __add__(self, other: Any) -> "Found":
        return Found(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items())


def items_of(worker: int, count: int) -> tuple[str, ...]:
    """Every other one is among those that a canary's candidate answers."""
    found, number = list[str](), 0
    while len(found) < count:
        number += 1
        item = f"w{worker}-{number}"
        share = share_of_hash(NAME, CallInputs((prompt(item),), {}).digest())
        if (share < STAGES[MODES[RolloutMode.CANARY]].candidate_share) == bool(len(found) % 2):
            found.append(item)
    return tuple(found)


async def _move(dsn: str, schema: str, stage: int) -> None:
    """A person moves the rollout, stage by stage."""
    store = PostgresStore(dsn, schema=schema)
    async with Runtime(store=store, observable=False) as rt, opened(rt) as buy:
        while (now := buy.status().stage) != stage:
            action = PersonAction.PROMOTE if now < stage else PersonAction.DEMOTE
            await buy.decide(action, "ada")


class Person(threading.Thread):
    """Moves the rollout between two stages until it is told to stop."""

    def __init__(self, dsn: str, schema: str, stages: tuple[int, int]) -> None:
        super().__init__(daemon=True)
        self._place, self._stages, self._done = (dsn, schema), stages, threading.Event()
        self.moves = 0

    def run(self) -> None:
        while not self._done.wait(0.3):
            self.moves += 1
            asyncio.run(_move(*self._place, self._stages[self.moves % 2]))

    def end(self) -> int:
        self._done.set()
        self.join()
        return self.moves


def kill_round(
    server: Cluster,
    mode: RolloutMode,
    seed: int,
    *,
    is_recorded: bool,
    kills: int = 2,
    groups: int = GROUPS,
    fault: Fault | None = None,
) -> Found:
    """Four workers, each killed so often. `fault` is planted in all their lives."""
    stage, schema = MODES[mode], f"kills_{mode}_{seed}_{int(is_recorded)}"
    shop, items = Shop(), [items_of(number, groups * WIDTH) for number in range(WORKERS)]
    asyncio.run(_move(server.dsn, schema, stage))
    told = list[Told]()
    with shop.open() as port:
        seats = [
            Seat(server.dsn, schema, number, port, items[number], is_recorded, fault)
            for number in range(WORKERS)
        ]

        def serve(seat: Seat) -> None:
            told.append(work(seat, kills, random.Random(f"{seed} {mode} {seat.number}")))

        # Between modes that compare every call; a stopped rollout stays as it is.
        person = Person(server.dsn, schema, (stage, 5 if stage == 1 else 1))
        if is_recorded and stage:
            person.start()
        threads = [threading.Thread(target=serve, args=(seat,)) for seat in seats]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        moves = person.end() if person.is_alive() else 0
    if len(told) < WORKERS:
        raise RuntimeError("a worker was not done; see above")
    return _account(server, schema, shop, told, moves, is_compared=bool(stage))


def _account(
    server: Cluster, schema: str, shop: Shop, told: list[Told], moves: int, *, is_compared: bool
) -> Found:
    rows = server.asked(
        schema, "SELECT convert_from(value, 'UTF8') FROM documents WHERE kind = 'rollouts'"
    )
    [record] = [json.loads(str(value)) for (value,) in rows]
    evidence = record["machine"]["evidence"].get("production", {})
    runs, failures = evidence.get("runs", 0), evidence.get("failures", 0)
    begun = {item for each in told for item in each.begun}
    counted = {item for each in told for item in each.counted}
    orders = shop.counts()
    return Found(
        kills=sum(each.kills for each in told),
        calls=len(begun),
        moves=moves,
        repeated=shop.requests - len(shop.orders),
        twice=sum(count > 1 for count in orders.values()),
        missing=len(counted - {*orders}),
        wrong=sum(each.wrong for each in told),
        lost=max(0, len(counted) - runs) if is_compared else 0,
        doubled=max(0, runs - (len(begun) if is_compared else 0)),
        blamed=failures,
    )


def _figures(found: Found) -> list[Figure]:
    none = {
        "items ordered twice, at the shop": found.twice,
        "items not ordered, of calls that were acknowledged": found.missing,
        "wrong answers": found.wrong,
        "comparisons lost, of calls that were acknowledged": found.lost,
        "comparisons counted twice": found.doubled,
        "comparisons that blame a candidate without fault": found.blamed,
    }
    return [
        Figure("workers killed", f"{found.kills:,}"),
        Figure("calls", f"{found.calls:,}"),
        Figure("moves of the rollout meanwhile", f"{found.moves:,}"),
        Figure("orders asked for again under their key", f"{found.repeated:,}"),
        *(Figure(name, f"{count:,}", "0", count == 0) for name, count in none.items()),
    ]


def main(rounds: int = 2) -> int:
    logging.disable(logging.WARNING)  # of moves, which are what this is about
    began, total = time.monotonic(), Found()
    with cluster() as server:
        for mode in MODES:
            for is_recorded in (True, False):
                found = Found()
                for seed in range(rounds):
                    found += kill_round(server, mode, seed, is_recorded=is_recorded)
                print(f"{mode}, {'recorded' if is_recorded else 'plain'}: {found}", flush=True)
                total += found
    print(f"{time.monotonic() - began:.0f} s")
    figures = _figures(total)
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
