"""What programs mean in form: trees of the settled syntax."""

from pathlib import Path

import pytest

from tests.lang.oracle import Shape, shape_of
from vegakit.lang import parse, render

DATA = sorted((Path(__file__).parent / "data").glob("*.vega"))


def shape(text: str) -> Shape:
    parsed = parse(text)
    assert parsed.diagnostics == (), render(parsed.diagnostics, {"main.vega": text})
    return shape_of(parsed.source)


def expression(text: str) -> str:
    """Fully bracketed."""
    (statement,) = parse(f"x = {text};").source.body
    return bracketed(shape_of(statement)[2])


def bracketed(node: Shape) -> str:  # noqa: C901
    match node:
        case ("Binary", op, left, right):
            return f"({bracketed(left)} {op} {bracketed(right)})"
        case ("Unary", op, of):
            return f"({op} {bracketed(of)})"
        case ("Name", name):
            return name
        case ("Whole", value):
            return str(value)
        case ("Member", of, name):
            return f"({bracketed(of)}.{name})"
        case ("Index", of, index):
            return f"({bracketed(of)}[{bracketed(index)}])"
        case ("Call", callee, args, _):
            return f"({bracketed(callee)}({', '.join(map(bracketed, args))}))"
        case ("Cast", of, ("NamedType", to, None)):
            return f"({bracketed(of)} as {to})"
        case ("Await", of):
            return f"(await {bracketed(of)})"
        case ("Ask", to, message, stream, later, *_):
            arrow = "<~" if stream else "<-"
            return f"({'async ' * later}{bracketed(to)} {arrow} {bracketed(message)})"
        case _:
            return repr(node)


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_the_examples_of_the_language_parse(path: Path) -> None:
    """Without a word of complaint."""
    text = path.read_text(encoding="utf-8")
    assert render(parse(text).diagnostics, {"main.vega": text}) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a ?? b or c and not d == e + f * -g",
            "(a ?? (b or (c and (not (d == (e + (f * (- g))))))))",
        ),
        ("a - b - c", "((a - b) - c)"),
        ("a or b and c or d", "((a or (b and c)) or d)"),
        ("a ?? b ?? c", "((a ?? b) ?? c)"),
        ("not not a", "(not (not a))"),
        ("- - a", "(- (- a))"),
        ("-a.b[1](2)", "(- (((a.b)[1])(2)))"),
        ("a in b and c in d", "((a in b) and (c in d))"),
        ("not a in b", "(not (a in b))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a + b as T", "((a + b) as T)"),
        ("a <- b + c", "(a <- (b + c))"),
        ("a <~ b or c", "(a <~ (b or c))"),
        ("f(1).g <- x", "(((f(1)).g) <- x)"),
        ("async a <- b", "(async a <- b)"),
        ("await f.g", "(await (f.g))"),
        ("x <-1", "(x <- 1)"),
        ("x < -1", "(x < (- 1))"),
        ("budget::remaining() / 2", "((budget::remaining()) / 2)"),
    ],
)
def test_how_tightly_operators_bind(text: str, expected: str) -> None:
    """The table of `expressions.py`, loosest first."""
    assert expression(text) == expected


@pytest.mark.parametrize("word", "model budget window timeout type use tool agent program".split())
def test_soft_keywords_are_names(word: str) -> None:
    """Wherever they cannot be what they mean elsewhere."""
    source = shape(f"let {word} = {word}; {word} = {word} + 1; {word}.{word}[{word}] = {word}(1);")
    assert [stmt[0] for stmt in source[3]] == ["Let", "Assign", "Assign"]


def test_options_of_a_send_come_in_any_order() -> None:
    """And `as` behind a message belongs to the send."""
    one = shape("x = a <- m timeout 30s budget $1 as T;")
    assert one == shape("x = a <- m as T budget $1 timeout 30s;")
    ask = one[3][0][2]
    assert ask[5:] == (("Duration", 30_000), ("MoneyLit", 10**9, ""), ("NamedType", "T", None))


def test_spawn_takes_its_options_in_any_order() -> None:
    """With rules in braces, or a supervisor."""
    text = (
        'x = spawn async a::B supervised by { strategy restart  window 60s } named "n" wallet $2;'
    )
    (spawn,) = [stmt[2] for stmt in shape(text)[3]]
    rules = (
        ("Setting", "strategy", ("Name", "restart")),
        ("Setting", "window", ("Duration", 60_000)),
    )
    expected = ("MoneyLit", 2 * 10**9, ""), ("Text", ("n",)), None, rules
    assert spawn == ("Spawn", ("Name", "a::B"), True, *expected)
    (under,) = [stmt[2][5] for stmt in shape("x = spawn A supervised by team;")[3]]
    assert under == ("Name", "team")


def test_an_else_if_is_an_if_in_the_block_of_else() -> None:
    """To any length."""
    (outer,) = shape("if a {} else if b {} else {}")[3]
    assert outer[3][1][0][1] == ("Name", "b")
    assert outer[3][1][0][3] == ("Block", ())


def test_named_arguments() -> None:
    """Records are made by them."""
    (stmt,) = shape('Finding(file: "a", 1, severity: "low");')[3]
    assert stmt[1][3] == ("file", "", "severity")


