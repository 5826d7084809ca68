"""Programs that models write, by chance and by malice: what is accepted keeps its quote and its
manifest, what is not does nothing (G19). The full size: `python -m campaigns.authored 1000`."""

from pathlib import Path
from random import Random

import pytest
from campaigns.authored import faults_of, run_one
from campaigns.authored_hostile import hostile
from campaigns.authored_programs import written

from vegakit.program import AdmittedProgram, RefusedProgram

HOSTILE = list(hostile())


@pytest.mark.parametrize("seed", range(100))
async def test_a_program_keeps_its_quote_and_its_manifest(tmp_path: Path, seed: int) -> None:
    """Whatever its agents answer."""
    seen = await run_one(written(Random(seed)), seed, tmp_path)
    assert faults_of(seen) == []


@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_a_hostile_program_gets_nothing(tmp_path: Path, number: int) -> None:
    """It is refused before its first call, or ends by a bound."""
    seen = await run_one(HOSTILE[number], number, tmp_path)
    assert faults_of(seen) == []


def test_there_are_enough_of_both_kinds() -> None:
    """A hundred hostile ones, and the whole class of the corpus among them."""
    assert len(HOSTILE) >= 100 + 40


async def test_some_are_accepted_and_some_refused(tmp_path: Path) -> None:
    """Else the others would show nothing."""
    seeds = range(12)
    seen = [await run_one(written(Random(seed)), seed, tmp_path) for seed in seeds]
    kinds = {type(one.admitted) for one in seen}
    assert kinds == {AdmittedProgram, RefusedProgram}
    assert sum(one.calls for one in seen) > 10
    assert any(one.looked for one in seen)
