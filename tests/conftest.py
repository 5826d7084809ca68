"""Hypothesis profiles: VEGA_HISTORIES sets how many random histories each property runs.

Hypothesis also draws constants that it reads in whatever modules of ours happen to be loaded. What
is drawn would then differ with the tests that ran before on the same worker, and a rare fault would
be found or not by luck; so it has none to read.

VEGA_TEST_SHARE is the share of the tests in percent that is run, always the same ones.
VEGA_TEST_SHARD is a part of the files: `2/4` is the second of four.
VEGA_TESTS_UNTIL is a moment, in seconds since 1970, after which no further test begins.
VEGA_COSTS is a folder in which each process writes the CPU seconds that its tests took, by file.
VEGA_TESTS_LEFT_OUT names files that are not collected, with `:` between them.

Workers of xdist begin with the most expensive files, so that no long file is left for the end.

The data of a user is kept in a folder for this run of the tests, with the secret that the stored
journals were sealed with. All folders are trusted; tests of trust take that back.
"""

import asyncio
import gc
import inspect
import json
import math
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from zlib import crc32

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tools import costs  # pyright: ignore[reportAttributeAccessIssue]
from vegakit.vm import strict_lookahead

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if IS_WORKER:
    # The processes that tests start are not measured: they load the same modules again and again.
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
strict_lookahead(on=True)

_DATA_HOME = tempfile.TemporaryDirectory(prefix="vega-tests-")
os.environ["XDG_DATA_HOME"] = _DATA_HOME.name
os.environ.pop("VEGA_DATA_DIR", None)
os.environ["VEGA_TRUSTED_FOLDERS"] = "/"
_SECRET = Path(_DATA_HOME.name) / "vega" / "secret"
_SECRET.parent.mkdir(mode=0o700)
_SECRET.write_bytes(bytes(range(32)))
if not IS_WORKER:
    # What workers share, as `tests/sharing.py` says. It ends with the process that started them.
    _SHARED = tempfile.TemporaryDirectory(prefix="vega-shared-")
    os.environ["VEGA_TESTS_SHARED"] = _SHARED.name

HISTORIES = int(os.environ.get("VEGA_HISTORIES", "100"))
SHARE = int(os.environ.get("VEGA_TEST_SHARE", "100"))
SHARD, SHARDS = map(int, os.environ.get("VEGA_TEST_SHARD", "1/1").split("/"))
UNTIL = float(os.environ.get("VEGA_TESTS_UNTIL", "inf"))
COSTS = os.environ.get("VEGA_COSTS", "")
LEFT_OUT = {
    Path(__file__).parents[1] / file
    for file in os.environ.get("VEGA_TESTS_LEFT_OUT", "").split(":")
}
if IS_WORKER:
    # A run of pytest inside of a test is a part of what that test costs.
    os.environ.pop("VEGA_COSTS", None)

settings.register_profile(
    "vega",
    max_examples=HISTORIES,
    deadline=None,
    derandomize="VEGA_SEED" not in os.environ,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("vega")

READS_CONSTANTS, _NO_CONSTANTS = providers._get_local_constants, Constants()
providers._get_local_constants = lambda: _NO_CONSTANTS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem.endswith("_properties"):
            item.add_marker(pytest.mark.properties)
    items[:] = [item for item in items if crc32(item.path.name.encode()) % SHARDS == SHARD - 1]
    # One at least: no tests at all would be a failure.
    items[:] = [one for one in items if crc32(one.nodeid.encode()) % 100 < SHARE] or items[:1]
    if IS_WORKER and math.isinf(UNTIL):
        measured = costs.kept()
        items.sort(key=lambda item: -measured.of([_file_of(item)]))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A set, because `--ignore` compares each path with each of its values."""
    return collection_path in LEFT_OUT or None


def _file_of(item: pytest.Item) -> str:
    return item.path.relative_to(item.config.rootpath).as_posix()


_costs: dict[str, tuple[float, int]] = {}
"""CPU seconds and counts of tests, by file. `collecting` is what it took to find them."""


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of the processes that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_collection() -> None:
    """No collection of garbage while tests are found: nearly all that is made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    _costs["collecting"] = (_cpu_s(), 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = _cpu_s()
    try:
        return (yield)
    finally:
        file = _file_of(item)
        cpu_s, tests = _costs.get(file, (0.0, 0))
        _costs[file] = (cpu_s + _cpu_s() - before, tests + 1)


def pytest_runtest_setup() -> None:
    if time.time() > UNTIL:
        pytest.skip("left to CI: the time of this check is over")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An `async def` test runs in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_sessionfinish() -> None:
    """Write what was covered while this process still has time for it.

    A worker of xdist that takes more than ten seconds to end is killed, which it does after half an
    hour of tests on a slow machine; all it had measured was then lost, and the coverage fell short.
    """
    if measured := Coverage.current():
        measured.save()
    if COSTS:
        (Path(COSTS) / f"{os.getpid()}.json").write_text(json.dumps(_costs))
