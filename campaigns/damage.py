"""Damaged files of runs are found, or do no harm: `python -m campaigns.damage [FLIPS CUTS]`.

A byte of the journal, of the ledger or of the spool is changed, or the file is cut, once for each
try; then the run is resumed, or replayed if it was finished. Either the command goes on to the
right output, or it says what is wrong and what to do. Wrong output, a traceback, a hang, or a
ledger that holds what nobody billed, is a fault.

| victim           | is a run that                                                            |
|------------------|--------------------------------------------------------------------------|
| finished         | is done; its files are whole                                             |
| killed           | was killed; the last transactions are in the write-ahead log             |
| killed, no log   | was killed, and somebody opened the file since                           |
| killed, spooled  | was killed while its file was held, so an answer is in the spool alone   |

Prints a table; exits 1 when there was a fault.
"""

import argparse
import asyncio
import json
import random
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show

from campaigns.kill_campaign.judge import judge
from campaigns.kill_campaign.nursery import Nursery, nursery
from campaigns.kill_campaign.player import Home, Played
from campaigns.kill_campaign.provider import Desk, Server, serving

__all__ = ["Damage", "damage", "main"]

FLIPS, CUTS = 200, 50
VICTIMS = ("finished", "killed", "killed, no log", "killed, spooled")
_CALLS = 8
_PATIENCE_S = 120.0
_PROGRAM = f"""
agent A {{ model fast  max_tokens 100 }}

fn main() -> str {{
    let last = "start";
    for i in range({_CALLS}) {{
        last = A <- "{{i}} {{last}}";
        print(last);
    }}
    return last;
}}
"""
_SAYS_WHAT_TO_DO = re.compile(r"; .*\w|\n +\w|type:? |vega \w+", re.DOTALL)


class Damage(NamedTuple):
    """What became of one try."""

    victim: str
    file: str
    what: str
    outcome: str
    """right, detected, or a fault."""
    detail: str = ""
    bought: int = 0
    """Calls that were asked again although their answers had been recorded."""

    @property
    def is_fault(self) -> bool:
        return self.outcome not in ("right", "detected")


