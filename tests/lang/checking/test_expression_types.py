"""Every kind of expression has the type the language says."""

import pytest

from tests.lang.checking.programs import errors, in_function, types_of

TYPES = [
    ("1", "int"),
    ("2.5", "float"),
    ("$1.50", "money"),
    ("30s", "duration"),
    ("true", "bool"),
    ('"a {i} {f}"', "str"),
    ('["a", "b"]', "[str]"),
    ("[[1], []]", "[[int]]"),
    ("[1, null]", "[int?]"),
    ('{"a": 1}', "{str: int}"),
    ("[for n in ns if n > 1 { twice(n) }]", "[int]"),
    ("[for g in fs if g.note != null { str::len(g.note) }]", "[int]"),
    ("[for k in by { k }]", "[str]"),
    ("-i", "int"),
    ("-x", "float"),
    ("-m", "money"),
    ("not b", "bool"),
    ("i + 1", "int"),
    ("x * 2", "float"),
    ("2 * x", "float"),
    ("x - -2", "float"),
    ("x + i", "float"),
    ("i / x", "float"),
    ("i < x", "bool"),
    ("i == x", "bool"),
    ("m % $1", "money"),
    ("i / 2 % 3", "int"),
    ("m + m", "money"),
    ("m * 2", "money"),
    ("0.5 * m", "money"),
    ("m / 2", "money"),
    ("m / m", "float"),
    ("d + 5s", "duration"),
    ("d * 2", "duration"),
    ("d / d", "float"),
    ('s + "x"', "str"),
    ('sev + "x"', "str"),
    ("ns + [1]", "[int]"),
    ("[] + ns", "[int]"),
    ('few + ["x"]', "[str; 4]"),
    ("fs + [f]", "[Finding]"),
    ('by + {"x": 1}', "{str: int}"),
    ("i < 2", "bool"),
    ("x <= 2", "bool"),
    ("m > $1", "bool"),
    ('s >= "a"', "bool"),
    ("i == 2", "bool"),
    ('sev == "low"', "bool"),
    ("o == null", "bool"),
    ("f != f", "bool"),
    ('"x" in s', "bool"),
    ("1 in ns", "bool"),
    ('"k" in by', "bool"),
    ('sev in ["low"]', "bool"),
    ("b and i > 1 or not b", "bool"),
    ('o ?? "none"', "str"),
    ("o ?? o", "str?"),
    ("f.file", "str"),
    ("f.severity", '"low" | "high"'),
    ("f.note", "str?"),
    ('(a as {str: any})["x"]', "any"),
    ("(a as [any])[0]", "any"),
    ("(a as [Finding])[0].file", "str"),
    ("fs[0].file", "str"),
    ('by["x"]', "int"),
    ("s[0]", "str"),
    ("twice(i)", "int"),
    ("twice(n: i)", "int"),
    ("shout(s)", "str"),
    ('Finding(file: "a", severity: "low")', "Finding"),
    ('Finding(note: "n", file: "a", severity: sev).note', "str?"),
    ("len(ns)", "int"),
    ("range(3)", "[int]"),
    ("range(1, 3)", "[int]"),
    ("list::first(fs)", "Finding?"),
    ("list::sort(ns)", "[int]"),
    ("list::max(few)", "str?"),
    ("list::flatten([ns, [1]])", "[int]"),
    ("list::take(few, 1)", "[str]"),
    ("list::without_nulls([o])", "[str]"),
    ('map::get(by, "x")', "int?"),
    ("map::values(by)", "[int]"),
    ("math::abs(i)", "int"),
    ("math::max(m, $1)", "money"),
    ("math::max(x, 1)", "float"),
    ("math::sqrt(2)", "float"),
    ("json::parse(s)", "any"),
    ("json::parse(s) as Findings", "Findings"),
    ("a as [int]", "[int]"),
    ("few as [str; 2]", "[str; 2]"),
    ("s as Severity", '"low" | "high"'),
    ('file("a.png")', "file"),
    ("http::get(s).status", "int"),
    ("budget::remaining()", "money"),
    ("process::self()", "a process handle"),
    ('human::approve("go?", 1d)', "bool"),
    ("spawn Coder", "a handle of Coder"),
    ("spawn Team", "a handle of Team"),
    ("spawn async Coder wallet $2", "a future of a handle of Coder"),
    ("await spawn async Coder", "a handle of Coder"),
    ('spawn Coder named "x" supervised by Team', "a handle of Coder"),
    ("spawn Coder supervised by { strategy stop  window 1m }", "a handle of Coder"),
    ('Coder <- "hi"', "str"),
    ('c <- "hi" timeout 30s budget $1', "str"),
    ('p <- "hi"', "str"),
    ("c <- f", "str"),
    ('c <- ["look", file("a.png")]', "str"),
    ('c <- "hi" as Findings', "Findings"),
    ('(c <- "hi" as [Finding; 3])[0]', "Finding"),
    ('async c <- "hi"', "a future of str"),
    ('await async c <- "hi" as bool', "bool"),
    ('c <~ "hi"', "a stream"),
]


