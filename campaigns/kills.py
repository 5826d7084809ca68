"""`kill -9` at any moment loses nothing that was paid for: `python -m campaigns.kills 50 5`.

A program in Python is killed at random moments and at five named points, and started again until
it is done; programs in Vega are killed by `campaigns.kill_campaign`. The provider, in this
process, keeps its own log. Then: its answers are those of a run that nobody killed; no call whose
answer was recorded was sent again; the ledger holds what the provider billed plus what was cut off
in flight, at its reservation. Prints its figures last; exits 1 if one is off.
"""

import json
import multiprocessing
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from campaigns.kills_program import MODEL, POINTS, ROUNDS, WIDTH, Fault, live, question
from vegakit.conversation import Usage
from vegakit.prices import bill
from vegakit.providers import ProviderAccess, build_model
from vegakit.testing import Provider, ProviderReply, ProviderRequest

__all__ = ["Kills", "Live", "kill_runs", "killed_run", "main"]

RANDOM, EACH = 50, 5
DELAY_MS = 40
LONGEST_S = 0.25
MOST_LIVES = 10
USAGE = Usage(30, 7)
_ASKED = "SELECT outcome FROM effects WHERE kind = 'CallModel' AND path LIKE '%asker%'"
_LOST = '{"type": "Lost"}'
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["campaigns.kills_program", "campaigns.kills_authored"])
Live: TypeAlias = Callable[..., None]
"""One life of a program, in a process of its own."""


class Kills(NamedTuple):
    kills: int = 0
    runs: int = 0
    calls: int = 0
    unknown: int = 0
    wrong: int = 0
    resent: int = 0
    off: int = 0

    @property
    def holds(self) -> bool:
        return not (self.wrong or self.resent or self.off)

    def __add__(self, other: Any) -> "Kills":
        return Kills(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "BROKEN"
        return (
            f"{self.kills} kills in {self.runs} runs of {self.calls} calls: {self.unknown} cut off "
            f"in flight, {self.wrong} wrong or lost answers, {self.resent} recorded calls sent "
            f"again, ledger and provider differ in {self.off} runs: {verdict}"
        )


def answer(request: ProviderRequest) -> ProviderReply:
    return ProviderReply(f"<{request.text}>", usage=USAGE, delay_ms=DELAY_MS)


def expected() -> list[str]:
    answers = ["start"]
    for _ in range(ROUNDS):
        answers += [f"<{question(n, answers[-1])}>" for n in range(WIDTH)]
    return answers


def kill_runs(random_kills: int, each: int, seed: int = 0, program: Live = live) -> Kills:
    chance, total = random.Random(seed), Kills()
    plan = [(point, number) for point in POINTS for number in range(1, each + 1)]
    while plan or total.kills < random_kills + each * len(POINTS):
        total += killed_run([plan.pop()] if plan else [], chance, program=program)
    return total


def killed_run(
    points: list[tuple[str, int]],
    chance: random.Random,
    fault: Fault | None = None,
    program: Live = live,
) -> Kills:
    """At the point if there is one, else at random moments, until it is done. `fault` is planted in
    each of its lives."""
    with tempfile.TemporaryDirectory() as folder, Provider(answer).in_thread() as provider:
        path = Path(folder) / "run.db"
        for life in range(MOST_LIVES):
            doom = points[life] if life < len(points) else ("", 0)
            at_random = not points and life < 2
            at = chance if at_random else None
            answers = _live(program, path, provider.url, doom, at, fault)
            if answers is not None:
                return _account(path, provider.requests, answers, life)
    raise RuntimeError(f"the program was not done after {MOST_LIVES} lives")


def _live(
    program: Live,
    path: Path,
    url: str,
    doom: tuple[str, int],
    chance: random.Random | None,
    fault: Fault | None,
) -> list[str] | None:
    hears, says = _FORKS.Pipe(duplex=False)
    life = _FORKS.Process(target=program, args=(path, url, doom, says, fault))
    life.start()
    says.close()
    try:
        hears.recv()
        if chance is not None:
            time.sleep(chance.uniform(0, LONGEST_S))
            life.kill()
        return hears.recv()
    except EOFError:
        life.join()
        if life.exitcode != -signal.SIGKILL:
            raise RuntimeError("the program failed by itself; see what it printed above") from None
        return None
    finally:
        life.join()
        hears.close()


def _account(path: Path, requests: list[ProviderRequest], answers: list[str], kills: int) -> Kills:
    rows = _rows(path, _ASKED)
    outcomes = [json.loads(outcome or _LOST) for (outcome,) in rows]
    unknown = [outcome for outcome in outcomes if outcome["type"] == "Unknown"]
    answered = Counter(
        json.dumps(outcome["value"]["message"]["parts"])
        for outcome in outcomes
        if outcome["type"] == "Answered"
    )
    asked = Counter(request.text for request in requests)
    wrong = sum(mine != right for mine, right in zip(answers, expected(), strict=True))
    wrong += sum(count != 1 for count in answered.values())
    wrong += sum(outcome["type"] == "Lost" for outcome in outcomes)
    resent = max(0, asked.total() - len(unknown) - answered.total())
    ledger = path.with_suffix(".ledger.db")
    [(settled, reserved)] = _rows(
        ledger, "SELECT settled, reserved FROM scopes WHERE parent IS NULL"
    )
    claims = sum(charged for (charged,) in _rows(ledger, "SELECT charged FROM claims"))
    due = _bill() * answered.total() + sum(outcome["charged"] for outcome in unknown)
    is_off = reserved != 0 or settled != due or claims != due
    return Kills(kills, 1, ROUNDS * WIDTH, len(unknown), wrong, resent, int(is_off))


def _bill() -> int:
    price = build_model(MODEL, ProviderAccess(lambda: "any")).price
    assert price is not None
    return bill(price, USAGE)


def _rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(query).fetchall()


def main(random_kills: int = RANDOM, each: int = EACH) -> int:
    began = time.monotonic()
    kills = kill_runs(random_kills, each)
    print(f"{kills}; {time.monotonic() - began:.0f} s")
    return int(not kills.holds)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
