"""Commands that start while others in their workspace swap what is guarded: part of `just races`.

Three sandboxed commands exchange names all the time, at random moments: a folder that is frozen as
a whole and a link that leads out; the folder of a secret and an empty one; something planted and a
link to a folder outside that holds the same name. Meanwhile commands are started one after the
other, several at once. None may read the secret or what lies outside, and nothing outside changes.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError
from vegakit.tools import Bubblewrap, SandboxLimits

__all__ = ["Tries", "blind_tries"]

CANARY = "canary-4f1d9c"
AT_ONCE = 3
LASTING = SandboxLimits(wall_ms=3_600_000, cpu_s=36_000)
SWAP = """
import ctypes, os, random, time
exchange = ctypes.CDLL(None).renameat2
{prepare}
swaps = 0
open('up{number}', 'w').close()
while not os.path.exists('stop'):
    swaps += exchange(-100, b'{one}', -100, b'{other}', 2) == 0
    time.sleep(random.random() * 0.006)
print(swaps)
"""
FROZEN = """
os.makedirs('.aws'); os.makedirs('sub'); os.symlink('..', 'ln')
for i in range(20): open(f'.aws/{i}', 'w').close(); os.link(f'.aws/{i}', f'sub/{i}')
"""
PLANTED = """
os.makedirs('p/.vscode'); open('p/.vscode/tasks.json', 'w').close()
os.symlink('../outside', 'out')
"""
SWAPPERS = (
    (FROZEN, "sub", "ln"),
    ("os.makedirs('decoy', exist_ok=True)", "config", "decoy"),
    (PLANTED, "p", "out"),
)
PROBE = (
    "cat ../outside/secret sub/outside/secret ln/outside/secret p/secret out/secret "
    "config/.env decoy/.env; echo x > p/.vscode/tasks.json; echo x > out/secret"
)


class Tries(NamedTuple):
    tries: int
    swaps: int
    refused: int
    hits: int
    changed: int
    seconds: float

    def __str__(self) -> str:
        verdict = "BROKEN" if self.hits + self.changed else "ok"
        return (
            f"{self.tries:,} commands during {self.swaps:,} swaps: {self.refused} refused, "
            f"{self.hits} read something, {self.changed} files changed outside: {verdict}"
        )


async def blind_tries(tries: int, folder: Path) -> Tries:
    began = time.monotonic()
    workspace, outside = _furnish(folder)
    before, clock = _tree(outside), SteadyClock()
    async with aclosing(Children(clock)) as children:
        sandbox = Bubblewrap(children, clock, workspace, limits=LASTING)
        lasting = [
            asyncio.ensure_future(_swap(sandbox, number, *swapper))
            for number, swapper in enumerate(SWAPPERS)
        ]
        await asyncio.to_thread(_wait_for, workspace, lasting)
        left = iter(range(tries))
        told = await asyncio.gather(*(_probe(sandbox, left) for _ in range(AT_ONCE)))
        (workspace / "stop").touch()
        swaps = sum(await asyncio.gather(*lasting))
    refused, hits = (sum(column) for column in zip(*told, strict=True))
    changed = len(dict(before.items() ^ _tree(outside).items()))
    return Tries(tries, swaps, refused, hits, changed, time.monotonic() - began)


def _furnish(folder: Path) -> tuple[Path, Path]:
    workspace, outside = folder / "workspace", folder / "outside"
    for each in (workspace / "config", workspace / "decoy", outside / ".vscode"):
        each.mkdir(parents=True)
    (workspace / "config/.env").write_text(CANARY)
    (outside / "secret").write_text(CANARY)
    (outside / ".vscode/tasks.json").write_text("{}")
    return workspace, outside


async def _swap(sandbox: Bubblewrap, number: int, prepare: str, one: str, other: str) -> int:
    script = SWAP.format(prepare=prepare, number=number, one=one, other=other)
    ran = await sandbox.run(["/usr/bin/python3", "-I", "-c", script], owner="swapper")
    assert ran.exit_code == 0, ran.stderr
    return int(ran.stdout)


async def _probe(sandbox: Bubblewrap, left: Iterator[int]) -> tuple[int, int]:
    refused = hits = 0
    for _ in left:
        try:
            ran = await sandbox.run(["sh", "-c", PROBE], owner="prober")
        except UserError:
            refused += 1
            continue
        hits += CANARY in ran.stdout
    return refused, hits


def _wait_for(workspace: Path, lasting: list["asyncio.Task[int]"]) -> None:
    while not all((workspace / f"up{number}").exists() for number in range(len(SWAPPERS))):
        if any(one.done() for one in lasting):
            return
        time.sleep(0.01)


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
