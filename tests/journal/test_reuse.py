"""What `vega run --reuse` keeps of a run, and what it says of the rest."""

from collections.abc import Callable, Iterable

import pytest
from campaigns.reuse import edit_of, edited, program_of
from msgspec.structs import replace

from vegakit import effects
from vegakit.conversation import ModelRequest
from vegakit.effects import CallModel, EffectRequest
from vegakit.ids import Digest
from vegakit.testing.harness import run_virtual


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
