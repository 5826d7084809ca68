"""Nothing that a program does at its worst passes its quote."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lang.quoting.running import at_its_worst
from tests.lang.quoting.writing import Writer
from vegakit.lang import AgentSpec, ModelTerms, check, quote
from vegakit.lang.quoting import calling, looping, program, scopes, sends, statements
from vegakit.lang.quoting.spending import NONE, Spend, times
from vegakit.lang.quoting.values import Value
from vegakit.models import ScriptedModel
from vegakit.models.scripted import SCRIPTED_PRICE
from vegakit.runtime import Source
from vegakit.testing import programs

PROGRAMS = int(os.environ.get("VEGA_QUOTES", "300"))
MOST_TRIED = 400


@pytest.mark.parametrize("first", range(0, PROGRAMS, 50))
def test_no_program_spends_or_calls_more_than_its_quote(first: int) -> None:
    """At its worst: billed failures, answers that do not fit, longest lists, most steps."""
    for seed in range(first, min(first + 50, PROGRAMS)):
        came = at_its_worst(Writer(seed).program(), seed)
        assert came.holds, f"seed {seed}: {came}"


def test_no_program_of_the_language_tests_passes_its_quote() -> None:
    """Written by people for other ends: streams, links, restarts, imports, people."""
    bounded = 0
    for path in programs.tests_below([Path(__file__).parents[2] / "language"]):
        source = Source(path)
        checked, found = check(source.read(source.name) or "", source.name, source.read)
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


def test_a_good_part_of_what_is_quoted_can_really_be_spent() -> None:
    """Else the test above would hold for any large number."""
    came = [at_its_worst(Writer(seed).program(), seed) for seed in range(60)]
    parts = sorted(one.spent / (one.quote.total or one.spent) for one in came)
    assert parts[len(parts) // 2] > 0.15
    assert parts[-1] > 0.95


_seen = scopes.Scopes.put


def _once_only(spend: Spend, count: float, at: Any) -> Spend:
    return times(spend, count - 1, at)


def _called_once() -> Callable[..., Any]:
    called: set[str] = set()
    real = calling.call_function

    def call(w: Any, name: str, given: Any) -> Any:
        spent, value = real(w, name, given)
        is_known = name in called
        called.add(name)
        return (NONE if is_known else spent), value

    return call


def _forgets_earlier(self: Any, depth: int, name: str, value: Value) -> None:
    for watch in self._watches:
        watch.pop((depth, name), None)
    _seen(self, depth, name, value)


def _no_growth(before: Any, grown: Any, rounds: Any) -> Any:
    return before


def _nothing(*_: Any) -> None:
    pass


FAULTS: dict[str, tuple[object, str, Any]] = {
    "retries forgotten": (sends, "_attempts", lambda spec: 1),
    "answers that do not fit forgotten": (sends, "_RE_ASKS", 0),
    "empty answers forgotten": (sends, "_steps", lambda sending: 1),
    "a loop one round short": (statements, "times", _once_only),
    "the else branch forgotten": (statements, "dearer", lambda one, other: one),
    "what tools send forgotten": (calling, "_tools", lambda w, name: NONE),
    "a wallet taken for the session's": (program, "_has_own_wallet", lambda node: False),
    "handlers forgotten": (statements, "_handler", _nothing),
    "lists that do not grow": (looping, "after_rounds", _no_growth),
    "what a break sees forgotten": (scopes.Scopes, "put", _forgets_earlier),
    "a budget that is always the agent's": (calling, "_part", lambda declared, budget: declared),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_bound_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    assert _is_found(), fault


def test_a_function_that_counts_once_for_all_its_calls_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from vegakit.lang.quoting import expressions

    def broken(seed: int) -> bool:
        monkeypatch.setattr(expressions, "call_function", _called_once())
        return not at_its_worst(Writer(seed).program(), seed).holds

    assert any(map(broken, range(MOST_TRIED)))


def _is_found() -> bool:
    return any(not at_its_worst(Writer(seed).program(), seed).holds for seed in range(MOST_TRIED))
