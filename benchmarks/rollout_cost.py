"""What a rollout costs its calls: `python -m benchmarks.rollout_cost [full]`.

- a decision: the route of a call, an event with what follows from it, of an exact reference and of
  a noisy one; against a limit that grows with how slow this machine is, by a loop in the same run
- evidence after a million events (100,000 without `full`) beside the first ones, and its size
- a call that is verified beside its paths alone, by turns in one run: paths that wait, by the
  clock; paths that compute, by the CPU that they take

Prints its figures last; exits 1 when one falls short.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

from campaigns.admission import scale
from campaigns.postgres_cluster import cluster

from benchmarks.figures import Figure, at_most, show
from vegakit.concurrency import SteadyClock
from vegakit.contracts import Compared, Evidence, PairedTally, Rollout, RolloutRule, Tally
from vegakit.ports import Store
from vegakit.records import to_json
from vegakit.sdk import Runtime
from vegakit.store import MemoryStore, PostgresStore
from vegakit.vesper import PersonAction, RolloutMode, RolloutRecord, rollout
from vegakit.vesper.evidence import RolloutEvidence, initial_rollout

__all__ = ["decision_figures", "evidence_figures", "main", "verified_figures"]

MOST_US, LATER, WAITING, COMPUTING = 20.0, 1.5, 1.1, 1.15
MOST_BYTES = 1_000
WAIT_S, LOOPS = 0.1, 100_000
PAIRS = 40
BATCH = 1_000


# Decisions.


def _best_us(what: Callable[[], object], rounds: int = 9, calls: int = 2_000) -> float:
    times = list[float]()
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(calls):
            what()
        times.append(time.process_time() - began)
    return min(times) / calls * 1e6


def decision_figures() -> list[Figure]:
    """Each decides in full: no promotion is due, and none comes while it is timed."""
    exact = Evidence("v1", production=Tally(1_000_000, 90), noise=Tally(100))
    noisy = Evidence("v1", pairs=PairedTally(60_000, 900_000, 40_000), noise=Tally(100, 2))
    figures, limit = list[Figure](), MOST_US * scale()
    for word, evidence in (("exact", exact), ("noisy", noisy)):
        machine = Rollout("timed", RolloutRule(), evidence, stage=4)
        again = None if word == "exact" else True
        event = Compared(agrees=True, reference_agrees=again)
        parts: dict[str, Callable[[], object]] = {
            "the route of a call": lambda machine=machine: machine.route("1f" * 16, "2e" * 8),
            "an event and its decision": lambda machine=machine, event=event: machine.step(event),
        }
        for name, part in parts.items():
            figures.append(at_most(round(limit, 1), _best_us(part), "µs", f"{name}, {word}"))
        assert machine.stage == 4, "it was moved, and then there is less to decide"
    return figures


# Evidence.


async def _record_all(events: int) -> tuple[float, float, int]:
    """Returns the CPU of an event among the first thousand and among the last, and the bytes of the
    record. Of the last there are several thousand, of which the best counts."""
    store = MemoryStore()
    # It goes no further, so that all events meet the same stage.
    rule = RolloutRule(calibration=0, last=RolloutMode.SHADOW)
    initial = initial_rollout("timed", rule, "v1", "")
    evidence = RolloutEvidence(store, SteadyClock(), initial, lambda _change: None)
    times = list[float]()
    for _ in range(events // BATCH):
        began = time.process_time()
        for _ in range(BATCH):
            await evidence.record(Compared(agrees=True))
        times.append((time.process_time() - began) / BATCH * 1e6)
    await evidence.aclose()
    assert evidence.machine.evidence.production.runs == events
    found = await store.get("rollouts", evidence.key)
    assert found is not None
    return min(times[:5]), min(times[-5:]), len(found[0])


def evidence_figures(events: int) -> list[Figure]:
    first, last, size = asyncio.run(_record_all(events))
    empty = len(to_json(RolloutRecord(initial_rollout("timed", RolloutRule(), "v1", ""))))
    ratio = last / first
    return [
        Figure("an event kept, of the first 1,000", f"{first:.1f} µs"),
        Figure(f"of the last 1,000 of {events:,}", f"{last:.1f} µs"),
        Figure("  of that of the first", f"{ratio:.2f} ×", f"≤ {LATER:g} ×", ratio <= LATER),
        Figure("bytes of the record, empty", f"{empty:,}"),
        at_most(MOST_BYTES, size, "bytes", f"  after {events:,} events"),
    ]


# Verified calls.


async def wait(number: int) -> int:
    await asyncio.sleep(WAIT_S)
    return number


async def wait_less(number: int) -> int:
    await asyncio.sleep(WAIT_S * 0.8)
    return number


async def compute(number: int) -> int:
    for each in range(LOOPS):
        number ^= each
    return number


async def compute_too(number: int) -> int:
    for each in reversed(range(LOOPS)):
        number ^= each
    return number


Path = Callable[[int], Awaitable[int]]


async def _verified(
    store: Store, paths: tuple[Path, Path], clock: Callable[[], float], *, is_sum: bool
) -> tuple[float, float]:
    """Returns how much longer a verified call takes than the slower of its paths, or than both
    together, and what that adds in seconds. All are timed by turns."""
    one, two = paths
    alone, verified = list[float](), list[float]()
    async with (
        Runtime(store=store, observable=False) as rt,
        rollout(rt, "v", reference=one, candidate=two, rule=RolloutRule(calibration=0)) as both,
    ):
        while both.status().mode is not RolloutMode.DUAL_VERIFY:
            await both.decide(PersonAction.PROMOTE, "ada")
        for number in range(PAIRS):
            times = [await _timed(path, number, clock) for path in paths]
            alone.append(sum(times) if is_sum else max(times))
            verified.append(await _timed(both, number, clock))
        assert both.status().mode is RolloutMode.DUAL_VERIFY
    base, both_s = median(alone), median(verified)
    return both_s / base, both_s - base


async def _timed(path: Path, number: int, clock: Callable[[], float]) -> float:
    began = clock()
    await path(number)
    return clock() - began


def verified_figures() -> list[Figure]:
    figures = list[Figure]()
    waiting, computing = (wait, wait_less), (compute, compute_too)

    def measure(name: str, limit: float | None, timed: tuple[float, float]) -> None:
        ratio, added = timed
        shown = "" if limit is None else f"≤ {limit:g} ×"
        figures.append(Figure(name, f"{ratio:.3f} ×", shown, limit is None or ratio <= limit))
        figures.append(Figure("  that is", f"{added * 1e6:,.0f} µs more"))

    measure(
        f"verified, paths that wait {WAIT_S * 1000:.0f} ms, to the slower one",
        WAITING,
        asyncio.run(_verified(MemoryStore(), waiting, time.perf_counter, is_sum=False)),
    )
    with cluster() as server:
        measure(
            "  with its evidence on PostgreSQL",
            WAITING,
            asyncio.run(
                _verified(PostgresStore(server.dsn), waiting, time.perf_counter, is_sum=False)
            ),
        )
    measure(
        "verified, paths that compute, to both",
        COMPUTING,
        asyncio.run(_verified(MemoryStore(), computing, time.process_time, is_sum=True)),
    )
    return figures


def main(size: str = "") -> int:
    logging.disable(logging.WARNING)
    events = 1_000_000 if size == "full" else 100_000
    figures = [*decision_figures(), *evidence_figures(events), *verified_figures()]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
