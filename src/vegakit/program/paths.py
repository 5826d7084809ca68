"""Where a process stands: `team#2/coder` is the coder that the second life of team started.

A path names one process for all its lives. What a restarted life starts anew has another path, so
nothing that comes late from the life before can be taken for it.
"""

from functools import lru_cache

from vegakit.effects import Life
from vegakit.program.state import Process

__all__ = ["child_path", "lives_of", "name_of", "purse_of", "root_of"]


def child_path(above: str, generation: int, name: str) -> str:
    if not above:
        return name
    return f"{above}/{name}" if generation == 1 else f"{above}#{generation}/{name}"


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def purse_of(path: str, process: Process) -> str:
    """A group that is restarted goes on with the money it has: its purses know no generations."""
    if not process.family:
        return path
    steps, kept = path.split("/"), _steps_above(process)
    return "/".join([*steps[:kept], *(step.partition("#")[0] for step in steps[kept:])])


def root_of(path: str, process: Process) -> str:
    """The outermost of the groups that it stands in."""
    return "/".join(path.split("/")[: _steps_above(process) + 1])


def _steps_above(process: Process) -> int:
    return process.spawner.count("/") + 1 if process.spawner else 0


def lives_of(path: str, generation: int) -> tuple[Life, ...]:
    above, _, name = path.rpartition("/")
    return (*_lives(above), Life(name, generation))


@lru_cache(maxsize=1024)
def _lives(path: str) -> tuple[Life, ...]:
    if not path:
        return ()
    steps = (step.partition("#") for step in path.split("/"))
    return tuple(Life(name, int(generation or 1)) for name, _, generation in steps)
