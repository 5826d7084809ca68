"""Workers with one rollout on PostgreSQL: killed in every mode, demoted, without their store."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import pytest
from campaigns.postgres_cluster import Cluster, cluster
from campaigns.rollout_kills import MODES, kill_round

from tests.patience import PATIENCE_S, wait_until
from tests.vesper.caller import SCHEMA, WRONG, opened, runtime
from vegakit.contracts import RolloutRoute, StageChange
from vegakit.vesper import PersonAction, RolloutMode
from vegakit.vesper.evidence import PendingCall, RolloutEvidence

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server() -> Generator[Cluster]:
    with cluster() as made:
        yield made


@pytest.mark.parametrize("mode", MODES)
def test_recorded_workers_that_are_killed_lose_and_double_nothing(
    mode: RolloutMode, server: Cluster
) -> None:
    """Each is killed once while a person moves the rollout; `just rollouts full` kills hundreds."""
    found = kill_round(server, mode, 0, is_recorded=True, kills=1, groups=2)
    assert found.holds, str(found)
    assert found.kills


def test_plain_workers_that_are_killed_lose_nothing_that_was_acknowledged(server: Cluster) -> None:
    """What was under way may be counted, and is not made again."""
    found = kill_round(server, RolloutMode.DUAL_VERIFY, 0, is_recorded=False, kills=1, groups=2)
    assert found.holds, str(found)


def forget_routes() -> None:
    """Planted: a call takes the route of now, and not the one that it had."""

    async def forgotten(self: RolloutEvidence, key: str) -> RolloutRoute | None:
        return None

    RolloutEvidence._route_before = forgotten  # pyright: ignore[reportPrivateUsage]


def forget_calls() -> None:
    """Planted: an event is counted under an id that is new in each life."""

    async def counted(self: RolloutEvidence, call: str, pending: PendingCall) -> StageChange | None:
        assert pending.event is not None
        return await self._fold(pending.event, token_hex(8), is_kept=False)  # pyright: ignore[reportPrivateUsage]

    RolloutEvidence._keep = counted  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("fault", "shows_as"), [(forget_routes, "twice"), (forget_calls, "doubled")]
)
def test_planted_faults_are_found(
    fault: Callable[[], None], shows_as: str, server: Cluster
) -> None:
    """Within a few rounds, since when a worker is killed is left to chance."""
    for seed in range(1, 6):
        found = kill_round(
            server, RolloutMode.DIRECT_ONLY, seed, is_recorded=True, groups=2, fault=fault
        )
        if getattr(found, shows_as):
            return
    pytest.fail(f"{fault.__name__} was not found")


# Demotion, and a store that is away.


class Caller:
    """A process that makes a call for each line that it is sent."""

    def __init__(self, dsn: str, folder: Path, sample: float) -> None:
        self._said = folder / "said"
        with self._said.open("w", encoding="utf-8") as said:
            command = [sys.executable, "-m", "tests.vesper.caller", dsn, str(sample)]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.DEVNULL, text=True
            )

    @property
    def calls(self) -> list[tuple[float, str]]:
        whole = self._said.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
        return [(float(line.split()[0]), line.split()[1]) for line in whole]

    def wait_for(self, who: str, after: float, within_s: float = 3 * PATIENCE_S) -> None:
        """Waits for a call that began after this, and that this path answered."""

        def is_answered() -> bool:
            assert self.process.poll() is None, "it ended"
            print(file=self.process.stdin, flush=True)
            return any(began > after and each == who for began, each in self.calls)

        wait_until(is_answered, within_s)

    def answered_after(self, moment: float) -> set[str]:
        return {who for began, who in self.calls if began > moment and who != "ran"}


@contextmanager
def calling(dsn: str, folder: Path, sample: float = 1.0) -> Generator[Caller]:
    caller = Caller(dsn, folder, sample)
    try:
        yield caller
        caller.process.communicate(timeout=3 * PATIENCE_S)
    finally:
        caller.process.kill()
        caller.process.wait()


def counted(server: Cluster) -> int:
    query = "SELECT convert_from(value, 'UTF8') FROM documents WHERE kind = 'rollouts'"
    [(value,)] = server.asked(SCHEMA, query)
    return json.loads(str(value))["machine"]["evidence"]["production"]["runs"]


async def promoted(dsn: str, sample: float = 1.0) -> None:
    async with runtime(dsn) as rt, opened(rt, sample) as double:
        while double.status().mode is not RolloutMode.DIRECT_ONLY:
            await double.decide(PersonAction.PROMOTE, "ada")


def test_a_worker_that_compares_nothing_hears_the_news_too(tmp_path: Path) -> None:
    """It has nothing to tell its store, and would notice neither that it is away nor a decision."""
    with cluster() as server:
        asyncio.run(promoted(server.dsn, 1e-9))
        with calling(server.dsn, tmp_path, 1e-9) as caller:
            caller.wait_for("candidate", 0)
            server.stop()
            away = time.monotonic()
            caller.wait_for("reference", away + 2.1)
            assert caller.answered_after(away + 2.1) == {"reference"}
            server.start()
            caller.wait_for("candidate", time.monotonic())
            stopped = asyncio.run(_stop(server.dsn))
            caller.wait_for("reference", stopped + 1.1)
            assert caller.answered_after(stopped + 1.1) == {"reference"}


async def _stop(dsn: str) -> float:
    async with runtime(dsn) as rt, opened(rt) as double:
        await double.decide(PersonAction.STOP, "ada")
        return time.monotonic()


def test_workers_run_the_reference_after_a_demotion_and_without_news(tmp_path: Path) -> None:
    """A process that has seen a fault does so with its next call, another one after a second, and
    one whose store is away after two: calls that begin later than that, however slow the machine
    is. No comparison of theirs is lost in the outage."""
    with cluster() as server:
        asyncio.run(promoted(server.dsn))
        with calling(server.dsn, tmp_path) as caller:
            caller.wait_for("candidate", 0)
            server.stop()
            away = time.monotonic()
            caller.wait_for("reference", away + 2.1)
            assert caller.answered_after(away + 2.1) == {"reference"}
            server.start()
            caller.wait_for("candidate", time.monotonic())
            demoted = asyncio.run(_meet_fault(server.dsn))
            caller.wait_for("reference", demoted + 1.1)
            assert caller.answered_after(demoted + 1.1) == {"reference"}
        [ran] = [number for number, word in caller.calls if word == "ran"]
        assert counted(server) == ran + 2, "those of the caller, and two that met the fault"


async def _meet_fault(dsn: str) -> float:
    """Returns when it had told the store."""
    async with runtime(dsn) as rt, opened(rt) as double:
        assert (await double(WRONG))[0] == "candidate"
        # The comparison is made beside, so a call may come before it; the store is not waited for.
        while double.status().mode is RolloutMode.DIRECT_ONLY:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0)
        assert (await double(WRONG))[0] == "reference"
        await double.settle()
        return time.monotonic()