class _Victim:
    """A home that is put back as it was before each try. Its place stays the same: a run knows
    the folder that it was started in."""

    def __init__(self, name: str, folder: Path, server: Server, warm: Nursery, journal: str):
        self.name = name
        self.desk = Desk(random.Random(0), (0.0, 0.003))
        url = server.open_desk(folder.name, self.desk)
        self.home = Home(folder, _PROGRAM, url, window=0)
        self._warm, self._journal = warm, journal
        self._whole = folder.with_name(f"{folder.name}-whole")
        self._asked: list[Any] = []
        self._received = b""
        self._right: Any = None
        self._run_id = ""
        self._lock = asyncio.Lock()

    @property
    def _store(self) -> Path:
        return self.home.project if self._journal else self.home.folder / "data"

    def files(self) -> list[Path]:
        """What holds records of the run; the shared memory of a log is rebuilt from it."""
        found = [path for path in self._whole.rglob("*") if path.is_file() and path.stat().st_size]
        kinds = (".db", ".db-wal", ".spool")
        return sorted(path for path in found if path.name.endswith(kinds))

    async def prepare(self, right: Any) -> None:
        self._right = right
        journal = ["--journal", self._journal] if self._journal else []
        words = ["run", "main.vega", "--json", *journal]
        if self.name == "finished":
            status, _, complained = await self._run(words)
            assert status == 0, complained
            _, said, _ = await self._run(["runs", *filter(None, [self._journal]), "--json"])
            self._run_id = json.loads(said)[0]["run"]["program"]
        else:
            await self._kill_in_the_middle(words)
        if self.name == "killed, no log":
            for path in self._store.rglob("*.db"):
                with closing(sqlite3.connect(path)) as file:
                    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if not self._whole.exists():
            self._keep()
        self._asked = list(self.desk.requests)

    def _keep(self) -> None:
        shutil.copytree(self._store, self._whole)

    async def _kill_in_the_middle(self, words: list[str]) -> None:
        """Half of its answers are recorded; the next one is under way, or in the spool."""
        half = _CALLS // 2
        self.desk.delays_s = (0.05, 0.05)
        child = await self._start(words)
        if self.name == "killed, spooled":
            await self._until(lambda: len(self.desk.requests) == half + 1)
            with closing(self._ledger()) as file:
                file.execute("BEGIN IMMEDIATE")
                await self.desk.until_replies(half + 1)
                spools = list(self._store.rglob("*.spool"))
                await self._until(lambda: any(path.stat().st_size for path in spools), 5)
                child.kill()
                await child.ended()
                self._keep()  # before our closing the file brings its log in
        else:
            await self._until(lambda: len(self.desk.requests) == half + 1)
            child.kill()
            await child.ended()
        self.desk.delays_s = (0.0, 0.003)

    def _ledger(self) -> sqlite3.Connection:
        for path in sorted(self._store.rglob("*.db")):
            file = sqlite3.connect(path, isolation_level=None, timeout=10)
            if file.execute("SELECT 1 FROM sqlite_master WHERE name = 'claims'").fetchone():
                return file
            file.close()
        raise LookupError(f"no ledger in {self._store}")

    async def hurt(self, chance: random.Random, *, cuts: bool) -> Damage:
        async with self._lock:
            self._put_back()
            path = self._pick(chance)
            what = _cut(path, chance) if cuts else _flip(path, chance)
            return await self._try(path.name, what)

    def _put_back(self) -> None:
        shutil.rmtree(self._store)
        shutil.copytree(self._whole, self._store)
        self.desk.requests[:] = self._asked

    def _pick(self, chance: random.Random) -> Path:
        return self._store / chance.choice(self.files()).relative_to(self._whole)

    async def _try(self, file: str, what: str) -> Damage:
        words = ["resume", *filter(None, [self._journal])]
        if self.name == "finished":
            words = ["replay", self._journal or self._run_id]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                status, said, complained = await self._run(words)
        except TimeoutError:
            return Damage(self.name, file, what, "hangs")
        outcome, detail = self._judge(status, said, complained)
        if self.name == "finished" and outcome == "wrong money":
            # A run that is over needs no money any more: whoever spends next must notice.
            outcome, detail = self._judge(*await self._run(["run", "main.vega", "--json"]))
        again = Counter(request.name for request in self.desk.requests)
        bought = sum(count - 1 for count in again.values())
        return Damage(self.name, file, what, outcome, detail, bought)

    def _judge(self, status: int, said: str, complained: str) -> tuple[str, str]:
        if "Traceback (most recent call last)" in complained:
            return "traceback", complained[-600:]
        page = _page(said)
        if status == 0:
            told = [page.get("output"), page.get("result")]
            if told != self._right:
                return "wrong answers", str(told)
            return self._judge_money(page)
        error: Any = page.get("error") or {}
        message = f"{error.get('name', '')} {error.get('reason', '')} {complained}".strip()
        if "BugError" in message or "usage:" in message or not _SAYS_WHAT_TO_DO.search(message):
            return "says nothing useful", f"exit {status}: {message}"
        return "detected", message

    def _judge_money(self, page: Any) -> tuple[str, str]:
        """What the ledger lost with the end of a log cannot be known; what it holds must be so."""
        try:
            found = judge(Played(self.home, self.desk, page=page), None)
        except sqlite3.DatabaseError:
            return "right", "what was damaged is a page that this run did not need"
        off = [
            fault.detail for fault in found if fault.kind == "off" and "sent," not in fault.detail
        ]
        return ("wrong money", off[0]) if off else ("right", "")

    async def _start(self, words: list[str]) -> Any:
        home = self.home
        return await self._warm.start(words, home.project, home.environment, home.next_life())

    async def _run(self, words: list[str]) -> tuple[int, str, str]:
        child = await self._start(words)
        return await child.ended(), child.said, child.complained

    async def _until(self, fact: Any, within_s: float = _PATIENCE_S) -> None:
        end = time.monotonic() + within_s
        while not fact() and time.monotonic() < end:  # noqa: ASYNC110  (a log or a file grows)
            await asyncio.sleep(0.002)


