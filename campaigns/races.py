"""No swap leads a file tool out of its root: `python -m campaigns.races 100000 [read write ...]`.

A process swaps what a path leads over, as fast as it can, while each tool of `Files` is called so
many times by each way of opening folders. Outside lies a secret that nobody may read, list, look
at, change or remove. Then commands are started in a sandbox while others in it swap what is guarded
(`workspace_races`), one for every ten calls. Prints its figures last; exits 1 if one came out.
"""

import asyncio
import ctypes
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, suppress
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from campaigns.workspace_races import Tries, blind_tries
from vegakit.errors import CapabilityDenied, ToolFailed
from vegakit.policy import Grant
from vegakit.tools import Files, best_opener, open_by_walk
from vegakit.tools.files import Listing, Stat
from vegakit.tools.openat import OpenFolder

__all__ = ["SWAPS", "TOOLS", "Races", "race", "race_each_way"]

SECRET = b"secret" * 683
MARKER = "only-outside"
PLACE, NAME, DEEP = "place", "f", "deep"
EXCHANGE = 2
HERE = -100
_FORKS = multiprocessing.get_context("forkserver")

Tool: TypeAlias = Callable[[Files], Coroutine[Any, Any, object]]
Swap: TypeAlias = Callable[[Path], Generator[None]]

TOOLS: dict[str, Tool] = {
    "read": lambda files: files.read(f"{PLACE}/{NAME}"),
    "write": lambda files: files.write(f"{PLACE}/{NAME}", b"written"),
    "list": lambda files: files.list(PLACE),
    "list-deep": lambda files: files.list(f"{PLACE}/{DEEP}"),
    "stat": lambda files: files.stat(f"{PLACE}/{NAME}"),
    "remove": lambda files: files.remove(f"{PLACE}/{NAME}"),
}


