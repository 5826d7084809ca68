"""Control groups, made for a warden, which joins them once and stays.

So its commands are born in them: to be born there costs nothing, to join takes milliseconds. They
are removed when the warden is gone, also if the runtime was killed.
"""

# ruff: noqa: PTH102, PTH106, PTH118, PTH123  (pathlib takes longer to import than this to run)

import errno
import itertools
import os
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeAlias

__all__ = ["Groups", "Made", "Wanted", "join", "killed_first"]

Wanted: TypeAlias = dict[str, dict[str, str]]
"""Settings of a group by the folder that it is made in."""

_ORDER = "/proc/self/oom_score_adj"
_FIRST = "500"


class Made(NamedTuple):
    """`error` is why there are not more of them."""

    groups: list[str]
    error: int = 0


class Groups:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._of: dict[int, list[str]] = {}
        self._left: list[str] = []

    def make(self, wanted: Wanted) -> Made:
        made: list[str] = []
        try:
            for folder, settings in wanted.items():
                group = os.path.join(folder, f"vega-{os.getpid()}-{next(self._numbers)}")
                os.mkdir(group)
                made.append(group)
                for name, value in settings.items():
                    _put(os.path.join(group, name), value)
        except OSError as error:
            return Made(made, error.errno or errno.EIO)
        return Made(made)

    def keep(self, warden: int, made: Made) -> None:
        """Until this warden has died; -1 is none."""
        self._of.setdefault(warden, []).extend(made.groups)

    def remove(self, died: Collection[int]) -> None:
        """Those of the dead; one that somebody is still in when he is reaped."""
        for pid in (*died, -1):
            self._left += self._of.pop(pid, [])
        self._left = [group for group in self._left if not _removed(group)]


def join(made: Made) -> int:
    """Why it was not possible; 0 if it was."""
    try:
        for group in made.groups:
            _put(os.path.join(group, "cgroup.procs"), "0")
    except OSError as error:
        return error.errno or errno.EIO
    return made.error


@contextmanager
def killed_first() -> Generator[None]:
    """When memory is used up, what is born here is killed before us. Nobody may go lower than he
    was without rights, so we go higher for a moment."""
    usual = _get(_ORDER)
    _order(_FIRST)
    try:
        yield
    finally:
        _order(usual)


def _removed(group: str) -> bool:
    try:
        os.rmdir(group)
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _order(value: str) -> None:
    with suppress(OSError):  # where /proc cannot be written, the largest is killed first
        _put(_ORDER, value)


def _get(path: str) -> str:
    with open(path) as f:
        return f.read()


def _put(path: str, value: str) -> None:
    with open(path, "w") as f:
        f.write(value)
