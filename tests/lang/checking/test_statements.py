"""Statements: scopes, ends of functions, loops, errors, parallel and monitor blocks."""

import pytest

from tests.lang.checking.programs import errors, in_function, warnings

RETURNS = [
    ("return 1;", []),
    ("if b { return 1; } else { return 2; }", []),
    ("if b { return 1; } else if not b { return 2; } else { return 3; }", []),
    ("while true { print(1); }", []),
    ("while true { if b { return 1; } }", []),
    ('fail("x");', []),
    ('process::exit("x");', []),
    ('try { return 1; } catch { fail("x"); }', []),
    ("session budget $1 { return 1; }", []),
    ("{ return 1; }", []),
    ("print(1);", ["missing-return"]),
    ("if b { return 1; }", ["missing-return"]),
    ("if b { return 1; } else if b { return 2; }", ["missing-return"]),
    ("while b { return 1; }", ["missing-return"]),
    ("while true { if b { break; } return 1; }", ["missing-return"]),
    ("for n in [1] { return n; }", ["missing-return"]),
    ("try { return 1; } catch { print(1); }", ["missing-return"]),
    ("try { print(1); } catch { return 1; }", ["missing-return"]),
    ("return;", ["missing-value"]),
    ('return "x";', ["wrong-type"]),
]


