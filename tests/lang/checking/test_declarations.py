"""Declarations: types, functions, tools, agents, supervisors, rights and files."""

import pytest

from tests.lang.checking.programs import DECLARED, checked, errors, warnings
from vegakit.lang import check_program

FOUND = [
    ("type A { b: B } type B { n: int }", []),
    ("type A { b: A }", ["recursive-type"]),
    ("type A { b: [B] } type B { a: A? }", ["recursive-type"]),
    ("type A = B type B = A", ["recursive-type"]),
    ("type A { n: int  n: str }", ["duplicate-field"]),
    ("type A { n: Strin }", ["unknown-type"]),
    ("type A { n: string }", ["unknown-type"]),
    ("type A { n: int } type A { n: int }", ["name-taken"]),
    ("type int { n: int }", ["name-taken"]),
    ("type Response { n: int } fn f() -> Response { return Response(n: 1); }", []),
    ('type A = "x" | "x"', ["duplicate-choice"]),
    ("fn len(x: str) -> int { return 1; }", ["name-taken"]),
    ("fn f() { print(1); } fn f() { print(2); }", ["name-taken"]),
    ("fn f(a: int, a: str) { print(a); }", ["duplicate-parameter"]),
    ("fn f(a: Nope) -> Nope { return a; }", ["unknown-type", "unknown-type"]),
    ("fn f() budget 5 { print(1); }", ["wrong-type"]),
    ("fn f(m: money) budget m * 2 { print(1); }", []),
    ("fn f() budget $5/day { print(1); }", ["period-outside-budget"]),
    ("fn main(a: int, b: [str; 3]) -> int { print(b); return a; }", []),
    ("agent A { model x } fn main(a: A) { print(1); }", ["main-parameter"]),
    ("agent A { model x } fn main() -> A { return spawn A; }", ["main-result"]),
    ("fn main() { print(1); } print(2);", ["main-and-statements"]),
    ('agent A { model x } tool t(a: A) -> str { return ""; }', ["not-an-argument"]),
    ('tool t() -> str idempotent { return ""; }', []),
    ("return 1;", ["return-at-top"]),
    ("return;", []),
]


@pytest.mark.parametrize(("text", "found"), FOUND)
def test_declarations(text: str, found: list[str]):
    """Each declaration is held to its rule."""
    assert errors(text) == found


AGENTS = [
    ('model "anthropic:claude"', []),
    ("model fast", []),
    ("model 3", ["wrong-setting"]),
    ('model ""', ["wrong-setting"]),
    ("", []),
    ("temperature 0.2", []),
    ("temperature 1", []),
    ("temperature 2.1", ["wrong-setting"]),
    ("temperature -1", ["wrong-setting"]),
    ("max_tokens 0", ["wrong-setting"]),
    ("max_tokens 1", []),
    ("max_tokens 2.5", ["wrong-setting"]),
    ("budget $0.50", []),
    ("budget $5/day", []),
    ("budget $0", ["wrong-setting"]),
    ("budget 2.50", ["wrong-setting"]),
    ("timeout 30s", []),
    ("timeout 30", ["wrong-setting"]),
    ("timeout 0s", ["wrong-setting"]),
    ("on_exceed ask", []),
    ("on_exceed asks", ["wrong-setting"]),
    ("memory conversation", []),
    ("memory all", ["wrong-setting"]),
    ("priority high", []),
    ("priority highest", ["wrong-setting"]),
    ("retry { max_attempts 3  backoff exponential(100ms, 2.0, 5s)  on [timeout] }", []),
    ("retry { max_attempts 0 }", ["wrong-setting"]),
    ("retry { max_attempts 101 }", ["wrong-setting"]),
    ("retry { backoff exponential(100ms, 2.0) }", ["wrong-setting"]),
    ("retry { backoff exponential(100ms, 0.5, 5s) }", ["wrong-setting"]),
    ("retry { backoff exponential(5s, 2.0, 1s) }", ["wrong-setting"]),
    ("retry { on [auth] }", ["wrong-setting"]),
    ("retry { max_attempts 3  max_attempts 4 }", ["duplicate-setting"]),
    ("circuit_breaker { threshold 5  reset_after 30s }", []),
    ("circuit_breaker { threshold 0  reset_after 30 }", ["wrong-setting", "wrong-setting"]),
    ("rate_limit { requests 60 per 1m  burst 10  strategy queue }", []),
    ("rate_limit { requests 60 }", ["missing-setting"]),
    ("rate_limit { requests 60 per 1m  strategy wait }", ["wrong-setting"]),
    ("tools [shout]", []),
    ("tools [shuot]", ["unknown-tool"]),
    ("tools [twice]", ["not-a-tool"]),
    ('tools [mcp "github"]', ["unknown-server"]),
    ('tools [yaml "tools.yaml"]', []),
    ('tools [inner] tool inner() -> str { return ""; }', []),
    ('tool one() -> str { return ""; } tool one() -> str { return ""; }', ["name-taken"]),
    ('tool one() -> str { return two(); } tool two() -> str { return ""; }', []),
]


