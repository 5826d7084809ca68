"""Where the ways from a jump meet: by the definition, for every function of some programs."""

from pathlib import Path

import pytest

from vegakit.lang import (
    EffectSet,
    Function,
    Module,
    ModuleEffects,
    Op,
    SpeculationRules,
    check_program,
    compile_program,
    conflict,
    file_path,
    on_path,
)
from vegakit.lang.analysis.raised_errors import RaisedErrors
from vegakit.testing import find_tests as programs_below
from vegakit.vm.module_facts import Regions, _flow, registers_of

PROGRAMS = Path(__file__).parents[1] / "language"
MOST = 150


def functions_below(feature: str) -> list[tuple[Function, Module]]:
    found: list[tuple[Function, Module]] = []
    for path in programs_below([PROGRAMS / feature]):
        checked, _ = check_program(path.read_text(), path.name, lambda _: None)
        if checked is not None:
            module = compile_program(checked)
            found += [(each, module) for each in module.functions if len(each.code) <= MOST]
    return found


def ways_of(function: Function, module: Module, at: int) -> list[int]:
    """By the definition: an error goes to the first handler around it that takes its kind, and a
    call raises what leaves the function that it calls."""
    op, *operands = function.code[at]
    if op == Op.RAISE:
        return [target_of(function, at, module.constants[operands[0]])]
    if op == Op.CALL:
        errors = sorted(leaving(module, operands[1], frozenset()))
        return [at + 1, *dict.fromkeys(target_of(function, at, error) for error in errors)]
    if op in (Op.RETURN, Op.EXIT, Op.TASK_END):
        return [-1]
    jumps = [of for of, kind in zip(operands, Op(op).operands, strict=True) if kind == "j"]
    if op == Op.JUMP:
        return jumps
    return [at + 1, *(jumps if op != Op.PAR_SPAWN else ())]


def target_of(function: Function, at: int, error: str) -> int:
    around = [each for each in function.handlers if each.start <= at < each.end]
    taking = [each.target for each in around if not each.kinds or error in each.kinds]
    return taking[0] if taking else -1


def leaving(module: Module, number: int, called: frozenset[int]) -> set[str]:
    """By the definition: of what is raised in a function or in what it calls, what no handler of it
    takes."""
    function, found = module.functions[number], set[str]()
    for at, (op, *operands) in enumerate(function.code):
        errors = {module.constants[operands[0]]} if op == Op.RAISE else set()
        if op == Op.CALL and operands[1] not in called:
            errors = leaving(module, operands[1], called | {number})
        found |= {error for error in errors if target_of(function, at, error) == -1}
    return found


def reaches_the_end(ways: list[list[int]], start: int, without: int) -> bool:
    seen, due = {without}, [start]
    while due:
        at = due.pop()
        if at == -1:
            return True
        if at not in seen:
            seen.add(at)
            due += ways[at]
    return False


@pytest.mark.parametrize(
    "feature",
    ["ahead", "break_continue", "loops", "recursion", "try_catch", "while_limit", "streams"],
)
def test_the_ways_meet_where_none_goes_around(feature: str) -> None:
    """It lies on every way, and nothing before it does."""
    for function, module in functions_below(feature):
        ways = [ways_of(function, module, at) for at in range(len(function.code))]
        flow = _flow(function, RaisedErrors(module).handlers_of(module.functions.index(function)))
        assert flow.ways == ways
        meets = flow.meets
        for at in range(len(function.code)):
            if not reaches_the_end(ways, at, -2):
                continue
            on_all = {
                place
                for place in range(len(function.code))
                if place != at and not reaches_the_end(ways, at, place)
            }
            if meets[at] < 0:
                assert on_all == set()
            else:
                assert meets[at] in on_all
                behind = {p for p in on_all if p != meets[at]}
                assert all(not reaches_the_end(ways, meets[at], place) for place in behind)


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
    regions = Regions(effects, SpeculationRules(module, effects), module)
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


CAUGHT = """
agent A { model fast }
fn caught(x: str) {
    let said = "";
    try {
        session budget $1 {
            if x == "a" { fail("no"); }
            A <- "in";
        }
    } catch Failed(why) {
        said = why;
    }
    A <- "behind {said}";
}
fn uncaught(x: str) {
    try {
        if x == "a" { fail("no"); }
    } catch AgentFailed { print("failed"); }
    A <- "behind";
}
"""