@pytest.mark.parametrize(("body", "found"), RETURNS)
def test_a_function_returns_on_every_way_through_it(body: str, found: list[str]):
    """A function with a result cannot end without one."""
    assert errors(f"fn f(b: bool) -> int {{ {body} }}") == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("break;", ["outside-loop"]),
        ("continue;", ["outside-loop"]),
        ("while b { break; }", []),
        ("for n in ns { continue; }", []),
        ("for n in ns { parallel { if b { break; } } }", ["outside-loop"]),
        ("for n in ns { monitor(c) { r -> break; } }", ["outside-loop"]),
        ("parallel { while b { break; } }", []),
        ("parallel { return; }", ["leaves-task"]),
        ("monitor(c) { r -> return; }", ["leaves-task"]),
        ("while i { print(1); }", ["wrong-type"]),
        ("while b limit 3 { print(1); }", []),
        ('while b limit "x" { print(1); }', ["wrong-type"]),
        ("for n in i { print(n); }", ["not-a-list"]),
        ("for n in s { print(n); }", ["not-a-list"]),
        ("for n in a { print(n); }", ["not-a-list"]),
        ("for n in a as [any] { print(n); }", []),
        ("print(a.x.y);", ["any-used"]),
        ("print(a[0]);", ["any-used"]),
        ("print(len(a));", ["wrong-type"]),
        ("print(1 in a);", ["wrong-operands"]),
        ("print(int(b));", ["wrong-type"]),
        ("print(int(a) + 1);", []),
        ("print(Coder);", ["not-a-value"]),
        ("link(c, Coder);", ["not-a-value"]),
        ("for q in [spawn Coder, spawn Reviewer] { print(q <- s); }", []),
        ("for k, v in by { print(k + s); print(v + 1); }", []),
        ("for at, v in few { print(at + 1); print(v + s); }", []),
        ('for chunk in c <~ "x" { print(chunk + s); }', []),
        ('for k, v in c <~ "x" { print(k); }', ["two-names"]),
        ("if s { print(1); }", ["wrong-type"]),
        ('if Coder <- "?" { print(1); }', ["wrong-type"]),
        ('if Coder <- "?" as bool { print(1); }', []),
        ("monitor(s) { r -> print(r); }", ["not-a-process"]),
        ("monitor(c) { r -> print(r + s); let q = 1; q = 2; }", []),
        ("monitor(c) { r -> i = 2; }", ["assigned-in-monitor"]),
        ("session budget 5 { print(1); }", ["wrong-type"]),
        ("session budget m * 2 on_exceed ask { print(1); } catch BudgetExceeded { print(2); }", []),
        ("try { print(1); } catch Timeout(r) { print(r + s); }", []),
        ("try { print(1); } catch TimeOut { print(1); }", ["unknown-error"]),
        ("print(q); let q = 1;", ["used-before-let"]),
        ("if b { let q = 1; print(q); } print(q);", ["used-before-let"]),
        ("let q = 1; { let q = s; print(q + s); } print(q + 1);", []),
        ("let q = 1; print(q + 1); let q = s; print(q + s);", []),
        ("q = 1;", ["unknown-name"]),
        ("Coder = 1;", ["not-assignable"]),
        ("let Coder = 1;", ["shadows-declaration"]),
        ("for twice in ns { print(1); }", ["shadows-declaration"]),
        ("f.file = s; fs[0].note = null; by[s] = 2; ns[i] = 3;", []),
        ("f.file = i;", ["wrong-type"]),
        ('s[0] = "x";', ["not-assignable"]),
        ("twice(i).x = 1;", ["not-assignable"]),
        ("let q = nothing();", ["no-value"]),
        ('let q = async c <- "x"; print(q);', ["not-awaited"]),
        ("await s;", ["not-a-future"]),
        ('let file = "a"; print(file::read(file));', []),
        ('let len = 1; print(len("a"));', ["not-callable"]),
    ],
)
def test_statements(body: str, found: list[str]):
    """Each statement is held to its rule."""
    assert errors(in_function(body)) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("parallel { let q = Coder <- s; let r = Reviewer <- s; } print(q + r);", []),
        ("parallel { let q = Coder <- s; let r = Reviewer <- q; }", ["parallel-conflict"]),
        ("parallel { i = 1; i = 2; }", ["parallel-conflict"]),
        ("parallel { i = 1; print(i); }", ["parallel-conflict"]),
        ("parallel { print(i); i = 1; }", ["parallel-conflict"]),
        ("parallel { print(i); print(i); }", []),
        ("parallel { i = i + 1; x = x + 1; }", []),
        ("parallel { { i = 1; } if b { i = 2; } }", ["parallel-conflict"]),
        ("parallel { f.file = s; print(f.note); }", ["parallel-conflict"]),
        ("parallel { let q = 1; let q = 2; }", ["parallel-conflict"]),
        ("parallel { { let q = 1; print(q); } { let q = 2; print(q); } }", []),
    ],
)
def test_statements_of_a_parallel_block_are_independent(body: str, found: list[str]):
    """None may read or assign what another assigns."""
    assert errors(in_function(body)) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("let q = 1;", ["unused-variable"]),
        ("let q = 1; q = 2;", ["unused-variable"]),
        ("let _q = 1;", []),
        ("for n in ns { print(1); }", []),
        ("let q = fs; q[0].note = null;", ["unused-variable"]),
        ("return; print(1);", ["unreachable"]),
        ("while b { break; print(1); print(2); }", ["unreachable"]),
        ('fail("x"); print(1);', ["unreachable"]),
        ("try { print(1); } catch { print(1); } catch Timeout { print(2); }", ["unreachable"]),
        (
            "try { print(c <- s); } catch Timeout { print(1); } catch Timeout { print(2); }",
            ["unreachable"],
        ),
        ("i == 1;", ["no-effect"]),
        ("i + 1;", ["no-effect"]),
        ('async c <- "x";', ["never-awaited"]),
        ('let q = async c <- "x";', ["never-awaited"]),
        ('let q = async c <- "x"; print(await q);', []),
        ("spawn Coder; c <- s; twice(i);", []),
        ('print(c <- s == "yes");', ["sent-comparison"]),
        ('print(c <- "a" + s in ["yes"] timeout 5s);', ["sent-comparison"]),
        ('print(c <- ("a") == "yes" or b);', ["sent-comparison"]),
        ('print(c <- (s == "yes"));', []),
        ('print((c <- s) == "yes");', []),
        ("print(c <- not b);", []),
        ("print(c <- s + s);", []),
    ],
)
def test_warnings(body: str, found: list[str]):
    """What is allowed but surely not meant is pointed out."""
    assert warnings(in_function(body)) == found
