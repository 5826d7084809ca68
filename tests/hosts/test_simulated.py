"""Test programs on the simulated host: all that needs no do-half of the gate."""

from pathlib import Path

import pytest

from tests.hosts.simulated import run_simulated
from vegakit.testing import programs

FOLDER = Path(__file__).parent.parent / "language"
CORE = """
    sends/to_process sends/in_expression async_await/both parallel/two parallel/older_go_on
    parallel/younger_are_cancelled typed_answers/record typed_answers/asked_again
    supervision/crash_and_restart supervision/gives_up sessions/caught sessions/nested
    spawn/two_processes agents/memory tools/called tools/two_at_once tools/sends_inside
    process/sleep_shortly process/exit_abnormal timeouts/too_late monitors/told links/ends_both
    wallets/cap human/approve human/ask confirm/agreed confirm/refused
""".split()
"""What every host is held to; the local one runs all there are."""
OF_THE_GATE = (
    *("capabilities/", "files/", "header/", "retries/", "streams/", "diagnostics/"),
    *("csv/", "exec/", "budgets/per_"),
    "timeouts/cancelled_is_charged",
)
"""Rights, files, attempts, chunks, bills and what runs share are the affair of who carries a call
out."""


def _name(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


PROGRAMS = [
    path for path in programs.find_tests([FOLDER]) if not _name(path).startswith(OF_THE_GATE)
]


@pytest.mark.parametrize("path", PROGRAMS, ids=_name)
def test_a_program_on_the_simulated_host(path: Path) -> None:
    """In a plain loop without tasks, it does what it says of itself."""
    assert programs.run_test(path, run=run_simulated).problems == []


def test_the_core_is_there() -> None:
    """Programs that hosts are held to exist, and are of many features."""
    names = {_name(path) for path in PROGRAMS}
    assert set(CORE) <= names
    assert len({name.partition("/")[0] for name in CORE}) >= 14