@pytest.mark.parametrize(("fields", "found"), AGENTS)
def test_fields_of_agents(fields: str, found: list[str]):
    """Each field takes its kind of value, within its range."""
    assert errors(f"{DECLARED} agent Probe {{ {fields} }}") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("supervisor S { strategy rest_for_one  max_restarts 0  window 1m  children [Coder] }", []),
        ("supervisor S { strategy restrat  children [Coder] }", ["wrong-setting"]),
        ("supervisor S { max_restarts -1  children [Coder] }", ["wrong-setting"]),
        ("supervisor S { children [Codr] }", ["unknown-name"]),
        ("supervisor S { children [Coder, Coder] }", ["duplicate-child"]),
        ("supervisor S { children [Team] }", []),
        ("supervisor S { children [S] }", ["supervisor-cycle"]),
        ("supervisor S { children [R] } supervisor R { children [S] }", ["supervisor-cycle"] * 2),
    ],
)
def test_supervisors(text: str, found: list[str]):
    """A supervisor has agents and supervisors below it, never itself."""
    assert errors(DECLARED + text) == found


RIGHTS = [
    ("fn f() { print(file::read(\"a\")); }", ["missing-capability"]),
    ("fn f() may [fs::read] { print(file::read(\"a\")); }", []),
    ("fn f() may [fs] { print(file::read(\"a\")); }", []),
    ("fn f() may [fs::write] { print(file::read(\"a\")); }", ["missing-capability"]),
    ("fn f() { print(file::read(\"a\")); print(file::read(\"b\")); }", ["missing-capability"]),
    ("program may [fs::read] fn f() { print(file::read(\"a\")); }", []),
    ("program may [fs] fn f() may [net] { print(file::read(\"a\")); }", ["missing-capability"]),
    ("program may [fs::read] print(file::read(\"a\"));", []),
    ("print(file::read(\"a\"));", ["missing-capability"]),
    ("tool t() -> str capabilities [net] { return file::read(\"a\"); }", ["missing-capability"]),
    ("program may [fs] tool t() -> str capabilities [] { return file::read(\"a\"); }",
     ["missing-capability"]),
    ("fn f() { print(exec(\"ls\")); }", ["missing-capability"]),
    ("fn f() { print(human::ask(\"?\", 1h)); process::sleep(1s); trace::event(\"x\"); }", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), RIGHTS)
def test_rights_are_written_beside_the_code(text: str, found: list[str]):
    """What a call of the library needs stands in the function, tool or file around it."""
    assert errors(text) == found


def test_a_tool_without_capabilities_has_none():
    """It compiles, and what it does will be denied: that is said before it runs."""
    text = 'program may [fs] tool t() -> str { return file::read("a"); }'
    assert (errors(text), warnings(text)) == ([], ["missing-capability"])