def test_with_a_fail_the_ways_meet_behind_the_try_that_catches_it() -> None:
    """Its handler lies between, with what it writes; the session around the `fail` is left."""
    checked, _ = check_program(CAUGHT + 'caught("a"); uncaught("a");', "a.vega", lambda _: None)
    assert checked is not None
    module = compile_program(checked)
    effects = ModuleEffects(module)
    regions = Regions(effects, SpeculationRules(module, effects), module)
    names = [function.name for function in module.functions]
    caught, uncaught = names.index("caught"), names.index("uncaught")
    function = module.functions[caught]
    jump = _first(function, Op.JUMP_IF_NOT)
    region = regions.of(caught, jump)
    assert region.meets > max(each.target for each in function.handlers)
    assert (region.sends, region.scopes) == (("A",), 0)
    (handler,) = function.handlers
    assert handler.reason in region.writes
    assert regions.of(uncaught, _first(module.functions[uncaught], Op.JUMP_IF_NOT)).meets == -1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/x", "a/x"),
        ("a/x", "./A//x"),
        ("a", "a/x"),
        ("/project/a/x", "a/x"),
        ("a/x", "b/../a/x"),
        ("a/x", "/elsewhere/a/x"),
        ("a/x", "a\\x"),
        ("a/x", "C:a/x"),
        ("a/x", None),
    ],
)
def test_files_that_may_be_one_are_not_told_apart(one: str, other: str | None) -> None:
    """A folder is what is in it, and a path that is not plain may be any."""
    wide = EffectSet(reads=frozenset({"**"}))
    write = on_path(EffectSet(writes=frozenset({"**"})), file_path("file::write", one))
    assert conflict(write, on_path(wide, file_path("file::read", other)))


def test_files_with_different_paths_are_told_apart() -> None:
    wide = EffectSet(reads=frozenset({"a/**"}))
    write = EffectSet(writes=frozenset({"a/**"}))
    known = [file_path("file::read", path) for path in ("a/x", "a/y", "a/x1")]
    for one in known:
        others = [other for other in known if conflict(on_path(write, one), on_path(wide, other))]
        assert others == [one]
    assert conflict(write, on_path(wide, "a/x")), "whose path is not known may write any"
    assert file_path("http::get", "a/x") == ""


HELPERS = """
fn low(x: str) -> str { if x == "a" { fail("low"); } return x; }
fn middle(x: str) -> str { let y = low(x); return y + "!"; }
fn safe(x: str) -> str { try { return middle(x); } catch Failed(why) { return why; } }
fn other(x: str) -> str { try { return middle(x); } catch AgentFailed { return "no"; } }
fn round(n: int) -> int { if n < 0 { fail("below"); } return again(n - 1); }
fn again(n: int) -> int { return round(n); }
print(safe(other("b")));
print(round(0));
"""


def test_an_error_leaves_every_caller_that_does_not_catch_it() -> None:
    """Also callers that call each other in a circle."""
    checked, _ = check_program(HELPERS, "a.vega", lambda _: None)
    assert checked is not None
    module = compile_program(checked)
    raised = RaisedErrors(module)
    failing = {each.name for number, each in enumerate(module.functions) if raised.leaving(number)}
    assert failing >= {"low", "middle", "other", "round", "again"}
    assert "safe" not in failing
    assert {*map(str, failing)} == {
        each.name
        for number, each in enumerate(module.functions)
        if leaving(module, number, frozenset())
    }


GUARDED = """
agent A { model fast }
fn judged(x: str) -> str { if x == "a" { fail("no"); } return x; }
fn main() {
    let a = A <- "one";
    let b = "before";
    try { b = judged(a); print(A <- "two"); } catch Failed(why) { b = why; }
    print(A <- "three");
    judged(b);
    print(A <- "four");
}
"""


def test_a_call_that_may_fail_has_a_region_as_an_undecided_jump_has() -> None:
    """Caught, it ends behind the `try`, and what both ways write is not known there; not caught, it
    ends with the function."""
    checked, _ = check_program(GUARDED, "a.vega", lambda _: None)
    assert checked is not None
    module = compile_program(checked)
    effects = ModuleEffects(module)
    regions = Regions(effects, SpeculationRules(module, effects), module)
    main = next(at for at, each in enumerate(module.functions) if each.name == "main")
    calls = [at for at, row in enumerate(module.functions[main].code) if row[0] == Op.CALL]
    caught, uncaught = (regions.of(main, at) for at in calls)
    [handler] = module.functions[main].handlers
    assert handler.target <= caught.meets < calls[1]
    assert handler.reason in caught.writes
    assert (caught.raises, caught.sends) == (False, ("A",))
    assert (uncaught.meets, uncaught.raises, uncaught.sends) == (-1, True, ("A",))