class Races(NamedTuple):
    calls: int = 0
    swaps: int = 0
    passed: int = 0
    refused: int = 0
    escapes: int = 0

    def __add__(self, other: Any) -> "Races":
        return Races(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __str__(self) -> str:
        verdict = "BROKEN" if self.escapes else "ok"
        return (
            f"{self.calls:,} calls during {self.swaps:,} swaps: {self.passed:,} passed, "
            f"{self.refused:,} refused, {self.escapes} escapes: {verdict}"
        )


def race_each_way(tool: str, calls: int, open_folder: OpenFolder) -> Races:
    share = -(-calls // len(SWAPS))
    return sum((race(tool, swap, share, open_folder) for swap in SWAPS), Races())


def race(tool: str, swap: str, calls: int, open_folder: OpenFolder) -> Races:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_race(TOOLS[tool], swap, calls, Path(folder), open_folder))


async def _race(tool: Tool, swap: str, calls: int, folder: Path, open_folder: OpenFolder) -> Races:
    _furnish(folder)
    files = Files(folder / "root", Grant(("fs",), paths=("**",)), open_folder=open_folder)
    passed = refused = escapes = 0
    async with _swapping(swap, folder) as swaps:
        for _ in range(calls):
            found: object = None
            try:
                found = await tool(files)
                passed += 1
            except (CapabilityDenied, ToolFailed):
                refused += 1
            escapes += _came_out(found) or _is_touched(folder)
        return Races(calls, swaps.value, passed, refused, escapes)


def _furnish(folder: Path) -> None:
    (folder / "root" / PLACE / DEEP).mkdir(parents=True)
    (folder / "root" / PLACE / NAME).write_bytes(b"inside")
    (folder / "outside" / DEEP).mkdir(parents=True)
    (folder / "outside" / DEEP / MARKER).touch()
    (folder / "outside" / MARKER).touch()
    (folder / "outside" / NAME).write_bytes(SECRET)


def _came_out(found: object) -> bool:
    match found:
        case bytes():
            return SECRET[:6] in found
        case Listing(entries):
            return any(entry.name == MARKER for entry in entries)
        case Stat(_, size):
            return size == len(SECRET)
        case _:
            return False


def _is_touched(folder: Path) -> bool:
    """What was touched is put back, so that each escape counts once."""
    secret = folder / "outside" / NAME
    names = {entry.name for entry in (folder / "outside").iterdir()}
    if names == {MARKER, DEEP, NAME} and secret.read_bytes() == SECRET:
        return False
    for name in names - {MARKER, DEEP}:
        (folder / "outside" / name).unlink()
    secret.write_bytes(SECRET)
    return True


def _swap_folder(folder: Path) -> Generator[None]:
    """A folder and a link to the one outside change places."""
    root = folder / "root"
    inside = os.open(root / PLACE, os.O_RDONLY | os.O_DIRECTORY)
    (root / "link").symlink_to("../outside")
    exchange = ctypes.CDLL(None).renameat2
    place, link = os.fsencode(root / PLACE), os.fsencode(root / "link")
    while True:
        exchange(HERE, link, HERE, place, EXCHANGE)
        yield
        exchange(HERE, link, HERE, place, EXCHANGE)
        with suppress(FileExistsError):
            os.close(os.open(NAME, os.O_CREAT | os.O_EXCL, dir_fd=inside))
        yield


def _swap_file(folder: Path) -> Generator[None]:
    """A file, and a link to the one outside."""
    place = folder / "root" / PLACE
    while True:
        (place / "next").write_bytes(b"inside")
        (place / "next").rename(place / NAME)
        yield
        (place / "next").symlink_to("../../outside/" + NAME)
        (place / "next").rename(place / NAME)
        yield


def _swap_name(folder: Path) -> Generator[None]:
    """A file, and a second name of the one outside, which is gone at once."""
    place = folder / "root" / PLACE
    while True:
        (place / "next").write_bytes(b"inside")
        (place / "next").rename(place / NAME)
        yield
        with suppress(FileNotFoundError):
            (place / "next").hardlink_to(folder / "outside" / NAME)
            (place / "next").rename(place / NAME)
            (place / NAME).unlink()
        yield


SWAPS: dict[str, Swap] = {"folder": _swap_folder, "file": _swap_file, "name": _swap_name}


@asynccontextmanager
async def _swapping(swap: str, folder: Path) -> AsyncGenerator["Synchronized[int]"]:
    swaps, begun, done = _FORKS.Value("Q", 0), _FORKS.Event(), _FORKS.Event()
    swapper = _FORKS.Process(target=_swap_until, args=(swap, folder, swaps, begun, done))
    swapper.start()
    try:
        await asyncio.to_thread(begun.wait)
        yield swaps
    finally:
        done.set()
        await asyncio.to_thread(swapper.join)


def _swap_until(swap: str, folder: Path, swaps: "Synchronized[int]", begun: Any, done: Any) -> None:
    swapping = SWAPS[swap](folder)
    for count in itertools.count(1):
        next(swapping)
        swaps.value = count
        if count == 1:
            begun.set()
        if count % 64 == 0 and done.is_set():
            return


def main(calls: str = "100000", *tools: str) -> int:
    ways: Sequence[OpenFolder] = tuple(dict.fromkeys((best_opener(), open_by_walk)))
    total = Races()
    for way, tool in itertools.product(ways, tools or TOOLS):
        began = time.monotonic()
        races = race_each_way(tool, int(calls), way)
        print(
            f"{tool:<10} {way.__name__:<10} {races}; {time.monotonic() - began:.0f} s", flush=True
        )
        total += races
    blind = None if tools else _blind_tries(int(calls) // 10)
    print(f"all        {total}")
    print(f"workspace  {blind}")
    return int(total.escapes > 0 or (blind is not None and blind.hits + blind.changed > 0))


def _blind_tries(tries: int) -> Tries:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(blind_tries(tries, Path(folder)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
