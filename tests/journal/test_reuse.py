"""What `vega run --reuse` keeps of a run, and what it says of the rest."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from campaigns.reuse import edit_of, edited, program_of
from msgspec.structs import replace

from tests.cli.test_reuse import ANSWERS, GIVEN, PROGRAM, process, write_answers
from vegakit import effects
from vegakit.cli.recorded_cost import TypicalCost, runs_of, token_advice, typical_cost
from vegakit.conversation import ModelRequest
from vegakit.effects import CallModel, EffectRequest
from vegakit.ids import Digest
from vegakit.testing import run_virtual


def problems(seeds: Iterable[int]) -> list[str]:
    found = [(seed, run_virtual(edited(seed))) for seed in seeds]
    return [f"seed {seed}: {one}" for seed, came in found for one in came.wrong]


def test_edited_programs_keep_what_is_unchanged_and_pay_no_more_than_was_said() -> None:
    """The same calls have the same answers as in a fresh run, and nothing kept is sent."""
    assert problems(range(40)) == []


def _without_max_tokens(request: ModelRequest) -> ModelRequest:
    return replace(request, settings=replace(request.settings, max_tokens=1))


def _without_system(request: ModelRequest) -> ModelRequest:
    return replace(request, system="")


def _without_messages(request: ModelRequest) -> ModelRequest:
    return replace(request, messages=())


@pytest.mark.parametrize(
    ("edit", "leave"),
    [
        ("max_tokens", _without_max_tokens),
        ("system", _without_system),
        ("message", _without_messages),
    ],
)
def test_a_key_that_leaves_out_a_part_of_the_request_is_found(
    monkeypatch: pytest.MonkeyPatch, edit: str, leave: Callable[[ModelRequest], ModelRequest]
) -> None:
    """A planted fault: what was answered to another request is kept."""
    seeds = [seed for seed in range(150) if edit_of(seed, program_of(seed))[0] == edit][:12]
    assert seeds
    assert problems(seeds) == []
    digest_of = effects.digest_of

    def coarse(request: EffectRequest) -> Digest:
        if isinstance(request, CallModel):
            request = replace(request, request=leave(request.request))
        return digest_of(request)

    monkeypatch.setattr(effects, "digest_of", coarse)
    assert problems(seeds)


def test_what_is_kept_is_no_evidence_of_what_a_program_costs(tmp_path: Path, place: str) -> None:
    """An answer is counted where it was bought. A run that keeps some is no cheap run: it is left
    out, also where it comes to them only behind answers that it buys."""
    program = tmp_path / "p.vega"
    program.write_text(PROGRAM)
    write_answers(tmp_path, ANSWERS)

    def ran(*words: str) -> None:
        told = process(tmp_path, "run", *GIVEN[:-1], place, *words)
        assert told.returncode == 0, told.stderr

    def kept() -> list[int]:
        return [one.kept for one in runs_of(program, place)]

    def evidence() -> tuple[TypicalCost | None, list[int]]:
        runs = runs_of(program, place)
        advice = token_advice(runs, place, ["Writer", "Judge"])
        return typical_cost(runs), [row.calls for row in advice]

    ran()
    [first] = runs_of(program, place)
    fresh = TypicalCost(1, first.spent, first.spent)
    assert evidence() == (fresh, [4, 3])
    ran("--reuse", first.run.program)
    assert kept() == [0, 7]
    assert evidence() == (fresh, [4, 3])
    program.write_text(PROGRAM.replace("max_tokens 50", "max_tokens 51"))
    ran("--reuse", first.run.program)
    assert kept() == [0, 7, 3]
    assert evidence() == (fresh, [8, 3])
