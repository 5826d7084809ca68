"""Where the ways from a jump meet: by the definition, for every function of some programs."""

from pathlib import Path

import pytest

from vegakit.lang.analysis.effects import ModuleEffects
from vegakit.lang.analysis.speculation import SpeculationRules
from vegakit.lang.codegen.bytecode import Function, Op
from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.frontends import check_program
from vegakit.testing.programs import find_tests as programs_below
from vegakit.vm.module_facts import Regions, _post_dominators, _ways, registers_of

PROGRAMS = Path(__file__).parents[1] / "language"
MOST = 150


def functions_below(feature: str) -> list[Function]:
    found: list[Function] = []
    for path in programs_below([PROGRAMS / feature]):
        checked, _ = check_program(path.read_text(), path.name, lambda _: None)
        if checked is not None:
            found += compile_program(checked).functions
    return [function for function in found if len(function.code) <= MOST]


def reaches_the_end(function: Function, start: int, without: int) -> bool:
    seen, due = {without}, [start]
    while due:
        at = due.pop()
        if at == -1:
            return True
        if at not in seen:
            seen.add(at)
            due += _ways(function.code, at)
    return False


@pytest.mark.parametrize(
    "feature", ["break_continue", "loops", "try_catch", "while_limit", "streams"]
)
def test_the_ways_meet_where_none_goes_around(feature: str) -> None:
    """It lies on every way, and nothing before it does."""
    for function in functions_below(feature):
        meets = _post_dominators(function.code)
        for at in range(len(function.code)):
            if not reaches_the_end(function, at, -2):
                continue
            on_all = {
                place
                for place in range(len(function.code))
                if place != at and not reaches_the_end(function, at, place)
            }
            if meets[at] < 0:
                assert on_all == set()
            else:
                assert meets[at] in on_all
                behind = {p for p in on_all if p != meets[at]}
                assert all(not reaches_the_end(function, meets[at], place) for place in behind)


SOURCE = """
agent A { model fast }
fn f(x: str) -> str {
    if x == "a" { return A <- "in"; }
    return x;
}
let a = A <- "one";
let n = 0;
while n < 3 { n = n + 1; if a == "stop" { break; } print(A <- "round {n}"); }
if a == "x" { n = 5; print(f(a)); }
"""


def test_what_lies_between_is_all_there() -> None:
    checked, _ = check_program(SOURCE, "a.vega", lambda _: None)
    assert checked is not None
    module = compile_program(checked)
    effects = ModuleEffects(module)
    regions = Regions(effects, SpeculationRules(module, effects), module.functions)
    names = [function.name for function in module.functions]
    inner = regions.of(names.index("f"), _first(module.functions[names.index("f")], Op.JUMP_IF_NOT))
    assert (inner.meets, inner.sends) == (-1, ("A",))
    main = module.functions[module.main]
    jumps = [at for at, row in enumerate(main.code) if row[0] == Op.JUMP_IF_NOT]
    loop, branch = regions.of(module.main, jumps[0]), regions.of(module.main, jumps[-1])
    assert loop.sends is None
    assert branch.sends == ("A",)
    written = {
        each for row in main.code[jumps[-1] : branch.meets] for each in registers_of(row, "w")
    }
    assert branch.writes >= written
    assert branch.effect_set.prints


def _first(function: Function, op: Op) -> int:
    return next(at for at, row in enumerate(function.code) if row[0] == op)
