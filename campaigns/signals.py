"""A run that a signal ends continues after one resume: `python -m campaigns.signals 100 --cold 5`.

So many runs of the `vega` command for each of TERM, INT, HUP and KILL, with 1 to 60 calls in flight
over sockets. Some caps leave room for all that a signal may cut off, others do not. Then one
`vega resume`, without a flag:

| fault          | means                                                                         |
|----------------|-------------------------------------------------------------------------------|
| stuck          | the run stopped although its cap had room, or one consent was not enough      |
| sentence       | the calls that were cut off are not told once, in one sentence, with their sum |
| differs        | the output is not that of a run that got no signal                            |
| bought again   | an answer that had arrived was asked for again, by the log of the provider    |
| off, reserved  | the ledger differs from the provider, or money is still reserved              |
| changed, crashed, recorded twice | as in `campaigns.kill_campaign`                             |

The first COLD runs of each signal use the installed command, the others a forked one.
"""

import argparse
import asyncio
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show

from campaigns.kill_campaign.judge import FAULTS, Books, Fault, judge
from campaigns.kill_campaign.nursery import FAULTS as PLANTED, RECEIVED, Child, Nursery, nursery
from campaigns.kill_campaign.player import LONGEST_LIFE_S, Home, Played, start_cold
from campaigns.kill_campaign.provider import Desk, Server, serving

__all__ = ["Ended", "Ran", "campaign", "main"]

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
RUNS, COLD = 3, 1
AT_ONCE = 4
MOST_IN_FLIGHT = 60
ALIKE = 2
"""The number of runs that share a program, and its undisturbed run."""
_CUT_OFF = re.compile(r"(\d[\d,]*) calls? (?:was|were) cut off .*?\(\$([\d.]+), charged\)")
_CENT = 10_000_000
_NEEDS_CONSENT = 3


@dataclass(frozen=True)
class Written:
    source: str
    wide: int


def write(seed: int) -> Written:
    """Return a program: calls in a row, one or two fan-outs, and calls that need their answers."""
    chance = random.Random(f"signals {seed}")
    wide = chance.choice([1, 2, 4, 8, 16, 32, MOST_IN_FLIGHT, chance.randint(1, MOST_IN_FLIGHT)])
    tokens = chance.choice([50, 200, 1_000])
    words = chance.choice(["", "LONG ", "BUSY "])
    lines = ['let last = "start";']
    for place in range(chance.randint(0, 3)):
        lines += [f'last = A <- "lead {place} of {{last}}";', "print(last);"]
    for fan in range(chance.choice([1, 1, 2])):
        lines += [
            f"for i in range({wide}) {{",
            f'    print(A <- "{words}fan {fan} q{{i}} of {{last}}");',
            "}",
        ]
    for place in range(chance.randint(0, 2)):
        lines += [f'last = A <- "end {place} of {{last}}";']
    body = "".join(f"    {line}\n" for line in lines)
    head = f"agent A {{ model fast  max_tokens {tokens} }}\n"
    return Written(f"{head}fn main() -> str {{\n{body}    return last;\n}}\n", wide)


@dataclass
class Ended:
    """How a life ended, and what it printed."""

    status: int
    said: str
    complained: str


@dataclass
class Ran:
    """One run: its signal, the number of calls in flight, and the outcome."""

    number: int
    by: signal.Signals
    in_flight: int = 0
    was_hit: bool = False
    outcome: str = ""
    faults: list[Fault] = field(default_factory=list[Fault])


class _Options(NamedTuple):
    runs: int
    cold: int
    seed: int
    keep: bool
    faults: str


