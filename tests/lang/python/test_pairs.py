"""Programs in Python beside the same in Vega: what one does, the other does.

A pair is `tests/language_python/<feature>/x.py` beside `tests/language/<feature>/x.vega`.
"""

import re
from pathlib import Path

import pytest

from vegakit.lang import AgentSpec, ModelTerms, Quote, quote
from vegakit.providers import ScriptedModel
from vegakit.sdk import PythonProgram, check_source
from vegakit.testing import ProgramTestResult, run_test

TESTS = Path(__file__).parents[2]
PYTHON, VEGA = TESTS / "language_python", TESTS / "language"
PAIRS = sorted(PYTHON.rglob("*.py"))
FEWEST = 200
_PLACE = re.compile(r"\\n  at [^ ]+ in [\w.]+")


def _name(path: Path) -> str:
    return path.relative_to(PYTHON).with_suffix("").as_posix()


def _partner(path: Path) -> Path:
    return (VEGA / path.relative_to(PYTHON)).with_suffix(".vega")


def _terms(_: AgentSpec) -> ModelTerms:
    model = ScriptedModel([])
    assert model.price is not None
    return ModelTerms(model.price, 1_000_000, model.default_max_tokens, model.bound_input)


def _quote(path: Path) -> Quote:
    checked = check_source(path).checked
    assert checked is not None
    return quote(checked, _terms)


def _quoted(path: Path) -> tuple[object, ...]:
    found = _quote(path)
    lines = sorted((line.what, str(line.calls), str(line.worst)) for line in found.lines)
    gaps = sorted(str(gap.cap) for gap in found.unbounded)
    return found.total, found.calls, found.processes, lines, gaps


def _did(ran: ProgramTestResult) -> dict[str, object]:
    """All but the lines that an error came through, which are other lines, and the time, which
    depends on chance where calls are tried again; where a program says its time, it is held to."""
    return {
        "printed": ran.printed,
        "result": ran.result,
        "error": ran.error.partition("\n")[0],
        "asked": [_PLACE.sub("", said) for said in ran.asked],
        "spent": ran.spent,
        "notes": ran.notes,
    }


@pytest.mark.parametrize("path", PAIRS, ids=_name)
def test_a_pair_does_and_costs_the_same(path: Path) -> None:
    """Prints, result, error, messages in order, spending and quote."""
    ran = run_test(path)
    assert ran.problems == []
    assert _did(ran) == _did(run_test(_partner(path)))
    assert _quoted(path) == _quoted(_partner(path))


@pytest.mark.parametrize("path", PAIRS, ids=_name)
def test_a_program_is_a_module_of_python(path: Path) -> None:
    """It can be imported, and its main waits to be run."""
    names: dict[str, object] = {"__name__": "a_program"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    assert isinstance(names["main"], PythonProgram)
    assert names["main"].path == path


def test_there_are_enough_pairs() -> None:
    assert len(PAIRS) >= FEWEST
    assert {path.parent.name for path in PAIRS} >= {"sends", "budgets", "records", "tools"}
