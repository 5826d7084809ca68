"""All journals pass one suite, and the suite finds a journal that does not keep its word."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec import structs

from tests.store.postgres import DSN, own_schema
from vegakit.effects import Effect
from vegakit.events import EffectOutcome
from vegakit.ids import EffectKey, ProgramId
from vegakit.ports import ClaimResult, Journal, RunRecord
from vegakit.store import MemoryJournal, PostgresJournal, SqliteJournal
from vegakit.testing import JOURNAL_CHECKS, JournalCheck


def name_of(check: object) -> str:
    return str(getattr(check, "__name__", "")).strip("_")


async def checked(check: JournalCheck, journal: Journal) -> None:
    async with aclosing(journal):
        await check(journal)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=name_of)
def test_a_journal(check: JournalCheck, kind: str, tmp_path: Path) -> None:
    """What is checked stands in the check's name."""
    journal = MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "run.db")
    asyncio.run(checked(check, journal))


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=name_of)
def test_a_journal_on_postgres(
    check: JournalCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is checked stands in the check's name. Checks name their runs alike, and so do other
    tests of this process, whose locks of shared runs lie beside: hence a folder of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with own_schema() as schema:
        asyncio.run(checked(check, PostgresJournal(DSN, schema=schema)))


class ClaimsAgain(MemoryJournal):
    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        await super().claim(effect, now, speculative=speculative)
        return ClaimResult()


class CommitsWhatIsSpeculative(MemoryJournal):
    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        return await super().claim(effect, now)


class SuspectsTheSameCode(MemoryJournal):
    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        changed = any(key != effect.key for key in self._at(effect.key))
        found = await super().claim(effect, now, speculative=speculative)
        return structs.replace(found, changed=changed)


class LosesOutcomes(MemoryJournal):
    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        pass


class DropsAnything(MemoryJournal):
    async def drop(self, key: EffectKey) -> None:
        self._effects.pop(key, None)


class BeginsAnew(MemoryJournal):
    async def begin(self, run: RunRecord, resume: ProgramId | None = None) -> RunRecord:
        self._runs.append(run)
        return run


class MixesRuns(MemoryJournal):
    def _is_of_this_run(self, effect: Effect) -> bool:
        return True


@pytest.mark.parametrize(
    "fault",
    [
        ClaimsAgain,
        CommitsWhatIsSpeculative,
        SuspectsTheSameCode,
        LosesOutcomes,
        DropsAnything,
        BeginsAnew,
        MixesRuns,
    ],
)
def test_a_journal_that_does_not_is_found(fault: type[MemoryJournal]) -> None:
    """At least one check fails."""
    failed = 0
    for check in JOURNAL_CHECKS:
        try:
            asyncio.run(checked(check, fault()))
        except AssertionError:
            failed += 1
    assert failed