class _Table:
    def __init__(self, options: _Options, folder: Path, server: Server, warm: Nursery) -> None:
        self._options, self._folder = options, folder
        self._server, self._warm = server, warm
        self._references: dict[int, asyncio.Task[Played]] = {}

    async def reference(self, seed: int) -> Played:
        """Return the run of a program that gets no signal."""
        if seed not in self._references:
            self._references[seed] = asyncio.ensure_future(self._undisturbed(seed))
        return await asyncio.shield(self._references[seed])

    async def _undisturbed(self, seed: int) -> Played:
        desk = Desk(random.Random(0), delays_s=(0.0, 0.01))
        url = self._server.open_desk(f"reference-{seed}", desk)
        home = Home(self._folder / f"reference-{seed}", write(seed).source, url)
        played = Played(home, desk)
        ended = await self._live(home, ["run", "main.vega"])
        played.page = {"output": ended.said.splitlines()}
        assert ended.status == 0, ended.complained
        return played

    async def play(self, number: int, by: signal.Signals) -> Ran:
        """Play one run: start it, end it by a signal, and resume it."""
        ran, seed = Ran(number, by), self._options.seed + number // ALIKE
        chance = random.Random(f"{by.name} {self._options.seed} {number}")
        undisturbed, written = await self.reference(seed), write(seed)
        folder = self._folder / f"{by.name}-{number}"
        desk = Desk(chance, delays_s=(0.02, chance.choice([0.1, 0.4])))
        url = self._server.open_desk(f"{by.name}-{number}", desk)
        most = max(claim.amount for claim in Books(undisturbed.home.folder).claims)
        cap = _cap(undisturbed, written.wide, chance)
        home = Home(folder, written.source, url)
        played = Played(home, desk)
        is_cold = number < self._options.cold
        fitting = min(written.wide, (cap or 10_000_000_000) // most)
        target = chance.choice([fitting, chance.randint(1, fitting)])
        words = ["run", "main.vega", *(["--budget", f"${cap / 1e9:.6f}"] if cap else [])]

        async def strike(child: Child) -> None:
            while not child.is_over:
                ran.in_flight = sum(request.status == "open" for request in desk.requests)
                if ran.in_flight >= target:
                    replies = desk.replies + chance.choice([0, chance.randint(0, target - 1)])
                    await desk.until_replies(replies)
                    await asyncio.sleep(chance.choice([0.0, 0.001, chance.uniform(0, 0.2)]))
                    ran.in_flight = sum(request.status == "open" for request in desk.requests)
                    child.kill(by)
                    return
                await asyncio.sleep(0.002)

        first = await self._live(home, words, strike, is_cold=is_cold)
        ran.was_hit = not Books(home.folder).ended
        if ran.was_hit:
            await self._resume(ran, played, cap or 10_000_000_000, is_cold=is_cold)
        else:
            ran.outcome = "over before the signal"
            played.page = {"output": first.said.splitlines()}
        ran.faults += judge(played, undisturbed)
        for fault in ran.faults[:3]:
            print(f"{by.name} {number}: {fault.kind}: {fault.detail}", flush=True)
        if not (ran.faults and self._options.keep):
            shutil.rmtree(folder)
        return ran

    async def _live(
        self,
        home: Home,
        words: Sequence[str],
        strike: Callable[[Child], Coroutine[Any, Any, None]] | None = None,
        *,
        is_cold: bool = False,
    ) -> Ended:
        environment = {**home.environment, RECEIVED: str(home.received)}
        environment[PLANTED] = self._options.faults
        start = start_cold if is_cold else self._warm.start
        child = await start(list(words), home.project, environment, home.next_life())
        striking = None if strike is None else asyncio.ensure_future(strike(child))
        try:
            async with asyncio.timeout(LONGEST_LIFE_S):
                status = await child.ended()
        except TimeoutError:
            child.kill()
            await child.ended()
            status = -99
        finally:
            if striking is not None:
                striking.cancel()
                await asyncio.gather(striking, return_exceptions=True)
        return Ended(status, child.said, child.complained)

    async def _resume(self, ran: Ran, played: Played, cap: int, *, is_cold: bool) -> None:
        """Resume once without a flag; only where the cap has no room, once more with consent."""
        home = played.home
        before = Books(home.folder)
        if not before.runs:  # it was ended before it wrote anything, so nothing is left to resume
            ran.outcome = "nothing to resume"
            ended = await self._live(home, ["run", "main.vega"], is_cold=is_cold)
            self._take(played, ended)
            return
        ended = await self._live(home, ["resume"], is_cold=is_cold)
        after = Books(home.folder)
        cut = [claim for claim in after.claims if claim.is_unknown]
        due = sum(claim.amount for claim in cut)
        charged = sum(claim.charged for claim in after.claims)
        most = max((claim.amount for claim in after.claims), default=0)
        if ended.status == 0:
            ran.outcome = "continued"
        elif ended.status == _NEEDS_CONSENT:
            ran.outcome = "asked"
            if charged + due <= cap:
                text = f"{due} of {cap} was due and {charged} charged, and it asked for consent"
                ran.faults.append(Fault("stuck", f"{text}: {ended.complained[-300:]}"))
        elif _is_short(ended) and charged + most > cap:
            ran.outcome = "met its cap later"
        else:
            ran.faults.append(
                Fault(
                    "stuck", f"exit {ended.status}, {charged} of {cap}: {ended.complained[-500:]}"
                )
            )
        ran.faults += _told(ended, len(cut), due)
        if ended.status == _NEEDS_CONSENT:
            ended = await self._live(home, ["resume", "--yes"], is_cold=is_cold)
        if ended.status and _is_short(ended):
            ended = await self._live(home, ["resume", "--budget", "+$5"], is_cold=is_cold)
        self._take(played, ended)

    def _take(self, played: Played, ended: Ended) -> None:
        if ended.status:
            played.trouble = f"exit {ended.status}: {ended.complained[-500:]}"
            return
        played.page = {"output": ended.said.splitlines()}


def _cap(undisturbed: Played, wide: int, chance: random.Random) -> int:
    """Return the cap of a run in nano-dollars; 0 for that of the settings, which is ample. Others
    have room for the program, but not always for what a signal may cut off."""
    if chance.random() < 0.5:
        return 0
    claims = Books(undisturbed.home.folder).claims
    spent, most = sum(claim.charged for claim in claims), max(claim.amount for claim in claims)
    return (spent + most * chance.randint(1, 2 * wide)) // 1_000 * 1_000


def _is_short(ended: Ended) -> bool:
    """Return whether a run was refused a call that its cap has no room for."""
    return "refused: BudgetExceeded" in ended.complained


def _told(ended: Ended, calls: int, due: int) -> list[Fault]:
    """Check the sentence about the calls that were cut off, and return its faults."""
    said = _CUT_OFF.findall(ended.complained)
    if len(said) != (1 if calls else 0):
        text = f"{calls} calls were cut off, told {len(said)} times: {ended.complained[-400:]}"
        return [Fault("sentence", text)]
    for number, amount in said:
        shown = round(float(amount) * 1e9)
        exact = -(-due // _CENT) * _CENT if due >= 10 * _CENT else due
        if int(number.replace(",", "")) != calls or abs(shown - exact) > 100_000:
            return [Fault("sentence", f"{calls} calls for {due}, told {number} for ${amount}")]
    return []


async def campaign(options: _Options) -> list[Ran]:
    """Play runs until each signal has hit so many, some at once."""
    ran: list[Ran] = []
    folder = Path(tempfile.mkdtemp(prefix="signals-"))
    begun, hits = Counter[signal.Signals](), Counter[signal.Signals]()
    try:
        async with serving() as server, nursery() as warm:
            table = _Table(options, folder, server, warm)

            async def play_some() -> None:
                while hits[by := min(SIGNALS, key=lambda by: hits[by])] < options.runs:
                    number = begun[by]
                    begun[by] += 1
                    hits[by] += 1
                    ran.append(await table.play(number, by))
                    hits[by] -= not ran[-1].was_hit
                    if not len(ran) % 40:
                        print(f"{len(ran)} runs", flush=True)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(AT_ONCE):
                    tasks.create_task(play_some())
    finally:
        if options.keep:
            print(f"runs with faults are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return ran


def _figures(ran: list[Ran]) -> list[Figure]:
    figures: list[Figure] = []
    for by in SIGNALS:
        mine = [one for one in ran if one.by is by and one.was_hit]
        outcomes = Counter(one.outcome for one in mine)
        shown = ", ".join(f"{outcomes[name]} {name}" for name in sorted(outcomes))
        hit = sum(one.in_flight for one in mine)
        figures.append(Figure(f"{by.name}: runs hit / calls in flight", f"{len(mine)} / {hit:,}"))
        figures.append(Figure(f"{by.name}: after one resume", shown))
    for kind in ("sentence", *FAULTS):
        number = sum(any(fault.kind == kind for fault in one.faults) for one in ran)
        figures.append(Figure(f"runs with a fault: {kind}", f"{number}", "0", not number))
    return figures


def main(words: Sequence[str]) -> int:
    """Run the campaign and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.signals")
    parser.add_argument("runs", nargs="?", type=int, default=RUNS)
    parser.add_argument("--cold", type=int, default=COLD)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--faults", default="")
    chosen = parser.parse_args(words)
    for number in SIGNALS[:3]:  # what is ignored here, as in the background, is ignored by a child
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    ran = asyncio.run(campaign(_Options(**vars(chosen))))
    figures = _figures(ran)
    print(show(figures))
    print(f"{time.monotonic() - began:.0f} s")
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
