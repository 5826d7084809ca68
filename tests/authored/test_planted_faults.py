"""Faults planted in admission and in the machine, each of which the checks of these tests see."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaigns.authored import Seen, faults_of, run_one
from msgspec import structs

from vegakit.host import deployment as library
from vegakit.lang.analysis import quotes as quoting
from vegakit.money import Money, dollars
from vegakit.policy import Grant
from vegakit.program import (
    AdmittedProgram,
    ProcessSpec,
    ProgramGrant,
    RefusedProgram,
    admission,
    admission as rights,
    tool_calls as authored,
)

DEAR = 'for i in range(5000) { reader <- "x"; }'
ASKS = 'for i in range(20) { reader <- "x"; }'
SECRET = 'program may [fs::read]\nprint(file::read("secret.txt"));'
WRITES = 'program may [fs::write] file::write("inside/a.txt", "mine");'
STRANGER = 'agent A { model "planner" max_tokens 5 } A <- "x";'


async def broken(source: str, folder: Path) -> list[str]:
    """What is seen of it, and whether it was let in although it should not be."""
    seen = await run_one(source, 1, folder)
    let_in = isinstance(seen.admitted, AdmittedProgram)
    return [*faults_of(seen), *_seen(source, seen, let_in=let_in)]


def _seen(source: str, seen: Seen, *, let_in: bool) -> Iterator[str]:
    if source in (DEAR, WRITES, STRANGER) and let_in:
        yield "let in"
    if source == ASKS and '"quote"' not in seen.told:
        yield "no part"


def not_compared(patch: pytest.MonkeyPatch) -> None:
    real = admission.admit

    def any_cost(
        source: str, language: str, leave: ProgramGrant
    ) -> AdmittedProgram | RefusedProgram:
        return real(source, language, replace(leave, max_cost=dollars("$1000")))

    patch.setattr("vegakit.host.authors.admit", any_cost)
    patch.setattr("vegakit.program.admission.over_remaining_budget", lambda accepted, room: None)


def manifest_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "missing_rights", lambda manifest, may, known: [])


def agents_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "_foreign_agents", lambda module, leave: [])


def grant_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(library, "_cut", lambda given, most: Grant(given.capabilities, paths=("**",)))


def part_not_opened(patch: pytest.MonkeyPatch) -> None:
    def without(body: str, kind: Any, wallet: Money) -> ProcessSpec:
        return ProcessSpec(body, kind)

    patch.setattr(authored, "ProcessSpec", without)


def quote_too_low_and_part_not_opened(patch: pytest.MonkeyPatch) -> None:
    part_not_opened(patch)
    quote_too_low(patch)


def quote_too_low(patch: pytest.MonkeyPatch) -> None:
    real = quoting.quote

    def low(*given: Any, **named: Any) -> Any:
        told = real(*given, **named)
        return structs.replace(told, total=(told.total or 0) // 200)

    patch.setattr(admission, "quote", low)


FAULTS = [
    (not_compared, DEAR),
    (manifest_not_compared, WRITES),
    (agents_not_compared, STRANGER),
    (grant_not_cut, SECRET),
    (part_not_opened, ASKS),
    (quote_too_low_and_part_not_opened, ASKS),
]


@pytest.mark.parametrize(("plant", "source"), FAULTS)
async def test_a_planted_fault_is_seen(
    plant: Any, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And without it there is nothing to see."""
    (tmp_path / "sound").mkdir()
    assert await broken(source, tmp_path / "sound") == []
    plant(monkeypatch)
    assert await broken(source, tmp_path) != []


async def test_a_quote_that_is_too_low_is_still_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quote is the wallet: a program that needs more is told so and spends no more."""
    quote_too_low(monkeypatch)
    seen = await run_one(ASKS, 1, tmp_path)
    assert faults_of(seen) == []
    assert "BudgetExceeded" in seen.told


def test_the_room_for_paths_is_decided_by_names_not_by_beginnings() -> None:
    """`srcs/**` is not inside `src/**`."""
    grant = Grant(("fs::read",), paths=("src/**",))
    fits = rights._path_fits  # pyright: ignore[reportPrivateUsage]
    assert not fits(grant, "fs::read", "srcs/**")
    assert fits(grant, "fs::read", "src/lib/**")
