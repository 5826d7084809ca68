"""Whatever parses is checked without a crash, and what is said stays inside the text."""

import re
from random import Random

from hypothesis import given, strategies as st

from tests.lang import generating
from tests.lang.checking.programs import in_function
from tests.lang.checking.test_expression_types import TYPES
from tests.lang.checking.test_narrowing import ALLOWED
from tests.lang.checking.walking import expressions, is_open
from vegakit.lang import Diagnostic, check_program
from vegakit.lang.syntax.tree import Call

SEEDS = st.integers(min_value=0, max_value=2**48)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\$?[\w.]+(?:::\w+)*|<-|<~|->|\?\?|[=!<>]=|\S')


def nearly_right(seed: int) -> str:
    """A program that is right, with a few of its own tokens moved, doubled or replaced."""
    chance = Random(seed)
    lets = [f"let it{at} = {chance.choice(TYPES)[0]};" for at in range(3)]
    words = _TOKEN.findall(in_function(" ".join([*chance.sample(ALLOWED, 2), *lets])))
    for _ in range(chance.randint(0, 3)):
        at, other = chance.randrange(len(words)), chance.randrange(len(words))
        match chance.randrange(3):
            case 0:
                words[at] = words[other]
            case 1:
                words[at], words[other] = words[other], words[at]
            case _:
                words[at:at] = words[other : other + chance.randint(1, 5)]
    return " ".join(words)


def _checked(text: str) -> tuple[Diagnostic, ...]:
    program, found = check_program(text, "main.vega", lambda _path: None)
    assert (program is None) == any(one.severity == "error" for one in found)
    assert len(found) <= 100
    for one in found:
        assert 0 <= one.at <= one.end <= len(text) + 1
        assert one.edit is None or 0 <= one.edit.at <= one.edit.end <= len(text)
    if program is not None:
        for node in expressions(program.units["main.vega"].source):
            assert not is_open(program.types[id(node)])
            assert not isinstance(node, Call) or id(node) in program.callees
    return found


@given(SEEDS)
def test_random_programs_are_checked(seed: int):
    """Right in form, with names that nobody declared."""
    _checked(generating.source(seed))


@given(SEEDS)
def test_mutated_programs_are_checked(seed: int):
    """A few tokens dropped, doubled, swapped or replaced."""
    _checked(generating.mutated(seed))


@given(SEEDS)
def test_nearly_right_programs_are_checked(seed: int):
    """So deep rules are reached: most of these are right but for one place."""
    _checked(nearly_right(seed))


@given(SEEDS)
def test_the_same_text_gives_the_same_diagnostics(seed: int):
    """Nothing depends on what was checked before."""
    text = nearly_right(seed)
    assert _checked(text) == _checked(text)
