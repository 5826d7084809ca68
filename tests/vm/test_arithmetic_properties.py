"""Arithmetic of the machine against Python's own, with the rules of 64 bits."""

import math
from fractions import Fraction
from typing import Any

from hypothesis import given, strategies as st

from tests.vm.assembling import program
from tests.vm.snapshots import run
from vegakit.lang import ANY

LOW, HIGH = -(2**63), 2**63 - 1
edges = st.sampled_from([0, 1, -1, 2, -2, LOW, LOW + 1, HIGH, HIGH - 1, 2**30, -(2**30), 2**31])
ints = st.integers(LOW, HIGH) | st.integers(-100, 100) | edges
floats = st.floats(allow_nan=False, allow_infinity=False)
MODULES = {
    op: program(f"{op} 2 0 1", "RETURN 2", params=(ANY, ANY))
    for op in ("ADD", "SUB", "MUL", "DIV", "MOD", "EQ", "NE", "LT", "LE")
}


def done(op: str, a: Any, b: Any) -> Any:
    """The value, or the name of the error."""
    step = run(MODULES[op], [a, b]).step
    return step.error.error if step.error else step.value


def whole(value: int) -> int | str:
    return value if LOW <= value <= HIGH else "ArithmeticError"


@given(ints, ints)
def test_whole_numbers(a: int, b: int) -> None:
    """Exact, or ArithmeticError where 64 bits do not hold it; division cuts toward zero."""
    assert done("ADD", a, b) == whole(a + b)
    assert done("SUB", a, b) == whole(a - b)
    assert done("MUL", a, b) == whole(a * b)
    if b == 0:
        assert done("DIV", a, b) == done("MOD", a, b) == "ArithmeticError"
    else:
        assert done("DIV", a, b) == whole(math.trunc(Fraction(a, b)))
        assert done("MOD", a, b) == a - b * math.trunc(Fraction(a, b))


@given(ints, ints)
def test_the_rest_has_the_sign_of_the_left_side(a: int, b: int) -> None:
    """And a = (a / b) * b + a % b."""
    if b and not (a == LOW and b == -1):
        rest = done("MOD", a, b)
        assert rest == 0 or (rest < 0) == (a < 0)
        assert done("DIV", a, b) * b + rest == a


@given(floats, floats)
def test_floats(a: float, b: float) -> None:
    """As Python's, but what is not finite raises."""
    for op, wanted in (("ADD", a + b), ("SUB", a - b), ("MUL", a * b)):
        assert done(op, a, b) == (wanted if math.isfinite(wanted) else "ArithmeticError")
    quotient = a / b if b else math.inf
    assert done("DIV", a, b) == (quotient if math.isfinite(quotient) else "ArithmeticError")
    assert done("MOD", a, b) == (math.fmod(a, b) if b else "ArithmeticError")


@given(ints, ints)
def test_comparison(a: int, b: int) -> None:
    """As of whole numbers."""
    assert done("EQ", a, b) is (a == b)
    assert done("NE", a, b) is (a != b)
    assert done("LT", a, b) is (a < b)
    assert done("LE", a, b) is (a <= b)


@given(st.sampled_from(["money", "duration"]), ints, ints)
def test_amounts(kind: str, a: int, b: int) -> None:
    """Money and times add up among themselves and scale by numbers."""

    def of(amount: int | str) -> Any:
        return {"$": kind, "of": amount} if isinstance(amount, int) else amount

    assert done("ADD", of(a), of(b)) == of(whole(a + b))
    assert done("SUB", of(a), of(b)) == of(whole(a - b))
    assert done("MUL", of(a), b) == done("MUL", b, of(a)) == of(whole(a * b))
    assert done("LT", of(a), of(b)) is (a < b)
    if b:
        assert done("DIV", of(a), b) == of(whole(math.trunc(Fraction(a, b))))
        assert done("MOD", of(a), of(b)) == of(a - b * math.trunc(Fraction(a, b)))
        assert done("DIV", of(a), of(b)) == a / b
    else:
        assert done("DIV", of(a), b) == done("DIV", of(a), of(b)) == "ArithmeticError"


def test_money_times_a_float_is_rounded_to_even() -> None:
    """To whole nano-dollars."""
    money = {"$": "money", "of": 5}
    assert done("MUL", money, 0.5) == {"$": "money", "of": 2}
    assert done("DIV", money, 2.0) == {"$": "money", "of": 2}
    assert done("MUL", money, 1e300) == "ArithmeticError"


def test_kinds_do_not_mix() -> None:
    """What the checker refuses is a bad program; an int beside a float is one."""
    money, time = {"$": "money", "of": 5}, {"$": "duration", "of": 5}
    for a, b in ((money, time), (money, 5), ("a", 1), (True, 1), ([], {}), (None, None)):
        assert done("ADD", a, b) == "BadProgram"
    assert done("MUL", money, money) == "BadProgram"
    assert done("SUB", "a", "b") == "BadProgram"
    assert done("ADD", 1, 0.5) == 1.5
