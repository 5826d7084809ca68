"""Control groups: bound a whole tree's processes and memory, also root's, whom rlimits do not bind.

Version 1 is nested in our own groups; version 2 stands beside our own, because there a group with
processes has no groups in it (untested: the machines we test on have version 1).
"""

from collections.abc import Mapping
from pathlib import Path

from vegakit.errors import UserError
from vegakit.tools.sandbox.limits import Limits

__all__ = ["control_groups"]

_ROOT = Path("/sys/fs/cgroup")
_WARDEN = 1
"""Who keeps the command is in its groups too."""


def control_groups(limits: Limits) -> Mapping[str, Mapping[str, str]]:
    """The settings of those whom a command is born in, by the folder that each is made in."""
    try:
        ours = _our_groups()
        parents = _second(limits, ours) if _is_second() else _first(limits, ours)
    except (OSError, KeyError) as error:
        raise UserError(
            "commands of root need control groups that bound their processes and memory, and none "
            f"could be made below {_ROOT}: {error}; run Vega as another user than root"
        ) from error
    return {str(folder): settings for folder, settings in parents.items()}


def _is_second() -> bool:
    return (_ROOT / "cgroup.controllers").exists()


def _second(limits: Limits, ours: Mapping[str, str]) -> dict[Path, dict[str, str]]:
    beside = _ROOT / ours.get("", "/").lstrip("/")
    parent = beside if beside == _ROOT else beside.parent
    return {parent: {**_processes(limits), "memory.max": str(limits.memory_bytes)}}


def _first(limits: Limits, ours: Mapping[str, str]) -> dict[Path, dict[str, str]]:
    memory = {"memory.limit_in_bytes": str(limits.memory_bytes)}
    return {
        _ROOT / controller / ours[controller].lstrip("/"): settings
        for controller, settings in (("pids", _processes(limits)), ("memory", memory))
    }


def _processes(limits: Limits) -> dict[str, str]:
    return {"pids.max": str(limits.processes + _WARDEN)}


def _our_groups() -> dict[str, str]:
    """Paths by controller; version 2 has no name."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}
