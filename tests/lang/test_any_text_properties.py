"""Whatever the text, there is a tree and a list of faults, never an exception."""

import pytest
from hypothesis import example, given, strategies as st

from tests.lang.generating import ODD_TOKENS, mutated, source
from vegakit.lang import as_json, format_source, parse, render
from vegakit.lang.diagnostics import MAX_DIAGNOSTICS
from vegakit.lang.syntax.lexer import _Lexer
from vegakit.lang.syntax.parser import Parsed

SNIPPETS = [
    *ODD_TOKENS,
    *'" """ \\ { } {| // /* */ \n \t \r $ # @ \u202e \u200b é \ud800 \x00'.split(" "),
]


def check(text: str) -> Parsed:
    parsed = parse(text)
    assert len(parsed.diagnostics) <= MAX_DIAGNOSTICS
    for found in parsed.diagnostics:
        assert 0 <= found.at <= len(text)
        assert found.at <= found.end <= len(text) + 1
        edit = found.edit
        assert edit is None or 0 <= edit.at <= edit.end <= len(text)
    render(parsed.diagnostics, {"main.vega": text})
    as_json(parsed.diagnostics, {"main.vega": text})
    if parsed.diagnostics:
        assert format_source(text) == text
    return parsed


@given(st.text(max_size=200))
@example("")
@example("\ud800")
def test_any_text(text: str) -> None:
    """Of any characters."""
    check(text)


@given(st.lists(st.sampled_from(SNIPPETS), max_size=60).map(" ".join))
def test_any_tokens(text: str) -> None:
    """In any order."""
    check(text)


@given(st.lists(st.sampled_from(SNIPPETS), max_size=60).map("".join))
def test_any_tokens_run_together(text: str) -> None:
    """Without blanks between them."""
    check(text)


@given(st.integers(0, 10**9))
def test_broken_programs(seed: int) -> None:
    """With tokens dropped, doubled, swapped or replaced."""
    check(mutated(seed))


@given(st.integers(0, 10**6), st.data())
def test_programs_that_break_off(seed: int, data: st.DataObject) -> None:
    """Anywhere, as while they are typed; and with any character put in or taken out."""
    text = source(seed)
    at = data.draw(st.integers(0, len(text)))
    check(text[:at])
    check(text[:at] + data.draw(st.sampled_from(SNIPPETS)) + text[at:])
    check(text[:at] + text[at + 1 :])


@given(st.integers(0, 10**6))
def test_right_programs_have_no_faults(seed: int) -> None:
    """The generator and the parser agree on any seed."""
    assert check(source(seed)).diagnostics == ()


def test_a_planted_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lexer that trips over one character is noticed."""
    stray = _Lexer.stray

    def trips(self: _Lexer, char: str, at: int, end: int) -> int:
        return stray(self, char, at, end) // (char != "@")

    monkeypatch.setattr(_Lexer, "stray", trips)
    with pytest.raises(ZeroDivisionError):
        test_any_tokens()
