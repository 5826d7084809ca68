"""Large and hostile programs: checked in time, refused without a crash."""

import pytest

from tests.cost import is_even, ratio
from vegakit.lang import check_program

PART = """
type Finding%d { file: str  severity: "low" | "high"  note: str? }
agent Coder%d {
    model fast  temperature 0.2  budget $2.50
    retry { max_attempts 3  backoff exponential(100ms, 2.0, 5s) }
    tool read%d(path: str) -> str capabilities [fs::read] { return file::read(path); }
}
fn work%d(xs: [int], k: int) -> int {
    let total = 0;
    for x in xs {
        if x %% 2 == 0 and x > k { total = total + x * k; }
        else { total = total - (x + 1) / 2; }
    }
    while total > 100 { total = total - 10; }
    return total;
}
fn run%d(name: str) -> str {
    let c = spawn Coder%d supervised by { strategy restart  max_restarts 3  window 60s };
    let found = [];
    for i in range(10) {
        let f = c <- "find {i} in " + name as Finding%d;
        if f.note != null and str::len(f.note) > 3 { found = found + [f]; }
    }
    session budget $10.00 {
        parallel {
            let a = c <- "one";
            let b = c <- "two" timeout 500ms;
        }
        try {
            print("{work%d([1, 2, len(found)], 4)} {a} {b}");
        } catch AgentFailed(reason) { print(reason); }
    }
    return "{len(found)}";
}
"""


def _found(text: str) -> list[str]:
    _, found = check_program(text, "main.vega", lambda _path: None)
    return [one.code for one in found]


def _ordinary(lines: int) -> str:
    count = lines // PART.count("\n") + 1
    return "".join(PART.replace("%d", str(at)).replace("%%", "%") for at in range(count))


def test_checking_grows_evenly_with_a_program():
    """Up to 5,000 lines, which take about a fifth of a second."""
    assert _ordinary(5_000).count("\n") >= 5_000
    assert _found(_ordinary(5_000)) == []
    assert is_even(_found, _ordinary, 5_000)


HOSTILE = {
    "sum": "print(" + " + ".join(["1"] * 15_000) + ");",
    "tests": "fn f(o: str?) { if " + " and ".join(["o != null"] * 8_000) + " { print(o); } }",
    "members": "fn f(a: any) { print(a" + ".b" * 15_000 + "); }",
    "calls": "print(" + "str(" * 150 + "1" + ")" * 150 + ");",
    "lists": "print(" + "[" * 150 + "1" + "]" * 150 + ");",
    "else": "if true { print(1); } else " * 3_000 + "{ print(2); }",
    "blocks": "if true {" * 150 + "print(1);" + "}" * 150,
    "unknown": "\n".join(f"print(abcde{at});" for at in range(5_000)),
    "alike": "".join(f"let abcdf{at} = 1;" for at in range(3_000))
    + "".join(f"print(abcde{at});" for at in range(2_000)),
    "choices": "type C = " + " | ".join(f'"c{at}"' for at in range(10_000)),
    "facts": "fn f(" + ", ".join(f"o{at}: str?" for at in range(2_000)) + ") {"
    + "".join(f" if o{at} == null {{ return; }}" for at in range(2_000)) + " }",
    "types": "".join(f"type T{at} {{ a: T{at + 1}  b: T{at + 1} }} " for at in range(3_000)),
    "fields": "type T { " + " ".join(f"f{at}: int" for at in range(9_000)) + " }",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_end_soon(name: str):
    """None takes ten times as long as an ordinary one of 5,000 lines; what grows with the square of
    its size would take hundreds of times as long."""
    assert len(_found(HOSTILE[name])) <= 100
    ordinary = _ordinary(5_000)
    assert ratio(lambda: _found(HOSTILE[name]), lambda: _found(ordinary), 10) <= 10