def test_types() -> None:
    """All forms; the question mark is for the whole choice."""
    text = 'type T { a: [int; 20]? b: {str: [lib::F]}, c: "low" | "high"? d: str }'
    (decl,) = shape(text)[2]
    assert [field[2] for field in decl[2]] == [
        ("OptionalType", ("ListType", ("NamedType", "int", None), 20)),
        ("MapType", ("ListType", ("NamedType", "lib::F", None), None), None),
        ("OptionalType", ("ChoiceType", ("low", "high"))),
        ("NamedType", "str", None),
    ]


def test_clauses_come_in_any_order() -> None:
    """Of a function and of a tool."""
    one = shape('fn f() -> int budget $5/day allowed_paths ["a"] may [fs::read] {}')
    assert one == shape('fn f() -> int may [fs::read] allowed_paths ["a"] budget $5/day {}')
    (decl,) = one[2]
    assert decl[5] == ("MoneyLit", 5 * 10**9, "day")
    tool = shape('tool t() idempotent "d" capabilities [a::b] {}')[2][0]
    assert tool[4] == ("Text", ("d",))
    assert tool[7] == (("Setting", "idempotent", ("Word", True)),)


def test_a_period_belongs_to_a_declared_budget_only() -> None:
    """Elsewhere the slash divides."""
    (stmt,) = shape("x = $5/day;")[3]
    assert stmt[2][0] == "Binary"
    (session,) = shape("session budget $5/day {}")[3]
    assert session[1] == ("MoneyLit", 5 * 10**9, "day")


def test_use_gives_a_name() -> None:
    """The file's stem or the server's name, unless another is written."""
    text = 'use "lib/text.vega" use "a.vega" as b; use mcp "github" use mcp "x y" as z'
    assert shape(text)[2] == (
        ("UseFile", "lib/text.vega", "text"),
        ("UseFile", "a.vega", "b"),
        ("UseMcp", "github", "github"),
        ("UseMcp", "x y", "z"),
    )


def test_a_header_comes_first_and_needs_no_semicolon() -> None:
    """What follows is not taken for a clause."""
    source = shape('program may [fs::read] allowed_hosts ["a.com"]\nprint(1);')
    assert source[1] == ("Grants", (("CapName", "fs::read"),), None, None, (("Text", ("a.com",)),))
    assert len(source[3]) == 1


def test_every_offset_is_inside_its_parent() -> None:
    """Spans nest, and text at a name is the name."""
    text = DATA[-2].read_text(encoding="utf-8")
    waiting: list[object] = [parse(text).source]
    while waiting:
        node = waiting.pop()
        inner = [getattr(node, name) for name in getattr(node, "__struct_fields__", ())]
        waiting += node if isinstance(node, tuple) else inner
        for child in inner:
            if at := getattr(child, "at", None):
                assert getattr(node, "at", 0) <= at <= child.end <= getattr(node, "end", 0)


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ('"a\\n\\t\\"\\\\\\{\\}\\u{1F600}"', ('a\n\t"\\{}\U0001f600',)),
        ('""', ()),
        ('"a {b} c"', ("a ", ("Name", "b"), " c")),
        ('"{a}{b}"', (("Name", "a"), ("Name", "b"))),
        ('"""a "b" c"""', ('a "b" c',)),
        ('"""\n    a\n      b\n\n    c\n    """', ("a\n  b\n\nc",)),
        ('"""\n    a {x}\n    {y} b\n"""', ("a ", ("Name", "x"), "\n", ("Name", "y"), " b")),
        ('"""a\n    b"""', ("a\nb",)),
        ('"""\n    a\\n    b\n    """', ("a\n    b",)),
        ('"""\n\n    a\n\n    """', ("\na\n",)),
        ('"""\r\n    a\r\n    b\r\n    """', ("a\nb",)),
    ],
)
def test_texts(written: str, parts: Shape) -> None:
    """Escapes, interpolation, and common indentation that is no part of the text."""
    (stmt,) = shape(f"x = {written};")[3]
    assert stmt[2] == ("Text", parts)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("9223372036854775807", ("Whole", 2**63 - 1)),
        ("1_000", ("Whole", 1000)),
        ("1e3", ("Decimal", 1000.0)),
        ("$0.000001", ("MoneyLit", 1000, "")),
        ("$1000000000", ("MoneyLit", 10**18, "")),
        ("100ms", ("Duration", 100)),
        ("1d", ("Duration", 86_400_000)),
        ("null", ("Word", None)),
    ],
)
def test_literals(written: str, value: Shape) -> None:
    """Values are exact."""
    (stmt,) = shape(f"x = {written};")[3]
    assert stmt[2] == value


@pytest.mark.parametrize(
    "written",
    ["9223372036854775808", "9" * 5000, "$1000000001", "$0.0000001", "1e999", "9" * 30 + "d"],
)
def test_literals_that_do_not_fit(written: str) -> None:
    """One fault, and the statement is kept."""
    parsed = parse(f"x = {written};")
    assert len(parsed.diagnostics) == 1
    assert len(parsed.source.body) == 1
