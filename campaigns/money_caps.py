"""Caps are caps: a thousand callers in four processes spend from one ledger file.

    python -m campaigns.money_caps 100      a hundred seeds

Each caller's worst case is a cent and all of it is billed. The processes disagree: the first has a
cap of a dollar, the others less, and each declares its own for the same scope, in the middle of the
others' calls. Exactly a hundred are admitted, whoever they are. Every 5 ms a sampler reads the
scope over a connection of its own: settled + reserved is never above a dollar. A refusal is legal
only while the whole cap of its own process is taken, and no process spends more than its cap.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import dollars
from vegakit.policy import InsufficientBudget, Reserved, ScopeRule
from vegakit.ports import Ledger
from vegakit.store import SqliteLedger

__all__ = ["CAP", "FITTING", "PROCESSES", "ROOT", "Outcome", "call_all", "main", "spend_to_the_cap"]

CAP, WORST_CASE = dollars("$1.00"), dollars("$0.01")
ROOT = ScopeId("tenant")
OWN_CAPS = (CAP, dollars("$0.80"), dollars("$0.50"), dollars("$0.20"))
"""What each process says that may be spent."""
PROCESSES, CALLERS = 4, 250
FITTING = CAP // WORST_CASE
LEASE_MS = 1_000_000
SAMPLE_S = 0.005
PATIENCE_S = 60.0


class Outcome(NamedTuple):
    seed: int
    admitted: int
    wrongly_refused: int
    most_taken: int
    samples: int
    took_s: float

    @property
    def holds(self) -> bool:
        return self.admitted == FITTING and not self.wrongly_refused and self.most_taken <= CAP

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.admitted} admitted, {self.wrongly_refused} wrongly refused, "
            f"at most {self.most_taken / CAP:.0%} of the cap taken in {self.samples} samples, "
            f"{self.took_s:.1f} s: {'ok' if self.holds else 'BROKEN'}"
        )


def spend_to_the_cap(seed: int, folder: Path) -> Outcome:
    path = folder / f"ledger-{seed}.db"
    asyncio.run(_declare(path))
    started = time.monotonic()
    callers = [_start_callers(path, seed, number) for number in range(PROCESSES)]
    try:
        for process in callers:
            _read_line(process)
        for process in callers:
            _write_line(process)
        most_taken, samples = _sample(path, callers)
        told = [json.loads(_read_line(process)) for process in callers]
    finally:
        for process in callers:
            process.kill()
            process.communicate()
    admitted, wrongly_refused = (sum(column) for column in zip(*told, strict=True))
    took_s = time.monotonic() - started
    return Outcome(seed, admitted, wrongly_refused, most_taken, samples, took_s)


async def _declare(path: Path) -> None:
    ledger = SqliteLedger(path)
    await ledger.open(ROOT, ScopeRule(CAP), 0)
    await ledger.aclose()


def _start_callers(path: Path, seed: int, number: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "campaigns.money_caps", "call", str(path), str(seed)]
    return subprocess.Popen(
        [*command, str(number)],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _write_line(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def _sample(path: Path, callers: "list[subprocess.Popen[str]]") -> tuple[int, int]:
    """The most that was ever seen settled or reserved, and how often it was looked at."""
    most = samples = 0
    deadline = time.monotonic() + PATIENCE_S
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        while any(process.poll() is None for process in callers):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the callers did not end within {PATIENCE_S:.0f} s")
            (taken,) = file.execute("SELECT settled + reserved FROM scopes").fetchone()
            most, samples = max(most, taken), samples + 1
            time.sleep(SAMPLE_S)
    return most, samples


async def call_all(ledger: Ledger, seed: int, number: int) -> None:
    """One process: says that it is ready, waits for the word, prints what its callers met."""
    holder = HolderId(f"process {number}")
    chance = random.Random(f"{seed}/{number}")
    rule = ScopeRule(OWN_CAPS[number])
    await ledger.open(ROOT, rule, 0)
    await ledger.renew(holder, LEASE_MS)
    print("ready", flush=True)
    sys.stdin.readline()
    names = [EffectKey(f"{number}/{caller}") for caller in range(CALLERS)]
    met = await asyncio.gather(
        *(_call(ledger, name, holder, rule, chance) for name in names),
        _declare_again(ledger, rule, chance),
    )
    await ledger.aclose()
    admitted, wrong = met.count("admitted"), met.count("wrongly refused")
    wrong += max(0, admitted - OWN_CAPS[number] // WORST_CASE)
    print(json.dumps([admitted, wrong]), flush=True)


async def _declare_again(ledger: Ledger, rule: ScopeRule, chance: random.Random) -> str:
    for _ in range(10):
        for _ in range(chance.randrange(10)):
            await asyncio.sleep(0)
        await ledger.open(ROOT, rule, 0)
    return "declared"


async def _call_on_file(path: str, seed: int, number: int) -> None:
    await call_all(SqliteLedger(path), seed, number)


async def _call(
    ledger: Ledger, effect: EffectKey, holder: HolderId, rule: ScopeRule, chance: random.Random
) -> str:
    for _ in range(chance.randrange(50)):
        await asyncio.sleep(0)
    verdict = await ledger.reserve(effect, 1, ROOT, WORST_CASE, holder, 0, rules={ROOT: rule})
    if isinstance(verdict, InsufficientBudget):
        taken = verdict.settled + verdict.reserved
        return "refused" if taken >= (rule.cap or 0) == verdict.cap else "wrongly refused"
    if not isinstance(verdict, Reserved):
        return "wrongly refused"
    settling: Any = (
        ledger.answer(effect, 1, WORST_CASE, 0)
        if chance.random() < 0.8
        else ledger.cut_off(effect, 1, 0)
    )
    await settling
    return "admitted"


def main(seeds: int = 100) -> int:
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [spend_to_the_cap(seed, Path(folder)) for seed in range(seeds)]
    for outcome in outcomes:
        print(outcome)
    broken = sum(not outcome.holds for outcome in outcomes)
    print(f"{seeds - broken} of {seeds} seeds held the cap")
    return int(broken > 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["call", path, seed, number]:
            asyncio.run(_call_on_file(path, int(seed), int(number)))
        case ["call", *_] | [_, _, *_]:
            sys.exit("usage: python -m campaigns.money_caps [seeds]")
        case arguments:
            sys.exit(main(*map(int, arguments)))
