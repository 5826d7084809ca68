"""Kill generated programs and resume them: `python -m campaigns.kill_campaign [KILLS] [OPTIONS]`.

    KILLS          at least so many; 300 if nothing is said, 2,000 with `full`
    --seed N       the first program
    --cold N       so many of the kills through the installed command, not forked from a warm one
    --faults A,B   plant these in each life; the campaign must then fail
    --journal FILE name the journal in each command, as earlier versions need
    --product DIR  import the product from there
    --keep         leave the folders of runs with faults, and say where they are

Prints what it found wrong, then its figures; exits 1 when one falls short.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Figure, show

from campaigns.kill_campaign.judge import FAULTS, Books, Fault, judge
from campaigns.kill_campaign.nursery import Nursery, nursery
from campaigns.kill_campaign.player import MOST_KILLS, Home, Played, Ways, play, reference
from campaigns.kill_campaign.programs import Written, write
from campaigns.kill_campaign.provider import Desk, Server, serving

__all__ = ["Options", "Report", "campaign", "main"]

KILLS, ALL_KILLS = 300, 2_000
AT_ONCE = 12
_USUAL_KILLS = 3
"""Of a run; those under way count as so many, so that not many more are begun than are needed."""


class Options(NamedTuple):
    kills: int = KILLS
    seed: int = 0
    cold: int = 0
    ways: Ways = Ways()
    product: str | None = None
    keep: bool = False
    at_once: int = AT_ONCE
    until_fault: bool = False
    """Whether one fault is enough."""


class Ran(NamedTuple):
    written: Written
    played: Played
    faults: list[Fault]
    unknown: int


class Report(NamedTuple):
    runs: list[Ran]

    @property
    def kills(self) -> int:
        return sum(ran.played.kills for ran in self.runs)

    def count(self, kind: str) -> int:
        """Of runs with this fault."""
        return sum(any(fault.kind == kind for fault in ran.faults) for ran in self.runs)

    @property
    def figures(self) -> list[Figure]:
        bound = sum(ran.written.is_bound for ran in self.runs)
        raised = sum(ran.played.raises > 0 for ran in self.runs)
        calls = sum(len(ran.played.desk.requests) for ran in self.runs)
        unknown = sum(ran.unknown for ran in self.runs)
        compared = sum(ran.written.is_compared for ran in self.runs)
        windows = Counter(ran.written.window for ran in self.runs)
        shown = ", ".join(f"{window}: {windows[window]}" for window in sorted(windows))
        return [
            Figure("runs / kills", f"{len(self.runs):,} / {self.kills:,}"),
            Figure("requests / charged as cut off", f"{calls:,} / {unknown:,}"),
            Figure("runs by window", shown),
            Figure("under a budget that binds", f"{bound:,}"),
            Figure("met their cap and went on with more", f"{raised:,}"),
            Figure("outputs compared", f"{compared:,}"),
            *(self._figure(kind) for kind in FAULTS),
        ]

    def _figure(self, kind: str) -> Figure:
        count = self.count(kind)
        return Figure(f"runs with a fault: {kind}", f"{count}", "0", not count)

    @property
    def holds(self) -> bool:
        return all(figure.holds for figure in self.figures)


async def campaign(options: Options) -> Report:
    """Runs are played until there were as many kills as were asked for, some at once."""
    ran: list[Ran] = []
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        async with serving() as server, nursery(options.product) as warm:
            table = _Table(options, folder, server, warm)
            seeds = count(options.seed)

            playing = 0

            async def play_some() -> None:
                nonlocal playing
                while _kills(ran) + _USUAL_KILLS * playing < options.kills:
                    if options.until_fault and any(one.faults for one in ran):
                        return
                    playing += 1
                    ran.append(await table.play(next(seeds)))
                    playing -= 1

            while _kills(ran) < options.kills:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(options.at_once):
                        tasks.create_task(play_some())
                if options.until_fault and any(one.faults for one in ran):
                    break
    finally:
        if options.keep:
            print(f"runs with faults are in {folder}")
        else:
            shutil.rmtree(folder)
    return Report(ran)


def _kills(ran: list[Ran]) -> int:
    return sum(one.played.kills for one in ran)


class _Table:
    def __init__(self, options: Options, folder: Path, server: Server, warm: Nursery) -> None:
        self._options, self._folder = options, folder
        self._server, self._warm = server, warm
        self._cold = options.cold

    async def play(self, seed: int) -> Ran:
        written = write(seed)
        folder, ways = self._folder / str(seed), self._options.ways
        undisturbed = await reference(
            written, folder / "reference", self._server, self._warm, replace(ways, cold=False)
        )
        if undisturbed.trouble:
            fault = Fault("stuck", f"undisturbed: {undisturbed.trouble}")
            return self._told(Ran(written, undisturbed, [fault], 0), folder)
        chance = random.Random(f"kills {seed}")
        desk = Desk(chance)
        url = self._server.open_desk(f"run-{seed}", desk)
        flag, default = _budgets(undisturbed, written, chance)
        home = Home(folder / "killed", written.source, url, window=written.window, budget=default)
        kills = chance.randint(2, MOST_KILLS)
        if self._cold > 0:
            self._cold, ways = self._cold - kills, replace(ways, cold=True)
        played = await play(
            written,
            home,
            desk,
            self._warm,
            chance,
            kills=kills,
            calls=len(undisturbed.desk.requests),
            budget=flag,
            ways=ways,
        )
        faults = judge(played, undisturbed if written.is_compared else None)
        unknown = sum(claim.is_unknown for claim in Books(home.folder).claims)
        return self._told(Ran(written, played, faults, unknown), folder)

    def _told(self, ran: Ran, folder: Path) -> Ran:
        for fault in ran.faults[:3]:
            print(f"program {ran.written.seed}: {fault.kind}: {fault.detail}", flush=True)
        if not (ran.faults and self._options.keep):
            shutil.rmtree(folder)
        return ran


def _budgets(undisturbed: Played, written: Written, chance: random.Random) -> tuple[str, str]:
    """What it is told with `--budget`, and what the settings say. One that binds leaves room for
    the whole program, but little for calls that are begun early or cut off."""
    if not written.is_bound:
        return "", "$10"
    books = Books(undisturbed.home.folder)
    spent = sum(claim.charged for claim in books.claims)
    most = max((claim.amount for claim in books.claims), default=0)
    cap = spent * chance.uniform(1.0, 1.3) + most * chance.randint(1, 12)
    amount = f"${cap / 1e9:.6f}"
    return (amount, "$10") if chance.random() < 0.5 else ("", amount)


def _parsed(words: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m campaigns.kill_campaign")
    parser.add_argument("kills", nargs="?", default=str(KILLS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cold", type=int, default=0)
    parser.add_argument("--faults", default="")
    parser.add_argument("--journal", default="")
    parser.add_argument("--product")
    parser.add_argument("--keep", action="store_true")
    chosen = parser.parse_args(words)
    kills = ALL_KILLS if chosen.kills == "full" else int(chosen.kills)
    ways = Ways(chosen.journal, faults=chosen.faults)
    return Options(kills, chosen.seed, chosen.cold, ways, chosen.product, chosen.keep)


def main(words: list[str]) -> int:
    began = time.monotonic()
    report = asyncio.run(campaign(_parsed(words)))
    print(show(report.figures))
    print(f"{time.monotonic() - began:.0f} s")
    return int(not report.holds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
