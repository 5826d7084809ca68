"""Nothing that a program does at its worst passes its quote."""

import os
from pathlib import Path

import pytest

from tests.lang.quoting.faults import FAULTS, patches_of
from tests.lang.quoting.running import at_its_worst, worst_of
from tests.lang.quoting.writing import Writer
from vegakit.lang import AgentSpec, ModelTerms, check_program, quote
from vegakit.providers import SCRIPTED_PRICE, ScriptedModel
from vegakit.sdk import Source
from vegakit.testing import programs

PROGRAMS = int(os.environ.get("VEGA_QUOTES", "300"))
MOST_TRIED = 600


@pytest.mark.parametrize("first", range(0, PROGRAMS, 50))
def test_no_program_spends_or_calls_more_than_its_quote(first: int) -> None:
    """At its worst: billed failures, answers that do not fit, longest lists, most steps."""
    for seed in range(first, min(first + 50, PROGRAMS)):
        came = at_its_worst(Writer(seed).program(), seed)
        assert came.holds, f"seed {seed}: {came}"


def test_no_program_of_the_language_tests_passes_its_quote() -> None:
    """Written by people for other ends: streams, links, restarts, imports, people."""
    bounded = 0
    for path in programs.find_tests([Path(__file__).parents[2] / "language"]):
        source = Source(path)
        checked, found = check_program(source.read(source.name) or "", source.name, source.read)
        if checked is None or any(one.severity == "error" for one in found):
            continue
        quoted, ran = quote(checked, _scripted), programs.run_test(path)
        assert quoted.total is None or ran.spent <= quoted.total, path
        assert quoted.calls is None or ran.calls <= quoted.calls, path
        bounded += quoted.total is not None and ran.calls > 0
    assert bounded > 100


def _scripted(_: AgentSpec) -> ModelTerms:
    model = ScriptedModel("")
    return ModelTerms(SCRIPTED_PRICE, 1_000_000, model.default_max_tokens, model.bound_input)


def test_what_is_quoted_can_really_be_spent() -> None:
    """At most half as much again as the most expensive run that was found; else the tests above
    would hold for any large number."""
    for seed in range(40):
        came = worst_of(Writer(seed, is_fair=True).program(), 60, enough=1.5)
        if came.is_payable and came.quote.total:
            assert 1 <= (came.ratio or 0) <= 1.5, f"seed {seed}: {came}"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_bound_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(_is_broken(seed, fault, monkeypatch) for seed in range(MOST_TRIED)), fault


def _is_broken(seed: int, fault: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    for patch in patches_of(fault):
        monkeypatch.setattr(*patch)
    return not at_its_worst(Writer(seed).program(), seed).holds
