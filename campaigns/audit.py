"""The audit is tamper-evident (G16): `python -m campaigns.audit [full]`.

Processes append to one file at once while others do the same and are killed; the chain is then
verified, and looked through for every entry that was acknowledged. After that a chain is changed
in a random way, again and again, by somebody who may write the file; each change must be found,
and told as what it is.
"""

import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import aclosing
from itertools import count, islice
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from campaigns.audit_tampering import TAMPERINGS, tampered
from vegakit.ports import AuditEntry, AuditLevel
from vegakit.store import SqliteAudit, read_audit, verify_audit
from vegakit.telemetry import Redactor

__all__ = ["Appended", "Tampered", "append_and_kill", "append_some", "main", "tamper"]

REPOSITORY = Path(__file__).parents[1]
AT_ONCE = 20
ALL = 1 << 40


class Appended(NamedTuple):
    entries: int
    wanted: int
    kills: int
    faults: int
    lost: int
    twice: int
    took_s: float

    @property
    def holds(self) -> bool:
        return self.entries >= self.wanted and not self.faults + self.lost + self.twice

    def __str__(self) -> str:
        return (
            f"{self.entries:,} entries, {self.kills} processes killed: {self.faults} forks, gaps "
            f"or other faults, {self.lost} acknowledged entries lost, {self.twice} there twice; "
            f"{self.took_s:.0f} s: {'ok' if self.holds else 'BROKEN'}"
        )


def append_and_kill(path: Path, writers: int, appends: int, kills: int) -> Appended:
    started, chance = time.monotonic(), random.Random(kills)
    names = [f"writer{number}" for number in range(writers)]
    working = [_start_writer(path, name, appends) for name in names]
    said = [_killed(_start(path, f"victim{n}", ALL), chance.randrange(1, 20)) for n in range(kills)]
    for writer in working:
        writer.wait()
    said += [path.with_name(name).read_text() for name in names]
    acknowledged = {line for text in said for line in text.splitlines() if line.endswith(".")}
    found = Counter(
        msgspec.json.decode(link.text, type=AuditEntry).subject for link in read_audit(path, ALL)
    )
    return Appended(
        found.total(),
        writers * appends,
        kills,
        len(verify_audit(path).faults),
        len(acknowledged - found.keys()) + (writers * appends > len(acknowledged)),
        found.total() - len(found),
        time.monotonic() - started,
    )


def _start_writer(path: Path, name: str, appends: int) -> "subprocess.Popen[str]":
    """What it says goes to a file: nobody reads it while it works."""
    with path.with_name(name).open("w") as said:
        return _start(path, name, appends, said)


def _start(
    path: Path, name: str, appends: int, said: IO[str] | int = subprocess.PIPE
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "campaigns.audit", "append", str(path), name, str(appends)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=said, text=True)


def _killed(victim: "subprocess.Popen[str]", after_lines: int) -> str:
    """What it said; the last line may be torn."""
    assert victim.stdout is not None
    lines = list(islice(victim.stdout, after_lines))
    victim.kill()
    return "".join(lines) + victim.communicate()[0]


async def append_some(path: Path, name: str, appends: int) -> None:
    """Says which entries were acknowledged; each line ends in a dot."""
    async with aclosing(SqliteAudit(path, Redactor().redact_json, synchronous="normal")) as audit:
        numbers = iter(range(appends)) if appends < ALL else count()

        async def append_on() -> None:
            for number in numbers:
                subject = f"{name}/{number}."
                entry = AuditEntry(
                    number, name, "tool.call", subject, inputs={"path": f"{number}.py"}
                )
                await audit.append(entry, AuditLevel.DETAILED)
                print(subject, flush=True)

        await asyncio.gather(*(append_on() for _ in range(AT_ONCE)))


class Tampered(NamedTuple):
    """`missed` and `misnamed` are the tamperings, by name."""

    rounds: int
    missed: tuple[str, ...]
    misnamed: tuple[str, ...]
    took_s: float

    @property
    def holds(self) -> bool:
        return not self.missed + self.misnamed

    def __str__(self) -> str:
        found = self.rounds - len(self.missed)
        return (
            f"{found:,} of {self.rounds:,} changes of {len(TAMPERINGS)} kinds found, "
            f"{len(self.misnamed)} told as another kind; {self.took_s:.0f} s: "
            f"{'ok' if self.holds else f'BROKEN {set(self.missed + self.misnamed)}'}"
        )


def tamper(folder: Path, rounds: int, entries: int = 60) -> Tampered:
    """In a chain of its own, whose head was kept before."""
    whole, changed = folder / "whole.db", folder / "changed.db"
    _quietly_append(whole, entries)
    kept, started = verify_audit(whole).head, time.monotonic()
    missed: list[str] = []
    misnamed: list[str] = []
    for number in range(rounds):
        name, change = list(TAMPERINGS.items())[number % len(TAMPERINGS)]
        shutil.copy(whole, changed)
        expected = tampered(changed, change, random.Random(number))
        found = {fault.kind for fault in verify_audit(changed, kept).faults}
        missed += [name] * (not found)
        misnamed += [name] * (bool(found) and not expected <= found)
    return Tampered(rounds, tuple(missed), tuple(misnamed), time.monotonic() - started)


def _quietly_append(path: Path, entries: int) -> None:
    async def run() -> None:
        async with aclosing(SqliteAudit(path, Redactor().redact_json)) as audit:
            for n in range(entries):
                entry = AuditEntry(n, "agent", "tool.call", f"file {n}", inputs={"text": "x" * n})
                await audit.append(entry, AuditLevel.DETAILED)

    asyncio.run(run())


def main(*, full: bool = False) -> int:
    writers, appends, kills, rounds = (16, 10_000, 50, 1_000) if full else (4, 500, 5, 100)
    with tempfile.TemporaryDirectory() as folder:
        appended = append_and_kill(Path(folder) / "audit.db", writers, appends, kills)
        print(appended, flush=True)
        changed = tamper(Path(folder), rounds)
        print(changed)
    return int(not (appended.holds and changed.holds))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["append", path, name, appends]:
            asyncio.run(append_some(Path(path), name, int(appends)))
        case [] | [""]:
            sys.exit(main())
        case ["full"]:
            sys.exit(main(full=True))
        case _:
            sys.exit("usage: python -m campaigns.audit [full]")