@pytest.mark.parametrize(("expression", "kind"), TYPES)
def test_type_of_an_expression(expression: str, kind: str):
    """An expression has one type, found without running it."""
    assert types_of(f"let it = {expression};")["it"] == kind


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float", "1"),
        ("float", "1 + 2 * 3"),
        ("[float]", "[1, 2.5]"),
        ("{str: float}", '{"a": 1}'),
        ("float?", "1"),
        ("Severity", '"low"'),
        ("[Severity]", '["low", "high"]'),
        ("str", "sev"),
        ("str?", "null"),
        ("str?", "s"),
        ("[str]", "few"),
        ("[str; 5]", "few"),
        ("[str; 2]", '["a", "b"]'),
        ("[[int]]", "[[]]"),
        ("any", "fs"),
        ("[any]", '[1, "a", f]'),
        ("process", "c"),
        ("{str: any}", '{"a": 1, "b": "x"}'),
        ("[Finding]", "[for g in fs { g }]"),
    ],
)
def test_what_fits(kind: str, value: str):
    """A value may stand where its type, or a wider one, is declared."""
    assert types_of(f"let it: {kind} = {value};")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "x"),
        ("int", "2.5"),
        ("float", "i"),
        ("str", "o"),
        ("str", "i"),
        ("int", "a"),
        ("Severity", "s"),
        ("[str; 2]", "few"),
        ("[str; 1]", '["a", "b"]'),
        ("[str; 3]", "[s] + few"),
        ("[int]", "few"),
        ("Finding", '{"file": "a"}'),
        ("money", "1.50"),
        ("duration", "30"),
        ("bool", "i"),
        ("Coder", "spawn Reviewer"),
        ("Coder", "Coder"),
        ("int", "null"),
    ],
)
def test_what_does_not_fit(kind: str, value: str):
    """What does not fit is refused once, where it stands."""
    assert len(errors(in_function(f"let it: {kind} = {value};"))) == 1


@pytest.mark.parametrize(
    "kind", ["bool", "Findings", "[Finding; 3]", "str?", "money", "{str: int}"]
)
def test_a_typed_let_asks_for_that_type(kind: str):
    """An answer has the type that is declared where it goes."""
    assert types_of(f'let it: {kind} = Coder <- "hi"; let other = it;')["other"] == (
        "str?" if kind == "str?" else kind
    )


def test_an_answer_goes_to_the_parameter_and_the_result_it_is_declared_for():
    """Arguments, results and typed variables declare the type of an answer too."""
    assert types_of('let it = twice(Coder <- "n");')["it"] == "int"
    assert not errors('agent A { model x } fn f() -> bool { return A <- "?"; }')
    assert not errors('agent A { model x } let n: int = 1; n = A <- "?"; print(n);')


def test_an_answer_does_not_take_an_inferred_type():
    """Only a written type is asked for; elsewhere the answer is text."""
    assert errors('agent A { model x } let n = 1; n = A <- "?"; print(n);') == ["wrong-type"]
