"""Text to tokens: kinds, values and places."""

import pytest

from vegakit.lang.diagnostics import DiagnosticCollector, TooManyDiagnosticsError
from vegakit.lang.syntax.lexer import MAX_SOURCE, MAX_TOKENS, tokenize


def tokens(text: str) -> list[tuple[str, str]]:
    findings = DiagnosticCollector("f")
    found = tokenize(text, findings)
    assert findings.found == []
    return list(zip(found.kinds, found.values, strict=True))[:-2]


def faults(text: str) -> list[tuple[str, int, int]]:
    findings = DiagnosticCollector("f")
    tokenize(text, findings)
    return [(found.code, found.at, found.end) for found in findings.in_order()]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("let model = 1;", "let name = int ;"),
        ("1_000 2.5 1e3 6.02e-23 7", "int float float float int"),
        ("100ms 30s 5m 2h 1d", "duration duration duration duration duration"),
        ("$1 $1.50 $5/day", "money money money / name"),
        ("x <-1 y<~z a->b a::b", "name <- int name <~ name name -> name name :: name"),
        (
            "a<b a<=b a== b!=c a??b T?",
            "name < name name <= name name == name != name name ?? name name ?",
        ),
        ('"a" "" "b c"', "text text text"),
        ("a // b\n/* c\nd */ e", "name name"),
        ("1.foo", "int . name"),
        ("naïve 変数", "name name"),
        ("\ufefflet", "let"),
    ],
)
def test_kinds(text: str, kinds: str) -> None:
    """Longest operators first; a number does not take a point that no digit follows."""
    assert [kind for kind, _ in tokens(text)] == kinds.split()


def test_a_string_with_interpolation_is_made_of_its_parts() -> None:
    """Tokens inside stand at their true places, strings inside strings too."""
    text = 'x = "a{f("b{c}")}\\n";'
    kinds = "name = open chunk {| name ( open chunk {| name |} close ) |} chunk close ;".split()
    assert [kind for kind, _ in tokens(text)] == kinds
    found = tokenize(text, DiagnosticCollector("f"))
    places = zip(found.starts, found.ends, found.values, strict=True)
    assert all(text[at:end] == value for at, end, value in places)


def test_a_map_inside_an_interpolation_does_not_close_it() -> None:
    """Braces are counted."""
    assert [kind for kind, _ in tokens('"{ {"a": {}} }"')].count("|}") == 1


def test_three_quotes_hold_lines_and_quotes() -> None:
    """One or two quotes do not end them."""
    assert tokens('"""a "b" ""\nc"""')[1] == ("chunk", 'a "b" ""\nc')


def test_comments_are_kept_beside() -> None:
    """For the formatter."""
    found = tokenize("a // b\n/* c */ d", DiagnosticCollector("f"))
    assert found.comments == [(2, 6), (7, 14)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"abc;\nx', [("unterminated-string", 0, 4)]),
        ('"""abc\nx', [("unterminated-string", 0, 3)]),
        ('"a{b" x', [("unterminated-interpolation", 2, 3)]),
        ('"a}b"', [("lonely-brace", 2, 3)]),
        ('"\\q"', [("bad-escape", 1, 3)]),
        ('"\\u{D800}"', [("bad-escape", 1, 9)]),
        ("/* a", [("unterminated-comment", 0, 2)]),
        ("30sec", [("bad-duration", 0, 5)]),
        ("1.5h", [("bad-duration", 0, 4)]),
        ("$x", [("bad-money", 0, 1)]),
        ("1__0", [("bad-number", 0, 4)]),
        ("'a'", [("single-quotes", 0, 3)]),
        ("a @ b", [("strange-character", 2, 3)]),
        ("a \u2264 b", [("strange-character", 2, 3)]),
        ("x\u3164 = 1", [("strange-character", 1, 2)]),
        ("a\u00a0b", [("strange-character", 1, 2)]),
        ("e\u0301", [("name-not-normal", 0, 2)]),
        ("\ud800", [("hidden-character", 0, 1)]),
        ("x" * 201, [("name-too-long", 0, 201)]),
    ],
)
def test_what_is_no_token(text: str, expected: list[tuple[str, int, int]]) -> None:
    """One fault each, where it is."""
    assert faults(text) == expected


def test_the_number_of_tokens_is_limited() -> None:
    """The last that is allowed, and the first that is not; comments are none."""
    assert len(tokens("; " * MAX_TOKENS + "// c\n" * 10)) == MAX_TOKENS
    findings = DiagnosticCollector("f")
    with pytest.raises(TooManyDiagnosticsError):
        tokenize("; " * (MAX_TOKENS + 1), findings)
    assert [found.code for found in findings.found] == ["too-many-tokens"]


def test_the_size_of_source_is_limited_in_bytes() -> None:
    """An umlaut is two."""
    assert tokens(" " * MAX_SOURCE) == []
    assert tokens("/*" + "ä" * (MAX_SOURCE // 2 - 2) + "*/") == []
    findings = DiagnosticCollector("f")
    with pytest.raises(TooManyDiagnosticsError):
        tokenize("/*" + "ä" * (MAX_SOURCE // 2) + "*/", findings)
    assert [found.code for found in findings.found] == ["source-too-large"]
