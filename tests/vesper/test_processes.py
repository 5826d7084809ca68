"""Real processes with one rollout on one store, one of which is killed."""

import asyncio
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import IO

import pytest

from tests.vesper.buyer import ITEMS
from tests.vesper.worker import main
from vegakit.vesper import RolloutMode

CALLS = 40


def start(store: Path, calls: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.vesper.worker", str(store), str(calls)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_that_are_killed_lose_nothing(tmp_path: Path, capsys) -> None:
    """All that was said to be counted is, by whichever process; of one that is killed, the call
    that was under way may be, too."""
    store = tmp_path / "evidence.db"
    asyncio.run(main(str(store), 1))  # makes the file
    killed, *others = [start(store, calls) for calls in (10_000, CALLS, CALLS)]
    assert killed.stdout is not None
    out: IO[str] = killed.stdout
    said = len([*islice(out, CALLS)])
    killed.kill()
    said += sum(1 for line in out if line == "counted\n")
    assert [(each.communicate()[0].count("counted\n"), each.returncode) for each in others] == [
        (CALLS, 0)
    ] * 2
    killed.wait()
    out.close()
    capsys.readouterr()
    asyncio.run(main(str(store), 1))
    counted = int(capsys.readouterr().out.split()[-1])
    assert counted - (said + 2 * CALLS + 2) in (0, 1)


def buy(
    folder: Path, mode: RolloutMode, killed_at: int, *more: str
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.vesper.buyer", str(folder), mode, str(killed_at)]
    return subprocess.run([*command, *more], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("more", [(), ("program",)], ids=["called", "in a program"])
@pytest.mark.parametrize("killed_at", [1, 5, 8])
@pytest.mark.parametrize(
    "mode", [RolloutMode.SHADOW, RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY]
)
def test_a_run_that_is_killed_orders_and_counts_once(
    mode: RolloutMode, killed_at: int, more: tuple[str, ...], tmp_path: Path
) -> None:
    """Whoever answers, and wherever it is killed: three orders, three comparisons."""
    assert buy(tmp_path, mode, killed_at, *more).returncode == -signal.SIGKILL
    resumed = buy(tmp_path, mode, 0, *more)
    assert resumed.stdout == "done done done 3 0\n", resumed.stderr
    assert sorted((tmp_path / "orders").read_text().split()) == sorted(ITEMS)


def test_a_fallback_that_is_killed_does_not_repeat_what_was_done(tmp_path: Path) -> None:
    """The candidate ordered and failed, and the process is killed while the reference is asked: in
    the next one nothing of the candidate is made again, and its order is still known."""
    mode = RolloutMode.DIRECT_ONLY
    assert buy(tmp_path, mode, 3, "fails").returncode == -signal.SIGKILL
    resumed = buy(tmp_path, mode, 0, "fails")
    assert resumed.stdout == "done done done 3 3\n", resumed.stderr
    assert sorted((tmp_path / "orders").read_text().split()) == sorted(ITEMS)


@pytest.mark.parametrize(
    "mode", [RolloutMode.SHADOW, RolloutMode.DUAL_VERIFY, RolloutMode.DIRECT_ONLY]
)
def test_an_order_that_is_cut_off_is_a_persons_to_decide_about(
    mode: RolloutMode, tmp_path: Path
) -> None:
    """Whoever made it: the reference does not make it in the candidate's place."""
    assert buy(tmp_path, mode, 2, "orders").returncode == -signal.SIGKILL
    resumed = buy(tmp_path, mode, 0)
    assert "vega resume" in resumed.stderr, resumed.stdout
    assert "demoted" not in resumed.stderr
    assert (tmp_path / "orders").read_text().split() == [*ITEMS[:2]]
