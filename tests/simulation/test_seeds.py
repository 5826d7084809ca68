"""The whole runtime under faults, by the thousand; the same seed is the same run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns.simulation import run_seeds, simulate

PIECE = 100


@pytest.mark.parametrize("first", range(0, 1_000, PIECE))
def test_no_invariant_breaks(first: int) -> None:
    """Run twice, once with its program stored and reloaded at every fiftieth step."""
    tally = run_seeds(range(first, first + PIECE))
    assert tally.failures == []
    assert tally.steps > 50 * PIECE


def test_a_program_may_be_stored_at_any_step() -> None:
    """Going through JSON after each one changes nothing."""
    assert run_seeds(range(50), restore_every=1).failures == []


def test_faults_of_every_kind_happen() -> None:
    """Else the invariants hold for nothing."""
    tally = run_seeds(range(200))
    assert len(tally.faults) >= 32
    assert min(tally.faults.values()) >= 3


def test_a_seed_is_the_same_run_in_another_process() -> None:
    """Whatever the order of sets and the identity of objects there."""
    command = "from campaigns.simulation import simulate; print(simulate(7).digest)"
    for hash_seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", command],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == simulate(7).digest


def test_another_seed_is_another_run() -> None:
    """Two in a row are the same, two others are not."""
    assert simulate(1).digest == simulate(1).digest != simulate(2).digest
