"""Looking at a program takes a counted number of steps, and stops at the last one allowed."""

import pytest
from campaigns.admission_bombs import BOMBS, Bomb, nested_loops, some

from vegakit.lang import (
    MOST_STEPS,
    Checked,
    ModelTerms,
    TooMuchWorkError,
    check_program,
    compile_program,
    dataflow_of,
    quote,
    step_limit,
)
from vegakit.money import dollars
from vegakit.program import (
    AdmissionRequest,
    AgentTerms,
    Inspection,
    ProgramGrant,
    ProgramRights,
    RefusalReason,
    RefusedProgram,
    admit,
    inspect_program,
)
from vegakit.providers import ScriptedModel

MODEL = ScriptedModel("", context_tokens=100_000)
assert MODEL.price is not None
TERMS = ModelTerms(MODEL.price, MODEL.context_tokens, 4096, MODEL.bound_input)
FREE = AgentTerms({}, {"any": TERMS})
LEAVE = ProgramGrant(
    dollars("$1000"), ProgramRights(), {}, frozenset({"any"}), FREE, languages=("vega", "python")
)
SLACK = 60_000
"""One step may be a large one: a whole text that is read by Python."""


def checked(source: str) -> Checked:
    found, told = check_program(source, "main.vega", lambda _: None)
    assert found is not None, told
    return found


def steps_of(source: str, wish: AdmissionRequest = AdmissionRequest.ADMIT) -> int:
    looked = inspect_program(
        wish, source, "vega" if wish is AdmissionRequest.ADMIT else "a.vega", LEAVE, 10**9
    )
    assert isinstance(looked, Inspection)
    return looked.steps


@pytest.mark.parametrize("bomb", some(len(BOMBS)), ids=lambda bomb: bomb.name)
def test_no_bomb_takes_more_steps_than_a_program_may(bomb: Bomb) -> None:
    """Or only as many more as the last one was worth."""
    with step_limit(MOST_STEPS) as steps:
        admit(bomb.source, bomb.language, LEAVE)
    assert steps.left > -SLACK


@pytest.mark.parametrize("depth", [45, 60, 90, 110])
def test_loops_in_loops_are_refused_with_what_to_do(depth: int) -> None:
    verdict = admit(nested_loops(depth), "vega", LEAVE)
    assert isinstance(verdict, RefusedProgram)
    assert verdict.kind is RefusalReason.SIZE
    assert "nest fewer loops" in verdict.text


def test_check_compile_and_quote_share_what_is_allowed() -> None:
    """What one of them took the next does not have."""
    source = 'agent A { model "any" }\n' + 'A <- "x";\n' * 500
    whole = steps_of(source)
    with step_limit(whole) as steps:
        found = checked(source)
        first = steps.left
        compile_program(found)
        assert steps.left < first
        assert quote(found, FREE).total is not None
    with step_limit(first - 1):
        compile_program(found)
        told = quote(found, FREE)
    assert told.total is not None
    with step_limit(whole // 3):
        assert quote(checked(source), FREE).total is None


def test_the_same_program_takes_the_same_steps() -> None:
    assert len({steps_of(nested_loops(4)) for _ in range(3)}) == 1


@pytest.mark.parametrize("wish", [AdmissionRequest.ADMIT, AdmissionRequest.COST])
def test_twice_the_functions_take_twice_the_steps(wish: AdmissionRequest) -> None:
    """Every function used to find all lines of its file, and all functions to find each."""

    def program(count: int) -> str:
        made = "".join(f"fn f{i + 1}() {{ f{i}(); f{i}(); }}\n" for i in range(count))
        return f"fn f0() {{ print(1); }}\n{made}fn main() {{ f{count}(); }}\n"

    assert steps_of(program(400), wish) < 2.4 * steps_of(program(200), wish)


def test_variables_that_a_loop_leaves_alone_cost_it_little() -> None:
    """Forty times as many of them are not copied and joined in every round."""

    def program(others: int) -> str:
        lets = "".join(f"let o{i} = {i};\n" for i in range(others))
        loops = "for i in p { a = a + 1; for j in p { b = a + b; } }\n"
        return f"fn main(p: [int; 30]) {{ {lets}let a = 0; let b = 0;\n{loops}}}"

    few, many = (steps_of(program(count)) for count in (5, 205))
    assert many < 5 * few


def test_a_file_of_ones_own_has_room_and_an_end() -> None:
    """It is told like any other fault, with what to do."""
    with step_limit(1_000):
        found, told = check_program("print(1);\n" * 1_000, "main.vega", lambda _: None)
    assert found is None
    assert [one.code for one in told] == ["too-much-work"]
    assert "functions" in told[0].help
    assert check_program("print(1);\n" * 1_000, "main.vega", lambda _: None)[0] is not None


def test_what_cannot_be_told_in_part_says_what_to_do() -> None:
    found = checked('agent A { model "any" }\n' + 'A <- "x";\n' * 100)
    with step_limit(50), pytest.raises(TooMuchWorkError, match="nest fewer loops"):
        dataflow_of(found)
