"""Command rules against regular expressions, and lines against the standard library's splitter."""

import re
import shlex

from hypothesis import given, strategies as st

from vegakit.policy import RunCommand, parse_command
from vegakit.policy.capability.commands import (
    check_command_rule,
    clean_command,
    command_fits,
    rule_for,
)

WORDS = st.sampled_from(["npm", "test", "-q", "--x=y", "A=b", "", "@f", "a b", "+v", "=a", "*"])
ARGVS = st.lists(WORDS, max_size=4).map(lambda words: ("npm", *words))
MIDDLES = st.lists(st.sampled_from(["test", "-q", "npm", "*"]), max_size=3)
RULES = st.tuples(MIDDLES, st.booleans()).map(
    lambda drawn: " ".join(["npm", *drawn[0], *(["**"] if drawn[1] else [])])
)


def as_expression(rule: str) -> str:
    """Every word ends in NUL, so that words cannot run together."""
    plain = r"(?!\w+=)[^-+@\0][^\0]*\0"
    kinds = {"*": plain, "**": r"(?:[^\0]*\0)*"}
    return "".join(kinds.get(word, re.escape(word) + r"\0") for word in rule.split())


@given(RULES, ARGVS)
def test_fitting_equals_a_regular_expression(rule: str, argv: tuple[str, ...]) -> None:
    """Word by word and as one expression over all words, the answer is the same."""
    check_command_rule(rule)
    text = "".join(f"{word}\0" for word in argv)
    assert command_fits(rule, argv) == bool(re.fullmatch(as_expression(rule), text))


@given(ARGVS)
def test_the_suggested_rule_always_fits(argv: tuple[str, ...]) -> None:
    """Adding what a refusal suggests makes the same command allowed."""
    rule = rule_for(argv)
    assert rule is not None
    check_command_rule(rule)
    assert command_fits(rule, argv)


@given(st.text("ab =-'\"\\$;~#\t\n*", max_size=12))
def test_a_line_that_is_taken_reads_the_same_to_others(line: str) -> None:
    """Where a line becomes words, the standard library finds the same words."""
    parsed = parse_command(line)
    if isinstance(parsed, RunCommand):
        assert parsed.argv == tuple(shlex.split(line))


@given(st.lists(st.text('ab-/.:=$;"', max_size=6), min_size=1, max_size=4))
def test_words_quoted_one_by_one_come_back(words: list[str]) -> None:
    """Single quotes around a word keep it exactly."""
    line = " ".join(f"'{word}'" for word in words)
    assert parse_command(line) == RunCommand(tuple(words))


@given(st.lists(st.text(max_size=8), max_size=4), st.text(max_size=20))
def test_no_text_breaks_the_readers(words: list[str], line: str) -> None:
    """Any text is an answer, never an exception."""
    clean_command(RunCommand(tuple(words)))
    parse_command(line)