def _page(said: str) -> dict[str, Any]:
    try:
        return json.loads(said)
    except ValueError:
        return {}


def _flip(path: Path, chance: random.Random) -> str:
    data = bytearray(path.read_bytes())
    at, bit = chance.randrange(len(data)), chance.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {at:,}"


def _cut(path: Path, chance: random.Random) -> str:
    size = path.stat().st_size
    kept = chance.choice([0, chance.randrange(size), size - chance.randint(1, min(64, size))])
    with path.open("r+b") as file:
        file.truncate(kept)
    return f"cut to {kept:,} of {size:,}"


async def damage(flips: int, cuts: int, seed: int = 0, journal: str = "") -> list[Damage]:
    with tempfile.TemporaryDirectory(prefix="damage-") as folder:
        async with serving() as server, nursery() as warm:
            home = Path(folder)
            victims = [
                _Victim(name, home / str(at), server, warm, journal)
                for at, name in enumerate(VICTIMS)
            ]
            right = await _right(home / "right", server, warm)
            await asyncio.gather(*(victim.prepare(right) for victim in victims))
            chance = random.Random(seed)
            tries = [
                victims[at % len(victims)].hurt(random.Random(chance.random()), cuts=at >= flips)
                for at in range(flips + cuts)
            ]
            return list(await asyncio.gather(*tries))


async def _right(folder: Path, server: Server, warm: Nursery) -> list[Any]:
    """What an undisturbed run says."""
    desk = Desk(random.Random(0), (0.0, 0.003))
    home = Home(folder, _PROGRAM, server.open_desk(folder.name, desk), window=0)
    words = ["run", "main.vega", "--json"]
    status, said, complained = await warm.run(
        words, home.project, home.environment, home.next_life()
    )
    assert status == 0, complained
    page = json.loads(said)
    return [page["output"], page["result"]]


def figures_of(tries: list[Damage]) -> Iterator[Figure]:
    for victim in VICTIMS:
        mine = [one for one in tries if one.victim == victim]
        for file in sorted({one.file for one in mine}):
            some = [one for one in mine if one.file == file]
            found = Counter(one.outcome for one in some)
            kinds = [f"{found[kind]} {kind}" for kind in ("right", "detected")]
            faults = sum(one.is_fault for one in some)
            name = file if len(file) < 24 else f"*{Path(file).suffix}"
            yield Figure(f"{victim}: {name}", ", ".join(kinds), f"{faults} faults", not faults)
    silent = sum(one.bought for one in tries if one.outcome == "right" and one.bought > 1)
    yield Figure("answers lost with the end of a log, asked again", f"{silent}")
    faults = Counter(one.outcome for one in tries if one.is_fault)
    told = ", ".join(f"{count} {kind}" for kind, count in faults.items()) or "0"
    yield Figure("tries / faults", f"{len(tries)} / {faults.total()}", told, not faults)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m campaigns.damage")
    parser.add_argument("flips", nargs="?", type=int, default=FLIPS)
    parser.add_argument("cuts", nargs="?", type=int, default=CUTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", default="")
    parser.add_argument("--all", action="store_true", help="show what was said of each")
    chosen = parser.parse_args(words)
    began = time.monotonic()
    tries = asyncio.run(damage(chosen.flips, chosen.cuts, chosen.seed, chosen.journal))
    for one in tries:
        if one.is_fault or chosen.all:
            print(f"{one.victim}: {one.file}, {one.what}: {one.outcome}: {one.detail}")
    print(show(list(figures_of(tries))))
    print(f"{time.monotonic() - began:.0f} s")
    return int(any(one.is_fault for one in tries))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
