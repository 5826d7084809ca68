"""Faults planted in the parser are found by comparing it with the grammar."""

from collections.abc import Callable

import pytest

from tests.lang.generating import mutated, source
from tests.lang.test_grammar_properties import by_grammar, by_parser
from vegakit.lang.syntax import (
    expression_parser as expressions,
    expression_parser as sending,
    lexer,
    parser as declarations,
    type_parser as types,
)

PROGRAMS = 1000
Plant = Callable[[pytest.MonkeyPatch], None]


def binds_wrongly(plant: pytest.MonkeyPatch) -> None:
    plant.setitem(expressions._LEVELS, "??", 4)


def chains_comparisons(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(expressions.ExpressionParser, "chained", lambda _: None)


def not_is_tight(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(expressions, "_NOT", 8)


def sends_take_one_option_only(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(sending, "_ASK_OPTIONS", frozenset(["timeout", "as"]))


def clauses_may_repeat(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(declarations, "GRANTS", {"capabilities": "capabilities", **declarations.GRANTS})
    plant.setattr(declarations.DeclarationParser, "fail", lambda *_, **__: None)


def escapes_are_kept(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(types, "unescaped", lambda raw: raw)


def indentation_is_kept(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(types, "without_indent", list)


def minutes_are_seconds(plant: pytest.MonkeyPatch) -> None:
    plant.setitem(lexer.UNITS_MS, "m", 1000)


@pytest.mark.parametrize(
    "fault",
    [
        binds_wrongly,
        chains_comparisons,
        not_is_tight,
        sends_take_one_option_only,
        clauses_may_repeat,
        escapes_are_kept,
        indentation_is_kept,
        minutes_are_seconds,
    ],
)
def test_a_planted_fault_is_found(fault: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within few programs."""
    fault(monkeypatch)
    assert any(
        by_parser(text) != by_grammar(text)
        for seed in range(PROGRAMS)
        for text in (mutated(seed), *([source(seed)] if seed < 100 else []))
    )
