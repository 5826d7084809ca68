"""What the checker lets pass, the machine can run: no wrong types at run time.

A program may still fail by what it meets (an index outside, a division by zero), but never because
a value is of another type than was said.
"""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings

from tests.conftest import HISTORIES
from tests.lang.checking.growing import grown
from tests.lang.checking.programs import DECLARED, PARAMETERS, checked
from tests.lang.checking.running import is_of, run
from tests.lang.checking.test_any_program_properties import SEEDS, nearly_right
from tests.lang.checking.test_expression_types import TYPES
from tests.lang.checking.test_narrowing import ALLOWED
from vegakit.lang import FLOAT, INT, Checked
from vegakit.lang.check import operators
from vegakit.lang.check.context import VariableScopes
from vegakit.vm import Status

FAULTS = frozenset(
    "LimitReached IndexError KeyError ArithmeticError ValueError ContractViolated Failed".split()
)
WRITABLE = [(text, kind) for text, kind in TYPES if not kind.startswith("a ") and kind != "file"]


def _runs(program: Checked, seeds: Iterable[int]) -> None:
    for seed in seeds:
        step, result = run(program, "probe", seed)
        if step.status is Status.CRASHED:
            assert step.error is not None
            assert step.error.error in FAULTS, step.error
        elif step.status is Status.FINISHED:
            assert is_of(result, step.value), (step.value, result)


@pytest.mark.parametrize(("expression", "kind"), WRITABLE)
def test_an_expression_gives_a_value_of_its_type(expression: str, kind: str):
    """What was found without running it is what comes when it runs."""
    body = f"let it = {expression}; return it;"
    may = 'may [fs, net, process] allowed_hosts ["example.com"] allowed_commands ["ls"]'
    text = f"{DECLARED} fn probe({PARAMETERS}) -> {kind} {may} {{ {body} }}"
    program, found = checked(text)
    assert program is not None, found
    _runs(program, range(10))


@pytest.mark.parametrize("body", ALLOWED)
def test_what_is_not_null_is_not_null(body: str):
    """Where the checker knows that a value is there, it is."""
    program, _ = checked(f"{DECLARED} fn probe({PARAMETERS}) {{ {body} }}")
    assert program is not None
    _runs(program, range(20))


@settings(max_examples=max(20, HISTORIES // 5))  # each is checked 20 times
@given(SEEDS)
def test_grown_programs_run(seed: int):
    """Statements that the checker lets pass run one after the other."""
    program, found = checked(grown(seed))
    assert program is not None, found
    _runs(program, range(3))


@given(SEEDS)
def test_nearly_right_programs_run(seed: int):
    """Random changes that pass the checker pass the machine."""
    program, _ = checked(nearly_right(seed))
    if program is not None and any(name == "probe" for name in program.full_names.values()):
        _runs(program, range(3))


def test_a_checker_that_forgets_too_little_is_found_out(monkeypatch: pytest.MonkeyPatch):
    """The runs can fail: what the loop sets to null is taken for a str."""
    monkeypatch.setattr(VariableScopes, "forget", lambda _self, _numbers: None)
    body = "if o != null { for n in range(2) { print(str::len(o)); o = null; } }"
    program, _ = checked(f"{DECLARED} fn probe({PARAMETERS}) {{ {body} }}")
    assert program is not None
    with pytest.raises(AssertionError, match="BadProgram"):
        _runs(program, range(10))


def test_a_checker_with_a_wrong_rule_is_found_out(monkeypatch: pytest.MonkeyPatch):
    """The values can misfit: an int is said to be a float."""
    monkeypatch.setitem(operators._ARITHMETIC, ("+", INT, INT), FLOAT)
    program, _ = checked("fn probe(i: int) -> float { return i + i; }")
    assert program is not None
    with pytest.raises(AssertionError):
        _runs(program, range(3))
