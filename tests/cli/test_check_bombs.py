"""Hostile source through `vega check`, in a process of its own that is measured."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.compiled.test_attacks_vega import BOMBS, ids

CHECK = "import sys; from vegakit.cli import main; sys.exit(main(['check', sys.argv[1]]))"
MOST_MS, MOST_MB = 500, 80


MEASURE = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""In a small process between: the peak of a process begins with that of the one it came from."""


def measured(path: Path) -> tuple[int, float, float]:
    """Its status, its CPU time in ms, and its peak in MB."""
    words = [sys.executable, "-c", MEASURE, "-c", CHECK, str(path)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    status, cpu_s, peak_kb = ran.stdout.splitlines()[-1].split()
    return int(status), float(cpu_s) * 1000, float(peak_kb) / 1024


def is_cheap(bomb: Path, empty: Path) -> bool:
    _, idle_ms, _ = measured(empty)
    status, cpu_ms, peak_mb = measured(bomb)
    assert status == 1
    return cpu_ms - idle_ms <= MOST_MS and peak_mb <= MOST_MB


@pytest.mark.parametrize("row", BOMBS, ids=ids)
def test_a_bomb_costs_little(tmp_path: Path, row: dict[str, object]) -> None:
    """Beyond what an empty file costs; the best of three, on a machine that is shared."""
    empty, bomb = tmp_path / "empty.vega", tmp_path / "bomb.vega"
    empty.touch()
    times = int(str(row["times"]))
    text = str(row["opening"]) * times + str(row["closing"]) * times
    bomb.write_bytes(text.encode(errors="surrogatepass"))
    assert any(is_cheap(bomb, empty) for _ in range(3))
