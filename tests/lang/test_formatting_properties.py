"""Formatting keeps every token and comment, and does nothing the second time."""

import re

from tests.lang.generating import source
from tests.lang.oracle import Shape, shape_of
from tests.lang.test_grammar_properties import PROGRAMS
from vegakit.lang import format_source, parse
from vegakit.lang.diagnostics import DiagnosticCollector
from vegakit.lang.syntax.lexer import tokenize


def content(text: str) -> tuple[list[str], list[str], list[str]]:
    found = tokenize(text, DiagnosticCollector("f"))
    comments = [text[at:end].rstrip() for at, end in found.comments]
    return found.kinds, found.values, comments


def shape(text: str) -> Shape:
    return shape_of(parse(text).source)


def test_tokens_comments_and_tree_stay_the_same() -> None:
    """On every generated program, in any layout."""
    for seed in range(PROGRAMS):
        before = source(seed)
        after = format_source(before)
        assert content(after) == content(before), seed
        assert shape(after) == shape(before), seed


def test_what_is_formatted_stays_so() -> None:
    """And its lines end where they end."""
    for seed in range(PROGRAMS):
        once = format_source(source(seed))
        assert format_source(once) == once, seed
        assert "\n\n\n" not in once
        assert not blanks_at_line_ends(once), seed


def blanks_at_line_ends(text: str) -> list[int]:
    """Outside of strings and comments, where they are not ours to remove."""
    found = tokenize(text, DiagnosticCollector("f"))
    kept = [(at, end) for at, end in zip(found.starts, found.ends, strict=True)] + found.comments
    ends = [match.start() for match in re.finditer(r"[ \t]\n", text)]
    return [place for place in ends if not any(at <= place < end for at, end in kept)]