LIBRARY = """
type Note { text: str }
agent Finder { model fast }
fn shout(text: str) -> str { return str::upper(text); }
tool look(path: str) -> str { return path; }
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('use "lib/text.vega" print(text::shout("a"));', []),
        ('use "lib/text.vega" as t  print(t::Note(text: "a").text);', []),
        (
            'use "lib/text.vega" let f = spawn text::Finder; print(text::Finder <- "x"); print(f);',
            [],
        ),
        ('use "lib/text.vega" fn f(n: text::Note) -> str { return n.text; }', []),
        ('use "lib/text.vega" agent A { tools [text::look] }', []),
        ('use "./lib/text.vega" print(text::shout("a"));', []),
        ('use "lib/text.vega" print(text::shuot("a"));', ["unknown-function"]),
        ('use "lib/text.vega" print(shout("a"));', ["unknown-function"]),
        ('use "lib/none.vega"', ["file-not-found"]),
        ('use "../lib/text.vega"', ["bad-import"]),
        ('use "lib/../text.vega"', ["bad-import"]),
        ('use "/lib/text.vega"', ["bad-import"]),
        ('use "C:/lib/text.vega"', ["bad-import"]),
        ('use "lib/text.py"', ["bad-import"]),
        ('use "lib/text.vega" use "lib/text.vega"', ["name-taken"]),
        ('use "lib/statements.vega"', ["statements-in-used-file"]),
        ('use "lib/circle.vega"', ["import-cycle"]),
    ],
)
def test_files_that_are_used(text: str, found: list[str]):
    """Names of another file stand behind its name; paths lead downwards only."""
    files = {
        "lib__text": LIBRARY,
        "lib__statements": "print(1);",
        "lib__circle": 'use "other.vega"',
        "lib__other": 'use "circle.vega"',
    }
    assert errors(text, **files) == found


def test_full_names_carry_the_file():
    """In the main file a name is as written, in others the file's name stands before it."""
    program, _ = checked('use "lib/text.vega" fn f() { print(1); }', lib__text=LIBRARY)
    assert program is not None
    names = set(program.full_names.values())
    assert names >= {"f", "text::Finder", "text::shout", "text::look"}


def test_two_files_of_one_name_are_told_apart():
    """The second gets a number."""
    program, _ = checked(
        'use "a/text.vega" as a  use "b/text.vega" as b  print(a::f() + b::f());',
        a__text="fn f() -> int { return 1; }",
        b__text="fn f() -> int { return 2; }",
    )
    assert program is not None
    assert {callee.name for callee in program.callees.values()} >= {"text::f", "text_2::f"}


def test_records_of_two_files_are_different_types():
    """Of one name and one shape they still do not fit each other."""
    text = (
        'use "lib/text.vega" type Note { text: str } let n: Note = text::Note(text: "a"); print(n);'
    )
    assert errors(text, lib__text=LIBRARY) == ["wrong-type"]


def test_python_functions_are_known_when_they_are_passed_in():
    """Their names are given to the check; what they take is known when it runs."""
    text = "agent A { tools [look] } print(look(1));"
    _, found = check_program(text, "main.vega", lambda _path: None, tools={"look": None})
    assert not found
    assert errors(text) == ["unknown-tool", "unknown-function"]


def test_types_that_double_at_each_step_are_refused():
    """Thirty lines cannot make a type of a billion fields."""
    lines = [f"type T{n} {{ a: T{n + 1}  b: T{n + 1} }}" for n in range(25)]
    assert "type-too-large" in errors("\n".join([*lines, "type T25 { n: int }"]))


def test_a_long_chain_of_types_is_refused():
    """Types that lie very deep in each other are refused too, without a crash."""
    lines = [f"type T{n} {{ a: T{n + 1} }}" for n in range(500)]
    assert "type-too-large" in errors("\n".join([*lines, "type T500 { n: int }"]))
