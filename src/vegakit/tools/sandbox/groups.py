"""Control groups: bound a whole tree's processes and memory, also root's, whom rlimits do not bind.

Version 1 is nested in our own groups; version 2 stands beside our own, because there a group with
processes has no groups in it (untested: the machines we test on have version 1).
"""

import itertools
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from vegakit.errors import UserError
from vegakit.tools.sandbox.limits import Limits

__all__ = ["control_groups"]

_ROOT = Path("/sys/fs/cgroup")
_NUMBERS = itertools.count(1)


@contextmanager
def control_groups(limits: Limits) -> Generator[list[Path]]:
    """Those whom the command joins; they are gone afterwards."""
    made: list[Path] = []
    try:
        yield _make(made, limits)
    finally:
        for group in made:
            with suppress(OSError):
                group.rmdir()


def _make(made: list[Path], limits: Limits) -> list[Path]:
    try:
        for parent, settings in _parents(limits):
            group = parent / f"vega-{os.getpid()}-{next(_NUMBERS)}"
            group.mkdir(exist_ok=True)
            made.append(group)
            for name, value in settings.items():
                (group / name).write_text(str(value))
    except (OSError, KeyError) as error:
        raise UserError(
            "commands of root need control groups that bound their processes and memory, and none "
            f"could be made below {_ROOT}: {error}; run Vega as another user than root"
        ) from error
    return made


def _parents(limits: Limits) -> list[tuple[Path, dict[str, int]]]:
    ours = _our_groups()
    processes = {"pids.max": limits.processes}
    if (_ROOT / "cgroup.controllers").exists():
        beside = _ROOT / ours.get("", "/").lstrip("/")
        parent = beside if beside == _ROOT else beside.parent
        memory = {"memory.max": limits.memory_bytes}
        return [(parent, processes | memory)]
    memory = {"memory.limit_in_bytes": limits.memory_bytes}
    return [
        (_ROOT / controller / ours[controller].lstrip("/"), settings)
        for controller, settings in (("pids", processes), ("memory", memory))
    ]


def _our_groups() -> dict[str, str]:
    """Paths by controller; version 2 has no name."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}
